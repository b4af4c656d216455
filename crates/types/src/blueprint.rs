//! The blueprint of an agent: what it is told, what it takes, what it gives, what it may use.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Clarity, OptionsPatch, ResponseType};

/// An agent. Keys are those of agent files and of the API; what is not said is left out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Blueprint {
    /// What the agent is called by: `[A-Za-z0-9][A-Za-z0-9_-]{0,59}`.
    pub name: String,
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What the agent is for, read by people and by agents that may delegate to it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Whether a model, a program or a team does the work.
    #[serde(rename = "type", default)]
    pub kind: AgentType,
    /// The program of a procedural agent and its first arguments; empty for an autonomous one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// How the program of a procedural agent gets its parameters.
    #[serde(default, skip_serializing_if = "ParametersAs::is_default")]
    pub parameters_as: ParametersAs,
    /// What the model is told about its task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// What the parameters of a run must satisfy; without it they are a prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters_schema: Option<Value>,
    /// What every result must satisfy, whoever asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// What results must satisfy unless the caller brings a schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_output_schema: Option<Value>,
    /// How contracts of this agent are enforced unless the caller says otherwise.
    #[serde(default, skip_serializing_if = "OptionsPatch::is_empty")]
    pub default_output_schema_options: OptionsPatch,
    /// A filled answer that satisfies the schema, shown to the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_example: Option<Value>,
    /// The kind of its responses, where they have the universal form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_type: Option<ResponseType>,
    /// How the model calls tools.
    #[serde(default)]
    pub protocol: Protocol,
    /// The names of the tools it may call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// Tools that are called before the model is asked for the first time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub opening: Vec<Opening>,
    /// The names of the agents it may delegate to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<String>,
    /// The MCP servers whose tools it may call, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub mcp_servers: BTreeMap<String, McpServer>,
    /// The places of a result, such as `$.findings[*].files[*]`, that have to name files or folders of the project.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cites: Vec<String>,
    /// The places of a result, such as `$.filesModified[*].path`, that have to name files that the agent has changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<String>,
    /// How clear its answers have to be before they are taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clarity: Option<Clarity>,
    /// The places of a result, such as `$.verification_data.checks[*]`, that report criteria: what `check:criteria` has
    /// decided of them has to stand there as it was decided.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<String>,
    /// The tier of model it starts with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<String>,
    /// The tiers that are tried, in order, when the contract is not met.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub escalation: Vec<String>,
    /// How much one run may use.
    #[serde(default, skip_serializing_if = "Limits::is_empty")]
    pub limits: Limits,
    /// The names of the environment variables that `${env.NAME}` may name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
}

/// Who does an agent's work.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentType {
    /// A model.
    #[default]
    Autonomous,
    /// A program, whose standard output is the result.
    Procedural,
    /// A team: a model plans, other agents work, and the model sums up.
    Orchestrator,
}

/// How the program of a procedural agent gets its parameters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParametersAs {
    /// As arguments: `--name value`.
    #[default]
    Arguments,
    /// As one JSON document on its standard input.
    Stdin,
    /// Not at all, but for those that its command names as placeholders.
    Placeholders,
}

impl ParametersAs {
    fn is_default(&self) -> bool {
        *self == ParametersAs::default()
    }
}

/// How a model calls tools and other agents.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// The backend's own tool calling.
    #[default]
    Tools,
    /// The action envelope, for models without tool calling.
    Actions,
}

/// A tool that is called before the model is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Opening {
    /// The tool, one of those that the agent may call.
    pub tool: String,
    /// Its arguments; their texts may hold placeholders.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub arguments: Value,
}

/// How an MCP server is reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum McpServer {
    /// A program that speaks MCP on its standard input and output.
    Command {
        /// The program and its arguments.
        command: Vec<String>,
    },
    /// A server that speaks MCP over HTTP.
    Url {
        /// Its address.
        url: String,
    },
}

/// How much one run may use; what is not said is the runner's default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Turns of the agent's loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_steps: Option<u32>,
    /// Tool calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tool_calls: Option<u32>,
    /// Time from the first claim to the result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u32>,
    /// Tokens that one reply of the model may have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
}

impl Limits {
    /// Whether nothing is said at all.
    pub fn is_empty(&self) -> bool {
        *self == Limits::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_not_said_is_left_out() {
        let blueprint: Blueprint =
            serde_json::from_value(json!({"name": "a", "output_schema": null})).unwrap();
        assert_eq!(
            serde_json::to_value(&blueprint).unwrap(),
            json!({"name": "a", "type": "autonomous", "protocol": "tools"})
        );
    }

    #[test]
    fn a_full_blueprint_survives_the_journey() {
        let full = json!({
            "name": "a", "title": "A", "description": "d", "type": "procedural", "command": ["./scan"],
            "parameters_as": "stdin", "system_prompt": "s", "parameters_schema": {"type": "object"}, "output_schema": {"type": "array"},
            "default_output_schema": true, "default_output_schema_options": {"max_retries": 3},
            "output_example": [1], "response_type": "planning", "protocol": "actions", "tools": ["fs:read"],
            "opening": [{"tool": "fs:read", "arguments": {"path": "a"}}], "agents": ["b"],
            "mcp_servers": {"docs": {"command": ["docs-mcp"]}, "wiki": {"url": "http://127.0.0.1:9000/mcp"}},
            "cites": ["$[*]"], "changes": ["$[*]"],
            "clarity": {"threshold": 90, "max_rounds": 3, "agent": "judge"},
            "checks": ["$[*]"], "tier": "small", "escalation": ["small", "large"],
            "limits": {"max_steps": 1, "max_tool_calls": 2, "timeout_seconds": 3, "max_tokens": 4},
            "env": ["HOME"],
        });
        let blueprint: Blueprint = serde_json::from_value(full.clone()).unwrap();
        assert_eq!(serde_json::to_value(&blueprint).unwrap(), full);
    }
}
