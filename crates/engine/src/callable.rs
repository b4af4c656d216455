//! The tools and agents that a model may call, under the names that backends accept.

use std::collections::HashSet;

use serde_json::Value;
use slipform_extract::{Extraction, Mode, Options, Outcome, extract};
use slipform_schema::{Schema, restore};
use slipform_types::{AgentCard, Repair, Tool, ToolDefinition};

use crate::contract::COMPILED;
use crate::delegation;
use crate::error::Error;
use crate::reply::{DISCARDING_REPAIRS, SUBMIT, omitted_null, repair};

/// The longest tool name that every backend accepts.
const WIRE_BYTES_MAX: usize = 64;

/// The effect of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallableKind {
    /// Calls a tool.
    Tool,
    /// Starts an agent.
    Start,
    /// Resumes an agent.
    Resume,
    /// Ends the run with the call: the caller executes the tool.
    Client,
}

/// A tool or delegation tool that a model may call.
#[derive(Debug, Clone)]
pub(crate) struct Callable {
    /// The name in blueprints and journals, such as `fs:read`.
    pub(crate) name: String,
    /// The name in requests, such as `fs_read`. Every backend accepts it.
    pub(crate) wire: String,
    pub(crate) description: String,
    pub(crate) parameters: Value,
    pub(crate) kind: CallableKind,
    /// Whether a client asks for the backend's own strict mode.
    is_strict: bool,
    schema: Schema,
}

/// All callables of a run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Callables {
    pub(crate) list: Vec<Callable>,
    pub(crate) agents: Vec<AgentCard>,
    hashes: Vec<(String, String)>,
}

impl Callables {
    pub(crate) fn of(tools: &[ToolDefinition], agents: &[AgentCard]) -> Result<Callables, Error> {
        let delegated = delegation::tools(agents);
        // The names of built-in tools are reserved, whatever tool names MCP servers use.
        let own = delegated.iter().map(|(_, name, ..)| name.clone());
        let mut taken: HashSet<String> = own.chain([SUBMIT.to_owned()]).collect();
        let mut list = Vec::new();
        let all = tools
            .iter()
            .map(|tool| {
                (CallableKind::Tool, tool.name.clone(), tool.description.clone(), tool.parameters.clone())
            })
            .chain(delegated);
        for (kind, name, description, parameters) in all {
            let schema = COMPILED.compile(&parameters)?;
            let wire = if kind == CallableKind::Tool { wire_name(&name, &mut taken) } else { name.clone() };
            list.push(Callable { name, wire, description, parameters, kind, is_strict: false, schema });
        }
        let hashes = tools.iter().map(|tool| (tool.name.clone(), tool.hash.clone())).collect();
        Ok(Callables { list, agents: agents.to_vec(), hashes })
    }

    /// Returns the callables of a client that executes its tools.
    pub(crate) fn of_client(tools: &[Tool], has_contract: bool) -> Result<Callables, Error> {
        let mut taken: HashSet<String> = has_contract.then(|| SUBMIT.to_owned()).into_iter().collect();
        let callable = |tool: &Tool| {
            Ok(Callable {
                name: tool.name.clone(),
                wire: wire_name(&tool.name, &mut taken),
                description: tool.description.clone(),
                schema: COMPILED.compile(&tool.parameters)?,
                parameters: tool.parameters.clone(),
                kind: CallableKind::Client,
                is_strict: tool.strict,
            })
        };
        let list = tools.iter().map(callable).collect::<Result<_, Error>>()?;
        Ok(Callables { list, ..Callables::default() })
    }

    /// Returns whether the caller executes the tools.
    pub(crate) fn are_of_client(&self) -> bool {
        self.list.iter().any(|callable| callable.kind == CallableKind::Client)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Finds a callable by either of its names.
    pub(crate) fn find(&self, name: &str) -> Option<&Callable> {
        let name = name.trim();
        self.list.iter().find(|callable| callable.name == name || callable.wire == name)
    }

    /// Returns the name of a tool whose definition changed since the run began.
    pub(crate) fn changed(&self, tools: &[ToolDefinition]) -> Option<String> {
        let now = |name: &str| tools.iter().find(|tool| tool.name == name).map(|tool| tool.hash.as_str());
        self.hashes.iter().find(|(name, hash)| now(name) != Some(hash)).map(|(name, _)| name.clone())
    }

    /// Returns the message for a call of an unknown tool.
    pub(crate) fn unknown(&self, name: &str, wire: bool, has_contract: bool) -> String {
        if !wire && name == SUBMIT {
            return "There is no tool for the result: end with the action NORMAL_RESPONSE.".to_owned();
        }
        let known: Vec<&str> = self
            .list
            .iter()
            .map(|callable| if wire { callable.wire.as_str() } else { callable.name.as_str() })
            .chain((wire && has_contract).then_some(SUBMIT))
            .collect();
        if known.is_empty() {
            format!("There is no tool '{name}', nor any other. Answer without tools.")
        } else {
            format!("There is no tool '{name}'. The tools are: {}.", known.join(", "))
        }
    }

    /// Returns the tools for a request.
    pub(crate) fn request_tools(&self) -> impl Iterator<Item = Tool> {
        self.list.iter().map(|callable| Tool {
            name: callable.wire.clone(),
            description: callable.description.clone(),
            parameters: callable.parameters.clone(),
            strict: callable.is_strict,
        })
    }
}

impl Callable {
    /// Parses arguments. Returns the violations if they do not satisfy the schema of the tool.
    pub(crate) fn read(&self, arguments: &str) -> Result<Value, Vec<String>> {
        self.read_with(arguments, &Options::default()).map(|(value, _)| value)
    }

