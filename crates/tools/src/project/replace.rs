//! Atomic file writes: one writer at a time, never through a link, and readers see the old or the new
//! content.

use std::io::{self, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use cap_fs_ext::{
    DirExt as _, FollowSymlinks, MetadataExt as _, OpenOptionsFollowExt as _, OpenOptionsSyncExt as _,
};
use cap_std::fs::{Dir, File, Metadata, OpenOptions, Permissions};

use super::lock::FileLock;
use super::path::TEMPORARY_PREFIX;
use super::{
    Cancellation, FILE_BYTES_MAX, Project, ProjectPath, check_regular_file, path_error, read_bounded,
    too_large,
};
use crate::Error;

/// The number of names to try for the temporary file. More collisions mean that another program occupies the
/// names on purpose; the write then fails.
const NAMES_MAX: usize = 16;

/// A file to write: its folder, opened without following links, and its name. The lock excludes other tool
/// calls while this value exists.
pub(crate) struct WriteTarget<'a> {
    path: &'a ProjectPath,
    folder: Dir,
    name: &'a str,
    _lock: FileLock,
}

/// The identity of a file's content. Two versions are equal if nothing was written in between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Version {
    device: u64,
    inode: u64,
    size: u64,
    modified: Option<SystemTime>,
}

impl Version {
    fn of(metadata: &Metadata) -> Version {
        let modified = metadata.modified().ok().map(cap_std::time::SystemTime::into_std);
        Version { device: metadata.dev(), inode: metadata.ino(), size: metadata.len(), modified }
    }
}

impl Project {
    /// Opens a write target after checking that tools may write to it.
    pub(crate) fn write_target<'a>(
        &'a self,
        path: &'a ProjectPath,
        create: bool,
        cancel: &Cancellation,
    ) -> Result<WriteTarget<'a>, Error> {
        if path.is_protected() {
            return Err(path.refused("is in a folder that tools do not write to (.git, .slipform)"));
        }
        // The target is opened without following links, so its joined path is its canonical path.
        self.policy.check_write(path, &self.folder.join(path.as_path()))?;
        self.internal_target(path, create, cancel)
    }

    /// Opens a write target without policy checks, for Slipform's own files.
    pub(crate) fn internal_target<'a>(
        &'a self,
        path: &'a ProjectPath,
        create: bool,
        cancel: &Cancellation,
    ) -> Result<WriteTarget<'a>, Error> {
        let mut parts: Vec<&str> = path.parts().collect();
        let Some(name) = parts.pop() else {
            return Err(path.refused("is the project's folder; name a file in it"));
        };
        let mut folder = self.dir.try_clone().map_err(|error| path_error(path, &error))?;
        for part in parts {
            folder = open_subfolder(&folder, part, create).map_err(|error| {
                match folder.symlink_metadata(part) {
                    Ok(found) if found.is_symlink() => path.refused(format!(
                        "goes through the link '{part}'; give the path that the link leads to"
                    )),
                    Ok(found) if !found.is_dir() => {
                        path.refused(format!("takes the file '{part}' for a folder"))
                    }
                    _ => path_error(path, &error),
                }
            })?;
        }
        let lock = FileLock::acquire(&folder, name, path, cancel)?;
        Ok(WriteTarget { path, folder, name, _lock: lock })
    }
}

fn open_subfolder(folder: &Dir, part: &str, create: bool) -> io::Result<Dir> {
    match folder.open_dir_nofollow(part) {
        Err(error) if create && error.kind() == io::ErrorKind::NotFound => {
            match folder.create_dir(part) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
            folder.open_dir_nofollow(part)
        }
        other => other,
    }
}

impl WriteTarget<'_> {
    /// Returns the metadata of the existing file, or `None`. Refuses links, folders, devices and read-only
    /// files.
    pub(crate) fn existing(&self) -> Result<Option<Metadata>, Error> {
        match self.folder.symlink_metadata(self.name) {
            Ok(found) if found.is_symlink() => Err(self
                .path
                .refused("is a link and is not written to; give the path that the link leads to")),
            Ok(found) if found.is_file() && found.permissions().readonly() => {
                Err(self.path.refused("is read-only; a person has to allow writing first"))
            }
            Ok(found) => check_regular_file(self.path, &found).map(|()| Some(found)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(path_error(self.path, &error)),
        }
    }

    /// Reads the existing file and the version that was read.
    pub(crate) fn read(&self) -> Result<(Vec<u8>, Version), Error> {
        let failed = |error: io::Error| path_error(self.path, &error);
        if self.existing()?.is_none() {
            return Err(failed(io::ErrorKind::NotFound.into()));
        }
        let mut options = OpenOptions::new();
        options.read(true).nonblock(true).follow(FollowSymlinks::No);
        let file = self.folder.open_with(self.name, &options).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        check_regular_file(self.path, &metadata)?;
        let bytes = read_bounded(file, metadata.len(), FILE_BYTES_MAX)
            .map_err(failed)?
            .ok_or_else(|| self.path.refused(too_large(metadata.len(), FILE_BYTES_MAX)))?;
        Ok((bytes, Version::of(&metadata)))
    }

    /// Returns the current version, or `None` if the file does not exist.
    pub(crate) fn version(&self) -> Result<Option<Version>, Error> {
        Ok(self.existing()?.as_ref().map(Version::of))
    }

    /// Replaces the file: writes a temporary file in the same folder, then renames it. Changes nothing if the
    /// call was cancelled. Returns false and changes nothing if the file no longer has the version
    /// `expected`.
    pub(crate) fn replace(
        &self,
        bytes: &[u8],
        permissions: Option<Permissions>,
        expected: Option<&Version>,
        cancel: &Cancellation,
    ) -> Result<bool, Error> {
        let failed = |error: io::Error| path_error(self.path, &error);
        let (temporary, file) = self.temporary_file().map_err(failed)?;
        let done = write(file, bytes, permissions).map_err(failed).and_then(|()| {
            cancel.check()?;
            // Other programs do not honour the lock.
            if expected.is_some() && self.version()?.as_ref() != expected {
                return Ok(false);
            }
            self.folder.rename(&temporary, &self.folder, self.name).map_err(failed).map(|()| true)
        });
        if !matches!(done, Ok(true)) {
            // If this fails, a file with a recognisable name remains.
            let _ = self.folder.remove_file(&temporary);
        }
        done
    }

    /// Creates a temporary file in the same folder.
    fn temporary_file(&self) -> io::Result<(String, File)> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).follow(FollowSymlinks::No);
        let mut refused = io::Error::from(io::ErrorKind::AlreadyExists);
        for _ in 0..NAMES_MAX {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!("{TEMPORARY_PREFIX}{}-{number}.tmp", std::process::id());
            match self.folder.open_with(&name, &options) {
                Ok(file) => return Ok((name, file)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => refused = error,
                Err(error) => return Err(error),
            }
        }
        Err(refused)
    }
}

fn write(mut file: File, bytes: &[u8], permissions: Option<Permissions>) -> io::Result<()> {
    file.write_all(bytes)?;
    if let Some(permissions) = permissions {
        file.set_permissions(permissions)?;
    }
    file.sync_all()
}
