//! Walking the project's folders through the handle: sorted, without links, without what ignore files exclude.

use std::ffi::OsString;
use std::ops::ControlFlow;
use std::path::Path;

use cap_fs_ext::DirExt as _;
use cap_std::fs::{Dir, FileType, Metadata};
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use serde::Serialize;

use super::{Cancel, Inside, Project, is_protected, read_in, refusal};
use crate::Error;

/// How many folders below each other are walked. Each holds a file descriptor open; what lies deeper is left out and
/// the result is marked as truncated.
const DEPTH_MAX: usize = 64;

/// How many entries one walk looks at, so that a call ends on a disk full of them. The rest is left out and the result
/// is marked as truncated.
const ENTRIES_MAX: usize = 300_000;

/// Files that say what is to be left out. A later one prevails.
const IGNORE_FILES: [&str; 2] = [".gitignore", ".ignore"];

/// The largest ignore file that is heeded. Its patterns are compiled whenever its folder is walked; a larger one
/// excludes nothing.
const IGNORE_FILE_BYTES_MAX: u64 = 256 * 1024;

/// What an entry of a folder is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    File,
    Folder,
    Link,
    Other,
}

impl Kind {
    fn of(found: FileType) -> Kind {
        match found {
            found if found.is_symlink() => Kind::Link,
            found if found.is_dir() => Kind::Folder,
            found if found.is_file() => Kind::File,
            _ => Kind::Other,
        }
    }
}

/// An entry of a folder.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) path: String,
    pub(crate) kind: Kind,
    /// Of files only: nobody asks for the others'.
    pub(crate) metadata: Option<Metadata>,
}

/// One walk. Files come in the order of their paths.
pub(crate) struct Walk<'a> {
    project: &'a Project,
    cancel: &'a Cancel,
    depth_max: usize,
    entries: usize,
    ignores: Vec<Level>,
    visit: &'a mut dyn FnMut(Found) -> Result<ControlFlow<()>, Error>,
    complete: bool,
}

/// The ignore rules of one folder.
struct Level {
    /// How much of a path leads to the folder.
    prefix: usize,
    rules: Gitignore,
}

