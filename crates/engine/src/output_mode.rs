//! The modes of asking for structured output, and which ones to try on a backend, best first.

use slipform_types::{BackendInfo, BackendKind, Capabilities, Protocol, Strategy, StructuredOutput, Support};

/// A mode of asking for a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutputMode {
    /// No contract: the answer is text.
    Plain,
    /// The schema is at the end of the user message.
    Prompt,
    /// The schema is at the end of the system prompt.
    SystemPrompt,
    /// The model must call `submit_result`.
    Tool,
    /// `response_format: json_schema`.
    JsonSchema,
    /// `response_format: json_object`, with the schema for servers that accept one.
    JsonObject,
    /// The schema is compiled to a grammar that constrains every token.
    Grammar,
    /// The result is inside the one schema that the server forces on every reply.
    Universal,
}

impl OutputMode {
    /// Returns the name of the strategy in receipts.
    pub(crate) fn strategy(self) -> Option<&'static str> {
        match self {
            OutputMode::Plain => None,
            OutputMode::Prompt => Some("prompt"),
            OutputMode::SystemPrompt | OutputMode::Universal => Some("system_prompt"),
            OutputMode::Tool => Some("tool"),
            OutputMode::JsonSchema | OutputMode::JsonObject | OutputMode::Grammar => Some("native"),
        }
    }

    /// Returns whether the backend itself is asked to enforce the schema.
    pub(crate) fn is_native(self) -> bool {
        matches!(self, OutputMode::JsonSchema | OutputMode::JsonObject | OutputMode::Grammar)
    }

    /// Returns whether this mode can only return objects.
    pub(crate) fn wants_object(self) -> bool {
        matches!(
            self,
            OutputMode::JsonSchema | OutputMode::JsonObject | OutputMode::Tool | OutputMode::Universal
        )
    }
}

/// An output mode with the protocol for tool calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) mode: OutputMode,
    pub(crate) protocol: Protocol,
}

/// Returns the routes to try on a backend, in order. The list is never empty.
///
/// - `strategy` is the strategy of the contract, `None` without a contract.
/// - `protocol` is the protocol of the agent, `None` if it has nothing to call.
pub(crate) fn routes(
    strategy: Option<Strategy>,
    protocol: Option<Protocol>,
    backend: &BackendInfo,
) -> Vec<Route> {
    let modes = strategy.map_or_else(|| vec![OutputMode::Plain], |strategy| modes(strategy, backend));
    let with_tools = |mode: OutputMode| Route { mode, protocol: Protocol::Tools };
    let with_actions = |mode: OutputMode| Route { mode, protocol: Protocol::Actions };
    match protocol {
        None => modes.into_iter().map(with_tools).collect(),
        Some(Protocol::Tools) if calls_tools(backend) => {
            let is_explicit = strategy.unwrap_or_default() != Strategy::Auto;
            let submits =
                matches!(backend.structured_output, StructuredOutput::Auto | StructuredOutput::Tool);
            let first = match strategy {
                Some(Strategy::Auto) if submits && backend.kind != BackendKind::Embedded => OutputMode::Tool,
                _ => modes[0],
            };
            // An explicit strategy has no fallback. Otherwise the action protocol is tried when
            // tool calls fail.
            let fallback = if is_explicit { Vec::new() } else { envelope_modes(Strategy::Auto, backend) };
            [with_tools(first)].into_iter().chain(fallback.into_iter().map(with_actions)).collect()
        }
        Some(_) => {
            envelope_modes(strategy.unwrap_or_default(), backend).into_iter().map(with_actions).collect()
        }
    }
}

/// Returns the routes to try for a subtask plan: a tool call where the backend supports it, then its other
/// modes.
pub(crate) fn subtask_plan_routes(backend: &BackendInfo) -> Vec<Route> {
    let may_call = matches!(backend.structured_output, StructuredOutput::Auto | StructuredOutput::Tool);
    let calls = calls_tools(backend) && may_call && backend.kind != BackendKind::Embedded;
    let mut others = modes(Strategy::Auto, backend);
    others.retain(|mode| !calls || *mode != OutputMode::Tool);
    others.dedup();
    let modes = calls.then_some(OutputMode::Tool).into_iter().chain(others);
    modes.map(|mode| Route { mode, protocol: Protocol::Tools }).collect()
}

