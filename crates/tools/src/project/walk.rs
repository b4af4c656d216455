//! Walks the project's folders through the directory handle: sorted, without following links, honouring
//! ignore files.

use std::ffi::OsString;
use std::ops::ControlFlow;
use std::path::Path;

use cap_fs_ext::DirExt as _;
use cap_std::fs::{Dir, FileType, Metadata};
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use serde::Serialize;

use super::{Cancellation, Project, ProjectPath, is_protected, path_error, read_file_in};
use crate::Error;

/// The maximum nesting of walked folders, because each holds a file descriptor. Deeper entries are omitted
/// and the result is marked as truncated.
const DEPTH_MAX: usize = 64;

/// The maximum number of entries of one walk, to bound the time of a call. Further entries are omitted and
/// the result is marked as truncated.
const ENTRIES_MAX: usize = 300_000;

/// Names of ignore files. Later files take precedence.
const IGNORE_FILES: [&str; 2] = [".gitignore", ".ignore"];

/// The largest ignore file that is read, because each walk compiles its patterns. A larger file excludes
/// nothing.
const IGNORE_FILE_BYTES_MAX: u64 = 256 * 1024;

/// The type of a folder entry, as `fs:list` returns it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum EntryKind {
    File,
    Folder,
    Link,
    Other,
}

impl EntryKind {
    fn of(found: FileType) -> EntryKind {
        match found {
            found if found.is_symlink() => EntryKind::Link,
            found if found.is_dir() => EntryKind::Folder,
            found if found.is_file() => EntryKind::File,
            _ => EntryKind::Other,
        }
    }
}

/// An entry that a walk found.
#[derive(Debug)]
pub(crate) struct WalkEntry {
    pub(crate) path: String,
    pub(crate) kind: EntryKind,
    /// Set for files only.
    pub(crate) metadata: Option<Metadata>,
}

/// A walk over a folder. It visits files in the order of their paths.
pub(crate) struct Walk<'a> {
    project: &'a Project,
    cancel: &'a Cancellation,
    depth_max: usize,
    entries: usize,
    ignores: Vec<IgnoreLevel>,
    visit: &'a mut dyn FnMut(WalkEntry) -> Result<ControlFlow<()>, Error>,
    complete: bool,
}

/// The ignore rules of one folder.
struct IgnoreLevel {
    /// Length of the path prefix that leads to the folder.
    prefix: usize,
    rules: Gitignore,
}

