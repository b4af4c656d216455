//! Delegation: the tools that start and resume other agents, and the children that their calls
//! request.

use serde_json::{Map, Value, json};
use slipform_types::{AgentCard, ExecutionMode, SessionId};

use crate::action::{Child, ChildTask};
use crate::callable::CallableKind;

/// The tool that starts an agent.
pub(crate) const START: &str = "start_agent_session";

/// The tool that resumes a child session.
pub(crate) const RESUME: &str = "resume_agent_session";

/// A child that this session has started.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct KnownChild {
    pub(crate) session_id: SessionId,
    pub(crate) agent_name: String,
}

/// Returns the delegation tools for an agent that may delegate to these agents.
pub(crate) fn tools(agents: &[AgentCard]) -> Vec<(CallableKind, String, String, Value)> {
    if agents.is_empty() {
        return Vec::new();
    }
    let names: Vec<&str> = agents.iter().map(|agent| agent.name.as_str()).collect();
    let list: Vec<String> = agents.iter().map(describe).collect();
    let mode = json!({
        "enum": ["sync", "callback"],
        "description": "sync (default) waits for the result; callback goes on, and the result comes as a later message",
    });
    let schema = json!({"type": "object", "description": "The JSON Schema that its result has to satisfy"});
    let start = json!({
        "type": "object",
        "required": ["agent_name"],
        "additionalProperties": false,
        "properties": {
            "agent_name": {"enum": names},
            "prompt": {"type": "string", "minLength": 1, "description": "The task, with everything the agent has to know"},
            "parameters": {"type": "object", "description": "For agents that take more than a prompt"},
            "mode": mode,
            "output_schema": schema,
            "output_schema_name": {"type": "string", "description": "The same by the name of a registered schema"},
        },
    });
    let resume = json!({
        "type": "object",
        "required": ["prompt"],
        "additionalProperties": false,
        "properties": {
            "agent_name": {"enum": names, "description": "Goes on with the latest session of this agent"},
            "session_id": {"type": "string", "description": "Or with this session"},
            "prompt": {"type": "string", "minLength": 1},
            "mode": mode,
            "output_schema": schema,
            "output_schema_name": {"type": "string", "description": "The same by the name of a registered schema"},
        },
    });
    vec![
        (
            CallableKind::Start,
            START.to_owned(),
            format!("Gives a task to another agent.\n{}", list.join("\n")),
            start,
        ),
        (
            CallableKind::Resume,
            RESUME.to_owned(),
            "Says something more to an agent that was started before.".to_owned(),
            resume,
        ),
    ]
}

fn describe(agent: &AgentCard) -> String {
    let mut text = format!("- {}", agent.name);
    if !agent.description.is_empty() {
        text.push_str(&format!(": {}", agent.description.trim()));
    }
    if let Some(schema) = &agent.parameters_schema {
        let names: Vec<&str> =
            schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect();
        text.push_str(&format!(" (parameters: {})", names.join(", ")));
    }
    if agent.has_output_schema {
        text.push_str(" (its result has a schema of its own; give it none)");
    }
    text
}

/// Returns the child that a call requests, or the message of what is wrong with the call.
pub(crate) fn child(
    call_id: &str,
    kind: CallableKind,
    input: &Value,
    known: &[KnownChild],
) -> Result<Child, String> {
    let text = |name: &str| input[name].as_str().map(str::to_owned);
    let execution_mode = match input["mode"].as_str() {
        Some("callback") => ExecutionMode::AsyncCallback,
        _ => ExecutionMode::Sync,
    };
    let (agent_name, task) = if kind == CallableKind::Start {
        let mut parameters = input["parameters"].as_object().cloned().unwrap_or_else(Map::new);
        if let Some(prompt) = text("prompt") {
            match parameters.get("prompt") {
                Some(other) if *other != prompt => {
                    return Err("The prompt is given twice, and the two differ. Give it once.".to_owned());
                }
                _ => parameters.insert("prompt".to_owned(), prompt.into()),
            };
        }
        (text("agent_name").unwrap_or_default(), ChildTask::Start { parameters: Value::Object(parameters) })
    } else {
        let child = find_child(input, known)?;
        let prompt = text("prompt").unwrap_or_default();
        (child.agent_name.clone(), ChildTask::Resume { session_id: child.session_id.clone(), prompt })
    };
    Ok(Child {
        call_id: call_id.to_owned(),
        tool_name: if kind == CallableKind::Start { START } else { RESUME }.to_owned(),
        agent_name,
        task,
        execution_mode,
        output_schema: input.get("output_schema").filter(|schema| !schema.is_null()).cloned(),
        output_schema_name: text("output_schema_name"),
    })
}

fn find_child<'k>(input: &Value, known: &'k [KnownChild]) -> Result<&'k KnownChild, String> {
    let (session, agent) = (input["session_id"].as_str(), input["agent_name"].as_str());
    let fits = |child: &&KnownChild| {
        session.is_none_or(|session| child.session_id.as_str() == session)
            && agent.is_none_or(|agent| child.agent_name == agent)
    };
    if session.is_none() && agent.is_none() {
        return Err("Say which agent is to go on: give agent_name or session_id.".to_owned());
    }
    known.iter().rev().find(fits).ok_or_else(|| {
        let list: Vec<String> =
            known.iter().map(|child| format!("{} ({})", child.session_id, child.agent_name)).collect();
        if list.is_empty() {
            format!("No agent was started yet. Start one with {START}.")
        } else {
            format!("No session fits. There are: {}.", list.join(", "))
        }
    })
}