/// Returns the routes to try for a call that the model has to make. Whatever the mode, the result is the arguments of the
/// call: an unprobed backend is asked for the call, others in the mode that they are known to enforce.
pub(crate) fn forced_call_routes(strategy: Strategy, backend: &BackendInfo) -> Vec<Route> {
    let is_unknown = backend.capabilities == Capabilities::default();
    if strategy == Strategy::Auto && is_unknown {
        return subtask_plan_routes(backend);
    }
    let modes = modes(strategy, backend).into_iter();
    modes.map(|mode| Route { mode, protocol: Protocol::Tools }).collect()
}

/// Returns whether a backend supports tool calls, as far as its capabilities are known.
fn calls_tools(backend: &BackendInfo) -> bool {
    let can = !matches!(backend.kind, BackendKind::Completions | BackendKind::Command);
    let does = !matches!(backend.capabilities.tools, Support::Refused | Support::Ignored);
    let may = backend.structured_output != StructuredOutput::Universal;
    can && (does || backend.kind == BackendKind::Embedded) && may
}

/// Returns the modes to try for the action envelope. A backend that enforces schemas may still
/// reject this one: it is a union of many forms.
fn envelope_modes(strategy: Strategy, backend: &BackendInfo) -> Vec<OutputMode> {
    let first = envelope_mode(strategy, backend);
    let fallback = (strategy == Strategy::Auto && first.is_native()).then_some(OutputMode::SystemPrompt);
    [first].into_iter().chain(fallback).collect()
}

/// Returns the first mode for the action envelope: the system prompt, unless the backend is known
/// to enforce schemas.
fn envelope_mode(strategy: Strategy, backend: &BackendInfo) -> OutputMode {
    match strategy {
        _ if backend.structured_output == StructuredOutput::Universal => OutputMode::Universal,
        Strategy::Prompt => OutputMode::Prompt,
        Strategy::Native => native_mode(backend),
        _ if backend.kind == BackendKind::Embedded => OutputMode::Grammar,
        Strategy::Auto if backend.capabilities.json_schema == Support::Enforced => OutputMode::JsonSchema,
        Strategy::Auto | Strategy::SystemPrompt | Strategy::Tool => OutputMode::SystemPrompt,
    }
}

/// Returns the modes to try on a backend, in order. The list is never empty.
fn modes(strategy: Strategy, backend: &BackendInfo) -> Vec<OutputMode> {
    match strategy {
        // Such a server returns its one form for every request.
        _ if backend.structured_output == StructuredOutput::Universal
            && backend.kind != BackendKind::Embedded =>
        {
            vec![OutputMode::Universal]
        }
        Strategy::Prompt => vec![OutputMode::Prompt],
        Strategy::SystemPrompt => vec![OutputMode::SystemPrompt],
        Strategy::Tool => vec![OutputMode::Tool],
        Strategy::Native => vec![native_mode(backend)],
        Strategy::Auto => match backend.structured_output {
            StructuredOutput::JsonSchema | StructuredOutput::JsonObject
                if backend.kind == BackendKind::Embedded =>
            {
                modes_from_capabilities(backend)
            }
            StructuredOutput::Universal => vec![OutputMode::Universal],
            StructuredOutput::Prompt => vec![OutputMode::Prompt],
            StructuredOutput::JsonSchema => vec![OutputMode::JsonSchema, OutputMode::Prompt],
            StructuredOutput::JsonObject => vec![OutputMode::JsonObject, OutputMode::Prompt],
            StructuredOutput::Tool => vec![OutputMode::Tool, OutputMode::Prompt],
            StructuredOutput::Auto => modes_from_capabilities(backend),
        },
    }
}

/// Returns the native mode of a backend: the form that it is known to enforce, otherwise
/// `json_schema`.
fn native_mode(backend: &BackendInfo) -> OutputMode {
    if backend.kind == BackendKind::Embedded {
        return OutputMode::Grammar;
    }
    let found = &backend.capabilities;
    let object_only = found.json_object == Support::Enforced && found.json_schema != Support::Enforced;
    if backend.structured_output == StructuredOutput::JsonObject || object_only {
        OutputMode::JsonObject
    } else {
        OutputMode::JsonSchema
    }
}

