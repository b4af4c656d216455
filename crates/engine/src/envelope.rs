//! The action protocol: tools and delegation for models without tool calls, as one JSON object per
//! turn.

use serde_json::{Map, Value, json};
use slipform_schema::compact;
use slipform_types::{AgentCard, ContractOptions, ToolCall};

use crate::callable::Callables;
use crate::contract::CompiledContract;
use crate::delegation::START;
use crate::error::Error;
use crate::orchestrator::prompts;
use crate::prompt::Form;
use crate::tool_loop::{AnsweredCall, CallForm};

/// Ends the run with `content`.
const NORMAL: &str = "NORMAL_RESPONSE";
/// Ends the run like `NORMAL`, improving an earlier answer.
const REFINEMENT: &str = "REFINEMENT_RESPONSE";
/// Calls a tool.
const USE_TOOL: &str = "USE_TOOL";
/// Delegates `content` to another agent.
const AGENT_CALL: &str = "AGENT_CALL";
/// The result of a tool. Models must not write it.
const TOOL_RETURN: &str = "TOOL_RETURN";
/// The answer of another agent. Models must not write it.
const AGENT_RETURN: &str = "AGENT_RETURN";

/// The actions of the protocol.
const ACTIONS: [&str; 6] = [NORMAL, REFINEMENT, USE_TOOL, AGENT_CALL, TOOL_RETURN, AGENT_RETURN];

/// What an agent that is called by an action has to know beside its own task.
#[derive(Debug, Default)]
pub(crate) struct DelegationContext {
    /// The task of the caller.
    pub(crate) task: String,
    /// The answers of the agents that were called before, with their names.
    pub(crate) results: Vec<(String, String)>,
}

/// The action in an envelope.
pub(crate) enum EnvelopeAction {
    /// A call of a tool or an agent.
    Call(ToolCall, CallForm),
    /// The last action, with the result as text and optionally as an object.
    Answer { content: String, parameters: Option<Value> },
}

/// Compiles the envelope of a run to the contract of every reply.
pub(crate) fn compile(
    callables: &Callables,
    contract: Option<&CompiledContract>,
) -> Result<CompiledContract, Error> {
    let schema = envelope_schema(callables);
    let options = contract.map_or_else(ContractOptions::default, |contract| contract.options().clone());
    CompiledContract::internal("action", schema, options)
}

/// Returns the schema of the envelope, with the members that each action requires.
fn envelope_schema(callables: &Callables) -> Value {
    let mut actions = vec![NORMAL];
    if !callables.is_empty() {
        actions.push(USE_TOOL);
    }
    if !callables.agents.is_empty() {
        actions.push(AGENT_CALL);
    }
    actions.push(REFINEMENT);
    let needs = |action: &str, required: Value| {
        json!({
            "if": {"properties": {"action": {"const": action}}, "required": ["action"]},
            "then": {"required": required},
        })
    };
    json!({
        "type": "object",
        "properties": {
            "action": {"type": "string", "enum": actions},
            "reasoning": {"type": "string"},
            "content": {"type": "string"},
            "tool": {"type": "string"},
            "parameters": {"type": "object"},
            "target_agent": {"type": "string"},
        },
        "required": ["action", "reasoning", "content"],
        "allOf": [needs(USE_TOOL, json!(["tool", "parameters"])), needs(AGENT_CALL, json!(["target_agent"]))],
    })
}

/// The actions that are allowed in a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AllowedActions {
    /// All actions.
    Anything,
    /// Only calls.
    Call,
    /// Only the last action.
    End,
}

/// Returns the envelope for backends that enforce schemas: one form per action, with the parameters
/// of each tool and the contract filled in.
pub(crate) fn action_schema(callables: &Callables, result: Option<&Value>, allowed: AllowedActions) -> Value {
    let form = |action: &str, more: Value| {
        let mut properties = Map::new();
        properties.insert("action".to_owned(), json!({"const": action}));
        properties.insert("reasoning".to_owned(), json!({"type": "string"}));
        properties.insert("content".to_owned(), json!({"type": "string"}));
        properties.extend(more.as_object().cloned().unwrap_or_default());
        let required: Vec<String> = properties.keys().cloned().collect();
        json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
    };
    let mut forms = Vec::new();
    let tools = if allowed == AllowedActions::End { [].as_slice() } else { &callables.list };
    let agents = if allowed == AllowedActions::End { [].as_slice() } else { &callables.agents };
    for (index, callable) in tools.iter().enumerate() {
        let parameters = with_own_id(&callable.parameters, &format!("tool-{index}"));
        forms.push(form(USE_TOOL, json!({"tool": {"const": callable.name}, "parameters": parameters})));
    }
    for (index, agent) in agents.iter().enumerate() {
        let mut more = json!({"target_agent": {"const": agent.name}});
        if let Some(schema) = &agent.parameters_schema {
            more["parameters"] = with_own_id(schema, &format!("agent-{index}"));
        }
        forms.push(form(AGENT_CALL, more));
    }
    let last = match result {
        Some(schema) => json!({"parameters": with_own_id(schema, "result")}),
        None => json!({}),
    };
    if allowed != AllowedActions::Call {
        forms.push(form(NORMAL, last));
    }
    json!({"anyOf": forms})
}

