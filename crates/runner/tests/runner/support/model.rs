//! A scripted model that expresses its next step in the protocol of the request.

use serde_json::{Value, json};
use slipform_testkit::{Protocol, Recorded, Step};

/// The next step of a model.
pub(crate) enum ModelTurn {
    /// Call these tools, given by their public names. The action protocol allows one call per turn.
    Call(Vec<(&'static str, Value)>),
    /// Submit this result.
    Submit(Value),
}

impl ModelTurn {
    pub(crate) fn call(tool: &'static str, arguments: Value) -> ModelTurn {
        ModelTurn::Call(vec![(tool, arguments)])
    }

    /// Returns the reply in the protocol of the request.
    pub(crate) fn step(self, request: &Recorded) -> Step {
        if calls_tools(request) {
            return match self {
                ModelTurn::Call(calls) => {
                    let mut calls = calls.into_iter().map(|(name, arguments)| (wire(name), arguments));
                    let (name, arguments) = calls.next().unwrap();
                    calls.fold(Step::tool(&name, arguments), |step, (name, arguments)| {
                        step.and_tool(&name, arguments)
                    })
                }
                ModelTurn::Submit(result) if offers(request, "submit_result") => {
                    Step::tool("submit_result", result)
                }
                ModelTurn::Submit(result) => Step::json(&result),
            };
        }
        Step::json(&self.action())
    }

    /// Returns the step as an envelope of the action protocol.
    pub(crate) fn action(&self) -> Value {
        match self {
            ModelTurn::Call(calls) => {
                let [(tool, parameters)] = &calls[..] else {
                    panic!("the action protocol allows one call per turn")
                };
                json!({
                    "action": "USE_TOOL", "reasoning": "I have to look.", "content": "", "tool": tool,
                    "parameters": parameters,
                })
            }
            ModelTurn::Submit(result) => json!({
                "action": "NORMAL_RESPONSE", "reasoning": "Seen.", "content": "Done.", "parameters": result,
            }),
        }
    }
}

/// Returns a tool's name as backends accept it.
fn wire(name: &str) -> String {
    name.replace(':', "_")
}

/// Returns whether the request offers tools through the backend's own protocol.
pub(crate) fn calls_tools(request: &Recorded) -> bool {
    request.body.get("tools").is_some()
}

/// Returns whether the request offers a tool with this name.
fn offers(request: &Recorded, name: &str) -> bool {
    let tools = request.body["tools"].as_array().unwrap().iter();
    tools.filter_map(|tool| tool.get("name").or(tool["function"].get("name"))).any(|offered| offered == name)
}

/// Returns all answers of tools and agents in a request, oldest first.
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

/// Returns the contents of the TOOL_RETURN and AGENT_RETURN envelopes in a text.
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
