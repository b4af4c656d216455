//! The body of a request as clients send it.
//!
//! Reading it takes little more memory than its text: lists are bounded, members that are not used are skipped, and those of
//! any form are kept as text.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use slipform_types::{ACCOUNT_MEMBERS, Correction, FURTHER_SAMPLING, SchemaForm, Strategy, ValidationMode};

use super::forms::{Asked, Bounded, ContentBody, NAMES_MAX, PARTS_MAX, Stops};
use crate::error::ApiError;

/// The most messages of a request. Longer conversations exceed the context of every model.
const MESSAGES_MAX: usize = 20_000;

/// The most tools of one request, as in OpenAI's API.
const TOOLS_MAX: usize = 128;

/// Members that change the answer in a way that the gateway cannot honour, and those with which other servers take a schema or a
/// grammar. Null, false, zero and empty values ask for nothing.
const REFUSED: [&str; 14] = [
    "audio",
    "guided_json",
    "guided_regex",
    "guided_choice",
    "guided_grammar",
    "structured_outputs",
    "json_schema",
    "grammar",
    "logprobs",
    "top_logprobs",
    "functions",
    "function_call",
    "moderation",
    "prediction",
];

/// The member that asks for a search on the web. Clients send it empty.
const WEB_SEARCH: &str = "web_search_options";

/// The body of a request. Members that are not listed are ignored.
#[derive(Debug, Default)]
pub(super) struct Body<'a> {
    pub(super) model: Option<String>,
    pub(super) messages: Option<Vec<MessageBody>>,
    pub(super) tools: Vec<ToolBody<'a>>,
    pub(super) tool_choice: Option<&'a RawValue>,
    pub(super) parallel_tool_calls: Option<bool>,
    pub(super) response_format: Option<FormatBody<'a>>,
    pub(super) stream: Option<bool>,
    pub(super) stream_options: Option<StreamOptions>,
    pub(super) n: Option<u32>,
    pub(super) max_tokens: Option<u32>,
    pub(super) max_completion_tokens: Option<u32>,
    pub(super) temperature: Option<f64>,
    pub(super) top_p: Option<f64>,
    pub(super) frequency_penalty: Option<f64>,
    pub(super) presence_penalty: Option<f64>,
    pub(super) seed: Option<i64>,
    pub(super) stop: Vec<String>,
    pub(super) reasoning_effort: Option<String>,
    pub(super) session_id: Option<String>,
    pub(super) slipform: Option<ExtraOptions<'a>>,
    /// The members that are passed on as they are.
    pub(super) further: BTreeMap<String, &'a RawValue>,
    /// A member that cannot be honoured.
    pub(super) refused: Option<String>,
}

/// A tool of the client.
#[derive(Debug, Deserialize)]
pub(super) struct ToolBody<'a> {
    #[serde(rename = "type", default)]
    pub(super) kind: Option<String>,
    #[serde(borrow, default)]
    pub(super) function: Option<FunctionBody<'a>>,
}

/// A function that the client executes.
#[derive(Debug, Deserialize)]
pub(super) struct FunctionBody<'a> {
    pub(super) name: String,
    #[serde(default)]
    pub(super) description: Option<String>,
    #[serde(borrow, default)]
    pub(super) parameters: Option<&'a RawValue>,
    #[serde(default)]
    pub(super) strict: Option<bool>,
}

/// The form of the answer.
#[derive(Debug, Deserialize)]
pub(super) struct FormatBody<'a> {
    #[serde(rename = "type")]
    pub(super) kind: String,
    #[serde(borrow, default)]
    pub(super) json_schema: Option<NamedSchema<'a>>,
    /// The schema of a `json_object`, which some servers take here.
    #[serde(borrow, default)]
    pub(super) schema: Option<&'a RawValue>,
}

/// A schema with its name.
#[derive(Debug, Deserialize)]
pub(super) struct NamedSchema<'a> {
    #[serde(default)]
    pub(super) name: Option<String>,
    #[serde(default)]
    pub(super) description: Option<String>,
    #[serde(borrow, default)]
    pub(super) schema: Option<&'a RawValue>,
}

/// Options of a streamed answer.
#[derive(Debug, Deserialize)]
pub(super) struct StreamOptions {
    #[serde(default)]
    pub(super) include_usage: Option<bool>,
}