/// Returns a schema that can be nested in another one: an `$id` keeps its references local.
fn with_own_id(schema: &Value, name: &str) -> Value {
    let mut schema = schema.clone();
    let text = schema.to_string();
    let refers = ["\"$ref\"", "\"$dynamicRef\"", "\"$recursiveRef\""].iter().any(|word| text.contains(word));
    if let Value::Object(keywords) = &mut schema
        && refers
        && !keywords.contains_key("$id")
    {
        keywords.insert("$id".to_owned(), json!(format!("slipform:{name}")));
    }
    schema
}

/// Returns the action of a valid envelope.
pub(crate) fn parse_action(
    envelope: &Value,
    (agents, context): (&[AgentCard], &DelegationContext),
) -> EnvelopeAction {
    let text = |name: &str| envelope[name].as_str().unwrap_or_default().to_owned();
    let parameters = envelope.get("parameters").and_then(Value::as_object);
    match envelope["action"].as_str() {
        Some(USE_TOOL) => {
            let arguments = Value::Object(parameters.cloned().unwrap_or_default()).to_string();
            let call = ToolCall { id: "act".to_owned(), name: text("tool"), arguments };
            EnvelopeAction::Call(call, CallForm::UseTool)
        }
        Some(AGENT_CALL) => {
            let target = text("target_agent");
            let card = agents.iter().find(|agent| agent.name == target.trim());
            let schema = card.and_then(|card| card.parameters_schema.as_ref());
            let arguments =
                delegation_arguments(target.trim(), (&text("content"), context), parameters, schema)
                    .to_string();
            let call = ToolCall { id: "act".to_owned(), name: START.to_owned(), arguments };
            EnvelopeAction::Call(call, CallForm::AgentCall)
        }
        _ => EnvelopeAction::Answer {
            content: text("content"),
            parameters: parameters.map(|parameters| Value::Object(parameters.clone())),
        },
    }
}

/// Returns the arguments that start an agent. An agent with a parameter schema receives the
/// parameters unchanged, and the content as its prompt if it takes one. For any other agent the
/// content is the prompt, and the parameters are start options. The prompt ends with the context, unless
/// its length is limited.
fn delegation_arguments(
    target: &str,
    (content, context): (&str, &DelegationContext),
    parameters: Option<&Map<String, Value>>,
    schema: Option<&Value>,
) -> Value {
    let mut given = parameters.cloned().unwrap_or_default();
    let Some(schema) = schema else {
        let is_empty = content.trim().is_empty();
        let prompt = if is_empty { content.to_owned() } else { with_context(content, context) };
        given.insert("agent_name".to_owned(), json!(target));
        given.insert("prompt".to_owned(), json!(prompt));
        return Value::Object(given);
    };
    let prompt = schema["properties"].get("prompt");
    if prompt.is_some() && !given.contains_key("prompt") && !content.trim().is_empty() {
        let is_limited = prompt
            .is_some_and(|prompt| ["maxLength", "enum", "pattern"].iter().any(|it| prompt.get(it).is_some()));
        let prompt = if is_limited { content.to_owned() } else { with_context(content, context) };
        given.insert("prompt".to_owned(), json!(prompt));
    }
    json!({"agent_name": target, "parameters": given})
}

fn with_context(content: &str, context: &DelegationContext) -> String {
    prompts::delegated(content, &context.task, &context.results)
}

/// Returns the message for an `AGENT_CALL` with these violations of the arguments that start an agent.
pub(crate) fn wrong_agent_call(errors: &[String]) -> String {
    let in_envelope = |error: &String| {
        let Some((name, rest)) = error
            .strip_prefix("$.")
            .map(|rest| rest.split_at(rest.find(['.', ':', '[']).unwrap_or(rest.len())))
        else {
            return format!("- {error}");
        };
        match name {
            "agent_name" => format!("- $.target_agent{rest}"),
            "prompt" => format!("- $.content{rest}"),
            "parameters" => format!("- {error}"),
            other => format!("- $.parameters.{other}{rest}"),
        }
    };
    let lines: Vec<String> = errors.iter().map(in_envelope).collect();
    format!(
        "The action {AGENT_CALL} is wrong, and no agent was called:\n{}\nWrite the action again, corrected.",
        lines.join("\n")
    )
}

