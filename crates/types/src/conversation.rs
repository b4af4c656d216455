//! A conversation that a client keeps itself, with the tools that the client executes.

use serde::{Deserialize, Serialize};

use crate::{ContractOptions, Message, Sampling, Tool, ToolChoice};

/// The conversation of a run whose caller keeps the history and executes the tools, as clients of chat APIs do.
///
/// The run ends with an answer or with calls of `client_tools`. Their results come with the next run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Conversation {
    /// The messages, oldest first. Instructions that open the conversation are the agent's system prompt instead.
    pub messages: Vec<Message>,
    /// The tools that the client executes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub client_tools: Vec<Tool>,
    /// Whether the model may, must or must not call them.
    #[serde(default)]
    pub tool_choice: ToolChoice,
    /// Whether one reply may make several calls.
    #[serde(default = "allowed")]
    pub parallel_tool_calls: bool,
    /// Whether the client reads the answer as it is written. Otherwise servers are asked for a whole reply.
    #[serde(default = "allowed")]
    pub is_streamed: bool,
    /// The sampling parameters of every request.
    #[serde(default)]
    pub sampling: Sampling,
    /// The enforcement options for the arguments of calls.
    #[serde(default)]
    pub options: ContractOptions,
}

fn allowed() -> bool {
    true
}

impl Default for Conversation {
    fn default() -> Self {
        Conversation {
            messages: Vec::new(),
            client_tools: Vec::new(),
            tool_choice: ToolChoice::Auto,
            parallel_tool_calls: true,
            is_streamed: true,
            sampling: Sampling::default(),
            options: ContractOptions::default(),
        }
    }
}

impl Conversation {
    /// Returns the tool that the model has to call: the named one, or the only one if it must call any.
    pub fn forced_tool(&self) -> Option<&Tool> {
        match (&self.tool_choice, self.client_tools.as_slice()) {
            (ToolChoice::Named(name), tools) => tools.iter().find(|tool| tool.name == *name),
            (ToolChoice::Required, [tool]) => Some(tool),
            _ => None,
        }
    }

    /// Returns whether the model must call a tool.
    pub fn must_call(&self) -> bool {
        let must_call = matches!(self.tool_choice, ToolChoice::Required | ToolChoice::Named(_));
        must_call && !self.client_tools.is_empty()
    }

    /// Returns the tools that the model may choose from; empty if it must not call any, or a specific one.
    pub fn offered_tools(&self) -> &[Tool] {
        let may_choose = self.tool_choice != ToolChoice::None && self.forced_tool().is_none();
        if may_choose { &self.client_tools } else { &[] }
    }
}
