//! OpenAPI schemas for types of `slipform-types`, which does not depend on OpenAPI. Tests compare both.

mod journal;
mod outcome;

use serde_json::Value;
use utoipa::openapi::schema::{ObjectBuilder, SchemaType};
use utoipa::openapi::{RefOr, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

pub use journal::{CallErrorSchema, EventBodySchema, EventSchema, OverridesSchema, SubtaskSchema};
pub use outcome::{
    ContractOptionsSchema, ContractSchema, ReceiptSchema, RepairSchema, RunErrorSchema,
    RunErrorSummarySchema, RungSchema, SalvageSchema, SubtaskOutcomeSchema, TokensSchema,
};

/// Id of a run.
#[derive(Debug, ToSchema)]
#[schema(as = RunId, value_type = String, pattern = "^run_[0-9a-f]{12}$", examples("run_0123456789ab"))]
pub struct RunIdText(pub String);

/// Id of a session.
#[derive(Debug, ToSchema)]
#[schema(as = SessionId, value_type = String, pattern = "^ses_[0-9a-f]{12}$", examples("ses_0123456789ab"))]
pub struct SessionIdText(pub String);

/// Status of a run.
#[derive(Debug, ToSchema)]
#[schema(as = RunStatus, rename_all = "snake_case")]
pub enum RunStatusName {
    /// In the queue, or queued behind another run of its session.
    Pending,
    /// Claimed by a runner that has not written yet.
    Claimed,
    /// A runner is executing it.
    Running,
    /// Parked until a child ends; holds no slot.
    Waiting,
    /// Asked to stop.
    Stopping,
    /// Ended with a result.
    Completed,
    /// Ended without a result.
    Failed,
    /// Ended by a stop request.
    Stopped,
}

/// How a completed run with a contract reached its result: the last one that applies.
#[derive(Debug, ToSchema)]
#[schema(as = RunVerdict, rename_all = "snake_case")]
pub enum RunVerdictName {
    /// The first reply satisfied the contract as it was.
    FirstPass,
    /// The first reply satisfied the contract after repairs.
    Repaired,
    /// A reply to a retry satisfied the contract.
    Retried,
    /// A further tier satisfied the contract.
    Escalated,
}

/// The type of a run's error.
#[derive(Debug, ToSchema)]
#[schema(as = RunErrorType, rename_all = "snake_case")]
pub enum RunErrorTypeName {
    /// No reply satisfied the contract.
    OutputSchemaValidationFailed,
    /// The model did not call `submit_result`.
    ResultNotSubmitted,
    /// The reply was cut off, also after retries.
    OutputTruncated,
    /// The model declined.
    Refused,
    /// The model wrote nothing, and the run has no contract.
    EmptyReply,
    /// The backend is unreachable or overloaded.
    BackendUnavailable,
    /// The backend refuses the request.
    BackendRejected,
    /// Tools of the agent are unavailable.
    ToolFailed,
    /// The agent used up its steps or tool calls.
    LimitExceeded,
    /// The run reached its time limit.
    Timeout,
    /// Runners lost the run too often.
    Lost,
    /// A caller stopped the run.
    Stopped,
}

/// Whether a run starts a session or resumes one.
#[derive(Debug, ToSchema)]
#[schema(as = RunType, rename_all = "snake_case")]
pub enum RunTypeName {
    /// Starts a session.
    StartSession,
    /// Resumes a session.
    ResumeSession,
}

/// The way in which the caller or parent learns of a run's end.
#[derive(Debug, ToSchema)]
#[schema(as = ExecutionMode, rename_all = "snake_case")]
pub enum ExecutionModeName {
    /// The caller or parent waits for the end.
    Sync,
    /// The caller polls.
    AsyncPoll,
    /// The end starts a callback run in the parent session.
    AsyncCallback,
}

/// A JSON Schema: an object or a boolean.
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

/// A blueprint, with the same keys as an agent file. Only the required keys are described here.
#[derive(Debug, ToSchema)]
#[schema(as = AgentRequest)]
pub struct AgentSchema {
    /// Unique name of the agent.
    #[schema(pattern = "^[A-Za-z0-9][A-Za-z0-9_-]{0,59}$")]
    pub name: String,
}

/// Enforcement options. Omitted options come from the agent and the server's environment.
#[derive(Debug, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = OutputSchemaOptions)]
pub struct OptionsSchema {
    /// Model calls after the first one, per rung.
    #[schema(maximum = 4_294_967_295_u64)]
    pub max_retries: Option<u32>,
    /// Whether to search for JSON inside other text.
    pub extract_json: Option<bool>,
    /// Whether the reply must consist of JSON only.
    pub strict_json_only: Option<bool>,
    /// `lenient` allows type coercion.
    #[schema(pattern = "^(strict|lenient)$")]
    pub validation_mode: Option<String>,
    /// Strategy for obtaining JSON from the model.
    #[schema(pattern = "^(auto|prompt|system_prompt|tool|native)$")]
    pub strategy: Option<String>,
    /// Whether a correction asks for the full document or for a patch.
    #[schema(pattern = "^(auto|full|patch)$")]
    pub correction: Option<String>,
    /// Form of the schema in the prompt.
    #[schema(pattern = "^(auto|json|compact)$")]
    pub schema_form: Option<String>,
    /// Whether to reject results that contain placeholders.
    pub reject_placeholders: Option<bool>,
}

/// How far a run has got.
#[derive(Debug, ToSchema)]
#[schema(as = RunProgress)]
pub struct RunProgressSchema {
    /// Requests, including the next one, that repeat another because its reply was rejected.
    #[schema(minimum = 0, maximum = 1_000_000)]
    pub retry_count: i64,
    /// Backend of the current rung.
    pub backend: Option<String>,
    /// Model that requests to it name.
    pub model: Option<String>,
}

/// A claimed run with the data needed to execute it.
#[derive(Debug, ToSchema)]
#[schema(as = Assignment)]
pub struct AssignmentSchema {
    /// Id of the run.
    pub run_id: RunIdText,
    /// Fencing token of the attempt.
    pub token: i64,
    /// Id of the session.
    pub session_id: SessionIdText,
    /// Working folder as the caller sent it.
    pub project_dir: Option<String>,
    /// The agents that this run may delegate to.
    #[schema(value_type = Vec<Object>)]
    pub agents: Vec<Value>,
    /// Commands of all agents that the coordinator knows, sent for agents that write files. Tools do not write to their
    /// programs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<Vec<String>>,
    /// Time until the deadline in milliseconds, negative once it has passed; null without a time limit.
    pub time_left_ms: Option<i64>,
    /// Whether the run has been asked to stop.
    pub stop: bool,
    /// The session's journal. Its `run_start` holds the blueprint, the contract and the parameters.
    pub journal: Vec<EventSchema>,
    /// `seq` of the journal's last event, if more follow. Send it as `after` to `POST /runner/journal`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal_next: Option<i64>,
}

/// Type of an event.
#[derive(Debug, ToSchema)]
#[schema(as = EventType, rename_all = "snake_case")]
pub enum EventTypeName {
    /// A run became active.
    RunStart,
    /// A runner started an attempt.
    AttemptStarted,
    /// The agent's tools could not be prepared.
    ToolsFailed,
    /// A model replied.
    Message,
    /// A model call failed.
    CallFailed,
    /// A tool is about to be called.
    PreTool,
    /// A tool call has ended.
    PostTool,
    /// A child run was started.
    ChildStarted,
    /// A child run has ended.
    ChildCompleted,
    /// The paths in a result were checked.
    PathsChecked,
    /// An orchestrator planned its subtasks.
    PlanCreated,
    /// A reply was scored for clarity.
    ClarityScored,
    /// A reply did not satisfy the contract.
    ValidationFailed,
    /// The run moved to the next tier.
    Escalated,
    /// The runner did not renew its lease in time.
    LeaseExpired,
    /// The run reached its time limit.
    DeadlineReached,
    /// A stop was requested.
    StopRequested,
    /// The run has a result.
    Result,
    /// The run has ended.
    RunCompleted,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde::de::DeserializeOwned;
    use serde_json::json;
    use slipform_types::{
        EventBody, ExecutionMode, OptionsPatch, RunErrorType, RunId, RunStatus, RunType, RunVerdict,
        SessionId,
    };

    use super::*;
    use crate::assignment::EncodedAssignment;

    fn openapi<T: PartialSchema>() -> Value {
        serde_json::to_value(T::schema()).unwrap()
    }

    /// Compares the described names with those that serde accepts. Serde lists them in its error for an
    /// unknown name.
    fn check_names<T: DeserializeOwned>(names: &Value, value: impl Fn(&Value) -> Value) {
        let refusal = serde_json::from_value::<T>(value(&json!("nothing"))).err().unwrap().to_string();
        let words: Vec<&str> = refusal.split('`').skip(1).step_by(2).skip(1).collect();
        assert_eq!(names["enum"], json!(words), "{refusal}");
    }

    #[test]
    fn enum_names_match_their_schemas() {
        check_names::<RunStatus>(&openapi::<RunStatusName>(), Value::clone);
        check_names::<RunVerdict>(&openapi::<RunVerdictName>(), Value::clone);
        check_names::<RunErrorType>(&openapi::<RunErrorTypeName>(), Value::clone);
        check_names::<RunType>(&openapi::<RunTypeName>(), Value::clone);
        check_names::<ExecutionMode>(&openapi::<ExecutionModeName>(), Value::clone);
        check_names::<EventBody>(&openapi::<EventTypeName>(), |name| json!({"event_type": name}));
    }

    #[test]
    fn assignment_has_the_members_of_its_schema() {
        let ids = json!({"run_id": "run_0123456789ab", "session_id": "ses_0123456789ab"});
        let mut text = json!({"token": 1, "project_dir": null, "agents": [], "commands": [["a"]],
            "time_left_ms": null, "stop": false, "journal": [], "journal_next": 7});
        text.as_object_mut().unwrap().extend(ids.as_object().unwrap().clone());
        let assignment: EncodedAssignment = serde_json::from_str(&text.to_string()).unwrap();
        let sent = serde_json::to_value(assignment).unwrap();
        let described = openapi::<AssignmentSchema>();
        let names = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>();
        assert_eq!(names(&sent), names(&described["properties"]));
    }

    #[test]
    fn example_ids_are_valid() {
        let example = |schema: Value| schema["examples"][0].clone();
        assert!(serde_json::from_value::<RunId>(example(openapi::<RunIdText>())).is_ok());
        assert!(serde_json::from_value::<SessionId>(example(openapi::<SessionIdText>())).is_ok());
    }

    #[test]
    fn option_names_match_their_schema() {
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
