//! The project directory: opened once, and everything in it reached through that handle.
//!
//! No tool opens a path of the file system. Paths are resolved beneath the handle by the kernel where it can, so
//! neither `..` nor a link, not even one that is put in place between two calls, leads outside.

mod arguments;
mod cancel;
mod inside;
mod lock;
mod policy;
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

pub(crate) use arguments::arguments;
pub(crate) use cancel::{Cancel, perform};
pub(crate) use inside::{Inside, is_protected};
use policy::Policy;
pub use policy::{ProjectPolicy, resolve_folder};
pub(crate) use text::{cut, is_binary};
pub(crate) use tool::{ProjectTool, Run};
pub(crate) use walk::{Found, Kind, Walk};

/// The largest file that is read at all. A file is held in memory while it is read or searched; a larger one is
/// refused by the tools that name it and passed over by those that search.
pub(crate) const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// A directory that tools may work in.
#[derive(Debug)]
pub struct Project {
    dir: Dir,
    /// The directory's real path.
    folder: PathBuf,
    policy: Policy,
    /// Hashes of the files that this run has read or written, as they were then.
    seen: Mutex<HashMap<String, [u8; 32]>>,
    /// What code search knows of the files, for as long as the project is open.
    pub(crate) index: Mutex<Index>,
}

impl Project {
    /// Opens a directory that is a project's root. What the path leads to later makes no difference.
    ///
    /// # Errors
    /// When there is no such directory, or it may not be read.
    pub fn open(path: &Path) -> Result<Project, Error> {
        Project::open_with(path, &ProjectPolicy::default())
    }

    /// Opens a directory of a project.
    ///
    /// # Errors
    /// As [`Project::open`], and when the policy cannot be used.
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

    /// The directory's real path.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Notes what a file holds, as this run knows it.
    pub(crate) fn note(&self, path: &Inside, bytes: &[u8]) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.insert(path.shown().to_owned(), Sha256::digest(bytes).into());
    }

    /// Whether this run has read or written a file that holds something else now.
    pub(crate) fn is_outdated(&self, path: &Inside, bytes: &[u8]) -> bool {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.get(path.shown()).is_some_and(|known| known[..] != Sha256::digest(bytes)[..])
    }

    /// Whether there is a file or folder of this path, which is relative to the project.
    pub fn contains(&self, path: &str) -> bool {
        let is_relative = !path.trim().is_empty() && Path::new(path).is_relative();
        let inside = self.locate(path).ok().filter(|inside| is_relative && !inside.is_protected());
        inside.is_some_and(|inside| self.metadata(&inside).is_ok())
    }

    /// Takes a path as a model writes it: relative to the project, or absolute and inside it.
    pub(crate) fn locate(&self, given: &str) -> Result<Inside, Error> {
        Inside::parse(given, &self.folder)
    }

    /// What stands at a path, links followed as long as they stay inside.
    pub(crate) fn metadata(&self, path: &Inside) -> Result<Metadata, Error> {
        self.dir.metadata(path.as_path()).map_err(|error| refusal(path, &error))
    }

    /// Whether there is nothing at a path, for certain.
    pub(crate) fn lacks(&self, path: &Inside) -> bool {
        let missing = [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory];
        self.dir.metadata(path.as_path()).is_err_and(|error| missing.contains(&error.kind()))
    }

    /// Reads a file that a model may see: none of `.git` or `.slipform`, where addresses with keys and the replies of
    /// other runs are kept, and none that may hold keys itself.
    pub(crate) fn read(&self, path: &Inside) -> Result<Vec<u8>, Error> {
        self.read_visible(path, FILE_BYTES_MAX)
    }

    /// The same for files up to another size.
    pub(crate) fn read_visible(&self, path: &Inside, bytes_max: u64) -> Result<Vec<u8>, Error> {
        let inside = self.dir.canonicalize(path.as_path()).map_err(|error| refusal(path, &error))?;
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

    /// Refuses a change of a file that may hold keys: a change tells what the file holds.
    pub(crate) fn check_edit(&self, path: &Inside, bytes: &[u8]) -> Result<(), Error> {
        let real = self.folder.join(path.as_path());
        self.policy.check_read(path, &real)?;
        self.policy.check_content(path, &real, bytes)
    }

    /// Reads a regular file whole, if it has no more than this.
    pub(crate) fn read_up_to(&self, path: &Inside, bytes_max: u64) -> Result<Vec<u8>, Error> {
        read_in(&self.dir, path.as_path(), path, bytes_max)
    }
}

/// Reads a regular file whole, where `path` is what it is called in messages.
///
/// Its type is asked before it is opened, because opening a device can do something already, and again of the open
/// file, because another may have taken its place. A FIFO in that gap does not hold the call up: the open does not wait.
fn read_in(folder: &Dir, name: &Path, path: &Inside, bytes_max: u64) -> Result<Vec<u8>, Error> {
    let failed = |error: io::Error| refusal(path, &error);
    regular(path, &folder.metadata(name).map_err(failed)?)?;
    let file = folder.open_with(name, OpenOptions::new().read(true).nonblock(true)).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    regular(path, &metadata)?;
    bounded(file, metadata.len(), bytes_max)
        .map_err(failed)?
        .ok_or_else(|| path.refused(too_large(metadata.len(), bytes_max)))
}

/// What is in an open file, unless that is too much, whatever its size was said to be.
fn bounded(file: File, size: u64, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
    if size > bytes_max {
        return Ok(None);
    }
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    file.take(bytes_max + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= bytes_max).then_some(bytes))
}

fn regular(path: &Inside, metadata: &Metadata) -> Result<(), Error> {
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

/// An operating system's refusal in words that help.
pub(crate) fn refusal(path: &Inside, error: &io::Error) -> Error {
    let reason = match error.kind() {
        io::ErrorKind::NotFound => {
            "does not exist in the project; fs:list and fs:glob show what there is".to_owned()
        }
        io::ErrorKind::NotADirectory => "takes a file for a folder; fs:list shows what there is".to_owned(),
        // Without a number of the operating system it is the handle that refuses to lead outside.
        io::ErrorKind::PermissionDenied if error.raw_os_error().is_none() => {
            "leads outside the project through a link; only files inside can be used".to_owned()
        }
        _ => format!("cannot be used: {error}"),
    };
    path.refused(reason)
}
