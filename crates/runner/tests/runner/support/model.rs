//! A model that is played: what it wants next, said in whatever protocol it is asked in.

use serde_json::{Value, json};
use slipform_testkit::{Protocol, Recorded, Step};

/// What a model wants next.
pub(crate) enum Move {
    /// To call these tools, given by the names that people know. Under the action protocol there is one a turn.
    Call(Vec<(&'static str, Value)>),
    /// To end with this result.
    Submit(Value),
}

impl Move {
    pub(crate) fn call(tool: &'static str, arguments: Value) -> Move {
        Move::Call(vec![(tool, arguments)])
    }

    /// The move as the request wants it said.
    pub(crate) fn said(self, request: &Recorded) -> Step {
        if calls_tools(request) {
            return match self {
                Move::Call(calls) => {
                    let mut calls = calls.into_iter().map(|(name, arguments)| (wire(name), arguments));
                    let (name, arguments) = calls.next().unwrap();
                    calls.fold(Step::tool(&name, arguments), |step, (name, arguments)| {
                        step.and_tool(&name, arguments)
                    })
                }
                Move::Submit(result) if offers(request, "submit_result") => {
                    Step::tool("submit_result", result)
                }
                Move::Submit(result) => Step::json(&result),
            };
        }
        Step::json(&self.action())
    }

    /// The move as an action.
    pub(crate) fn action(&self) -> Value {
        match self {
            Move::Call(calls) => {
                let [(tool, parameters)] = &calls[..] else { panic!("one call a turn") };
                json!({
                    "action": "USE_TOOL", "reasoning": "I have to look.", "content": "", "tool": tool,
                    "parameters": parameters,
                })
            }
            Move::Submit(result) => json!({
                "action": "NORMAL_RESPONSE", "reasoning": "Seen.", "content": "Done.", "parameters": result,
            }),
        }
    }
}

/// A tool's name as backends take it.
fn wire(name: &str) -> String {
    name.replace(':', "_")
}

/// Whether the model was offered tools by the backend's own protocol.
pub(crate) fn calls_tools(request: &Recorded) -> bool {
    request.body.get("tools").is_some()
}

/// Whether a tool of this name was offered.
fn offers(request: &Recorded, name: &str) -> bool {
    let tools = request.body["tools"].as_array().unwrap().iter();
    tools.filter_map(|tool| tool.get("name").or(tool["function"].get("name"))).any(|offered| offered == name)
}

/// Everything that tools and agents have answered so far, oldest first.
pub(crate) fn answers(request: &Recorded) -> Vec<String> {
    if !calls_tools(request) {
        return returned(&request.prompt());
    }
    let messages = request.body["messages"].as_array().unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    match request.protocol().unwrap() {
        Protocol::Messages => {
            let blocks = messages.iter().filter_map(|message| message["content"].as_array()).flatten();
            let results = blocks.filter(|block| block["type"] == "tool_result");
            results.map(|block| text(&block["content"])).collect()
        }
        _ => {
            let results = messages.iter().filter(|message| message["role"] == "tool");
            results.map(|message| text(&message["content"])).collect()
        }
    }
}

/// The contents of the TOOL_RETURN and AGENT_RETURN envelopes in a text.
fn returned(text: &str) -> Vec<String> {
    let mut list = Vec::new();
    for (at, _) in text.match_indices("{\"action\":\"") {
        let envelope = serde_json::Deserializer::from_str(&text[at..]).into_iter::<Value>().next();
        let Some(Ok(envelope)) = envelope else { continue };
        if matches!(envelope["action"].as_str(), Some("TOOL_RETURN" | "AGENT_RETURN")) {
            list.push(envelope["content"].as_str().unwrap().to_owned());
        }
    }
    list
}
