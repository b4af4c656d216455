//! What a process that stays says about its work, on stderr.

use anyhow::{Result, bail};
use tracing_subscriber::filter::LevelFilter;

use crate::backends::environment;

/// The variable with the least that is said: `error`, `warn`, `info`, `debug` or `trace`.
const VARIABLE: &str = "FORMWORK_LOG";

pub(crate) fn start() -> Result<()> {
    let level = match environment(VARIABLE).filter(|level| !level.is_empty()) {
        None => LevelFilter::INFO,
        Some(level) => match level.parse() {
            Ok(level) => level,
            Err(_) => bail!("{VARIABLE} is '{level}'; it must be off, error, warn, info, debug or trace"),
        },
    };
    let subscriber =
        tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr).with_target(false);
    // Whoever started one before has decided.
    let _ = subscriber.with_ansi(crate::output::is_terminal()).try_init();
    Ok(())
}
