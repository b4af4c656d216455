//! `slipform agents`: lists, shows, validates and creates agents.

mod remote;

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};
use slipform_agents::{Loaded, Problem, load, load_one, shipped, shipped_names, starter};
use slipform_types::{Blueprint, closest};

use crate::arguments::{Agents, AgentsCommand};
use crate::exit::Exit;
use crate::{coordinator, output};

/// The project folder with agent files.
const FOLDER: &str = "agents";

pub(crate) fn run(arguments: &Agents) -> Result<Exit> {
    let project = Path::new("");
    match &arguments.command {
        AgentsCommand::List { server, json } => match coordinator::client(server.as_deref())? {
            Some(client) => remote::list(&client, *json),
            None => list(project, *json),
        },
        AgentsCommand::Show { name, server, json } => match coordinator::client(server.as_deref())? {
            Some(client) => remote::show(&client, name, *json),
            None => show(project, name, *json),
        },
        AgentsCommand::Validate { files, json } => validate(project, files, *json),
        AgentsCommand::Init { name } => init(project, name),
    }
}

/// Returns the agent with this name, from the project or shipped with the program.
pub(crate) fn find(project: &Path, name: &str) -> Result<Loaded> {
    let all = load(&project.join(FOLDER))?;
    let names: Vec<String> = all.iter().map(|loaded| loaded.name.clone()).collect();
    if let Some(found) = all.into_iter().find(|loaded| loaded.name == name).or_else(|| shipped(name)) {
        return Ok(found);
    }
    let mut known: Vec<&str> = names.iter().map(String::as_str).collect();
    for name in shipped_names() {
        known.push(name);
    }
    if let Some(meant) = closest(name, known.iter().copied()) {
        bail!("agent `{name}` not found in {FOLDER}/; did you mean `{meant}`? run `slipform agents list`");
    }
    bail!(
        "agent `{name}` not found in {FOLDER}/; available: {}; create it with `slipform agents init {name}`",
        known.join(", ")
    )
}

/// Returns an error that names the first unknown tool of a blueprint. Tools of MCP servers are known only at run time, so
/// every `SERVER:TOOL` of a configured server is accepted.
pub(crate) fn check_tools(blueprint: &Blueprint) -> Result<()> {
    match unknown_tool(blueprint) {
        None => Ok(()),
        Some((index, message)) => bail!("agent `{}`, tools[{index}]: {message}", blueprint.name),
    }
}

fn unknown_tool(blueprint: &Blueprint) -> Option<(usize, String)> {
    let known = slipform_runner::builtin_names();
    let is_known = |name: &str| {
        known.contains(&name)
            || name.split_once(':').is_some_and(|(server, _)| blueprint.mcp_servers.contains_key(server))
    };
    let index = blueprint.tools.iter().position(|name| !is_known(name))?;
    let (name, known) = (&blueprint.tools[index], known.join(", "));
    Some((
        index,
        format!("tool `{name}` not found; available: {known}, and SERVER:TOOL of the agent's mcp_servers"),
    ))
}

/// Adds a warning for each tool and agent that a run would not find.
fn warn_about_missing(project: &Path, loaded: &mut Loaded) {
    let Ok(checked) = &mut loaded.result else { return };
    if let Some((index, message)) = unknown_tool(&checked.blueprint) {
        checked.warnings.push(Problem::new(format!("$.tools[{index}]"), message));
    }
    for (index, name) in checked.blueprint.agents.iter().enumerate() {
        if let Err(error) = find(project, name) {
            checked.warnings.push(Problem::new(format!("$.agents[{index}]"), error.to_string()));
        }
    }
}

fn list(project: &Path, json: bool) -> Result<Exit> {
    let all = load(&project.join(FOLDER))?;
    let is_own = |name: &str| all.iter().any(|loaded| loaded.name == name);
    let included: Vec<Loaded> = shipped_names().filter(|name| !is_own(name)).filter_map(shipped).collect();
    if json {
        let own = all.iter().map(|loaded| summary(loaded, "file"));
        output::data(
            &own.chain(included.iter().map(|loaded| summary(loaded, "shipped"))).collect::<Value>(),
        )?;
    } else {
        let own = all.iter().map(|loaded| (loaded, "file"));
        let every = own.chain(included.iter().map(|loaded| (loaded, "shipped")));
        let rows = every.filter_map(|(loaded, source)| {
            let agent = &loaded.result.as_ref().ok()?.blueprint;
            let description = agent.description.trim().to_owned();
            Some(vec![agent.name.clone(), contract(agent).to_owned(), source.to_owned(), description])
        });
        output::table(["NAME", "RESULT", "SOURCE", "DESCRIPTION"], rows)?;
        if all.is_empty() {
            output::lines([format!(
                "no agents in {FOLDER}/, only those that come with slipform; `slipform agents init NAME` creates one"
            )]);
        }
    }
    Ok(print_problems(&all, false))
}

/// Returns the kind of an agent's result for the list.
fn contract(agent: &Blueprint) -> &'static str {
    if agent.output_schema.is_some() {
        "contract"
    } else if agent.default_output_schema.is_some() {
        "default contract"
    } else {
        "text"
    }
}

fn summary(loaded: &Loaded, source: &str) -> Value {
    let file = loaded.path.display().to_string();
    match &loaded.result {
        Ok(checked) => json!({
            "name": checked.blueprint.name,
            "title": checked.blueprint.title,
            "description": checked.blueprint.description,
            "type": checked.blueprint.kind,
            "source": source,
            "file": file,
            "valid": true,
            "problems": [],
            "warnings": checked.warnings,
        }),
        Err(problems) => json!({
            "name": loaded.name, "source": source, "file": file, "valid": false, "problems": problems, "warnings": [],
        }),
    }
}

/// Prints the problems of each file, and its warnings if `with_warnings` is set.
fn print_problems(all: &[Loaded], with_warnings: bool) -> Exit {
    let mut exit = Exit::Valid;
    for loaded in all {
        let file = loaded.path.display();
        match &loaded.result {
            Ok(checked) if with_warnings => {
                output::lines(checked.warnings.iter().map(|warning| format!("{file}: warning: {warning}")));
            }
            Ok(_) => {}
            Err(problems) => {
                output::lines(problems.list.iter().map(|problem| format!("{file}: {problem}")));
                exit = Exit::Usage;
            }
        }
    }
    exit
}

fn show(project: &Path, name: &str, json: bool) -> Result<Exit> {
    let loaded = find(project, name)?;
    let checked = match &loaded.result {
        Ok(checked) => checked,
        Err(_) => return Ok(print_problems(&[loaded], false)),
    };
    if json {
        output::data(&serde_json::to_value(&checked.blueprint)?)?;
        return Ok(Exit::Valid);
    }
    describe(&checked.blueprint, &loaded.path.display().to_string())
}

/// Prints the parameters, result, tools and child agents of an agent.
fn describe(agent: &Blueprint, origin: &str) -> Result<Exit> {
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
    Ok(Exit::Valid)
}

fn validate(project: &Path, files: &[std::path::PathBuf], json: bool) -> Result<Exit> {
    let mut all: Vec<Loaded> = if files.is_empty() {
        load(&project.join(FOLDER))?
    } else {
        files.iter().map(|file| load_one(file)).collect()
    };
    all.iter_mut().for_each(|loaded| warn_about_missing(project, loaded));
    if json {
        output::data(&all.iter().map(|loaded| summary(loaded, "file")).collect::<Value>())?;
    }
    let exit = print_problems(&all, true);
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