impl<'a> Walk<'a> {
    /// Creates a walk that passes each entry to `visit` until `visit` breaks.
    pub(crate) fn new(
        project: &'a Project,
        cancel: &'a Cancellation,
        visit: &'a mut dyn FnMut(WalkEntry) -> Result<ControlFlow<()>, Error>,
    ) -> Walk<'a> {
        Walk { project, cancel, depth_max: DEPTH_MAX, entries: 0, ignores: Vec::new(), visit, complete: true }
    }

    /// Limits the depth. Entries below it do not count as truncation.
    pub(crate) fn depth(mut self, depth_max: usize) -> Walk<'a> {
        self.depth_max = depth_max.min(DEPTH_MAX);
        self
    }

    /// Walks a folder, or visits a single file. Returns true if neither a limit nor `visit` ended the walk
    /// early.
    pub(crate) fn run(mut self, start: &ProjectPath) -> Result<bool, Error> {
        let metadata = self.project.metadata(start)?;
        let real =
            self.project.dir.canonicalize(start.as_path()).map_err(|error| path_error(start, &error))?;
        if start.is_protected() || real.iter().any(|part| part.to_str().is_some_and(is_protected)) {
            return Err(start.refused("is in a folder that is not listed or searched (.git, .slipform)"));
        }
        if metadata.is_file() {
            let found = WalkEntry {
                path: start.as_str().to_owned(),
                kind: EntryKind::File,
                metadata: Some(metadata),
            };
            return Ok((self.visit)(found)?.is_continue());
        }
        if !metadata.is_dir() {
            return Err(start.refused("is neither a file nor a folder"));
        }
        let mut parent = String::new();
        for part in start.parts() {
            if let Ok(folder) = self.project.dir.open_dir(ProjectPath::trusted(parent.clone()).as_path()) {
                self.load_ignore_rules(
                    &folder,
                    if parent.is_empty() { String::new() } else { format!("{parent}/") },
                );
            }
            parent = if parent.is_empty() { part.to_owned() } else { format!("{parent}/{part}") };
        }
        let folder = self.project.dir.open_dir(start.as_path()).map_err(|error| path_error(start, &error))?;
        let _ = self.walk_folder(&folder, &start.prefix(), 1)?;
        Ok(self.complete)
    }

    fn walk_folder(&mut self, folder: &Dir, prefix: &str, depth: usize) -> Result<ControlFlow<()>, Error> {
        self.load_ignore_rules(folder, prefix.to_owned());
        for (name, kind, metadata) in self.entries_of(folder)? {
            self.cancel.check()?;
            let path = format!("{prefix}{}", name.to_string_lossy());
            if self.is_ignored(&path, kind == EntryKind::Folder) {
                continue;
            }
            self.entries += 1;
            if self.entries > ENTRIES_MAX
                || (self.visit)(WalkEntry { path: path.clone(), kind, metadata })?.is_break()
            {
                self.complete = false;
                return Ok(ControlFlow::Break(()));
            }
            if kind == EntryKind::Folder && self.descend(folder, &name, &path, depth)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        self.ignores.pop();
        Ok(ControlFlow::Continue(()))
    }

    fn descend(
        &mut self,
        parent: &Dir,
        name: &OsString,
        path: &str,
        depth: usize,
    ) -> Result<ControlFlow<()>, Error> {
        if depth >= self.depth_max {
            self.complete &= depth < DEPTH_MAX;
            return Ok(ControlFlow::Continue(()));
        }
        // Skip folders that are unreadable or were removed; the rest of the result is still useful.
        match parent.open_dir_nofollow(name) {
            Ok(folder) => self.walk_folder(&folder, &format!("{path}/"), depth + 1),
            Err(_) => Ok(ControlFlow::Continue(())),
        }
    }

    /// Returns a folder's entries, sorted so that the paths of all files below it come in order.
    fn entries_of(&self, folder: &Dir) -> Result<Vec<(OsString, EntryKind, Option<Metadata>)>, Error> {
        let mut found = Vec::new();
        let Ok(entries) = folder.entries() else { return Ok(found) };
        for entry in entries.flatten().take(ENTRIES_MAX + 1) {
            self.cancel.check()?;
            let name = entry.file_name();
            if name.to_str().is_some_and(is_protected) {
                continue;
            }
            let Ok(kind) = entry.file_type().map(EntryKind::of) else { continue };
            let metadata = if kind == EntryKind::File { entry.metadata().ok() } else { None };
            found.push((name, kind, metadata));
        }
        found.sort_by_cached_key(|(name, kind, _)| {
            let mut key = name.clone();
            if *kind == EntryKind::Folder {
                key.push("/");
            }
            key
        });
        Ok(found)
    }

    /// Pushes the rules of a folder's ignore files. Invalid lines exclude nothing.
    fn load_ignore_rules(&mut self, folder: &Dir, prefix: String) {
        let mut builder = GitignoreBuilder::new(".");
        for name in IGNORE_FILES {
            let path = ProjectPath::trusted(format!("{prefix}{name}"));
            if let Ok(bytes) = read_file_in(folder, Path::new(name), &path, IGNORE_FILE_BYTES_MAX) {
                for line in String::from_utf8_lossy(&bytes).lines() {
                    let _ = builder.add_line(None, line);
                }
            }
        }
        let rules = builder.build().unwrap_or_else(|_| Gitignore::empty());
        self.ignores.push(IgnoreLevel { prefix: prefix.len(), rules });
    }

    fn is_ignored(&self, path: &str, is_folder: bool) -> bool {
        for level in self.ignores.iter().rev() {
            match level.rules.matched(&path[level.prefix..], is_folder) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => {}
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cancelled_walk_ends() {
        let project = Project::open(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap();
        let (cancel, mut seen) = (Cancellation::default(), 0);
        let mut visit = |_: WalkEntry| {
            seen += 1;
            cancel.cancel();
            Ok(ControlFlow::Continue(()))
        };
        let ended = Walk::new(&project, &cancel, &mut visit).run(&ProjectPath::trusted(String::new()));
        assert!(matches!(ended, Err(Error::Failed(_))), "{ended:?}");
        assert_eq!(seen, 1);
    }
}
