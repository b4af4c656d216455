//! The only place that writes to the terminal.
#![allow(clippy::print_stderr, reason = "this is the output module")]

use std::io::{self, IsTerminal as _, Write};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::exit::Exit;

/// Prints data, indented, on stdout.
pub(crate) fn data(value: &Value) -> Result<()> {
    text(&serde_json::to_string_pretty(value)?)
}

/// Prints a text and a line end on stdout.
pub(crate) fn text(text: &str) -> Result<()> {
    let mut stdout = io::stdout().lock();
    stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.write_all(b"\n"))
        .and_then(|()| stdout.flush())
        .context("writing to standard output")
}

/// Whether a person watches stderr.
pub(crate) fn is_terminal() -> bool {
    io::stderr().is_terminal()
}

/// Prints lines for people on stderr.
pub(crate) fn lines(lines: impl IntoIterator<Item = String>) {
    for line in lines {
        eprintln!("{line}");
    }
}

/// Overwrites the last line on a terminal.
pub(crate) fn progress(text: &str) {
    eprint!("\r{text}\x1b[K");
}

/// Whether the reader of stdout has gone, as `head` does.
pub(crate) fn is_closed(error: &anyhow::Error) -> bool {
    let cause = error.root_cause().downcast_ref::<io::Error>();
    cause.is_some_and(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

/// Reports an error and its causes.
pub(crate) fn failure(error: &anyhow::Error) -> ExitCode {
    if is_closed(error) {
        return Exit::Valid.into();
    }
    eprintln!("formwork: {error:#}");
    if is_absent(error) { Exit::Backend.into() } else { Exit::Usage.into() }
}

/// Whether the embedded model could be had, and is not there yet.
#[cfg(feature = "embedded")]
fn is_absent(error: &anyhow::Error) -> bool {
    use formwork_embedded::weights::Error;
    let cause = error.downcast_ref::<Error>();
    cause.is_some_and(|cause| matches!(cause, Error::NotPulled { .. } | Error::Unverified { .. }))
}

#[cfg(not(feature = "embedded"))]
fn is_absent(_: &anyhow::Error) -> bool {
    false
}

/// Prints help, the version, or what is wrong with the arguments.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    let _ = error.print();
    if error.use_stderr() { Exit::Usage.into() } else { Exit::Valid.into() }
}
