//! The project directory, opened once as a capability handle.
//!
//! No tool opens an ambient file system path. The kernel resolves paths beneath the handle where it can.
//! Neither `..` nor a symbolic link leads outside, even if another program creates the link between two
//! calls.
//!
//! - `path` parses paths, `walk` iterates over folders, `replace` writes files atomically under a `lock`.
//! - `policy` decides which paths are writable and which files may hold secrets. `program_access` states the same for
//!   programs.
//! - `tool` and `cancel` run a tool function on a blocking thread with a time limit.

mod arguments;
mod cancel;
mod lock;
mod path;
mod policy;
mod program_access;
mod replace;
mod text;
mod tool;
mod walk;

use std::collections::HashMap;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use cap_fs_ext::OpenOptionsSyncExt as _;
use cap_std::ambient_authority;
use cap_std::fs::{Dir, File, Metadata, OpenOptions};

use sha2::{Digest as _, Sha256};

use crate::Error;
use crate::code::Index;

pub(crate) use arguments::parse_arguments;
pub(crate) use cancel::{Cancellation, run_blocking};
pub(crate) use path::{ProjectPath, is_protected};
use policy::Policy;
pub use policy::{ProjectPolicy, resolve_folder};
pub(crate) use program_access::package_caches;
pub(crate) use replace::{Version, WriteTarget};
pub(crate) use text::{cut, is_binary};
pub(crate) use tool::{ProjectTool, ToolFunction};
pub(crate) use walk::{EntryKind, Walk, WalkEntry};

/// The largest file that tools read, because a file is held in memory. Tools that name a larger file refuse
/// it; searches skip it.
pub(crate) const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// A directory that tools work in.
#[derive(Debug)]
pub struct Project {
    dir: Dir,
    /// The directory's canonical path.
    folder: PathBuf,
    policy: Policy,
    /// SHA-256 of each file as this run last read or wrote it, to detect concurrent changes.
    seen: Mutex<HashMap<String, [u8; 32]>>,
    /// The code search index, kept while the project is open.
    pub(crate) index: Mutex<Index>,
}

impl Project {
    /// Opens a project's root. Replacing the directory at `path` later does not affect the handle.
    ///
    /// # Errors
    /// Returns an error when the directory does not exist or is not readable.
    pub fn open(path: &Path) -> Result<Project, Error> {
        Project::open_with(path, &ProjectPolicy::default())
    }

    /// Opens a folder of a project with additional rules.
    ///
    /// # Errors
    /// As [`Project::open`], and when a pattern or the root of the policy is invalid.
    pub fn open_with(path: &Path, policy: &ProjectPolicy) -> Result<Project, Error> {
        let refused = |error: io::Error| Error::Path {
            path: path.display().to_string(),
            reason: format!("cannot be opened as the project's folder: {error}"),
        };
        let folder = path.canonicalize().map_err(refused)?;
        let dir = Dir::open_ambient_dir(&folder, ambient_authority()).map_err(refused)?;
        let policy = Policy::new(&folder, policy)?;
        Ok(Project { dir, folder, policy, seen: Mutex::default(), index: Mutex::default() })
    }

