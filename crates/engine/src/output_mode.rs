//! The ways to ask for a structured result, and which of them to try on a backend, best first.

use slipform_types::{BackendInfo, BackendKind, Protocol, Strategy, StructuredOutput, Support};

/// One mode to ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutputMode {
    /// No contract: text is wanted.
    Plain,
    /// The schema at the end of the user message.
    Prompt,
    /// The schema at the end of the system prompt.
    SystemPrompt,
    /// A forced call of `submit_result`.
    Tool,
    /// `response_format: json_schema`.
    JsonSchema,
    /// `response_format: json_object`, with the schema along for servers that take it.
    JsonObject,
    /// The schema as a grammar under which every token is chosen.
    Grammar,
    /// Inside the one schema that the server forces on every reply.
    Universal,
}

impl OutputMode {
    /// The strategy's name in receipts.
    pub(crate) fn strategy(self) -> Option<&'static str> {
        match self {
            OutputMode::Plain => None,
            OutputMode::Prompt => Some("prompt"),
            OutputMode::SystemPrompt | OutputMode::Universal => Some("system_prompt"),
            OutputMode::Tool => Some("tool"),
            OutputMode::JsonSchema | OutputMode::JsonObject | OutputMode::Grammar => Some("native"),
        }
    }

    /// Whether the backend itself is asked to keep to the schema.
    pub(crate) fn is_native(self) -> bool {
        matches!(self, OutputMode::JsonSchema | OutputMode::JsonObject | OutputMode::Grammar)
    }

    /// Whether only objects can be asked for this mode.
    pub(crate) fn wants_object(self) -> bool {
        matches!(
            self,
            OutputMode::JsonSchema | OutputMode::JsonObject | OutputMode::Tool | OutputMode::Universal
        )
    }
}

/// A mode to ask, and how the model calls tools meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) mode: OutputMode,
    pub(crate) protocol: Protocol,
}

/// The routes to try on a backend, in order. Never empty.
///
/// - `strategy` is the contract's, none without one.
/// - `protocol` is the agent's, none where it has nothing to call.
pub(crate) fn routes(
    strategy: Option<Strategy>,
    protocol: Option<Protocol>,
    backend: &BackendInfo,
) -> Vec<Route> {
    let ways = strategy.map_or_else(|| vec![OutputMode::Plain], |strategy| ways(strategy, backend));
    let calling = |mode: OutputMode| Route { mode, protocol: Protocol::Tools };
    let tools = |mode: OutputMode| Route { mode, protocol: Protocol::Actions };
    match protocol {
        None => ways.into_iter().map(calling).collect(),
        Some(Protocol::Tools) if calls_tools(backend) => {
            let asked = strategy.unwrap_or_default() != Strategy::Auto;
            let submits =
                matches!(backend.structured_output, StructuredOutput::Auto | StructuredOutput::Tool);
            let first = match strategy {
                Some(Strategy::Auto) if submits && backend.kind != BackendKind::Embedded => OutputMode::Tool,
                _ => ways[0],
            };
            // Whoever names a strategy gets that one; else tools in words are what is left when calling fails.
            let words = if asked { Vec::new() } else { envelope_ways(Strategy::Auto, backend) };
            [calling(first)].into_iter().chain(words.into_iter().map(tools)).collect()
        }
        Some(_) => envelope_ways(strategy.unwrap_or_default(), backend).into_iter().map(tools).collect(),
    }
}

/// The routes to try for a plan: a call wherever there is calling, and what else the backend does after that.
pub(crate) fn planning_routes(backend: &BackendInfo) -> Vec<Route> {
    let may_call = matches!(backend.structured_output, StructuredOutput::Auto | StructuredOutput::Tool);
    let calls = calls_tools(backend) && may_call && backend.kind != BackendKind::Embedded;
    let others = ways(Strategy::Auto, backend).into_iter().filter(|mode| !calls || *mode != OutputMode::Tool);
    let ways = calls.then_some(OutputMode::Tool).into_iter().chain(others);
    ways.map(|mode| Route { mode, protocol: Protocol::Tools }).collect()
}

