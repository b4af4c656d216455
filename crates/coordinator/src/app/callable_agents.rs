//! Checks the agents that a run may use before it is submitted.

use std::collections::HashSet;
use std::sync::Arc;

use slipform_agents::unknown_tool;
use slipform_api::{Code, Error};
use slipform_types::{ALL_AGENTS, Blueprint};

use super::App;

impl App {
    /// Checks that all agents exist that a run may call, directly or indirectly, and that all their tools are known. A
    /// model would otherwise find out in the middle of the run.
    pub(super) async fn check_callable_agents(&self, root: &Arc<Blueprint>) -> Result<(), Error> {
        check_tools(root)?;
        let mut seen = HashSet::from([root.name.clone()]);
        let mut pending = vec![root.clone()];
        while let Some(blueprint) = pending.pop() {
            for (location, name) in named_agents(&blueprint) {
                if !seen.insert(name.to_owned()) {
                    continue;
                }
                let other = self.blueprint(name).await.and_then(|other| {
                    check_tools(&other)?;
                    Ok(other)
                });
                match other {
                    Ok(other) => pending.push(other),
                    Err(error) if error.code.is_passing() || error.code.status() >= 500 => return Err(error),
                    Err(error) => {
                        let message = format!("agent `{}`, {location}: {}", blueprint.name, error.message);
                        return Err(Error { code: Code::InvalidAgent, message, details: error.details });
                    }
                }
            }
        }
        Ok(())
    }
}

/// Returns the agents that a blueprint names, each with its location in the blueprint.
fn named_agents(blueprint: &Blueprint) -> impl Iterator<Item = (String, &str)> {
    let named = blueprint.agents.iter().enumerate().filter(|(_, name)| *name != ALL_AGENTS);
    let named = named.map(|(index, name)| (format!("agents[{index}]"), name.as_str()));
    let scorer =
        blueprint.clarity.as_ref().map(|clarity| ("clarity.agent".to_owned(), clarity.agent.as_str()));
    named.chain(scorer)
}

fn check_tools(blueprint: &Blueprint) -> Result<(), Error> {
    match unknown_tool(blueprint) {
        None => Ok(()),
        Some((index, problem)) => {
            let message = format!("agent `{}`, tools[{index}]: {problem}", blueprint.name);
            Err(Error::new(Code::InvalidAgent, message))
        }
    }
}