    /// Like [`Callable::read`], with options and with the repairs.
    pub(crate) fn read_with(
        &self,
        arguments: &str,
        options: &Options,
    ) -> Result<(Value, Vec<Repair>), Vec<String>> {
        // Some servers send an empty text or null as the arguments of a tool without parameters.
        let text = if matches!(arguments.trim(), "" | "null") { "{}" } else { arguments };
        Err(match extract(text, Some(&self.schema), options) {
            // A call must be a single document. The engine does not guess which of several
            // documents was meant.
            Outcome::Valid(extraction) if discards_text(&extraction) => {
                vec!["$: there is more than one JSON document, or text around it".to_owned()]
            }
            Outcome::Valid(extraction) => {
                return Ok((extraction.value, extraction.repairs.into_iter().map(repair).collect()));
            }
            Outcome::Invalid { candidate, violations } => {
                let mut value = candidate.value;
                // Models without optional arguments write null for an omitted one. A lossy repair is a violation of its own in
                // strict mode, which the schema does not know.
                let is_unambiguous =
                    options.mode == Mode::Lenient || candidate.repairs.iter().all(|it| it.kind.is_lossless());
                let removed =
                    if is_unambiguous { restore(self.schema.source(), &mut value) } else { Vec::new() };
                let violations = if removed.is_empty() { violations } else { self.schema.violations(&value) };
                if violations.is_empty() {
                    let repairs = candidate.repairs.into_iter().map(repair);
                    return Ok((value, repairs.chain(removed.into_iter().map(omitted_null)).collect()));
                }
                violations.lines()
            }
            Outcome::NotFound { reason } => vec![format!("$: no JSON found ({reason})")],
            Outcome::TooLong { bytes, limit } => {
                vec![format!("$: {bytes} bytes, more than the {limit} that are read")]
            }
        })
    }

    /// Returns the message for a call with these violations.
    pub(crate) fn wrong_arguments(&self, errors: &[String]) -> String {
        let lines: Vec<String> = errors.iter().map(|error| format!("- {error}")).collect();
        format!(
            "The arguments of {} are wrong, and it was not called:\n{}\nCall it again with arguments that match its \
             schema.",
            self.name,
            lines.join("\n")
        )
    }
}

fn discards_text(extraction: &Extraction) -> bool {
    extraction.repairs.iter().any(|repair| DISCARDING_REPAIRS.contains(&repair.kind))
}

/// Returns an unused name of letters, digits, `_` and `-`.
fn wire_name(name: &str, taken: &mut HashSet<String>) -> String {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | '-');
    let plain: String =
        name.chars().map(|character| if is_plain(character) { character } else { '_' }).collect();
    let cut = |bytes: usize| plain.chars().take(bytes).collect::<String>();
    let mut wire = cut(WIRE_BYTES_MAX);
    let mut number = 2;
    while !taken.insert(wire.clone()) {
        let end = format!("_{number}");
        wire = cut(WIRE_BYTES_MAX - end.len()) + &end;
        number += 1;
    }
    wire
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wire_names_are_plain_short_and_unique() {
        let mut taken = HashSet::from([SUBMIT.to_owned()]);
        assert_eq!(wire_name("fs:read", &mut taken), "fs_read");
        assert_eq!(wire_name("fs_read", &mut taken), "fs_read_2");
        assert_eq!(wire_name("submit_result", &mut taken), "submit_result_2");
        let long = "x".repeat(100);
        assert_eq!(wire_name(&long, &mut taken), "x".repeat(64));
        assert_eq!(wire_name(&long, &mut taken), "x".repeat(62) + "_2");
    }
}
