//! Tests which structured-output features a backend enforces.
//!
//! The prompt asks for a value outside an enumeration, a number beyond its bound and a forbidden property.
//! The schema is sent only through the feature under test. A reply that satisfies it therefore shows that the
//! server enforces the schema.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use slipform_schema::Dialect;
use slipform_types::{Capabilities, Format, Message, Request, StopReason, Support, Tool, ToolChoice};

use crate::{Backend, Call, Error};

/// The token limit of a probe request: enough for the requested document, and cheap if the model rambles.
const MAX_TOKENS: u32 = 120;

/// The longest evidence that is kept, in characters.
const EVIDENCE_CHARACTERS_MAX: usize = 160;

/// The tested features, in the order of the findings.
pub(crate) const FEATURES: [&str; 4] = ["json_schema", "json_object", "tools", "forced_tools"];

/// The evidence if the reply reached the token limit before an answer.
const NO_ANSWER: &str = "(no answer within the token limit)";
/// The evidence if the protocol cannot express the feature.
const UNSUPPORTED: &str = "(not supported by the protocol)";

const PROMPT: &str = "Describe my favourite paint as a JSON object and nothing else. Its \"colour\" is \"ultraviolet\" \
    (exactly that word, no other), its \"rating\" is 99, and add a third property \"note\" with the value \"hello\".";

/// The result for one feature.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// `json_schema`, `json_object`, `tools` or `forced_tools`.
    pub feature: String,
    /// The degree to which the backend enforces the feature.
    pub support: Support,
    /// Whether the reply respected `enum`; `None` if it contained no JSON object.
    pub enumeration: Option<bool>,
    /// Whether the reply respected `additionalProperties: false`; `None` if it contained no JSON object.
    pub extra_property: Option<bool>,
    /// Whether the reply respected `minimum` and `maximum`; `None` if it contained no JSON object.
    pub number_bound: Option<bool>,
    /// The start of the reply or of the error message, at most 160 characters.
    pub evidence: String,
}

/// The result for a backend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// One finding per feature, in a fixed order.
    pub findings: Vec<Finding>,
    /// The summary from which `structured_output = "auto"` selects a strategy.
    pub capabilities: Capabilities,
    /// The schema dialect of the server, if its model list names a known one.
    pub dialect: Option<String>,
    /// The number of calls that the probe made.
    pub calls: u32,
}

/// Tests a backend with one call per feature that its protocol can express.
///
/// If the backend rejects every feature, one plain call checks that it works at all. `progress` receives the
/// name of each feature before its call.
///
/// # Errors
/// Fails if a call fails for a reason other than the feature, for example a wrong key.
pub async fn probe(backend: &dyn Backend, progress: &dyn Fn(&str)) -> Result<Verdict, Error> {
    let dialect = backend.about().await.as_ref().and_then(dialect_of);
    let mut findings = Vec::new();
    let mut calls = 0;
    let mut refused = 0;
    for feature in FEATURES {
        if !backend.features().contains(&feature) {
            findings.push(finding(feature, Support::Ignored, None, UNSUPPORTED));
            continue;
        }
        progress(feature);
        let result = test_feature(backend, feature).await?;
        calls += 1;
        refused += u32::from(result.support == Support::Refused);
        findings.push(result);
    }
    if refused == calls {
        // A plain request distinguishes unsupported features from a backend that rejects everything.
        backend.call(Call::new(&plain_request())).await?;
        calls += 1;
    }
    let support = |feature: &str| {
        findings
            .iter()
            .find(|finding| finding.feature == feature)
            .map(|finding| finding.support)
            .unwrap_or_default()
    };
    let capabilities = Capabilities {
        json_schema: support("json_schema"),
        json_object: support("json_object"),
        tools: support("tools"),
        forced_tools: support("forced_tools"),
    };
    Ok(Verdict { findings, capabilities, dialect: dialect.map(|dialect| dialect.to_string()), calls })
}

/// Derives the schema dialect from `owned_by` in the server's model list.
fn dialect_of(about: &Value) -> Option<Dialect> {
    let owner = about["data"][0]["owned_by"].as_str()?.to_ascii_lowercase();
    match owner.as_str() {
        "llamacpp" => Some(Dialect::LlamaCpp),
        "vllm" => Some(Dialect::Vllm),
        "library" | "ollama" => Some(Dialect::Ollama),
        "organization_owner" | "lmstudio" => Some(Dialect::LmStudio),
        // llama-cpp-python reports "me" and has llama.cpp's rules.
        "me" => Some(Dialect::LlamaCpp),
        _ => None,
    }
}

