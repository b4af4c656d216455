//! The in-memory index, refreshed from the project's files.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::UNIX_EPOCH;

use cap_fs_ext::MetadataExt as _;
use cap_std::fs::Metadata;

use super::chunks::{Chunk, chunks};
use super::store;
use super::terms::{Term, each_term};
use crate::Error;
use crate::project::{Cancellation, EntryKind, Project, ProjectPath, Walk, WalkEntry, is_binary};

/// Maximum size of an indexed file. Larger files are usually data; they are omitted, and `fs:search` still
/// finds their content.
const INDEXED_FILE_BYTES_MAX: u64 = 512 * 1024;

/// Maximum number of indexed files and of their bytes, because the index takes about as much memory as the
/// text. Files beyond the limit, in path order, are omitted and results are marked as truncated.
const FILES_MAX: usize = 50_000;
const TEXT_BYTES_MAX: u64 = 128 * 1024 * 1024;

/// The index is saved when more than one file in this many has changed. Saving rewrites the whole index,
/// which would take longer than a search. The next process reads unsaved files again.
const SAVED_SHARE: usize = 50;

/// Chunks and path terms of the project's files.
#[derive(Debug, Default)]
pub(crate) struct Index {
    pub(super) files: BTreeMap<String, IndexedFile>,
    loaded: bool,
    /// Number of files that changed since the index was saved.
    unsaved: usize,
    /// False if a limit excluded files.
    pub(super) complete: bool,
}

/// The indexed content of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct IndexedFile {
    pub(super) stamp: FileStamp,
    pub(super) chunks: Vec<Chunk>,
    /// Terms of its path, in ascending order.
    pub(super) path_terms: Vec<Term>,
}

impl IndexedFile {
    pub(super) fn new(path: &str, stamp: FileStamp, chunks: Vec<Chunk>) -> IndexedFile {
        let mut path_terms = Vec::new();
        each_term(path, |term| path_terms.push(term));
        path_terms.sort_unstable();
        path_terms.dedup();
        IndexedFile { stamp, chunks, path_terms }
    }
}

/// Detects changed files. The inode differs for a replaced file even if size and modification time are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileStamp {
    pub(super) size: u64,
    pub(super) modified_ns: u64,
    pub(super) inode: u64,
}

impl FileStamp {
    fn of(metadata: &Metadata) -> FileStamp {
        let modified =
            metadata.modified().ok().and_then(|time| time.into_std().duration_since(UNIX_EPOCH).ok());
        let modified_ns = modified.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX));
        FileStamp { size: metadata.len(), modified_ns, inode: metadata.ino() }
    }
}

impl Index {
    /// Reads the files that changed since the last refresh and returns their number.
    pub(super) fn refresh(&mut self, project: &Project, cancel: &Cancellation) -> Result<usize, Error> {
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
            // Drop unreadable files from the index; a later refresh tries them again.
            let Ok(bytes) = project.read_visible(&ProjectPath::trusted(path.clone()), INDEXED_FILE_BYTES_MAX)
            else {
                self.files.remove(&path);
                continue;
            };
            let chunks_of_file =
                if is_binary(&bytes) { Vec::new() } else { chunks(&String::from_utf8_lossy(&bytes)) };
            self.files.insert(path.clone(), IndexedFile::new(&path, stamp, chunks_of_file));
            read += 1;
            self.unsaved += 1;
        }
        if self.unsaved * SAVED_SHARE > self.files.len() {
            // In a read-only project the index lives as long as the process.
            let _ = store::save(project, &self.files, cancel);
            self.unsaved = 0;
        }
        Ok(read)
    }

    /// Returns the files that exist now, with their stamps.
    fn present(
        &mut self,
        project: &Project,
        cancel: &Cancellation,
    ) -> Result<BTreeMap<String, FileStamp>, Error> {
        let mut present = BTreeMap::new();
        let mut bytes = 0;
        let mut visit = |found: WalkEntry| {
            let Some(metadata) = found.metadata.filter(|_| found.kind == EntryKind::File) else {
                return Ok(ControlFlow::Continue(()));
            };
            if metadata.len() <= INDEXED_FILE_BYTES_MAX {
                bytes += metadata.len();
                if present.len() == FILES_MAX || bytes > TEXT_BYTES_MAX {
                    return Ok(ControlFlow::Break(()));
                }
                present.insert(found.path, FileStamp::of(&metadata));
            }
            Ok(ControlFlow::Continue(()))
        };
        let root = ProjectPath::trusted(String::new());
        self.complete = Walk::new(project, cancel, &mut visit).run(&root)?;
        Ok(present)
    }
}
