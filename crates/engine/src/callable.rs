//! What a model may call: the tools of a run and the agents it may delegate to, by the names models know them by.

use std::collections::HashSet;

use serde_json::Value;
use slipform_extract::{Extraction, Outcome, extract};
use slipform_schema::{Schema, restore};
use slipform_types::{AgentCard, Tool, ToolDefinition};

use crate::contract::COMPILED;
use crate::delegation;
use crate::error::Error;
use crate::judge::{LEAVING_OUT, SUBMIT};

/// The longest tool name that every backend takes.
const WIRE_BYTES_MAX: usize = 64;

/// What a call does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A tool is called.
    Tool,
    /// Another agent is started.
    Start,
    /// Another agent goes on.
    Resume,
}

/// Something a model may call.
#[derive(Debug, Clone)]
pub(crate) struct Callable {
    /// The name that people know.
    pub(crate) name: String,
    /// The name that every backend takes.
    pub(crate) wire: String,
    pub(crate) description: String,
    pub(crate) parameters: Value,
    pub(crate) kind: Kind,
    schema: Schema,
}

/// Everything a model may call.
#[derive(Debug, Clone, Default)]
pub(crate) struct Callables {
    pub(crate) list: Vec<Callable>,
    pub(crate) agents: Vec<AgentCard>,
    hashes: Vec<(String, String)>,
}

impl Callables {
    pub(crate) fn of(tools: &[ToolDefinition], agents: &[AgentCard]) -> Result<Callables, Error> {
        let delegated = delegation::tools(agents);
        // Our own names are ours, whatever servers call their tools.
        let own = delegated.iter().map(|(_, name, ..)| name.clone());
        let mut taken: HashSet<String> = own.chain([SUBMIT.to_owned()]).collect();
        let mut list = Vec::new();
        let all = tools
            .iter()
            .map(|tool| (Kind::Tool, tool.name.clone(), tool.description.clone(), tool.parameters.clone()))
            .chain(delegated);
        for (kind, name, description, parameters) in all {
            let schema = COMPILED.compile(&parameters)?;
            let wire = if kind == Kind::Tool { wire(&name, &mut taken) } else { name.clone() };
            list.push(Callable { name, wire, description, parameters, kind, schema });
        }
        let hashes = tools.iter().map(|tool| (tool.name.clone(), tool.hash.clone())).collect();
        Ok(Callables { list, agents: agents.to_vec(), hashes })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// By the name that people know, or the one that backends take.
    pub(crate) fn find(&self, name: &str) -> Option<&Callable> {
        let name = name.trim();
        self.list.iter().find(|callable| callable.name == name || callable.wire == name)
    }

    /// The tool whose definition is not what it was when the run began.
    pub(crate) fn changed(&self, tools: &[ToolDefinition]) -> Option<String> {
        let now = |name: &str| tools.iter().find(|tool| tool.name == name).map(|tool| tool.hash.as_str());
        self.hashes.iter().find(|(name, hash)| now(name) != Some(hash)).map(|(name, _)| name.clone())
    }

    /// What a model hears that calls what there is not.
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
        match known.is_empty() {
            true => format!("There is no tool '{name}', nor any other. Answer without tools."),
            false => format!("There is no tool '{name}'. The tools are: {}.", known.join(", ")),
        }
    }

    /// The tools as a request shows them.
    pub(crate) fn shown(&self) -> impl Iterator<Item = Tool> {
        self.list.iter().map(|callable| Tool {
            name: callable.wire.clone(),
            description: callable.description.clone(),
            parameters: callable.parameters.clone(),
            strict: false,
        })
    }
}

impl Callable {
    /// The arguments as the model meant them, where they satisfy the tool's schema.
    pub(crate) fn read(&self, arguments: &str) -> Result<Value, String> {
        // A tool that takes nothing is called with nothing, by some servers in so many words.
        let text = if matches!(arguments.trim(), "" | "null") { "{}" } else { arguments };
        let errors = match extract(text, Some(&self.schema), &slipform_extract::Options::default()) {
            // A call is made of one document: which of several was meant, or what else was said, is not guessed.
            Outcome::Valid(extraction) if leaves_out(&extraction) => {
                vec!["$: there is more than one JSON document, or text around it".to_owned()]
            }
            Outcome::Valid(extraction) => return Ok(extraction.value),
            Outcome::Invalid { candidate, violations } => {
                let mut value = candidate.value;
                // Models that know no optional arguments say null for "left out".
                let restored = !restore(self.schema.source(), &mut value).is_empty();
                let violations = if restored { self.schema.violations(&value) } else { violations };
                if violations.is_empty() {
                    return Ok(value);
                }
                violations.lines()
            }
            Outcome::NotFound { reason } => vec![format!("$: no JSON found ({reason})")],
            Outcome::TooLong { bytes, limit } => {
                vec![format!("$: {bytes} bytes, more than the {limit} that are read")]
            }
        };
        let lines: Vec<String> = errors.iter().map(|error| format!("- {error}")).collect();
        let message = format!(
            "The arguments of {} are wrong, and it was not called:\n{}\nCall it again with arguments that match its \
             schema.",
            self.name,
            lines.join("\n")
        );
        Err(message)
    }
}

fn leaves_out(extraction: &Extraction) -> bool {
    extraction.repairs.iter().any(|repair| LEAVING_OUT.contains(&repair.kind))
}

/// A name of letters, digits, `_` and `-` that no other tool has.
fn wire(name: &str, taken: &mut HashSet<String>) -> String {
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
    fn names_on_the_wire_are_plain_short_and_different() {
        let mut taken = HashSet::from([SUBMIT.to_owned()]);
        assert_eq!(wire("fs:read", &mut taken), "fs_read");
        assert_eq!(wire("fs_read", &mut taken), "fs_read_2");
        assert_eq!(wire("submit_result", &mut taken), "submit_result_2");
        let long = "x".repeat(100);
        assert_eq!(wire(&long, &mut taken), "x".repeat(64));
        assert_eq!(wire(&long, &mut taken), "x".repeat(62) + "_2");
    }
}
