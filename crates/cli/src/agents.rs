//! `slipform agents`: lists, shows, validates and creates agents.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};
use slipform_agents::{Loaded, Problem, load, load_one, shipped, starter, unknown_tool};
use slipform_api::AgentView;
use slipform_types::{ALL_AGENTS, Blueprint};

use crate::arguments::{Agents, AgentsCommand};
use crate::coordinator::Coordinator;
use crate::exit::Exit;
use crate::{backends, output};

/// The project folder with agent files.
const FOLDER: &str = "agents";

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
        AgentsCommand::Validate { files, json } => validate(project, files, *json),
        AgentsCommand::Init { name } => init(project, name),
    }
}

/// Returns whether the project has an agent of this name, or the program ships one.
fn is_known(project: &Path, name: &str) -> Result<bool> {
    let all = load(&project.join(FOLDER))?;
    Ok(name == ALL_AGENTS || all.iter().any(|loaded| loaded.name == name) || shipped(name).is_some())
}

/// Adds a warning for each tool and agent that a run would not find.
fn warn_about_missing(project: &Path, loaded: &mut Loaded) {
    let Ok(checked) = &mut loaded.result else { return };
    if let Some((index, message)) = unknown_tool(&checked.blueprint) {
        checked.warnings.push(Problem::new(format!("$.tools[{index}]"), message));
    }
    for (index, name) in checked.blueprint.agents.iter().enumerate() {
        if !is_known(project, name).unwrap_or(true) {
            let message = format!("agent `{name}` not found in {FOLDER}/");
            checked.warnings.push(Problem::new(format!("$.agents[{index}]"), message));
        }
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
                "no agents in {FOLDER}/, only those that come with slipform; `slipform agents init NAME` creates one"
            )]);
        }
    }
    Ok(print_view_problems(agents))
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

fn summary(loaded: &Loaded) -> Value {
    let file = loaded.path.display().to_string();
    match &loaded.result {
        Ok(checked) => json!({
            "name": checked.blueprint.name,
            "title": checked.blueprint.title,
            "description": checked.blueprint.description,
            "type": checked.blueprint.kind,
            "source": "file",
            "file": file,
            "valid": true,
            "problems": [],
            "warnings": checked.warnings,
        }),
        Err(problems) => json!({
            "name": loaded.name, "source": "file", "file": file, "valid": false, "problems": problems.list, "warnings": [],
        }),
    }
}

/// Prints the problems and warnings of each file.
fn print_problems(all: &[Loaded]) -> Exit {
    let mut exit = Exit::Valid;
    for loaded in all {
        let file = loaded.path.display();
        match &loaded.result {
            Ok(checked) => {
                output::lines(checked.warnings.iter().map(|warning| format!("{file}: warning: {warning}")));
            }
            Err(problems) => {
                output::lines(problems.list.iter().map(|problem| format!("{file}: {problem}")));
                exit = Exit::Usage;
            }
        }
    }
    exit
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
    let parameters = slipform_agents::parameters::schema(agent);
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

fn validate(project: &Path, files: &[std::path::PathBuf], json: bool) -> Result<Exit> {
    let mut all: Vec<Loaded> = if files.is_empty() {
        load(&project.join(FOLDER))?
    } else {
        files.iter().map(|file| load_one(file)).collect()
    };
    all.iter_mut().for_each(|loaded| warn_about_missing(project, loaded));
    if json {
        output::data(&all.iter().map(summary).collect::<Value>())?;
    }
    let exit = print_problems(&all);
    if exit == Exit::Valid && !json {
        let count = all.len();
        output::lines([format!("{count} {} valid", if count == 1 { "agent is" } else { "agents are" })]);
    }
    Ok(exit)
}

fn init(project: &Path, name: &str) -> Result<Exit> {
    let text = starter(name)?;
    let folder = project.join(FOLDER);
    let path = folder.join(format!("{name}.yaml"));
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {FOLDER}/"))?;
    if path.exists() {
        bail!("{FOLDER}/{name}.yaml exists; choose another name, or edit the file");
    }
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&path)
        .with_context(|| format!("cannot create {FOLDER}/{name}.yaml"))?;
    std::io::Write::write_all(&mut file, text.as_bytes())
        .with_context(|| format!("cannot write {}", path.display()))?;
    output::lines([
        format!("created {FOLDER}/{name}.yaml; run it with:"),
        format!("  slipform run {name} -p \"…\""),
    ]);
    Ok(Exit::Valid)
}