/// The member `slipform`: options of this gateway.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ExtraOptions<'a> {
    pub(super) strategy: Option<Strategy>,
    #[serde(alias = "retries")]
    pub(super) max_retries: Option<u32>,
    #[serde(alias = "validation_mode")]
    pub(super) mode: Option<ValidationMode>,
    pub(super) correction: Option<Correction>,
    pub(super) schema_form: Option<SchemaForm>,
    pub(super) extract_json: Option<bool>,
    pub(super) strict_json_only: Option<bool>,
    pub(super) reject_placeholders: Option<bool>,
    pub(super) tier: Option<String>,
    pub(super) escalation: Option<Bounded<String, NAMES_MAX>>,
    pub(super) timeout_seconds: Option<f64>,
    #[serde(borrow)]
    pub(super) parameters: Option<&'a RawValue>,
}

/// A message as clients send it.
#[derive(Debug, Deserialize)]
pub(super) struct MessageBody {
    pub(super) role: String,
    #[serde(default)]
    pub(super) name: Option<String>,
    #[serde(default)]
    pub(super) content: ContentBody,
    #[serde(default)]
    pub(super) tool_calls: Option<Bounded<CallBody, PARTS_MAX>>,
    #[serde(default)]
    pub(super) tool_call_id: Option<String>,
    #[serde(default)]
    pub(super) refusal: Option<String>,
    /// The form of calls before there were tools.
    #[serde(default)]
    pub(super) function_call: Asked,
    /// A spoken answer.
    #[serde(default)]
    pub(super) audio: Asked,
}

/// A call in a message of the model.
#[derive(Debug, Deserialize)]
pub(super) struct CallBody {
    #[serde(default)]
    pub(super) id: Option<String>,
    #[serde(default)]
    pub(super) function: Option<CalledFunction>,
}

#[derive(Debug, Deserialize)]
pub(super) struct CalledFunction {
    pub(super) name: String,
    #[serde(default)]
    pub(super) arguments: Option<String>,
}

