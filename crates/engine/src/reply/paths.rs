//! Cited paths: files that a result names must exist, and files that it claims to have changed must
//! have been changed.

use serde_json::Value;
use slipform_schema::Violation;
use slipform_types::Blueprint;

use super::rejection::violation;
use crate::cite::{CITED_MAX, cited_paths};
use crate::tool_loop::ToolLoop;

/// The judgment of the paths that a value cites.
pub(super) enum PathsVerdict {
    /// All files exist or were changed, as the value says.
    Right,
    /// The value names wrong files.
    Wrong(Vec<Violation>),
    /// No tool has shown these files: the runner has to check them. Sorted, without duplicates.
    Unknown(Vec<String>),
}

/// Judges the paths that a value cites. `missing` holds the files that the runner did not find, once
/// it has checked the unknown ones.
pub(super) fn judge_paths(
    blueprint: &Blueprint,
    value: &Value,
    tools: &ToolLoop,
    missing: Option<&[String]>,
) -> PathsVerdict {
    let (cited, changed) = (cited_paths(&blueprint.cites, value), cited_paths(&blueprint.changes, value));
    let mut wrong: Vec<Violation> = Vec::new();
    if cited.len() > CITED_MAX || changed.len() > CITED_MAX {
        wrong.push(violation("$", format!("names more than {CITED_MAX} files; name those that matter")));
    }
    for it in changed.iter().filter(|it| !tools.written.contains(&it.path)) {
        let message = format!("'{}' was not changed: no tool wrote to it", it.path);
        wrong.push(violation(&it.place, message));
    }
    for it in cited.iter().filter(|it| missing.is_some_and(|missing| missing.contains(&it.path))) {
        let message = format!("'{}' is not a file or folder of the project", it.path);
        wrong.push(violation(&it.place, message));
    }
    if !wrong.is_empty() {
        return PathsVerdict::Wrong(wrong);
    }
    let mut paths: Vec<String> = cited.into_iter().map(|it| it.path).collect();
    paths.retain(|path| !tools.seen.contains(path));
    paths.sort();
    paths.dedup();
    if missing.is_some() || paths.is_empty() { PathsVerdict::Right } else { PathsVerdict::Unknown(paths) }
}
