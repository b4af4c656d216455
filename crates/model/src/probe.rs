//! What a backend really enforces: schemas that set traps and prompts that lure into them.
//!
//! The prompt asks for a value outside an enumeration, for a number beyond its bound and for a property
//! that is forbidden. The schema is sent only through the feature under test, so that a model can keep to
//! it only where the server makes it.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use slipform_schema::Dialect;
use slipform_types::{Capabilities, Format, Message, Request, StopReason, Support, Tool, ToolChoice};

use crate::{Backend, Call, Error};

/// Enough tokens for the small document that is asked for, and few enough for a model that rambles.
const MAX_TOKENS: u32 = 120;

/// The longest evidence that is kept.
const EVIDENCE_CHARACTERS_MAX: usize = 160;

/// What is put to the test.
pub(crate) const FEATURES: [&str; 4] = ["json_schema", "json_object", "tools", "forced_tools"];

/// The evidence where there is none.
const CUT: &str = "(the tokens ran out before an answer)";
const NO_PLACE: &str = "(the protocol has no place for it)";

const PROMPT: &str = "Describe my favourite paint as a JSON object and nothing else. Its \"colour\" is \"ultraviolet\" \
    (exactly that word, no other), its \"rating\" is 99, and add a third property \"note\" with the value \"hello\".";

/// The verdict on one feature.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The feature.
    pub feature: String,
    /// What the backend does with it.
    pub support: Support,
    /// Whether the enumeration held.
    pub enumeration: Option<bool>,
    /// Whether the forbidden property stayed away.
    pub extra_property: Option<bool>,
    /// Whether the bound held.
    pub number_bound: Option<bool>,
    /// What the backend answered.
    pub evidence: String,
}

/// The verdict on a backend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// Feature by feature.
    pub findings: Vec<Finding>,
    /// The short form that steers `auto`.
    pub capabilities: Capabilities,
    /// Whose rules for schemas the server follows, if it says so.
    pub dialect: Option<String>,
    /// The calls it took.
    pub calls: u32,
}

/// Puts a backend to the test, one call a feature that its protocol knows, and
/// a plain one where all are refused. `progress` hears which feature is next.
pub async fn probe(backend: &dyn Backend, progress: &dyn Fn(&str)) -> Result<Verdict, Error> {
    let dialect = backend.about().await.as_ref().and_then(dialect_of);
    let mut findings = Vec::new();
    let mut calls = 0;
    let mut refused = 0;
    for feature in FEATURES {
        if !backend.features().contains(&feature) {
            findings.push(finding(feature, Support::Ignored, None, NO_PLACE));
            continue;
        }
        progress(feature);
        let found = examine(backend, feature).await?;
        calls += 1;
        refused += u32::from(found.support == Support::Refused);
        findings.push(found);
    }
    if refused == calls {
        // Is it the features that it refuses, or us?
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

/// Who serves the models, by what the server says of them.
fn dialect_of(about: &Value) -> Option<Dialect> {
    let owner = about["data"][0]["owned_by"].as_str()?.to_ascii_lowercase();
    match owner.as_str() {
        "llamacpp" => Some(Dialect::LlamaCpp),
        "vllm" => Some(Dialect::Vllm),
        "library" | "ollama" => Some(Dialect::Ollama),
        "organization_owner" | "lmstudio" => Some(Dialect::LmStudio),
        // The server of llama-cpp-python calls its models its own and shares llama.cpp's rules.
        "me" => Some(Dialect::LlamaCpp),
        _ => None,
    }
}

fn trap() -> Value {
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
            request.format = Format::JsonSchema { name: "paint".to_owned(), schema: trap(), strict: true };
        }
        "json_object" => request.format = Format::JsonObject { schema: Some(trap()) },
        _ => {
            request.tools = vec![Tool {
                name: "describe_paint".to_owned(),
                description: "Takes the description of a paint.".to_owned(),
                parameters: trap(),
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

async fn examine(backend: &dyn Backend, feature: &str) -> Result<Finding, Error> {
    let request = request(feature);
    let reply = match backend.call(Call::new(&request)).await {
        Ok(reply) => reply,
        Err(error) if is_refusal(&error) => {
            return Ok(finding(feature, Support::Refused, None, &error.to_string()));
        }
        Err(error) => return Err(error),
    };
    let is_tool = feature.ends_with("tools");
    // A model that thinks first may have no tokens left for an answer, which then tells nothing.
    let is_cut =
        reply.stop == StopReason::Length && matches!(reply.text.trim().chars().next(), None | Some('{'));
    let text = match (is_tool, reply.tool_calls.first()) {
        (true, Some(call)) => call.arguments.clone(),
        (true, None) if is_cut => CUT.to_owned(),
        (true, None) => return Ok(finding(feature, Support::Ignored, None, &reply.text)),
        (false, _) if is_cut && reply.text.is_empty() => CUT.to_owned(),
        (false, _) => reply.text,
    };
    let document = serde_json::from_str::<Value>(text.trim()).ok().filter(Value::is_object);
    let support = match &document {
        None if is_cut => Support::Unknown,
        None => Support::Ignored,
        Some(document) if holds_enumeration(document) && holds_extra(document) => Support::Enforced,
        Some(_) => Support::Accepted,
    };
    Ok(finding(feature, support, document.as_ref(), &text))
}

/// Whether the server objects to the feature, and not to the key, the address or the model.
fn is_refusal(error: &Error) -> bool {
    match error {
        Error::Rejected { status, .. } => !matches!(status, 401..=405 | 407),
        // Some servers fail over what they do not know.
        Error::Busy { status, .. } => matches!(status, 500 | 501),
        _ => false,
    }
}

fn holds_enumeration(document: &Value) -> bool {
    document["colour"] == "red" || document["colour"] == "green"
}

fn holds_extra(document: &Value) -> bool {
    document
        .as_object()
        .is_some_and(|members| members.keys().all(|name| name == "colour" || name == "rating"))
}

fn finding(feature: &str, support: Support, document: Option<&Value>, evidence: &str) -> Finding {
    Finding {
        feature: feature.to_owned(),
        support,
        enumeration: document.map(holds_enumeration),
        extra_property: document.map(holds_extra),
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