/// Whether a backend has tool calling, as far as is known.
fn calls_tools(backend: &BackendInfo) -> bool {
    let can = !matches!(backend.kind, BackendKind::Completions | BackendKind::Command);
    let does = !matches!(backend.capabilities.tools, Support::Refused | Support::Ignored);
    let may = backend.structured_output != StructuredOutput::Universal;
    can && (does || backend.kind == BackendKind::Embedded) && may
}

/// The ways to ask for the action envelope. A backend that enforces schemas may stumble over this one: there are many
/// forms in it, and some take no union.
fn envelope_ways(strategy: Strategy, backend: &BackendInfo) -> Vec<OutputMode> {
    let first = envelope_way(strategy, backend);
    let words = (strategy == Strategy::Auto && first.is_native()).then_some(OutputMode::SystemPrompt);
    [first].into_iter().chain(words).collect()
}

/// How the action envelope is asked for: in words, unless the backend is known to enforce schemas.
fn envelope_way(strategy: Strategy, backend: &BackendInfo) -> OutputMode {
    match strategy {
        _ if backend.structured_output == StructuredOutput::Universal => OutputMode::Universal,
        Strategy::Prompt => OutputMode::Prompt,
        Strategy::Native => native(backend),
        _ if backend.kind == BackendKind::Embedded => OutputMode::Grammar,
        Strategy::Auto if backend.capabilities.json_schema == Support::Enforced => OutputMode::JsonSchema,
        Strategy::Auto | Strategy::SystemPrompt | Strategy::Tool => OutputMode::SystemPrompt,
    }
}

/// The ways to try on a backend, in order. Never empty.
fn ways(strategy: Strategy, backend: &BackendInfo) -> Vec<OutputMode> {
    match strategy {
        // Whatever is asked for, such a server answers in its one form.
        _ if backend.structured_output == StructuredOutput::Universal
            && backend.kind != BackendKind::Embedded =>
        {
            vec![OutputMode::Universal]
        }
        Strategy::Prompt => vec![OutputMode::Prompt],
        Strategy::SystemPrompt => vec![OutputMode::SystemPrompt],
        Strategy::Tool => vec![OutputMode::Tool],
        Strategy::Native => vec![native(backend)],
        Strategy::Auto => match backend.structured_output {
            StructuredOutput::JsonSchema | StructuredOutput::JsonObject
                if backend.kind == BackendKind::Embedded =>
            {
                by_knowledge(backend)
            }
            StructuredOutput::Universal => vec![OutputMode::Universal],
            StructuredOutput::Prompt => vec![OutputMode::Prompt],
            StructuredOutput::JsonSchema => vec![OutputMode::JsonSchema, OutputMode::Prompt],
            StructuredOutput::JsonObject => vec![OutputMode::JsonObject, OutputMode::Prompt],
            StructuredOutput::Tool => vec![OutputMode::Tool, OutputMode::Prompt],
            StructuredOutput::Auto => by_knowledge(backend),
        },
    }
}

/// What "native" means on a backend: the form that it was found to enforce, else the common one.
fn native(backend: &BackendInfo) -> OutputMode {
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

/// Native or tool where that is known to be real, words otherwise; words are the last resort always.
fn by_knowledge(backend: &BackendInfo) -> Vec<OutputMode> {
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
        // Never probed: what servers of this kind usually have.
        BackendKind::Anthropic => Some(OutputMode::Tool),
        BackendKind::OpenAi | BackendKind::Replay => Some(OutputMode::JsonSchema),
    };
    first.into_iter().chain([OutputMode::Prompt]).collect()
}

#[cfg(test)]
mod tests {
    use slipform_types::Capabilities;

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
    fn auto_takes_what_is_real_and_ends_in_words() {
        let auto = |kind, capabilities| ways(Strategy::Auto, &backend(kind, capabilities));
        let unknown = Capabilities::default();
        assert_eq!(auto(BackendKind::OpenAi, unknown), [OutputMode::JsonSchema, OutputMode::Prompt]);
        assert_eq!(auto(BackendKind::Anthropic, unknown), [OutputMode::Tool, OutputMode::Prompt]);
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
        assert_eq!(ways(Strategy::Native, &backend(BackendKind::OpenAi, object)), [OutputMode::JsonObject]);
    }
}