impl<'a> Walk<'a> {
    /// A walk that shows each entry to `visit` until that breaks off.
    pub(crate) fn new(
        project: &'a Project,
        cancel: &'a Cancel,
        visit: &'a mut dyn FnMut(Found) -> Result<ControlFlow<()>, Error>,
    ) -> Walk<'a> {
        Walk { project, cancel, depth_max: DEPTH_MAX, entries: 0, ignores: Vec::new(), visit, complete: true }
    }

    /// Goes this many folders deep; that there is more below is then no truncation.
    pub(crate) fn depth(mut self, depth_max: usize) -> Walk<'a> {
        self.depth_max = depth_max.min(DEPTH_MAX);
        self
    }

    /// Walks a folder, or shows a single file. True if nothing was left out for a limit or because `visit` broke off.
    pub(crate) fn run(mut self, start: &Inside) -> Result<bool, Error> {
        let metadata = self.project.metadata(start)?;
        let real = self.project.dir.canonicalize(start.as_path()).map_err(|error| refusal(start, &error))?;
        if start.is_protected() || real.iter().any(|part| part.to_str().is_some_and(is_protected)) {
            return Err(start.refused("is in a folder that is not listed or searched (.git, .slipform)"));
        }
        if metadata.is_file() {
            let found = Found { path: start.shown().to_owned(), kind: Kind::File, metadata: Some(metadata) };
            return Ok((self.visit)(found)?.is_continue());
        }
        if !metadata.is_dir() {
            return Err(start.refused("is neither a file nor a folder"));
        }
        let mut above = String::new();
        for part in start.parts() {
            if let Ok(folder) = self.project.dir.open_dir(Inside::found(above.clone()).as_path()) {
                self.heed(&folder, if above.is_empty() { String::new() } else { format!("{above}/") });
            }
            above = if above.is_empty() { part.to_owned() } else { format!("{above}/{part}") };
        }
        let folder = self.project.dir.open_dir(start.as_path()).map_err(|error| refusal(start, &error))?;
        let _ = self.folder(&folder, &start.prefix(), 1)?;
        Ok(self.complete)
    }

    fn folder(&mut self, folder: &Dir, prefix: &str, depth: usize) -> Result<ControlFlow<()>, Error> {
        self.heed(folder, prefix.to_owned());
        for (name, kind, metadata) in self.entries_of(folder)? {
            self.cancel.check()?;
            let path = format!("{prefix}{}", name.to_string_lossy());
            if self.ignored(&path, kind == Kind::Folder) {
                continue;
            }
            self.entries += 1;
            if self.entries > ENTRIES_MAX
                || (self.visit)(Found { path: path.clone(), kind, metadata })?.is_break()
            {
                self.complete = false;
                return Ok(ControlFlow::Break(()));
            }
            if kind == Kind::Folder && self.descend(folder, &name, &path, depth)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        self.ignores.pop();
        Ok(ControlFlow::Continue(()))
    }

    fn descend(
        &mut self,
        above: &Dir,
        name: &OsString,
        path: &str,
        depth: usize,
    ) -> Result<ControlFlow<()>, Error> {
        if depth >= self.depth_max {
            self.complete &= depth < DEPTH_MAX;
            return Ok(ControlFlow::Continue(()));
        }
        // A folder that may not be read, or is none any more, is passed over: the others are of use all the same.
        match above.open_dir_nofollow(name) {
            Ok(folder) => self.folder(&folder, &format!("{path}/"), depth + 1),
            Err(_) => Ok(ControlFlow::Continue(())),
        }
    }

    /// A folder's entries in the order that puts the paths of all files below it in order.
    fn entries_of(&self, folder: &Dir) -> Result<Vec<(OsString, Kind, Option<Metadata>)>, Error> {
        let mut found = Vec::new();
        let Ok(entries) = folder.entries() else { return Ok(found) };
        for entry in entries.flatten().take(ENTRIES_MAX + 1) {
            self.cancel.check()?;
            let name = entry.file_name();
            if name.to_str().is_some_and(is_protected) {
                continue;
            }
            let Ok(kind) = entry.file_type().map(Kind::of) else { continue };
            let metadata = if kind == Kind::File { entry.metadata().ok() } else { None };
            found.push((name, kind, metadata));
        }
        found.sort_by_cached_key(|(name, kind, _)| {
            let mut key = name.clone();
            if *kind == Kind::Folder {
                key.push("/");
            }
            key
        });
        Ok(found)
    }

    /// Reads a folder's ignore files. A line in them that cannot be understood excludes nothing.
    fn heed(&mut self, folder: &Dir, prefix: String) {
        let mut builder = GitignoreBuilder::new(".");
        for name in IGNORE_FILES {
            let path = Inside::found(format!("{prefix}{name}"));
            if let Ok(bytes) = read_in(folder, Path::new(name), &path, IGNORE_FILE_BYTES_MAX) {
                for line in String::from_utf8_lossy(&bytes).lines() {
                    let _ = builder.add_line(None, line);
                }
            }
        }
        let rules = builder.build().unwrap_or_else(|_| Gitignore::empty());
        self.ignores.push(Level { prefix: prefix.len(), rules });
    }

    fn ignored(&self, path: &str, is_folder: bool) -> bool {
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
    fn a_walk_that_nobody_waits_for_ends() {
        let project = Project::open(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap();
        let (cancel, mut seen) = (Cancel::default(), 0);
        let mut visit = |_: Found| {
            seen += 1;
            cancel.stop();
            Ok(ControlFlow::Continue(()))
        };
        let ended = Walk::new(&project, &cancel, &mut visit).run(&Inside::found(String::new()));
        assert!(matches!(ended, Err(Error::Failed(_))), "{ended:?}");
        assert_eq!(seen, 1);
    }
}
