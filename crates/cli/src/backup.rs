//! `slipform backup`: copies the database while it is in use.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Args;

use crate::backends::{self, environment};
use crate::exit::Exit;
use crate::settings::Settings;
use crate::{coordinator, output, serve};

#[derive(Debug, Args)]
pub(crate) struct Backup {
    /// New file for the copy
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Database to copy: a file or sqlite:FILE [default: .slipform/slipform.db]
    #[arg(long, value_name = "URL")]
    db: Option<String>,
}

pub(crate) fn run(arguments: &Backup) -> Result<Exit> {
    let project = std::env::current_dir().context("cannot read the current folder")?;
    let settings = Settings::read(&project, &environment)?;
    let database = arguments.db.clone().or(settings.server.db);
    let database = database
        .map_or_else(|| Ok(coordinator::database(&project)), |given| serve::address(&project, &given))?;
    backends::runtime()?.block_on(slipform_coordinator::backup(&database, &arguments.file))?;
    output::lines([format!("slipform: backup written to {}", arguments.file.display())]);
    Ok(Exit::Valid)
}
