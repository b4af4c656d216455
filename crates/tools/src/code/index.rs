//! What is known of the project's files, kept up with them.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::UNIX_EPOCH;

use cap_fs_ext::MetadataExt as _;
use cap_std::fs::Metadata;

use super::chunks::{Chunk, chunks};
use super::store;
use super::terms::{Term, each_term};
use crate::Error;
use crate::project::{Cancel, Found, Inside, Kind, Project, Walk, is_binary};

/// The largest file that is indexed. Larger ones are data rather than code and would crowd the code out; they are left
/// out, and fs:search still finds what is in them.
const INDEXED_FILE_BYTES_MAX: u64 = 512 * 1024;

/// How many files and how many bytes of them are indexed: the index is held in memory and takes about as much as the
/// text. What comes after that in the order of paths is left out, and results are marked as truncated.
const FILES_MAX: usize = 50_000;
const TEXT_BYTES_MAX: u64 = 128 * 1024 * 1024;

/// The index is saved when more than one file in this many has changed. Saving writes all of it, which after every edit
/// would take longer than the search; what is not saved is read again by the next process.
const SAVED_SHARE: usize = 50;

/// What is known of the project's files.
#[derive(Debug, Default)]
pub(crate) struct Index {
    pub(super) files: BTreeMap<String, Indexed>,
    loaded: bool,
    /// How many files have changed since the index was saved.
    unsaved: usize,
    /// Nothing was left out for a limit.
    pub(super) complete: bool,
}

/// What is known of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Indexed {
    pub(super) stamp: Stamp,
    pub(super) chunks: Vec<Chunk>,
    /// The words of its path, in the order of their numbers.
    pub(super) path_terms: Vec<Term>,
}

impl Indexed {
    pub(super) fn new(path: &str, stamp: Stamp, chunks: Vec<Chunk>) -> Indexed {
        let mut path_terms = Vec::new();
        each_term(path, |term| path_terms.push(term));
        path_terms.sort_unstable();
        path_terms.dedup();
        Indexed { stamp, chunks, path_terms }
    }
}

/// By what a file is known to be the same. A file that is replaced has another number even if it is as large and was
/// written at the same moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) size: u64,
    pub(super) modified_ns: u64,
    pub(super) inode: u64,
}

impl Stamp {
    fn of(metadata: &Metadata) -> Stamp {
        let modified =
            metadata.modified().ok().and_then(|time| time.into_std().duration_since(UNIX_EPOCH).ok());
        let modified_ns = modified.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX));
        Stamp { size: metadata.len(), modified_ns, inode: metadata.ino() }
    }
}

impl Index {
    /// Reads what has changed since the last time, and says how many files that were.
    pub(super) fn refresh(&mut self, project: &Project, cancel: &Cancel) -> Result<usize, Error> {
        if !self.loaded {
            self.files = store::load(project).unwrap_or_default();
            self.loaded = true;
        }
        let present = self.present(project, cancel)?;
        let before = self.files.len();
        self.files.retain(|path, _| present.contains_key(path));
        self.unsaved += before - self.files.len();
        let mut read = 0;
        for (path, stamp) in present {
            cancel.check()?;
            if self.files.get(&path).is_some_and(|known| known.stamp == stamp) {
                continue;
            }
            // What cannot be read has nothing to find, and may be readable the next time.
            let Ok(bytes) = project.read_visible(&Inside::found(path.clone()), INDEXED_FILE_BYTES_MAX) else {
                self.files.remove(&path);
                continue;
            };
            let pieces =
                if is_binary(&bytes) { Vec::new() } else { chunks(&String::from_utf8_lossy(&bytes)) };
            self.files.insert(path.clone(), Indexed::new(&path, stamp, pieces));
            read += 1;
            self.unsaved += 1;
        }
        if self.unsaved * SAVED_SHARE > self.files.len() {
            // In a project that may not be written the index lives as long as the process.
            let _ = store::save(project, &self.files, cancel);
            self.unsaved = 0;
        }
        Ok(read)
    }

    /// The files there are now.
    fn present(&mut self, project: &Project, cancel: &Cancel) -> Result<BTreeMap<String, Stamp>, Error> {
        let mut present = BTreeMap::new();
        let mut bytes = 0;
        let mut visit = |found: Found| {
            let Some(metadata) = found.metadata.filter(|_| found.kind == Kind::File) else {
                return Ok(ControlFlow::Continue(()));
            };
            if metadata.len() <= INDEXED_FILE_BYTES_MAX {
                bytes += metadata.len();
                if present.len() == FILES_MAX || bytes > TEXT_BYTES_MAX {
                    return Ok(ControlFlow::Break(()));
                }
                present.insert(found.path, Stamp::of(&metadata));
            }
            Ok(ControlFlow::Continue(()))
        };
        let root = Inside::found(String::new());
        self.complete = Walk::new(project, cancel, &mut visit).run(&root)?;
        Ok(present)
    }
}
