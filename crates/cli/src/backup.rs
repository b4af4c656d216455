//! `slipform backup`: copies the database while it is in use.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Args;

use crate::backends::{self, environment};
use crate::database::Database;
use crate::exit::Exit;
use crate::output;
use crate::settings::Settings;

#[derive(Debug, Args)]
pub(crate) struct Backup {
    /// New file for the copy
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Database to copy: a file or sqlite:FILE [env: SLIPFORM_DB] [default: .slipform/slipform.db]
    #[arg(long, value_name = "URL")]
    pub(crate) db: Option<String>,
}

pub(crate) fn run(arguments: &Backup) -> Result<Exit> {
    let project = std::env::current_dir().context("cannot read the current folder")?;
    let settings = Settings::read(&project, &environment)?;
    let database = Database::find(&project, arguments.db.as_deref(), &settings.server)?;
    backends::runtime()?.block_on(database.back_up(&arguments.file))?;
    output::lines([format!("slipform: backup written to {}", arguments.file.display())]);
    Ok(Exit::Valid)
}