    /// Returns the directory's canonical path.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Records a file's content as this run knows it.
    pub(crate) fn record_content(&self, path: &ProjectPath, bytes: &[u8]) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.insert(path.as_str().to_owned(), Sha256::digest(bytes).into());
    }

    /// Forgets the content of a file that this run has deleted or moved away.
    pub(crate) fn forget_content(&self, path: &ProjectPath) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.remove(path.as_str());
    }

    /// Returns whether the file changed since this run last read or wrote it.
    pub(crate) fn has_changed(&self, path: &ProjectPath, bytes: &[u8]) -> bool {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.get(path.as_str()).is_some_and(|known| known[..] != Sha256::digest(bytes)[..])
    }

    /// Returns whether a file or folder exists at a relative path. Protected paths never exist.
    pub fn contains(&self, path: &str) -> bool {
        let is_relative = !path.trim().is_empty() && Path::new(path).is_relative();
        let inside = self.locate(path).ok().filter(|inside| is_relative && !inside.is_protected());
        inside.is_some_and(|inside| self.metadata(&inside).is_ok())
    }

    /// Parses a path as a model writes it: relative to the project, or absolute and inside it.
    pub(crate) fn locate(&self, given: &str) -> Result<ProjectPath, Error> {
        ProjectPath::parse(given, &self.folder)
    }

    /// Returns a path's metadata, following links that stay inside the project.
    pub(crate) fn metadata(&self, path: &ProjectPath) -> Result<Metadata, Error> {
        self.dir.metadata(path.as_path()).map_err(|error| path_error(path, &error))
    }

    /// Returns whether nothing exists at a path. Other errors, such as missing permissions, return false.
    pub(crate) fn is_missing(&self, path: &ProjectPath) -> bool {
        let missing = [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory];
        self.dir.metadata(path.as_path()).is_err_and(|error| missing.contains(&error.kind()))
    }

    /// Reads a file that a model may see. Refuses files that may hold keys, and everything in `.git` and
    /// `.slipform`, which contain credentials in URLs and replies of other runs.
    pub(crate) fn read(&self, path: &ProjectPath) -> Result<Vec<u8>, Error> {
        self.read_visible(path, FILE_BYTES_MAX)
    }

    /// Reads a file as [`Project::read`] does, with a different size limit.
    pub(crate) fn read_visible(&self, path: &ProjectPath, bytes_max: u64) -> Result<Vec<u8>, Error> {
        let inside = self.dir.canonicalize(path.as_path()).map_err(|error| path_error(path, &error))?;
        let leads_there = inside.iter().any(|part| part.to_str().is_some_and(is_protected));
        if path.is_protected() || leads_there {
            return Err(
                path.refused("cannot be read: .git and .slipform are not part of the project's files")
            );
        }
        let real = self.folder.join(inside);
        self.policy.check_read(path, &real)?;
        let bytes = self.read_up_to(path, bytes_max)?;
        self.policy.check_content(path, &real, &bytes)?;
        Ok(bytes)
    }

    /// Refuses to edit a file that may hold keys, because the result of an edit reveals its content.
    pub(crate) fn check_edit(&self, path: &ProjectPath, bytes: &[u8]) -> Result<(), Error> {
        let real = self.folder.join(path.as_path());
        self.policy.check_read(path, &real)?;
        self.policy.check_content(path, &real, bytes)
    }

    /// Reads a regular file of at most `bytes_max` bytes, without the visibility checks of [`Project::read`].
    pub(crate) fn read_up_to(&self, path: &ProjectPath, bytes_max: u64) -> Result<Vec<u8>, Error> {
        read_file_in(&self.dir, path.as_path(), path, bytes_max)
    }
}

/// Reads a regular file. `path` is its name in error messages.
///
/// The type is checked before opening, because opening a device can have side effects. It is checked again
/// on the open file, because another program may have replaced it. A FIFO does not block the open because of
/// `O_NONBLOCK`.
fn read_file_in(folder: &Dir, name: &Path, path: &ProjectPath, bytes_max: u64) -> Result<Vec<u8>, Error> {
    let failed = |error: io::Error| path_error(path, &error);
    check_regular_file(path, &folder.metadata(name).map_err(failed)?)?;
    let file = folder.open_with(name, OpenOptions::new().read(true).nonblock(true)).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    check_regular_file(path, &metadata)?;
    read_bounded(file, metadata.len(), bytes_max)
        .map_err(failed)?
        .ok_or_else(|| path.refused(too_large(metadata.len(), bytes_max)))
}

/// Reads an open file. Returns `None` when it is larger than `bytes_max`, even if its metadata reported less.
fn read_bounded(file: File, size: u64, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
    if size > bytes_max {
        return Ok(None);
    }
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    file.take(bytes_max + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= bytes_max).then_some(bytes))
}

fn check_regular_file(path: &ProjectPath, metadata: &Metadata) -> Result<(), Error> {
    if metadata.is_file() {
        Ok(())
    } else if metadata.is_dir() {
        Err(path.refused("is a folder, not a file; fs:list shows what is in it"))
    } else {
        Err(path.refused("is neither a file nor a folder (a device, pipe or socket) and is not opened"))
    }
}

fn too_large(size: u64, bytes_max: u64) -> String {
    format!(
        "has {size} bytes, and files up to {bytes_max} are read; no tool opens it, work with other files instead"
    )
}

/// Converts an I/O error to a message that tells the model what to do.
pub(crate) fn path_error(path: &ProjectPath, error: &io::Error) -> Error {
    let reason = match error.kind() {
        io::ErrorKind::NotFound => {
            "does not exist in the project; fs:list and fs:glob show what there is".to_owned()
        }
        io::ErrorKind::NotADirectory => "takes a file for a folder; fs:list shows what there is".to_owned(),
        // An error without an OS error code comes from cap-std, which refuses to leave the project.
        io::ErrorKind::PermissionDenied if error.raw_os_error().is_none() => {
            "leads outside the project through a link; only files inside can be used".to_owned()
        }
        _ => format!("cannot be used: {error}"),
    };
    path.refused(reason)
}
