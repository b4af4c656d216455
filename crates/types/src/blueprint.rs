//! The blueprint: the definition of an agent.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{Clarity, OptionsPatch, ResponseType};

/// The definition of an agent. The keys are those of agent files and of the API; unset keys are omitted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Blueprint {
    /// The unique name: `[A-Za-z0-9][A-Za-z0-9_-]{0,59}`.
    pub name: String,
    /// The display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The purpose, read by people and by agents that may delegate to this one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Whether a model, a program or a team of agents performs the work.
    #[serde(rename = "type", default)]
    pub kind: AgentType,
    /// The program of a procedural agent and its first arguments; empty for other agents.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// The way in which the program of a procedural agent receives its parameters.
    #[serde(default, skip_serializing_if = "ParametersAs::is_default")]
    pub parameters_as: ParametersAs,
    /// The system prompt of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// The JSON Schema of a run's parameters; without it they are a prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters_schema: Option<Value>,
    /// The JSON Schema that every result must satisfy. Callers cannot override it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// The name of a registered schema, instead of `output_schema`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema_name: Option<String>,
    /// The JSON Schema that results must satisfy unless the caller provides one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_output_schema: Option<Value>,
    /// The name of a registered schema, instead of `default_output_schema`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_output_schema_name: Option<String>,
    /// The options for this agent's contracts, unless the caller sets them.
    #[serde(default, skip_serializing_if = "OptionsPatch::is_empty")]
    pub default_output_schema_options: OptionsPatch,
    /// An example result that satisfies the schema, shown to the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_example: Option<Value>,
    /// The type of its responses if they are universal responses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_type: Option<ResponseType>,
    /// The protocol by which the model calls tools.
    #[serde(default)]
    pub protocol: Protocol,
    /// The names of the tools that it may call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// The tools that are called before the first request to the model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub opening: Vec<Opening>,
    /// The names of the agents it may delegate to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<String>,
    /// The MCP servers whose tools it may call, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub mcp_servers: BTreeMap<String, McpServer>,
    /// Locations in a result, such as `$.findings[*].files[*]`, that must name files or folders of the
    /// project.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cites: Vec<String>,
    /// Locations in a result, such as `$.filesModified[*].path`, that must name the files that the agent has
    /// changed, all of them and no others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<String>,
    /// The clarity that its answers must reach; `None` if they are not scored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clarity: Option<Clarity>,
    /// Locations in a result, such as `$.verification_data.checks[*]`, that report criteria. They must agree
    /// with the decisions of `check:criteria`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<String>,
    /// The first tier of model; `None` for the default backend.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<String>,
    /// The tiers tried in order while the contract is not met.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub escalation: Vec<String>,
    /// The limits of one run.
    #[serde(default, skip_serializing_if = "Limits::is_empty")]
    pub limits: Limits,
    /// The names of the environment variables that `${env.NAME}` may refer to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
}

impl Blueprint {
    /// Returns the schema of the parameters: `parameters_schema`, or a single prompt.
    pub fn schema_of_parameters(&self) -> Value {
        let prompt_only = || {
            json!({
                "type": "object",
                "properties": {"prompt": {"type": "string", "minLength": 1}},
                "required": ["prompt"],
                "additionalProperties": false,
            })
        };
        self.parameters_schema.clone().unwrap_or_else(prompt_only)
    }
}

/// The executor of an agent's work.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentType {
    /// A model.
    #[default]
    Autonomous,
    /// A program whose standard output is the result.
    Procedural,
    /// A team: a model plans, other agents work, and the model summarises.
    Orchestrator,
}

/// The way in which the program of a procedural agent receives its parameters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParametersAs {
    /// As arguments: `--name value`.
    #[default]
    Arguments,
    /// As one JSON document on standard input.
    Stdin,
    /// Only where its command contains placeholders.
    Placeholders,
}

impl ParametersAs {
    fn is_default(&self) -> bool {
        *self == ParametersAs::default()
    }
}

/// The protocol by which a model calls tools and other agents.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// The backend's native tool calling.
    #[default]
    Tools,
    /// The action envelope, for models without tool calling.
    Actions,
}

/// A tool call that precedes the first request to the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Opening {
    /// The name of the tool, which the agent must be allowed to call.
    pub tool: String,
    /// The arguments; their strings may contain placeholders.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub arguments: Value,
}

/// The address of an MCP server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum McpServer {
    /// A program that speaks MCP on standard input and output.
    Command {
        /// The program and its arguments.
        command: Vec<String>,
    },
    /// A server that speaks MCP over HTTP.
    Url {
        /// The URL of its MCP endpoint.
        url: String,
    },
}

/// The limits of one run; an unset limit has the runner's default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// The most turns of the agent's loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_steps: Option<u32>,
    /// The most tool calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tool_calls: Option<u32>,
    /// The longest time from the first claim to the result, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u32>,
    /// The most tokens in one reply of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
}

impl Limits {
    /// Returns whether no limit is set.
    pub fn is_empty(&self) -> bool {
        *self == Limits::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unset_keys_are_omitted() {
        let blueprint: Blueprint =
            serde_json::from_value(json!({"name": "a", "output_schema": null})).unwrap();
        assert_eq!(
            serde_json::to_value(&blueprint).unwrap(),
            json!({"name": "a", "type": "autonomous", "protocol": "tools"})
        );
    }

    #[test]
    fn full_blueprint_round_trips() {
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
