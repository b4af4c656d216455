//! Words of `slipform-types`, described for other languages. That crate knows nothing of descriptions; a test holds
//! these to it.

use utoipa::openapi::schema::{ObjectBuilder, SchemaType};
use utoipa::openapi::{RefOr, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

/// The id of a run.
#[derive(Debug, ToSchema)]
#[schema(as = RunId, value_type = String, pattern = "^run_[0-9a-f]{12}$", examples("run_0123456789ab"))]
pub struct RunIdText(pub String);

/// The id of a session.
#[derive(Debug, ToSchema)]
#[schema(as = SessionId, value_type = String, pattern = "^ses_[0-9a-f]{12}$", examples("ses_0123456789ab"))]
pub struct SessionIdText(pub String);

/// How a run stands.
#[derive(Debug, ToSchema)]
#[schema(as = RunStatus, rename_all = "snake_case")]
pub enum RunStatusName {
    /// It waits for a runner.
    Pending,
    /// A runner has it.
    Claimed,
    /// A runner works on it.
    Running,
    /// It waits for a child and holds no slot.
    Waiting,
    /// It was asked to stop.
    Stopping,
    /// It has a result.
    Completed,
    /// It has none.
    Failed,
    /// It was stopped.
    Stopped,
}

/// Whether a run begins a session or goes on with one.
#[derive(Debug, ToSchema)]
#[schema(as = RunType, rename_all = "snake_case")]
pub enum RunTypeName {
    /// It begins one.
    StartSession,
    /// It goes on with one.
    ResumeSession,
}

/// How whoever starts a run learns of its end.
#[derive(Debug, ToSchema)]
#[schema(as = ExecutionMode, rename_all = "snake_case")]
pub enum ExecutionModeName {
    /// It waits.
    Sync,
    /// It asks.
    AsyncPoll,
    /// Its session is resumed.
    AsyncCallback,
}

/// A JSON Schema: an object, or a boolean.
#[derive(Debug)]
pub struct JsonSchemaDocument;

impl PartialSchema for JsonSchemaDocument {
    fn schema() -> RefOr<Schema> {
        let kinds = SchemaType::Array(vec![Type::Object, Type::Boolean]);
        ObjectBuilder::new().schema_type(kinds).description(Some("A JSON Schema.")).build().into()
    }
}

impl ToSchema for JsonSchemaDocument {
    fn name() -> std::borrow::Cow<'static, str> {
        "JsonSchema".into()
    }
}

/// An agent, with the keys that its file would have; only the needed ones are described here.
#[derive(Debug, ToSchema)]
#[schema(as = AgentRequest)]
pub struct AgentSchema {
    /// What it is called by.
    #[schema(pattern = "^[A-Za-z0-9][A-Za-z0-9_-]{0,59}$")]
    pub name: String,
}

/// How a result is held to its schema. What is not said is left to the agent and to the environment.
#[derive(Debug, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = OutputSchemaOptions)]
pub struct OptionsSchema {
    /// Further model calls after the first, on each rung.
    #[schema(maximum = 4_294_967_295_u64)]
    pub max_retries: Option<u32>,
    /// Whether JSON is looked for inside other text.
    pub extract_json: Option<bool>,
    /// Whether the reply must be JSON and nothing else.
    pub strict_json_only: Option<bool>,
    /// Whether types may be coerced.
    #[schema(pattern = "^(strict|lenient)$")]
    pub validation_mode: Option<String>,
    /// How the model is asked.
    #[schema(pattern = "^(auto|prompt|system_prompt|tool|native)$")]
    pub strategy: Option<String>,
    /// How the model is asked again.
    #[schema(pattern = "^(auto|full|patch)$")]
    pub correction: Option<String>,
    /// How the schema is shown to the model.
    #[schema(pattern = "^(auto|json|compact)$")]
    pub schema_form: Option<String>,
    /// Whether results with placeholders are refused.
    pub reject_placeholders: Option<bool>,
}

/// An event without its envelope. What else it has depends on its type.
#[derive(Debug, ToSchema)]
#[schema(as = EventBody)]
pub struct EventBodySchema {
    /// What happened.
    pub event_type: EventTypeName,
}

