//! The agent of a run, and those that it may come to.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use slipform_agents::{Checked, load_one};
use slipform_types::{ALL_AGENTS, Blueprint};

use crate::agents;

/// The agent of a name, or of a file, and where it stands.
pub(super) fn find(project: &Path, given: &str) -> Result<(PathBuf, Blueprint)> {
    let path = Path::new(given);
    let is_path = given.contains(std::path::MAIN_SEPARATOR) || path.extension().is_some();
    let loaded = if is_path {
        if !path.exists() {
            bail!("there is no agent file {given}");
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
        Err(problems) => bail!("{} cannot be used:\n{problems}", loaded.path.display()),
    }
}

/// Reads every agent that a task may come to, before it begins: a name that nobody has is told at once.
pub(super) fn check_family(project: &Path, root: &Blueprint) -> Result<()> {
    let mut seen = HashSet::from([root.name.clone()]);
    let mut pending = vec![root.clone()];
    while let Some(blueprint) = pending.pop() {
        let scorer = blueprint.clarity.as_ref().map(|clarity| ("clarity.agent".to_owned(), &clarity.agent));
        let others = blueprint.agents.iter().enumerate();
        let others = others.map(|(index, name)| (format!("agents[{index}]"), name));
        for (place, name) in others.filter(|(_, name)| *name != ALL_AGENTS).chain(scorer) {
            if seen.insert(name.clone()) {
                let (_, other) = find(project, name)
                    .with_context(|| format!("the agent '{}', {place}", blueprint.name))?;
                pending.push(other);
            }
        }
    }
    Ok(())
}
