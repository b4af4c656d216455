//! Prints data on stdout and messages on stderr. Every other module prints through this one.

use std::borrow::Cow;
use std::ffi::OsString;
use std::io::{self, IsTerminal as _, Write};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use serde_json::Value;
use slipform_api::{Code, Problem};
use slipform_types::env;

use crate::exit::Exit;
use crate::pretty::{self, Style};
use crate::secrets;

/// The line width without a terminal, in characters.
const COLUMNS_UNKNOWN: usize = 80;

/// The assumed height of a terminal of unknown size, in lines.
const LINES_UNKNOWN: usize = 24;

/// The minimum line width; a narrower terminal breaks the lines itself.
const COLUMNS_MIN: usize = 40;

/// The maximum line width, to keep text readable on wide terminals.
const COLUMNS_MAX: usize = 100;

/// Prints a value as indented JSON on stdout.
pub(crate) fn data(value: &Value) -> Result<()> {
    json(&serde_json::to_string_pretty(value)?)
}

/// Prints JSON text and a line break on stdout.
pub(crate) fn json(text: &str) -> Result<()> {
    write_line(&shown_json(text))
}

/// Returns JSON text as stdout gets it: on a terminal, characters that could control it are escaped as JSON allows.
pub(crate) fn shown_json(text: &str) -> Cow<'_, str> {
    if io::stdout().is_terminal() {
        escape_with(text, |character| format!("\\u{:04x}", u32::from(character)))
    } else {
        Cow::Borrowed(text)
    }
}

/// Prints a value as formatted text on stdout. The formatter escapes the value's texts and adds colours of its own.
pub(crate) fn pretty(value: &Value) -> Result<()> {
    write_line(&pretty::value(value, stdout_style()))
}

/// Returns the width and colour support of stdout.
fn stdout_style() -> Style {
    let stdout = io::stdout();
    let columns = rustix::termios::tcgetwinsize(&stdout).map_or(0, |size| usize::from(size.ws_col));
    style_for(stdout.is_terminal(), columns, |name| std::env::var_os(name))
}

/// Returns the style for an output with this many columns (0 if unknown) and this environment.
fn style_for(is_terminal: bool, columns: usize, variable: impl Fn(&str) -> Option<OsString>) -> Style {
    let has_no_colour = variable(env::NO_COLOR).is_some_and(|value| !value.is_empty())
        || variable(env::TERM).is_some_and(|term| term == "dumb");
    let width = if columns == 0 { COLUMNS_UNKNOWN } else { columns.clamp(COLUMNS_MIN, COLUMNS_MAX) };
    Style { width, is_coloured: is_terminal && !has_no_colour }
}

/// Prints rows in columns on stdout, with a header if stdout is a terminal. Scripts get the rows alone, with columns
/// separated by two spaces or more.
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
        let cells = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{:width$}", escape_controls(cell), width = *width));
        text(cells.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    Ok(())
}

/// Prints a text and a line break on stdout. On a terminal, escape sequences are shown, not interpreted.
pub(crate) fn text(text: &str) -> Result<()> {
    write_line(&if io::stdout().is_terminal() { escape_controls(text) } else { Cow::Borrowed(text) })
}

fn write_line(text: &str) -> Result<()> {
    let mut stdout = io::stdout().lock();
    stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.write_all(b"\n"))
        .and_then(|()| stdout.flush())
        .context("cannot write to standard output")
}

/// Returns whether stderr is a terminal.
pub(crate) fn is_terminal() -> bool {
    io::stderr().is_terminal()
}

/// Prints messages on stderr, without secrets. Ignores write errors: a closed stderr must not fail a run.
pub(crate) fn lines(lines: impl IntoIterator<Item = String>) {
    let mut stderr = io::stderr().lock();
    for line in lines {
        let _ = writeln!(stderr, "{}", escape_controls(&secrets::redact(line)));
    }
}

/// Prints a message that contains a secret, for the person at the terminal.
pub(crate) fn secret_line(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", escape_controls(line));
}

/// Overwrites the last line of stderr, which must be a terminal.
pub(crate) fn progress(text: &str) {
    let _ = write!(
        io::stderr().lock(),
        "\r{}\x1b[K",
        escape_controls(&secrets::redact(text.to_owned())).replace('\n', " ")
    );
}

/// Overwrites the last drawing on stderr, which had `drawn` lines below its first. Returns that number for the new one.
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
        text.push_str(&escape_controls(&secrets::redact(line.clone())).replace('\n', " "));
    }
    let mut stderr = io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
    lines.len().saturating_sub(1)
}

/// Returns the columns and lines of the terminal at stderr.
pub(crate) fn size() -> (usize, usize) {
    let size = rustix::termios::tcgetwinsize(io::stderr()).ok();
    let size = size.map(|size| (usize::from(size.ws_col), usize::from(size.ws_row)));
    size.filter(|(width, height)| *width > 0 && *height > 0).unwrap_or((COLUMNS_UNKNOWN, LINES_UNKNOWN))
}

