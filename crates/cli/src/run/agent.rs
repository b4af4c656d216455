//! Finds the agent of a run and checks the agents that it may call.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use slipform_agents::{Checked, load_one};
use slipform_types::{ALL_AGENTS, Blueprint};

use crate::agents;

/// Returns the agent with this name or in this file, and the path of its file.
pub(super) fn find(project: &Path, given: &str) -> Result<(PathBuf, Blueprint)> {
    let path = Path::new(given);
    let is_path = given.contains(std::path::MAIN_SEPARATOR) || path.extension().is_some();
    let loaded = if is_path {
        if !path.exists() {
            bail!("agent file `{given}` not found");
        }
        load_one(path)
    } else {
        agents::find(project, given)?
    };
    match loaded.result {
        Ok(Checked { blueprint, .. }) => {
            agents::check_tools(&blueprint)?;
            Ok((loaded.path, blueprint))
        }
        Err(problems) => bail!("invalid agent file {}:\n{problems}", loaded.path.display()),
    }
}

/// Checks all agents that a run may call, directly or indirectly, so that a missing one is reported before the run
/// starts.
pub(super) fn check_callable_agents(project: &Path, root: &Blueprint) -> Result<()> {
    let mut seen = HashSet::from([root.name.clone()]);
    let mut pending = vec![root.clone()];
    while let Some(blueprint) = pending.pop() {
        let scorer = blueprint.clarity.as_ref().map(|clarity| ("clarity.agent".to_owned(), &clarity.agent));
        let others = blueprint.agents.iter().enumerate();
        let others = others.map(|(index, name)| (format!("agents[{index}]"), name));
        for (location, name) in others.filter(|(_, name)| *name != ALL_AGENTS).chain(scorer) {
            if seen.insert(name.clone()) {
                let (_, other) =
                    find(project, name).with_context(|| format!("agent `{}`, {location}", blueprint.name))?;
                pending.push(other);
            }
        }
    }
    Ok(())
}
