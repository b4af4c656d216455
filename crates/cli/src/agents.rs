//! `slipform agents`: lists, shows, validates and creates agents.

mod validate;

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};
use slipform_agents::{AGENTS_FOLDER, KB_AGENTS_FOLDER, load, shipped, starter};
use slipform_api::AgentView;
use slipform_types::Blueprint;

use crate::arguments::{Agents, AgentsCommand};
use crate::coordinator::Coordinator;
use crate::exit::Exit;
use crate::{backends, output};

pub(crate) fn run(arguments: &Agents) -> Result<Exit> {
    let project = Path::new("");
    match &arguments.command {
        AgentsCommand::List { server, json } => backends::runtime()?.block_on(async {
            let coordinator = Coordinator::open_to_read(server.as_deref()).await?;
            let mut agents = coordinator.api.agents().await?;
            // The project's own agents are what people look for.
            agents.sort_by_key(|agent| agent.source == "shipped");
            list(&agents, *json)
        }),
        AgentsCommand::Show { name, server, json } => backends::runtime()?.block_on(async {
            let coordinator = Coordinator::open_to_read(server.as_deref()).await?;
            show(&coordinator.api.agent(name).await?, *json)
        }),
        AgentsCommand::Validate { files, json } => {
            backends::runtime()?.block_on(validate::validate(project, files, *json))
        }
        AgentsCommand::Init { name } => init(project, name),
    }
}

fn list(agents: &[AgentView], as_json: bool) -> Result<Exit> {
    if as_json {
        output::data(&agents.iter().map(view_summary).collect::<Value>())?;
    } else {
        let mut rows = Vec::new();
        for agent in agents {
            if let Some(blueprint) = blueprint(agent)? {
                let description = blueprint.description.trim().to_owned();
                let (name, source) = (agent.name.clone(), agent.source.clone());
                rows.push(vec![name, contract(&blueprint).to_owned(), source, description]);
            }
        }
        output::table(["NAME", "RESULT", "SOURCE", "DESCRIPTION"], rows)?;
        if agents.iter().all(|agent| agent.source == "shipped") {
            output::lines([format!(
                "no agents in {AGENTS_FOLDER}/, only those that come with slipform; `slipform agents init NAME` creates one"
            )]);
        }
    }
    let exit = print_view_problems(agents);
    for agent in agents.iter().filter(|agent| agent.source != "shipped") {
        let origin = agent.path.as_deref().unwrap_or(&agent.name);
        output::lines(agent.warnings.iter().map(|warning| format!("{origin}: warning: {warning}")));
    }
    Ok(exit)
}

/// Returns the active blueprint, or `None` if no valid version of the file was ever read.
fn blueprint(agent: &AgentView) -> Result<Option<Blueprint>> {
    Ok(agent.blueprint().map(serde_json::from_value).transpose()?)
}

fn view_summary(agent: &AgentView) -> Value {
    let field = |key: &str| agent.definition.get(key);
    json!({
        "name": agent.name,
        "title": field("title"),
        "description": field("description"),
        "type": field("type"),
        "source": agent.source,
        "file": agent.path,
        "valid": agent.problems.is_empty(),
        "problems": agent.problems,
        "warnings": agent.warnings,
    })
}

/// Prints the problems of each agent with its file.
fn print_view_problems(agents: &[AgentView]) -> Exit {
    let mut exit = Exit::Valid;
    for agent in agents.iter().filter(|agent| !agent.problems.is_empty()) {
        let origin = agent.path.as_deref().unwrap_or(&agent.name);
        output::lines(agent.problems.iter().map(|problem| format!("{origin}: {problem}")));
        exit = Exit::Usage;
    }
    exit
}

/// Returns the kind of an agent's result for the list.
fn contract(agent: &Blueprint) -> &'static str {
    if agent.output_schema.is_some() || agent.output_schema_name.is_some() {
        "contract"
    } else if agent.default_output_schema.is_some() || agent.default_output_schema_name.is_some() {
        "default contract"
    } else {
        "text"
    }
}

fn show(agent: &AgentView, as_json: bool) -> Result<Exit> {
    let exit = print_view_problems(std::slice::from_ref(agent));
    match blueprint(agent)? {
        Some(blueprint) if as_json => output::data(&serde_json::to_value(&blueprint)?)?,
        Some(blueprint) => describe(&blueprint, agent.path.as_deref().unwrap_or(&agent.source))?,
        None => {}
    }
    Ok(exit)
}

/// Prints the parameters, result, tools and child agents of an agent.
fn describe(agent: &Blueprint, origin: &str) -> Result<()> {
    output::text(&format!("{} ({origin})", agent.name))?;
    if !agent.description.trim().is_empty() {
        output::text(agent.description.trim())?;
    }
    let parameters = agent.schema_of_parameters();
    output::text(&format!("\nparameters:\n{}", slipform_schema::compact(&parameters)))?;
    match agent.output_schema.as_ref().or(agent.default_output_schema.as_ref()) {
        Some(schema) => output::text(&format!("\nresult:\n{}", slipform_schema::compact(schema)))?,
        None => output::text("\nresult: text")?,
    }
    let servers: Vec<String> = agent.mcp_servers.keys().cloned().collect();
    for (title, names) in [("tools", &agent.tools), ("MCP servers", &servers), ("agents", &agent.agents)] {
        if !names.is_empty() {
            output::text(&format!("\n{title}: {}", names.join(", ")))?;
        }
    }
    Ok(())
}

fn init(project: &Path, name: &str) -> Result<Exit> {
    let text = starter(name)?;
    let folder = project.join(AGENTS_FOLDER);
    let path = folder.join(format!("{name}.yaml"));
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {AGENTS_FOLDER}/"))?;
    if path.exists() {
        bail!("{AGENTS_FOLDER}/{name}.yaml exists; choose another name, or edit the file");
    }
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&path)
        .with_context(|| format!("cannot create {AGENTS_FOLDER}/{name}.yaml"))?;
    std::io::Write::write_all(&mut file, text.as_bytes())
        .with_context(|| format!("cannot write {}", path.display()))?;
    output::lines(replaced_agents(project, name));
    output::lines([
        format!("created {AGENTS_FOLDER}/{name}.yaml; run it with:"),
        format!("  slipform run {name} -p \"…\""),
    ]);
    Ok(Exit::Valid)
}

/// Returns a warning for each agent that a new agent of this name replaces.
fn replaced_agents(project: &Path, name: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    if shipped(name).is_some() {
        warnings.push(format!(
            "warning: `{name}` replaces the shipped agent of the same name, also for agents that delegate to it"
        ));
    }
    let others = load(&project.join(KB_AGENTS_FOLDER)).unwrap_or_default();
    if let Some(other) = others.iter().find(|other| other.name == name) {
        warnings.push(format!("warning: `{name}` replaces the agent in {}", other.path.display()));
    }
    warnings
}
