//! Lists and shows the agents of a coordinator.

use anyhow::Result;
use serde_json::{Value, json};
use slipform_api::{AgentView, Client};
use slipform_types::Blueprint;

use super::{contract, describe};
use crate::exit::Exit;
use crate::{backends, coordinator, output};

pub(super) fn list(client: &Client, as_json: bool) -> Result<Exit> {
    let agents: Vec<AgentView> = backends::runtime()?.block_on(client.get("agents"))?;
    if as_json {
        output::data(&agents.iter().map(summary).collect::<Value>())?;
        return Ok(print_problems(&agents));
    }
    let mut rows = Vec::new();
    for agent in &agents {
        if let Some(blueprint) = blueprint(agent)? {
            let description = blueprint.description.trim().to_owned();
            rows.push(vec![
                agent.name.clone(),
                contract(&blueprint).to_owned(),
                agent.source.clone(),
                description,
            ]);
        }
    }
    output::table(["NAME", "RESULT", "SOURCE", "DESCRIPTION"], rows)?;
    Ok(print_problems(&agents))
}

pub(super) fn show(client: &Client, name: &str, as_json: bool) -> Result<Exit> {
    let path = format!("agents/{}", coordinator::percent_encode(name));
    let agent: AgentView = backends::runtime()?.block_on(client.get(&path))?;
    let exit = print_problems(std::slice::from_ref(&agent));
    match blueprint(&agent)? {
        Some(blueprint) if as_json => output::data(&serde_json::to_value(&blueprint)?)?,
        Some(blueprint) => drop(describe(&blueprint, agent.path.as_deref().unwrap_or(&agent.source))?),
        None => {}
    }
    Ok(exit)
}

/// Returns the active blueprint, or `None` if no valid version of the file was ever read.
fn blueprint(agent: &AgentView) -> Result<Option<Blueprint>> {
    Ok(agent.blueprint.clone().map(serde_json::from_value).transpose()?)
}

/// Returns the same keys as the local summary, plus the agent's source.
fn summary(agent: &AgentView) -> Value {
    let field = |key: &str| agent.blueprint.as_ref().map(|blueprint| blueprint[key].clone());
    json!({
        "name": agent.name,
        "title": field("title"),
        "description": field("description"),
        "type": field("type"),
        "source": agent.source,
        "file": agent.path,
        "valid": agent.problems.is_empty(),
        "problems": agent.problems,
        "warnings": [],
    })
}

/// Prints the problems of each agent with its file.
fn print_problems(agents: &[AgentView]) -> Exit {
    let mut exit = Exit::Valid;
    for agent in agents.iter().filter(|agent| !agent.problems.is_empty()) {
        let origin = agent.path.as_deref().unwrap_or(&agent.name);
        output::lines(agent.problems.iter().map(|problem| format!("{origin}: {problem}")));
        exit = Exit::Usage;
    }
    exit
}