/// Returns the best mode that the capabilities support, followed by `Prompt`. A model that answers neither is
/// asked in the other modes that the backend may support, and then by `Prompt` again.
fn modes_from_capabilities(backend: &BackendInfo) -> Vec<OutputMode> {
    let found = &backend.capabilities;
    let first = match backend.kind {
        BackendKind::Embedded => Some(OutputMode::Grammar),
        BackendKind::Command => return vec![OutputMode::SystemPrompt],
        BackendKind::Completions if found.json_schema == Support::Enforced => Some(OutputMode::JsonSchema),
        BackendKind::Completions => None,
        _ if found.json_schema == Support::Enforced => Some(OutputMode::JsonSchema),
        _ if found.json_object == Support::Enforced => Some(OutputMode::JsonObject),
        _ if found.forced_tools == Support::Enforced => Some(OutputMode::Tool),
        _ if found.json_schema == Support::Accepted => Some(OutputMode::JsonSchema),
        _ if found.forced_tools == Support::Accepted => Some(OutputMode::Tool),
        _ if found.json_schema != Support::Unknown => None,
        // The backend was never probed: assume the usual support of its kind.
        BackendKind::Anthropic => Some(OutputMode::Tool),
        BackendKind::OpenAi | BackendKind::Replay => Some(OutputMode::JsonSchema),
    };
    let others = untried_modes(backend, first);
    let again = (!others.is_empty()).then_some(OutputMode::Prompt);
    first.into_iter().chain([OutputMode::Prompt]).chain(others).chain(again).collect()
}

/// Returns the modes besides `first` that a backend may support, as far as its capabilities are known.
fn untried_modes(backend: &BackendInfo, first: Option<OutputMode>) -> Vec<OutputMode> {
    let is_known_to_fail = |support: Support| matches!(support, Support::Refused | Support::Ignored);
    let found = &backend.capabilities;
    let mut modes = Vec::new();
    if matches!(backend.kind, BackendKind::OpenAi | BackendKind::Anthropic | BackendKind::Replay) {
        let is_native = first.is_some_and(OutputMode::is_native);
        if !is_native && !is_known_to_fail(found.json_schema) {
            modes.push(OutputMode::JsonSchema);
        }
        let may_call = !is_known_to_fail(found.tools) && found.forced_tools != Support::Refused;
        if first != Some(OutputMode::Tool) && may_call {
            modes.push(OutputMode::Tool);
        }
    }
    modes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backend(kind: BackendKind, capabilities: Capabilities) -> BackendInfo {
        BackendInfo {
            name: "b".into(),
            kind,
            model: "m".into(),
            structured_output: StructuredOutput::Auto,
            dialect: "generic".into(),
            capabilities,
            small: false,
            max_tokens: None,
        }
    }

    #[test]
    fn auto_uses_supported_mode_then_prompt_then_untried_modes() {
        use OutputMode::{JsonSchema, Prompt, Tool};
        let auto = |kind, capabilities| modes(Strategy::Auto, &backend(kind, capabilities));
        let unknown = Capabilities::default();
        assert_eq!(auto(BackendKind::OpenAi, unknown), [JsonSchema, Prompt, Tool, Prompt]);
        assert_eq!(auto(BackendKind::Anthropic, unknown), [Tool, Prompt, JsonSchema, Prompt]);
        assert_eq!(auto(BackendKind::Completions, unknown), [OutputMode::Prompt]);
        let ignored = Capabilities {
            json_schema: Support::Ignored,
            json_object: Support::Ignored,
            tools: Support::Ignored,
            forced_tools: Support::Refused,
        };
        assert_eq!(auto(BackendKind::OpenAi, ignored), [OutputMode::Prompt]);
        let forced = Capabilities { forced_tools: Support::Enforced, ..ignored };
        assert_eq!(auto(BackendKind::OpenAi, forced), [OutputMode::Tool, OutputMode::Prompt]);
        let object = Capabilities { json_object: Support::Enforced, ..forced };
        assert_eq!(auto(BackendKind::OpenAi, object), [OutputMode::JsonObject, OutputMode::Prompt]);
        assert_eq!(modes(Strategy::Native, &backend(BackendKind::OpenAi, object)), [OutputMode::JsonObject]);
    }
}
