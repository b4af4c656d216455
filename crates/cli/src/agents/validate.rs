//! `slipform agents validate`: checks agent files and everything that a run of them needs.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde_json::{Value, json};
use slipform_agents::{
    AGENTS_FOLDER, Checked, KB_AGENTS_FOLDER, Loaded, Problem, Surroundings, load_one_in, load_project,
    shipped, shipped_names,
};
use slipform_coordinator::Registry;
use slipform_types::{ALL_AGENTS, Blueprint, closest};

use crate::coordinator::Coordinator;
use crate::exit::Exit;
use crate::settings::Settings;
use crate::{backends, output};

/// Checks files, or all agents of the project, and prints every problem. It fails where `slipform run` would refuse
/// the agent.
pub(super) async fn validate(project: &Path, files: &[PathBuf], as_json: bool) -> Result<Exit> {
    let coordinator = Coordinator::open_to_read(None).await?;
    let schemas: Vec<String> =
        coordinator.api.schemas().await?.into_iter().map(|schema| schema.name).collect();
    let settings = Settings::read(project, &backends::environment);
    let names: Vec<String> = load_project(project, None)?.into_iter().map(|loaded| loaded.name).collect();
    let surroundings = Surroundings {
        agent_problem: &|name| missing_agent(name, &names),
        schema_problem: &|name| missing_schema(name, &schemas),
        tier_problem: &|tier| settings.as_ref().ok()?.tier_problem(tier, &backends::environment),
        variable_problem: &|name| unset_variable(name),
    };
    let team: BTreeMap<String, Loaded> = load_project(project, Some(&surroundings))?
        .into_iter()
        .map(|loaded| (loaded.name.clone(), loaded))
        .collect();
    let mut all: Vec<Loaded> = if files.is_empty() {
        team.values().cloned().collect()
    } else {
        files.iter().map(|file| load_one_in(file, &surroundings)).collect()
    };
    all.iter_mut().for_each(|loaded| add_problems_of_others(loaded, &team));
    if as_json {
        output::data(&all.iter().map(summary).collect::<Value>())?;
    }
    // A broken settings file stops every run, whatever its agent.
    let mut exit = match &settings {
        Ok(_) => Exit::Valid,
        Err(error) => {
            output::lines([format!("{error:#}")]);
            Exit::Usage
        }
    };
    output::lines(schema_warnings(project));
    if print_problems(&all) {
        exit = Exit::Usage;
    }
    if exit == Exit::Valid && !as_json {
        let count = all.len();
        output::lines([format!("{count} {} valid", if count == 1 { "agent is" } else { "agents are" })]);
    }
    Ok(exit)
}

/// Returns the problem of an agent that neither the project nor the program has.
fn missing_agent(name: &str, names: &[String]) -> Option<String> {
    if names.iter().any(|known| known == name) || shipped(name).is_some() {
        return None;
    }
    let own = closest(name, names.iter().map(String::as_str));
    let advice = match own.or_else(|| closest(name, shipped_names())) {
        Some(meant) => format!("; did you mean `{meant}`?"),
        None => String::new(),
    };
    Some(format!("agent `{name}` not found in {AGENTS_FOLDER}/ or {KB_AGENTS_FOLDER}/{advice}"))
}

/// Returns the problem of a schema that is not registered.
fn missing_schema(name: &str, schemas: &[String]) -> Option<String> {
    if schemas.iter().any(|known| known == name) {
        return None;
    }
    let advice = match closest(name, schemas.iter().map(String::as_str)) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => "add it to schemas/, or write the schema inline".to_owned(),
    };
    Some(format!("schema `{name}` not found; {advice}"))
}

fn unset_variable(name: &str) -> Option<String> {
    let is_set = backends::environment(name).is_some();
    (!is_set).then(|| format!("${{env.{name}}} has no value: the environment variable {name} is not set"))
}

/// Adds a problem for each agent that this one uses, directly or indirectly, and that cannot run itself. A run checks
/// all of them before it starts.
fn add_problems_of_others(loaded: &mut Loaded, team: &BTreeMap<String, Loaded>) {
    let Ok(checked) = &loaded.result else { return };
    let mut found: Vec<Problem> = Vec::new();
    for (path, name) in used_agents(&checked.blueprint) {
        let mut seen = HashSet::from([checked.blueprint.name.clone()]);
        if let Some((broken, problem)) = first_broken(&name, team, &mut seen) {
            found.push(Problem::new(path, format!("agent `{broken}` is invalid: {problem}")));
        }
    }
    if !found.is_empty() {
        loaded.result = Err(slipform_agents::Problems { list: found, more: 0 });
    }
}

/// Returns the first invalid agent among this one and those that it uses, with its first problem.
fn first_broken(
    name: &str,
    team: &BTreeMap<String, Loaded>,
    seen: &mut HashSet<String>,
) -> Option<(String, String)> {
    if !seen.insert(name.to_owned()) {
        return None;
    }
    match &team.get(name)?.result {
        Err(problems) => {
            let first = problems.list.first().map(ToString::to_string).unwrap_or_default();
            Some((name.to_owned(), first))
        }
        Ok(Checked { blueprint, .. }) => {
            used_agents(blueprint).into_iter().find_map(|(_, other)| first_broken(&other, team, seen))
        }
    }
}

/// Returns the agents that a blueprint names, each with its path.
fn used_agents(blueprint: &Blueprint) -> Vec<(String, String)> {
    let named = blueprint.agents.iter().enumerate().filter(|(_, name)| *name != ALL_AGENTS);
    let named = named.map(|(index, name)| (format!("$.agents[{index}]"), name.clone()));
    let scorer =
        blueprint.clarity.iter().map(|clarity| ("$.clarity.agent".to_owned(), clarity.agent.clone()));
    named.chain(scorer).collect()
}

/// Returns a line for each schema of the project that replaces a shipped one, or cannot be used.
fn schema_warnings(project: &Path) -> Vec<String> {
    let files = Registry::read(project).files();
    let line = |path: &Path, problem: &slipform_api::Problem| {
        format!("{}: warning: {}", path.display(), problem.message)
    };
    let files = files.schemas.values();
    files.flat_map(|file| file.problems.iter().map(|problem| line(&file.path, problem))).collect()
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

/// Prints the problems and warnings of each file. Returns whether any file has problems.
fn print_problems(all: &[Loaded]) -> bool {
    let mut is_any_invalid = false;
    for loaded in all {
        let file = loaded.path.display();
        match &loaded.result {
            Ok(checked) => {
                output::lines(checked.warnings.iter().map(|warning| format!("{file}: warning: {warning}")));
            }
            Err(problems) => {
                output::lines(problems.list.iter().map(|problem| format!("{file}: {problem}")));
                if problems.more > 0 {
                    output::lines([format!("{file}: … and {} more problems", problems.more)]);
                }
                is_any_invalid = true;
            }
        }
    }
    is_any_invalid
}
