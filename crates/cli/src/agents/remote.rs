//! The agents of a coordinator.

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
        return Ok(complain(&agents));
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
    Ok(complain(&agents))
}

pub(super) fn show(client: &Client, name: &str, as_json: bool) -> Result<Exit> {
    let path = format!("agents/{}", coordinator::encoded(name));
    let agent: AgentView = backends::runtime()?.block_on(client.get(&path))?;
    let exit = complain(std::slice::from_ref(&agent));
    match blueprint(&agent)? {
        Some(blueprint) if as_json => output::data(&serde_json::to_value(&blueprint)?)?,
        Some(blueprint) => drop(describe(&blueprint, agent.path.as_deref().unwrap_or(&agent.source))?),
        None => {}
    }
    Ok(exit)
}

/// The blueprint that is in force; none where the file never was right.
fn blueprint(agent: &AgentView) -> Result<Option<Blueprint>> {
    Ok(agent.blueprint.clone().map(serde_json::from_value).transpose()?)
}

/// An agent with the keys that one of this project has, and where it comes from.
fn summary(agent: &AgentView) -> Value {
    let part = |key: &str| agent.blueprint.as_ref().map(|blueprint| blueprint[key].clone());
    json!({
        "name": agent.name,
        "title": part("title"),
        "description": part("description"),
        "type": part("type"),
        "source": agent.source,
        "file": agent.path,
        "valid": agent.problems.is_empty(),
        "problems": agent.problems,
        "warnings": [],
    })
}

/// Says what is wrong with which file.
fn complain(agents: &[AgentView]) -> Exit {
    let mut exit = Exit::Valid;
    for agent in agents.iter().filter(|agent| !agent.problems.is_empty()) {
        let origin = agent.path.as_deref().unwrap_or(&agent.name);
        output::lines(agent.problems.iter().map(|problem| format!("{origin}: {problem}")));
        exit = Exit::Usage;
    }
    exit
}
