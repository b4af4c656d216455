//! Cited paths: files that a result names must exist, and files that it reports as changed must be those
//! that were changed.

use serde_json::Value;
use slipform_schema::Violation;
use slipform_types::Blueprint;

use super::rejection::violation;
use crate::changes::{self, Misreports};
use crate::cite::{CITED_MAX, cited_paths};
use crate::prompt::RetryReason;
use crate::tool_loop::ToolLoop;

/// The judgment of the paths that a value cites.
pub(super) enum PathsVerdict {
    /// All cited files exist, and all changed files are reported as they were changed.
    Right,
    /// The value names wrong files, or misreports changes.
    Wrong(Vec<Violation>, RetryReason),
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
    let cited = cited_paths(&blueprint.cites, value, CITED_MAX + 1);
    let mut wrong: Vec<Violation> = Vec::new();
    if cited.len() > CITED_MAX {
        wrong.push(violation("$", format!("names more than {CITED_MAX} files; name those that matter")));
    }
    let Misreports { unchanged, misreported } = changes::misreports(blueprint, value, &tools.changes);
    let reason = if misreported.is_empty() { RetryReason::Citation } else { RetryReason::Changes };
    wrong.extend(unchanged);
    wrong.extend(misreported);
    for it in cited.iter().filter(|it| missing.is_some_and(|missing| missing.contains(&it.path))) {
        let message = format!("'{}' is not a file or folder of the project", it.path);
        wrong.push(violation(&it.place, message));
    }
    if !wrong.is_empty() {
        return PathsVerdict::Wrong(wrong, reason);
    }
    let mut paths: Vec<String> = cited.into_iter().map(|it| it.path).collect();
    paths.retain(|path| !tools.seen.contains(path));
    paths.sort();
    paths.dedup();
    if missing.is_some() || paths.is_empty() { PathsVerdict::Right } else { PathsVerdict::Unknown(paths) }
}