/// The schema that contradicts [`PROMPT`] in three points.
fn contradicting_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "colour": {"type": "string", "enum": ["red", "green"]},
            "rating": {"type": "integer", "minimum": 1, "maximum": 5},
        },
        "required": ["colour", "rating"],
        "additionalProperties": false,
    })
}

fn plain_request() -> Request {
    Request { messages: vec![Message::user(PROMPT)], max_tokens: Some(MAX_TOKENS), ..Request::default() }
}

fn request(feature: &str) -> Request {
    let mut request = plain_request();
    match feature {
        "json_schema" => {
            let schema = contradicting_schema().into();
            request.format = Format::JsonSchema { name: "paint".to_owned(), schema, strict: true };
        }
        "json_object" => request.format = Format::JsonObject { schema: Some(contradicting_schema().into()) },
        _ => {
            request.tools = vec![Tool {
                name: "describe_paint".to_owned(),
                description: "Takes the description of a paint.".to_owned(),
                parameters: contradicting_schema(),
                strict: false,
            }];
            if feature == "forced_tools" {
                request.tool_choice = ToolChoice::Named("describe_paint".to_owned());
            } else {
                request.messages[0].content.push_str(" Hand it in by calling the tool describe_paint.");
            }
        }
    }
    request
}

async fn test_feature(backend: &dyn Backend, feature: &str) -> Result<Finding, Error> {
    let request = request(feature);
    let reply = match backend.call(Call::new(&request)).await {
        Ok(reply) => reply,
        Err(error) if is_refusal(&error) => {
            return Ok(finding(feature, Support::Refused, None, &error.to_string()));
        }
        Err(error) => return Err(error),
    };
    let is_tool = feature.ends_with("tools");
    // A reasoning model may reach the token limit before its answer. Such a reply proves nothing.
    let is_truncated =
        reply.stop == StopReason::Length && matches!(reply.text.trim().chars().next(), None | Some('{'));
    let text = match (is_tool, reply.tool_calls.first()) {
        (true, Some(call)) => call.arguments.clone(),
        (true, None) if is_truncated => NO_ANSWER.to_owned(),
        (true, None) => return Ok(finding(feature, Support::Ignored, None, &reply.text)),
        (false, _) if is_truncated && reply.text.is_empty() => NO_ANSWER.to_owned(),
        (false, _) => reply.text,
    };
    let document = serde_json::from_str::<Value>(text.trim()).ok().filter(Value::is_object);
    let support = match &document {
        None if is_truncated => Support::Unknown,
        None => Support::Ignored,
        Some(document) if respects_enum(document) && respects_closed_object(document) => Support::Enforced,
        Some(_) => Support::Accepted,
    };
    Ok(finding(feature, support, document.as_ref(), &text))
}

/// Returns whether the server rejects the feature, as opposed to the key, the URL or the model.
fn is_refusal(error: &Error) -> bool {
    match error {
        Error::Rejected { status, .. } => !matches!(status, 401..=405 | 407),
        // Some servers fail on options that they do not know.
        Error::Busy { status, .. } => matches!(status, 500 | 501),
        _ => false,
    }
}

fn respects_enum(document: &Value) -> bool {
    document["colour"] == "red" || document["colour"] == "green"
}

fn respects_closed_object(document: &Value) -> bool {
    document
        .as_object()
        .is_some_and(|members| members.keys().all(|name| name == "colour" || name == "rating"))
}

fn finding(feature: &str, support: Support, document: Option<&Value>, evidence: &str) -> Finding {
    Finding {
        feature: feature.to_owned(),
        support,
        enumeration: document.map(respects_enum),
        extra_property: document.map(respects_closed_object),
        number_bound: document
            .map(|document| document["rating"].as_i64().is_some_and(|rating| (1..=5).contains(&rating))),
        evidence: evidence
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
            .chars()
            .take(EVIDENCE_CHARACTERS_MAX)
            .collect(),
    }
}