/// An event of a journal. What else it has depends on its type.
#[derive(Debug, ToSchema)]
#[schema(as = Event)]
pub struct EventSchema {
    /// Its place in the session's journal, from 1 without gaps.
    #[schema(minimum = 1)]
    pub seq: i64,
    /// The session.
    pub session_id: SessionIdText,
    /// The run.
    pub run_id: RunIdText,
    /// When it happened (RFC 3339, UTC).
    #[schema(format = DateTime)]
    pub timestamp: String,
    /// What happened.
    pub event_type: EventTypeName,
}

/// What happened.
#[derive(Debug, ToSchema)]
#[schema(as = EventType, rename_all = "snake_case")]
pub enum EventTypeName {
    /// A run was asked for.
    RunStart,
    /// A runner began to work on it.
    AttemptStarted,
    /// The tools of the agent cannot be had.
    ToolsFailed,
    /// A model answered.
    Message,
    /// A model gave no answer.
    CallFailed,
    /// A tool is about to be called.
    PreTool,
    /// A tool has answered.
    PostTool,
    /// Another agent began to work for this one.
    ChildStarted,
    /// Another agent has ended its work for this one.
    ChildCompleted,
    /// It was looked whether files that a result names are there.
    PathsChecked,
    /// A task was taken apart.
    PlanCreated,
    /// An answer was scored.
    ClarityScored,
    /// A reply did not satisfy the contract.
    ValidationFailed,
    /// The next tier goes on.
    Escalated,
    /// A runner was not heard of for too long.
    LeaseExpired,
    /// The run's time is up.
    DeadlineReached,
    /// Someone wants the run to stop.
    StopRequested,
    /// There is a result.
    Result,
    /// The run has ended.
    RunCompleted,
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};
    use slipform_types::{EventBody, ExecutionMode, OptionsPatch, RunId, RunStatus, RunType, SessionId};

    use super::*;

    fn openapi<T: PartialSchema>() -> Value {
        serde_json::to_value(T::schema()).unwrap()
    }

    /// Every described name is a word, and every word is described: the refusal of another one lists them all.
    fn check_names<T: DeserializeOwned>(names: &Value, value: impl Fn(&Value) -> Value) {
        let refusal = serde_json::from_value::<T>(value(&json!("nothing"))).err().unwrap().to_string();
        let words: Vec<&str> = refusal.split('`').skip(1).step_by(2).skip(1).collect();
        assert_eq!(names["enum"], json!(words), "{refusal}");
    }

    #[test]
    fn words_are_described_as_they_are() {
        check_names::<RunStatus>(&openapi::<RunStatusName>(), Value::clone);
        check_names::<RunType>(&openapi::<RunTypeName>(), Value::clone);
        check_names::<ExecutionMode>(&openapi::<ExecutionModeName>(), Value::clone);
        check_names::<EventBody>(&openapi::<EventTypeName>(), |name| json!({"event_type": name}));
    }

    #[test]
    fn examples_are_ids() {
        let example = |schema: Value| schema["examples"][0].clone();
        assert!(serde_json::from_value::<RunId>(example(openapi::<RunIdText>())).is_ok());
        assert!(serde_json::from_value::<SessionId>(example(openapi::<SessionIdText>())).is_ok());
    }

    #[test]
    fn options_are_described_as_they_are() {
        let described = openapi::<OptionsSchema>();
        let refusal = serde_json::from_value::<OptionsPatch>(json!({"nothing": 1})).unwrap_err().to_string();
        let words: Vec<&str> = refusal.split('`').skip(1).step_by(2).skip(1).collect();
        let mut names: Vec<&String> = described["properties"].as_object().unwrap().keys().collect();
        names.sort_by_key(|name| words.iter().position(|word| word == name));
        assert_eq!(names, words, "{refusal}");
        let choices = ["validation_mode", "strategy", "correction", "schema_form"];
        for name in choices {
            let pattern = described["properties"][name]["pattern"].as_str().unwrap();
            for word in pattern.trim_start_matches("^(").trim_end_matches(")$").split('|') {
                assert!(
                    serde_json::from_value::<OptionsPatch>(json!({name: word})).is_ok(),
                    "{name}: {word}"
                );
            }
        }
    }
}
