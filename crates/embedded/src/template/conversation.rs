//! The messages of a request in the form that templates expect, with fallbacks for limited templates.

use serde_json::{Value, json};
use slipform_types::{Request, Role, ToolCall};

/// The messages of a prompt.
#[derive(Debug, Clone)]
pub(super) struct Conversation {
    pub(super) turns: Vec<Turn>,
    /// The tool definitions, each as `{"type": "function", "function": …}`.
    pub(super) tools: Vec<Value>,
}

/// One message.
#[derive(Debug, Clone)]
pub(super) struct Turn {
    pub(super) role: &'static str,
    pub(super) content: String,
    pub(super) calls: Vec<Value>,
    pub(super) call: Option<String>,
}

impl Turn {
    pub(super) fn new(role: &'static str, content: impl Into<String>) -> Turn {
        Turn { role, content: content.into(), calls: Vec::new(), call: None }
    }
}

impl Conversation {
    pub(super) fn of(request: &Request) -> Conversation {
        let system = request.system.as_deref().filter(|system| !system.trim().is_empty());
        let mut turns: Vec<Turn> = system.map(|system| Turn::new("system", system)).into_iter().collect();
        for message in &request.messages {
            let role = match message.role {
                // Most templates allow instructions at the beginning only.
                Role::User | Role::System => "user",
                Role::Assistant => "assistant",
                Role::Tool => "tool",
            };
            let mut turn = Turn::new(role, message.content.as_str());
            turn.calls = message.tool_calls.iter().map(call).collect();
            turn.call = message.tool_call_id.clone();
            turns.push(turn);
        }
        let tools = request.tools.iter().map(|tool| {
            let function =
                json!({"name": tool.name, "description": tool.description, "parameters": tool.parameters});
            json!({"type": "function", "function": function})
        });
        Conversation { turns, tools: tools.collect() }
    }

    /// Moves the tool definitions into the system prompt.
    pub(super) fn describe_tools(&mut self) {
        if self.tools.is_empty() {
            return;
        }
        let mut described = String::from("You can call these tools:");
        for tool in self.tools.drain(..) {
            described.push('\n');
            described.push_str(&tool["function"].to_string());
        }
        match self.turns.first_mut() {
            Some(turn) if turn.role == "system" => {
                turn.content.push_str("\n\n");
                turn.content.push_str(&described);
            }
            _ => self.turns.insert(0, Turn::new("system", described)),
        }
    }

    /// Converts tool calls into text of the assistant, and tool results into user messages.
    pub(super) fn write_out_calls(&mut self) {
        for turn in &mut self.turns {
            for call in turn.calls.drain(..) {
                if !turn.content.is_empty() {
                    turn.content.push('\n');
                }
                turn.content.push_str(&call["function"].to_string());
            }
            if turn.role == "tool" {
                turn.role = "user";
                turn.call = None;
            }
        }
    }

    /// Prepends the system prompt to the first user message.
    pub(super) fn fold_system(&mut self) {
        if self.turns.first().is_none_or(|turn| turn.role != "system") {
            return;
        }
        let system = self.turns.remove(0).content;
        match self.turns.first_mut() {
            Some(turn) if turn.role == "user" => turn.content = format!("{system}\n\n{}", turn.content),
            _ => self.turns.insert(0, Turn::new("user", system)),
        }
    }

    /// Merges consecutive messages of the same role.
    pub(super) fn join_repeats(&mut self) {
        let mut joined: Vec<Turn> = Vec::new();
        for turn in self.turns.drain(..) {
            match joined.last_mut() {
                Some(last) if last.role == turn.role && last.role != "tool" => {
                    last.content = format!("{}\n\n{}", last.content, turn.content);
                    last.calls.extend(turn.calls);
                }
                _ => joined.push(turn),
            }
        }
        self.turns = joined;
    }
}

/// Converts a call into the form that templates expect. Arguments that are not an object stay a string.
fn call(call: &ToolCall) -> Value {
    let arguments = match serde_json::from_str(&call.arguments) {
        Ok(Value::Object(arguments)) => Value::Object(arguments),
        _ => Value::String(call.arguments.clone()),
    };
    json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}})
}