/// Returns an envelope whose content is a text: models also write a result into it as it is.
pub(crate) fn with_text_content(mut envelope: Value) -> Option<Value> {
    let content = envelope.get_mut("content").filter(|content| content.is_object() || content.is_array())?;
    *content = content.to_string().into();
    Some(envelope)
}

/// Returns whether a value is an action, complete or not.
pub(crate) fn is_action(value: &Value) -> bool {
    value["action"].as_str().is_some_and(|action| ACTIONS.contains(&action))
}

/// Returns whether a model wrote the answer to its own call.
pub(crate) fn contains_return_action(text: &str) -> bool {
    text.contains(TOOL_RETURN) || text.contains(AGENT_RETURN)
}

/// Returns the result in a truncated last action.
pub(crate) fn partial_result(mut envelope: Value) -> Option<Value> {
    let is_last = matches!(envelope["action"].as_str(), Some(NORMAL | REFINEMENT));
    let result = is_last.then(|| envelope.get_mut("parameters").map(Value::take)).flatten();
    result.filter(Value::is_object)
}

/// Writes a call as an action, for a conversation that began under the other protocol.
pub(crate) fn call_as_action(call: &AnsweredCall) -> Value {
    use_tool(&call.name, &call.arguments)
}

/// Writes the action that calls a tool.
pub(crate) fn use_tool(name: &str, arguments: &str) -> Value {
    let parameters: Value = serde_json::from_str(arguments).unwrap_or_else(|_| json!({}));
    json!({"action": USE_TOOL, "reasoning": "", "content": "", "tool": name, "parameters": parameters})
}

/// Writes the action with the answer of a tool.
pub(crate) fn tool_return(name: &str, answer: &str) -> Value {
    json!({
        "action": TOOL_RETURN, "reasoning": format!("The result of the tool {name}"), "content": answer, "tool": name,
    })
}

/// Writes the answer to a call as an action.
pub(crate) fn return_action(call: &AnsweredCall, answer: &str) -> Value {
    match &call.child {
        Some((agent, session)) => {
            let mut envelope = json!({
                "action": AGENT_RETURN, "reasoning": format!("The answer of the agent {agent}"), "content": answer,
                "target_agent": agent,
            });
            if let Some(session) = session {
                envelope["session_id"] = json!(session);
            }
            envelope
        }
        None => tool_return(&call.name, answer),
    }
}

/// Writes a failure as an action.
pub(crate) fn failure(message: &str) -> Value {
    json!({
        "action": NORMAL,
        "reasoning": "An error occurred while processing the request",
        "content": format!("I encountered an error: {message}"),
    })
}

/// Returns the section that explains the protocol.
pub(crate) fn protocol_section(callables: &Callables, has_contract: bool, form: Form) -> String {
    let mut text = "## Actions\n\nEvery response is ONE JSON object with `action`, `reasoning` (why) and `content`. The \
                    actions are:\n"
        .to_owned();
    if !callables.is_empty() {
        text.push_str(&format!(
            "\n- {USE_TOOL}: `tool` names a tool, `parameters` holds its parameters. Its result comes back as \
             {TOOL_RETURN}."
        ));
    }
    if !callables.agents.is_empty() {
        text.push_str(&format!(
            "\n- {AGENT_CALL}: `target_agent` names an agent, `content` is the task for it. Its answer comes back as \
             {AGENT_RETURN}."
        ));
    }
    let last_action = if has_contract {
        format!(
            "\n- {NORMAL}: the end. `parameters` holds the result as an object, `content` a one-line summary."
        )
    } else {
        format!("\n- {NORMAL}: the end. `content` holds the answer.")
    };
    text.push_str(&last_action);
    text.push_str(&format!("\n- {REFINEMENT}: the same, when it improves an earlier answer."));
    if !callables.is_empty() {
        text.push_str("\n\n### Tools\n");
        for callable in &callables.list {
            let parameters = shown(&callable.parameters, form);
            let description = callable.description.trim();
            text.push_str(&format!("\n#### {}\n{description}\nparameters: {parameters}\n", callable.name));
        }
    }
    if !callables.agents.is_empty() {
        text.push_str("\n### Agents\n");
        let line = |agent: &AgentCard| {
            let schema = agent.parameters_schema.as_ref();
            let parameters = schema.map(|schema| format!(" `parameters`: {}", shown(schema, form)));
            format!("\n- {}: {}{}", agent.name, agent.description.trim(), parameters.unwrap_or_default())
        };
        text.extend(callables.agents.iter().map(line));
    }
    text.trim_end().to_owned()
}

/// Returns a parameter schema on one line, or as a skeleton.
fn shown(schema: &Value, form: Form) -> String {
    match form {
        Form::Json => schema.to_string(),
        Form::Compact => compact(schema),
    }
}
