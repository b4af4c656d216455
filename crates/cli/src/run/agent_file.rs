//! An agent file that is given to `slipform run` by its path.

use std::path::{MAIN_SEPARATOR, Path, PathBuf};

use anyhow::{Result, bail};
use slipform_agents::{Checked, load_one};
use slipform_types::Blueprint;

/// Returns whether an argument is a path and not the name of an agent.
pub(super) fn is_path(given: &str) -> bool {
    given.contains(MAIN_SEPARATOR) || Path::new(given).extension().is_some()
}

/// Returns the agent in a file, and the path of the file.
pub(super) fn load(given: &str) -> Result<(PathBuf, Blueprint)> {
    let path = Path::new(given);
    if !path.exists() {
        bail!("agent file `{given}` not found");
    }
    let loaded = load_one(path);
    match loaded.result {
        Ok(Checked { blueprint, .. }) => Ok((loaded.path, blueprint)),
        Err(problems) => bail!("agent file {} is invalid:\n{problems}", loaded.path.display()),
    }
}