impl<'a> Body<'a> {
    /// Reads a body.
    ///
    /// # Errors
    /// Names the member that has another form.
    pub(super) fn read(bytes: &'a [u8]) -> Result<Body<'a>, ApiError> {
        let mut member = None;
        let mut deserializer = serde_json::Deserializer::from_slice(bytes);
        let read = BodyReader { member: &mut member }
            .deserialize(&mut deserializer)
            .and_then(|body| deserializer.end().map(|()| body));
        read.map_err(|error| match (error.is_data(), member) {
            (true, Some(member)) => {
                let message = format!("`{member}`: {}", plain_words(&error.to_string()));
                ApiError::invalid(member, message)
            }
            (true, None) => {
                ApiError::invalid(None, format!("invalid body: {}", plain_words(&error.to_string())))
            }
            (false, _) => ApiError::invalid(None, format!("the body is not JSON: {error}")),
        })
    }

    /// Reads the value of one member.
    fn read_member<M: MapAccess<'a>>(&mut self, name: &str, map: &mut M) -> Result<(), M::Error> {
        match name {
            "model" => self.model = map.next_value()?,
            "messages" => {
                self.messages = map.next_value::<Option<Bounded<_, MESSAGES_MAX>>>()?.map(|list| list.0);
            }
            "tools" => self.tools = map.next_value::<Option<Bounded<_, TOOLS_MAX>>>()?.unwrap_or_default().0,
            "tool_choice" => self.tool_choice = map.next_value()?,
            "parallel_tool_calls" => self.parallel_tool_calls = map.next_value()?,
            "response_format" => self.response_format = map.next_value()?,
            "stream" => self.stream = map.next_value()?,
            "stream_options" => self.stream_options = map.next_value()?,
            "n" => self.n = map.next_value()?,
            "max_tokens" => self.max_tokens = map.next_value()?,
            "max_completion_tokens" => self.max_completion_tokens = map.next_value()?,
            "temperature" => self.temperature = map.next_value()?,
            "top_p" => self.top_p = map.next_value()?,
            "frequency_penalty" => self.frequency_penalty = map.next_value()?,
            "presence_penalty" => self.presence_penalty = map.next_value()?,
            "seed" => self.seed = map.next_value()?,
            "stop" => self.stop = map.next_value::<Option<Stops>>()?.unwrap_or_default().0,
            "reasoning_effort" => self.reasoning_effort = map.next_value()?,
            "metadata" => {
                self.session_id = map.next_value::<Option<Metadata>>()?.unwrap_or_default().session_id;
            }
            "slipform" => self.slipform = map.next_value()?,
            "modalities" => {
                let modalities =
                    map.next_value::<Option<Bounded<String, NAMES_MAX>>>()?.unwrap_or_default().0;
                if modalities.iter().any(|modality| modality != "text") {
                    self.refused = Some(name.to_owned());
                }
            }
            name if REFUSED.contains(&name) => {
                if map.next_value::<Asked>()?.0 {
                    self.refused = Some(name.to_owned());
                }
            }
            name if FURTHER_SAMPLING.contains(&name) || ACCOUNT_MEMBERS.contains(&name) => {
                let value: &RawValue = map.next_value()?;
                if value.get() != "null" {
                    self.further.insert(name.to_owned(), value);
                }
            }
            WEB_SEARCH => {
                if map.next_value::<&RawValue>()?.get() != "null" {
                    self.refused = Some(name.to_owned());
                }
            }
            _ => {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

/// Reads a [`Body`], and keeps the name of the member that it reads.
struct BodyReader<'r> {
    member: &'r mut Option<String>,
}

impl<'de> DeserializeSeed<'de> for BodyReader<'_> {
    type Value = Body<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Body<'de>, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for BodyReader<'_> {
    type Value = Body<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Body<'de>, M::Error> {
        let mut body = Body::default();
        while let Some(name) = map.next_key::<String>()? {
            let name = self.member.insert(name);
            body.read_member(name, &mut map)?;
        }
        *self.member = None;
        Ok(body)
    }
}

/// The member of `metadata` that the gateway reads. Other members, of any form, belong to the client.
#[derive(Debug, Default, Deserialize)]
struct Metadata {
    #[serde(default)]
    session_id: Option<String>,
}

/// Replaces the names of Rust's types in a message.
fn plain_words(message: &str) -> String {
    const WORDS: [(&str, &str); 9] = [
        ("expected f64", "expected a number"),
        ("expected u32", "expected a whole number that is not negative"),
        ("expected i64", "expected a whole number"),
        ("expected a sequence", "expected an array"),
        ("expected a map", "expected an object"),
        ("invalid type: map", "invalid type: object"),
        ("invalid type: sequence", "invalid type: array"),
        ("expected a borrowed string", "expected a text"),
        ("expected a string", "expected a text"),
    ];
    let message = WORDS.iter().fold(message.to_owned(), |message, (from, to)| message.replace(from, to));
    match message.split_once("expected struct ") {
        Some((before, after)) => {
            let name = after.find(|character: char| !character.is_alphanumeric()).unwrap_or(after.len());
            format!("{before}expected an object{}", &after[name..])
        }
        None => message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(body: &str) -> (Option<String>, String) {
        let error = Body::read(body.as_bytes()).unwrap_err();
        (error.param, error.message)
    }

    #[test]
    fn wrong_form_is_refused_with_the_name_of_the_member() {
        for (body, member, words) in [
            (r#"{"temperature": "0.7"}"#, "temperature", "expected a number"),
            (r#"{"stop": 5}"#, "stop", "expected a text or a list of texts"),
            (r#"{"messages": {}}"#, "messages", "expected an array"),
            (r#"{"messages": [{"role": "user", "content": 5}]}"#, "messages", "a text or a list of parts"),
            (r#"{"messages": [[1]]}"#, "messages", "invalid type"),
            (r#"{"tools": [{"function": {"name": 1}}]}"#, "tools", "expected a text"),
            (r#"{"slipform": {"colour": "red"}}"#, "slipform", "unknown field `colour`"),
        ] {
            let (param, message) = problem(body);
            assert_eq!(param.as_deref(), Some(member), "{message}");
            assert!(message.contains(words), "{message}");
        }
        for body in ["[]", "5", "{", "{} {}", ""] {
            let (param, message) = problem(body);
            assert_eq!(param, None, "{body}: {message}");
        }
    }

    #[test]
    fn members_that_ask_for_nothing_are_not_refused() {
        for value in ["null", "false", "0", "[]", "{}", "0.0"] {
            let text = format!(r#"{{"logprobs": {value}, "audio": {value}}}"#);
            assert_eq!(Body::read(text.as_bytes()).unwrap().refused, None, "{value}");
        }
        for value in ["true", "5", "-1", "[1]", r#"{"a": 1}"#, r#""on""#] {
            let text = format!(r#"{{"prediction": {value}}}"#);
            assert_eq!(
                Body::read(text.as_bytes()).unwrap().refused.as_deref(),
                Some("prediction"),
                "{value}"
            );
        }
    }

    #[test]
    fn lists_are_bounded_and_end_at_the_first_wrong_item() {
        let parts = vec![r#"{"type":"text","text":""}"#; PARTS_MAX + 1].join(",");
        let (_, message) = problem(&format!(r#"{{"messages":[{{"role":"user","content":[{parts}]}}]}}"#));
        assert!(message.contains("more than 2000 items"), "{message}");
        let (_, message) = problem(r#"{"messages":[{"role":"user","content":[0,0,0]}]}"#);
        assert!(message.contains("expected an object"), "{message}");
    }
}
