//! The only place that writes to the terminal.

use std::borrow::Cow;
use std::ffi::OsString;
use std::io::{self, IsTerminal as _, Write};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use serde_json::Value;
use slipform_types::env;

use crate::exit::Exit;
use crate::pretty::{self, Look};
use crate::secrets;

/// The width of what is read elsewhere than on a terminal, in characters.
const COLUMNS_UNKNOWN: usize = 80;

/// The lines of a terminal that does not say how many it has.
const LINES_UNKNOWN: usize = 24;

/// The narrowest terminal that is cared for; on narrower ones lines break as they come.
const COLUMNS_MIN: usize = 40;

/// The longest line that is still read with ease.
const COLUMNS_MAX: usize = 100;

/// Prints data, indented, on stdout.
pub(crate) fn data(value: &Value) -> Result<()> {
    text(&serde_json::to_string_pretty(value)?)
}

/// Prints data for people on stdout.
pub(crate) fn pretty(value: &Value) -> Result<()> {
    text(&pretty::value(value, look()))
}

/// What whoever reads stdout can see.
fn look() -> Look {
    let stdout = io::stdout();
    let columns = rustix::termios::tcgetwinsize(&stdout).map_or(0, |size| usize::from(size.ws_col));
    look_of(stdout.is_terminal(), columns, |name| std::env::var_os(name))
}

/// The same by what is known: whether stdout is a terminal, its columns (0 where nobody knows), and the environment.
fn look_of(is_terminal: bool, columns: usize, variable: impl Fn(&str) -> Option<OsString>) -> Look {
    let is_declined = variable(env::NO_COLOR).is_some_and(|value| !value.is_empty())
        || variable(env::TERM).is_some_and(|term| term == "dumb");
    let width = if columns == 0 { COLUMNS_UNKNOWN } else { columns.clamp(COLUMNS_MIN, COLUMNS_MAX) };
    Look { width, is_coloured: is_terminal && !is_declined }
}

/// Prints rows in columns on stdout, with a header where a person reads it. Scripts get the rows alone, columns separated
/// by two spaces or more.
pub(crate) fn table<const N: usize>(
    header: [&str; N],
    rows: impl IntoIterator<Item = Vec<String>>,
) -> Result<()> {
    let rows: Vec<Vec<String>> = rows.into_iter().collect();
    if rows.is_empty() {
        return Ok(());
    }
    let header = header.map(str::to_owned).to_vec();
    let shown = Some(header).filter(|_| io::stdout().is_terminal());
    let lines: Vec<&Vec<String>> = shown.iter().chain(&rows).collect();
    let width = |column: usize| {
        lines.iter().map(|row| row.get(column).map_or(0, |cell| cell.chars().count())).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..N).map(width).collect();
    for row in lines {
        let cells =
            row.iter().zip(&widths).map(|(cell, width)| format!("{:width$}", harmless(cell), width = *width));
        text(cells.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    Ok(())
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

/// Prints lines for people on stderr. That nobody can read them is no reason to lose a run.
pub(crate) fn lines(lines: impl IntoIterator<Item = String>) {
    let mut stderr = io::stderr().lock();
    for line in lines {
        let _ = writeln!(stderr, "{}", harmless(&secrets::redact(line)));
    }
}

/// Overwrites the last line on a terminal.
pub(crate) fn progress(text: &str) {
    let _ = write!(
        io::stderr().lock(),
        "\r{}\x1b[K",
        harmless(&secrets::redact(text.to_owned())).replace('\n', " ")
    );
}

/// Overwrites what was drawn last on a terminal, which had `drawn` lines below its first; how many it has now.
pub(crate) fn redraw(lines: &[String], drawn: usize) -> usize {
    let mut text = String::new();
    if drawn > 0 {
        text.push_str(&format!("\x1b[{drawn}A"));
    }
    text.push_str("\r\x1b[J");
    for (index, line) in lines.iter().enumerate() {
        if index > 0 {
            text.push_str("\r\n");
        }
        text.push_str(&harmless(&secrets::redact(line.clone())).replace('\n', " "));
    }
    let mut stderr = io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
    lines.len().saturating_sub(1)
}

/// How many characters fit beside each other on stderr, and how many lines below each other.
pub(crate) fn size() -> (usize, usize) {
    let size = rustix::termios::tcgetwinsize(io::stderr()).ok();
    let size = size.map(|size| (usize::from(size.ws_col), usize::from(size.ws_row)));
    size.filter(|(width, height)| *width > 0 && *height > 0).unwrap_or((COLUMNS_UNKNOWN, LINES_UNKNOWN))
}

/// A text without what would command a terminal: models, servers and programs have their words in it.
pub(crate) fn harmless(text: &str) -> Cow<'_, str> {
    let commands = |character: char| match character {
        '\n' | '\t' => false,
        // They turn the order of what follows around, or end a line where nobody sees it.
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}' => true,
        character => character.is_control(),
    };
    if !text.contains(commands) {
        return Cow::Borrowed(text);
    }
    let shown = |character: char| match commands(character) {
        true => character.escape_default().to_string(),
        false => character.to_string(),
    };
    Cow::Owned(text.chars().map(shown).collect())
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
    lines([format!("slipform: {error:#}")]);
    if is_absent(error) || is_away(error) { Exit::Backend.into() } else { Exit::Usage.into() }
}

/// Whether a coordinator or its database does not answer.
pub(crate) fn is_away(error: &anyhow::Error) -> bool {
    let refused = error.downcast_ref::<slipform_api::Error>();
    refused.is_some_and(|refused| refused.code.is_passing())
}

/// Whether the embedded model could be had, and is not there yet.
#[cfg(feature = "embedded")]
fn is_absent(error: &anyhow::Error) -> bool {
    use slipform_embedded::weights::Error;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_for_terminals_whose_owners_want_them() {
        let with = |is_terminal: bool, set: &[(&str, &str)]| {
            let variable =
                |name: &str| set.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into());
            look_of(is_terminal, 0, variable).is_coloured
        };
        assert!(with(true, &[]));
        assert!(with(true, &[("NO_COLOR", ""), ("TERM", "xterm")]));
        assert!(!with(true, &[("NO_COLOR", "1")]));
        assert!(!with(true, &[("TERM", "dumb")]));
        assert!(!with(false, &[("TERM", "xterm")]));
    }

    #[test]
    fn lines_are_as_long_as_the_terminal_within_reason() {
        let widths = [0, 10, 72, 400].map(|columns| look_of(true, columns, |_| None).width);
        assert_eq!(widths, [COLUMNS_UNKNOWN, COLUMNS_MIN, 72, COLUMNS_MAX]);
    }
}