/// Escapes control and bidirectional characters, so that text from models, servers and programs cannot control the
/// terminal.
pub(crate) fn escape_controls(text: &str) -> Cow<'_, str> {
    escape_with(text, |character| character.escape_default().to_string())
}

fn escape_with(text: &str, escaped: impl Fn(char) -> String) -> Cow<'_, str> {
    let is_control = |character: char| match character {
        '\n' | '\t' => false,
        // Bidirectional controls reorder text, and Unicode separators break lines invisibly.
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}' => true,
        character => character.is_control(),
    };
    if !text.contains(is_control) {
        return Cow::Borrowed(text);
    }
    let escape = |character: char| {
        if is_control(character) { escaped(character) } else { character.to_string() }
    };
    Cow::Owned(text.chars().map(escape).collect())
}

/// Formats a count with its noun: `1 agent`, `2 agents`.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// Formats the error of a run with its type, unless the message of a stopped run already states it.
pub(crate) fn run_error(message: &str, kind: &str) -> String {
    if kind == "stopped" { message.to_owned() } else { format!("{message} ({kind})") }
}

/// Returns whether the reader of stdout closed it, as `head` does.
pub(crate) fn is_closed(error: &anyhow::Error) -> bool {
    let cause = error.root_cause().downcast_ref::<io::Error>();
    cause.is_some_and(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

/// Prints an error with its causes and returns its exit status.
pub(crate) fn failure(error: &anyhow::Error) -> ExitCode {
    if is_closed(error) {
        return Exit::Valid.into();
    }
    match error.downcast_ref::<slipform_api::Error>().and_then(command_advice) {
        Some(message) => lines([format!("slipform: {message}")]),
        None => lines([format!("slipform: {error:#}")]),
    }
    if needs_pull(error) || is_unavailable(error) { Exit::Backend.into() } else { Exit::Usage.into() }
}

/// Returns a coordinator's error with a command to run instead of a request to send, where the error names one.
fn command_advice(error: &slipform_api::Error) -> Option<String> {
    let what = error.message.split(';').next().unwrap_or_default();
    let details = error.details.as_ref();
    match error.code {
        Code::AgentNotFound => {
            let details = details?;
            let name = details["agent_name"].as_str()?;
            Some(match details["suggestion"].as_str() {
                Some(meant) => format!("{what}; did you mean `{meant}`? run `slipform agents list`"),
                None => format!("{}; create it with `slipform agents init {name}`", error.message),
            })
        }
        Code::InvalidAgent => {
            let problems = details?["problems"].as_array()?.iter();
            let problems = problems.filter_map(|it| serde_json::from_value::<Problem>(it.clone()).ok());
            let what = error.message.split(": ").next().unwrap_or_default();
            Some(
                std::iter::once(format!("{what}:"))
                    .chain(problems.map(|problem| problem.to_string()))
                    .collect::<Vec<_>>()
                    .join("\n"),
            )
        }
        Code::SchemaNotFound => Some(format!("{what}; run `slipform schemas list`")),
        Code::SessionBusy => {
            Some(format!("{what}; wait until it ends, or stop it with `slipform sessions stop SESSION`"))
        }
        _ => None,
    }
}

/// Returns whether a coordinator or its database is unavailable.
pub(crate) fn is_unavailable(error: &anyhow::Error) -> bool {
    let refused = error.downcast_ref::<slipform_api::Error>();
    refused.is_some_and(|refused| refused.code.is_passing())
}

/// Returns whether `slipform model pull` would fix the error.
#[cfg(feature = "embedded")]
fn needs_pull(error: &anyhow::Error) -> bool {
    use slipform_embedded::weights::Error;
    let cause = error.downcast_ref::<Error>();
    cause.is_some_and(|cause| matches!(cause, Error::NotPulled { .. } | Error::Unverified { .. }))
}

#[cfg(not(feature = "embedded"))]
fn needs_pull(_: &anyhow::Error) -> bool {
    false
}

/// Prints help, the version or an argument error.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    let _ = error.print();
    if error.use_stderr() { Exit::Usage.into() } else { Exit::Valid.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_need_a_terminal_and_no_opt_out() {
        let with = |is_terminal: bool, set: &[(&str, &str)]| {
            let variable =
                |name: &str| set.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into());
            style_for(is_terminal, 0, variable).is_coloured
        };
        assert!(with(true, &[]));
        assert!(with(true, &[("NO_COLOR", ""), ("TERM", "xterm")]));
        assert!(!with(true, &[("NO_COLOR", "1")]));
        assert!(!with(true, &[("TERM", "dumb")]));
        assert!(!with(false, &[("TERM", "xterm")]));
    }

    #[test]
    fn line_width_follows_terminal_within_bounds() {
        let widths = [0, 10, 72, 400].map(|columns| style_for(true, columns, |_| None).width);
        assert_eq!(widths, [COLUMNS_UNKNOWN, COLUMNS_MIN, 72, COLUMNS_MAX]);
    }
}
