//! Changed files: a result must report the files that the tools of the run changed, as they changed
//! them, and no others.
//!
//! The `changes` of an agent name the paths in the result that report changed files. The results of
//! the writing tools say what happened to each file, and whether it existed before the run.

use serde_json::Value;
use slipform_schema::{PatternStep as Step, Violation, parse_pattern, universal};
use slipform_types::Blueprint;

use crate::cite::{CitedPath, cited_paths, list_path};
use crate::reply::violation;

/// The member beside a reported path that says what happened to the file.
pub(crate) const ACTION: &str = "action";

/// What a run did to a file, from its first to its last change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Created,
    Modified,
    Deleted,
}

impl Change {
    /// Returns the value of `action` in a result.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Change::Created => "created",
            Change::Modified => "modified",
            Change::Deleted => "deleted",
        }
    }

    fn of_name(name: &str) -> Option<Change> {
        [Change::Created, Change::Modified, Change::Deleted].into_iter().find(|it| it.name() == name)
    }
}

/// A file that a tool of the run has touched.
#[derive(Debug, Clone, PartialEq, Eq)]
struct TouchedFile {
    path: String,
    /// Whether the file existed before the run.
    has_existed: bool,
    /// Whether the file exists now.
    exists: bool,
    /// The path whose content from before the run the file has now. `None` once a tool wrote to it.
    content_of: Option<String>,
}

impl TouchedFile {
    /// Returns the change, or `None` if the file is as it was before the run.
    fn change(&self) -> Option<Change> {
        match (self.has_existed, self.exists) {
            (false, false) => None,
            (false, true) => Some(Change::Created),
            (true, false) => Some(Change::Deleted),
            (true, true) => (self.content_of.as_ref() != Some(&self.path)).then_some(Change::Modified),
        }
    }
}

/// The files that the tools of one run have touched, newest first.
#[derive(Debug, Clone, Default)]
pub(crate) struct FileChanges {
    files: Vec<TouchedFile>,
}

impl FileChanges {
    /// Records the result of a tool. Results of tools that do not write are ignored.
    pub(crate) fn record(&mut self, tool: &str, output: &Value) {
        let Some(path) = output["path"].as_str().map(normalized) else { return };
        match tool {
            "fs:write" | "fs:edit" => {
                let has_existed = output["created"] != true;
                let file = self.touch(path, has_existed);
                (file.exists, file.content_of) = (true, None);
            }
            "fs:delete" => {
                let file = self.touch(path, true);
                (file.exists, file.content_of) = (false, None);
            }
            "fs:move" => {
                let Some(from) = output["from"].as_str().map(normalized) else { return };
                let source = self.touch(from, true);
                source.exists = false;
                let content_of = source.content_of.take();
                let file = self.touch(path, false);
                (file.exists, file.content_of) = (true, content_of);
            }
            _ => {}
        }
    }

    /// Returns the file as the newest one. `has_existed` says whether it existed before the run, if no
    /// tool has touched it yet.
    fn touch(&mut self, path: String, has_existed: bool) -> &mut TouchedFile {
        let known = self.files.iter().position(|file| file.path == path);
        let file = match known {
            Some(index) => self.files.remove(index),
            None => {
                let content_of = has_existed.then(|| path.clone());
                TouchedFile { path, has_existed, exists: has_existed, content_of }
            }
        };
        self.files.insert(0, file);
        &mut self.files[0]
    }

    /// Returns the changed files, newest first.
    pub(crate) fn changed(&self) -> impl Iterator<Item = (&str, Change)> {
        self.files.iter().filter_map(|file| Some((file.path.as_str(), file.change()?)))
    }

    fn file(&self, path: &str) -> Option<&TouchedFile> {
        self.files.iter().find(|file| file.path == path)
    }
}

/// Returns a path without `.`, empty parts and, where possible, `..`.
fn normalized(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let root = if path.starts_with('/') { "/" } else { "" };
    format!("{root}{}", parts.join("/"))
}

/// Where a result misreports the changed files.
#[derive(Debug, Default)]
pub(crate) struct Misreports {
    /// Files that are reported but were not changed.
    pub(crate) unchanged: Vec<Violation>,
    /// Files that are reported with another action, or not at all.
    pub(crate) misreported: Vec<Violation>,
}

