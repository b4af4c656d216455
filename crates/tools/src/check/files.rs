//! Inspects the project's files for a criterion.

use grep_matcher::Matcher as _;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};

use super::Finding;
use super::criterion::{FileCheck, PathKind};
use crate::Error;
use crate::fs::text;
use crate::project::{Project, ProjectPath, cut};

/// Maximum length of a pattern. The arguments' schema rejects longer ones.
pub(super) const PATTERN_CHARACTERS_MAX: usize = 1_000;

/// Maximum size of a compiled pattern; nested repetitions exceed it and are refused.
const PATTERN_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Maximum length of a line in a note.
const LINE_CHARACTERS_MAX: usize = 160;

/// Decides whether a file meets the conditions. An unreadable file decides nothing.
pub(super) fn inspect(project: &Project, check: &FileCheck) -> Finding {
    let (found, note) = match find(project, check) {
        Ok(Inspection::Completed(found, note)) => (found, note),
        // A missing file does not prove that its content lacks something.
        Ok(Inspection::FileMissing(note)) if check.absent => return (None, format!("not decided: {note}")),
        Ok(Inspection::FileMissing(note)) => return (Some(false), note),
        Err(reason) => return (None, format!("not decided: {reason}")),
    };
    if check.is_loose && !found {
        return (None, format!("not decided: {note} word by word; look at the file"));
    }
    (Some(found != check.absent), note)
}

/// The result of an inspection.
enum Inspection {
    /// Whether the conditions hold, and a note.
    Completed(bool, String),
    /// The file whose content was to be inspected does not exist.
    FileMissing(String),
}

/// Inspects a file, ignoring `absent`.
fn find(project: &Project, check: &FileCheck) -> Result<Inspection, Error> {
    let has_content = check.contains.is_some() || check.matches.is_some();
    let path = project.locate(&check.path)?;
    if path.is_protected() {
        return Err(path.refused("is not one of the project's files"));
    }
    let shown = path.as_str();
    if project.is_missing(&path) {
        let note = format!("{shown} does not exist");
        return Ok(if has_content {
            Inspection::FileMissing(note)
        } else {
            Inspection::Completed(false, note)
        });
    }
    let metadata = project.metadata(&path)?;
    let kind = if metadata.is_dir() { "folder" } else { "file" };
    if !has_content {
        let is_expected = match check.kind {
            PathKind::Any => true,
            PathKind::File => metadata.is_file(),
            PathKind::Folder => metadata.is_dir(),
        };
        return Ok(Inspection::Completed(is_expected, format!("{shown} is a {kind}")));
    }
    let content = text(&path, project.read(&path)?)?;
    let mut note = None;
    for (offset, description) in match_offsets(check, &content)? {
        match offset {
            Some(offset) => note = Some(line_at(&path, &content, offset)),
            None => return Ok(Inspection::Completed(false, format!("{shown} does not {description}"))),
        }
    }
    Ok(Inspection::Completed(true, note.unwrap_or_default()))
}

/// Returns the offset of each required text or pattern, if found, and a description of it.
fn match_offsets(check: &FileCheck, content: &str) -> Result<Vec<(Option<usize>, String)>, Error> {
    let mut offsets = Vec::new();
    if let Some(expected) = &check.contains {
        offsets.push((content.find(expected), format!("contain '{}'", cut(expected, LINE_CHARACTERS_MAX).0)));
    }
    if let Some(pattern) = &check.matches {
        let found = matcher(pattern)?.find(content.as_bytes());
        // Leading whitespace of a match may start on a previous line; report the line of its first visible
        // character.
        let offset = found.ok().flatten().map(|found| {
            let matched = content.get(found.start()..found.end()).unwrap_or_default();
            found.start() + matched.len() - matched.trim_start().len()
        });
        offsets.push((offset, format!("match '{}'", cut(pattern, LINE_CHARACTERS_MAX).0)));
    }
    Ok(offsets)
}

pub(super) fn matcher(pattern: &str) -> Result<RegexMatcher, Error> {
    RegexMatcherBuilder::new()
        .multi_line(true)
        .size_limit(PATTERN_BYTES_MAX)
        .dfa_size_limit(PATTERN_BYTES_MAX)
        .build(pattern)
        .map_err(|error| Error::Pattern { pattern: pattern.to_owned(), reason: error.to_string() })
}

/// Formats the line at an offset.
pub(super) fn line_at(path: &ProjectPath, content: &str, offset: usize) -> String {
    let before = content.get(..offset).unwrap_or_default();
    let number = before.matches('\n').count() + 1;
    let line = content.lines().nth(number - 1).unwrap_or_default().trim();
    format!("line {number} of {}: {}", path.as_str(), cut(line, LINE_CHARACTERS_MAX).0)
}