/// Compares the files that a value reports as changed with those that tools changed. An error report
/// may omit files.
pub(crate) fn misreports(blueprint: &Blueprint, value: &Value, changes: &FileChanges) -> Misreports {
    let mut found = Misreports::default();
    if blueprint.changes.is_empty() {
        return found;
    }
    let mut reported = Vec::new();
    for it in cited_paths(&blueprint.changes, value, usize::MAX) {
        let path = normalized(&it.path);
        let file = changes.file(&path);
        let claim = it.sibling(value, ACTION).and_then(Value::as_str).and_then(Change::of_name);
        match (file.and_then(TouchedFile::change), claim) {
            (Some(change), Some(claim)) if change != claim => {
                let message = format!(
                    "must be '{}', not '{}': '{}' {}",
                    change.name(),
                    claim.name(),
                    it.path,
                    contradiction(claim, change)
                );
                found.misreported.push(violation(&it.sibling_place(ACTION), message));
            }
            (Some(_), _) => {}
            // A file that the run created may be reported as deleted, but need not be reported.
            (None, Some(Change::Deleted)) if file.is_some_and(|file| !file.has_existed) => {}
            (None, _) => found.unchanged.push(unchanged(&it, file)),
        }
        reported.push(path);
    }
    let list = list_path(&list_patterns(&blueprint.changes), value);
    let Some(list) = list.filter(|_| !universal::reports_error(value)) else { return found };
    for (path, change) in changes.changed().filter(|(path, _)| !reported.iter().any(|it| it == path)) {
        let message = format!("lacks '{path}', which was {} in this run", change.name());
        found.misreported.push(violation(&list, message));
    }
    found
}

/// Returns the patterns that lead through a list. Others have room for one file only.
fn list_patterns(patterns: &[String]) -> Vec<String> {
    let has_list =
        |pattern: &&String| parse_pattern(pattern).is_some_and(|steps| steps.contains(&Step::Each));
    patterns.iter().filter(has_list).cloned().collect()
}

/// Says why a claimed action is wrong.
fn contradiction(claim: Change, change: Change) -> &'static str {
    match (claim, change) {
        (Change::Deleted, _) => "still exists",
        (_, Change::Deleted) => "no longer exists",
        (_, Change::Modified) => "existed before this run",
        (_, Change::Created) => "did not exist before this run",
    }
}

fn unchanged(it: &CitedPath, file: Option<&TouchedFile>) -> Violation {
    let reason = match file {
        Some(file) if !file.has_existed => "it was created in this run and no longer exists",
        Some(_) => "it is as it was before this run",
        None if it.path.starts_with('/') => "no tool wrote to it; paths are relative to the project",
        None => "no tool wrote to it",
    };
    violation(&it.place, format!("'{}' was not changed: {reason}", it.path))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Records results of tools and returns the changes, newest first.
    fn changes(results: &[(&str, Value)]) -> Vec<(String, &'static str)> {
        let mut changes = FileChanges::default();
        results.iter().for_each(|(tool, output)| changes.record(tool, output));
        changes.changed().map(|(path, change)| (path.to_owned(), change.name())).collect()
    }

    fn write(path: &str, created: bool) -> (&'static str, Value) {
        ("fs:write", json!({"path": path, "bytes": 1, "created": created}))
    }

    fn delete(path: &str) -> (&'static str, Value) {
        ("fs:delete", json!({"path": path, "deleted": true}))
    }

    fn relocate(from: &str, path: &str) -> (&'static str, Value) {
        ("fs:move", json!({"from": from, "path": path}))
    }

    #[test]
    fn changes_of_a_file_add_up() {
        let edit = ("fs:edit", json!({"path": "a", "replacements": 1}));
        for (results, expected) in [
            (vec![write("a", true)], vec![("a", "created")]),
            (vec![write("a", true), edit.clone()], vec![("a", "created")]),
            (vec![write("a", false)], vec![("a", "modified")]),
            (vec![edit.clone(), write("a", false)], vec![("a", "modified")]),
            (vec![delete("a")], vec![("a", "deleted")]),
            (vec![delete("a"), write("a", true)], vec![("a", "modified")]),
            (vec![write("a", true), delete("a")], vec![]),
            (vec![relocate("a", "b")], vec![("b", "created"), ("a", "deleted")]),
            (vec![relocate("a", "b"), relocate("b", "c")], vec![("c", "created"), ("a", "deleted")]),
            (vec![relocate("a", "b"), relocate("b", "a")], vec![]),
            (vec![edit.clone(), relocate("a", "b"), relocate("b", "a")], vec![("a", "modified")]),
            (
                vec![relocate("a", "b"), relocate("c", "a")],
                vec![("a", "modified"), ("c", "deleted"), ("b", "created")],
            ),
            (vec![write("b", true), relocate("b", "c")], vec![("c", "created")]),
            (vec![("fs:read", json!({"path": "a"})), ("fs:write", Value::Null)], vec![]),
        ] {
            let expected: Vec<_> = expected.into_iter().map(|(path, name)| (path.to_owned(), name)).collect();
            assert_eq!(changes(&results), expected, "{results:?}");
        }
    }

    #[test]
    fn paths_are_normalized() {
        for (given, expected) in
            [("./a//b/", "a/b"), ("a/../b", "b"), ("../a", "../a"), ("/a/./b", "/a/b"), ("a/b/../../c", "c")]
        {
            assert_eq!(normalized(given), expected);
        }
    }
}
