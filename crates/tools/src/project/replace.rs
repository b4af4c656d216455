//! Atomic writes, moves and deletions of files: one writer at a time, never through a link, and readers see
//! the old or the new content.

use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use cap_fs_ext::{
    DirExt as _, FollowSymlinks, MetadataExt as _, OpenOptionsFollowExt as _, OpenOptionsSyncExt as _,
};
use cap_std::fs::{Dir, File, Metadata, OpenOptions, Permissions};
use rustix::fs::{RenameFlags, renameat_with};
use rustix::io::Errno;

use super::lock::{FileLock, LockedFile};
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
    /// Shared by the two targets of a move.
    _lock: Arc<FileLock>,
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
        self.check_write(path)?;
        self.internal_target(path, create, cancel)
    }

    /// Opens the file to move and its new path, after checking that tools may write to both. Creates missing
    /// folders of the new path if the file exists.
    pub(crate) fn move_targets<'a>(
        &'a self,
        from: &'a ProjectPath,
        to: &'a ProjectPath,
        cancel: &Cancellation,
    ) -> Result<(WriteTarget<'a>, WriteTarget<'a>), Error> {
        self.check_write(from)?;
        self.check_write(to)?;
        let (from_folder, from_name) = self.open_parent(from, false)?;
        from_folder.symlink_metadata(from_name).map_err(|error| path_error(from, &error))?;
        let (to_folder, to_name) = self.open_parent(to, true)?;
        let files = [
            LockedFile { folder: &from_folder, name: from_name, path: from },
            LockedFile { folder: &to_folder, name: to_name, path: to },
        ];
        let lock = Arc::new(FileLock::acquire(&files, cancel)?);
        Ok((
            WriteTarget { path: from, folder: from_folder, name: from_name, _lock: Arc::clone(&lock) },
            WriteTarget { path: to, folder: to_folder, name: to_name, _lock: lock },
        ))
    }

    /// Refuses a path that tools must not write.
    fn check_write(&self, path: &ProjectPath) -> Result<(), Error> {
        if path.is_protected() {
            return Err(path.refused("is in a folder that tools do not write to (.git, .slipform)"));
        }
        // The target is opened without following links, so its joined path is its canonical path.
        self.policy.check_write(path, &self.folder.join(path.as_path()))
    }

    /// Opens a write target without policy checks, for Slipform's own files.
    pub(crate) fn internal_target<'a>(
        &'a self,
        path: &'a ProjectPath,
        create: bool,
        cancel: &Cancellation,
    ) -> Result<WriteTarget<'a>, Error> {
        let (folder, name) = self.open_parent(path, create)?;
        let file = LockedFile { folder: &folder, name, path };
        let lock = Arc::new(FileLock::acquire(&[file], cancel)?);
        Ok(WriteTarget { path, folder, name, _lock: lock })
    }

    /// Opens the folder of a file without following links. Returns it with the name of the file.
    fn open_parent<'a>(&self, path: &'a ProjectPath, create: bool) -> Result<(Dir, &'a str), Error> {
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
        Ok((folder, name))
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

    /// Deletes the file. Returns false and changes nothing if the file no longer has the version `expected`.
    pub(crate) fn remove(&self, expected: &Version, cancel: &Cancellation) -> Result<bool, Error> {
        cancel.check()?;
        // Other programs do not honour the lock.
        if self.version()?.as_ref() != Some(expected) {
            return Ok(false);
        }
        self.folder.remove_file(self.name).map_err(|error| path_error(self.path, &error)).map(|()| true)
    }

    /// Moves the file to a target that does not exist. Returns false and changes nothing if the file no longer
    /// has the version `expected`.
    pub(crate) fn move_to(
        &self,
        target: &WriteTarget<'_>,
        expected: &Version,
        cancel: &Cancellation,
    ) -> Result<bool, Error> {
        cancel.check()?;
        if self.version()?.as_ref() != Some(expected) {
            return Ok(false);
        }
        let exclusive = RenameFlags::NOREPLACE;
        match renameat_with(&self.folder, self.name, &target.folder, target.name, exclusive) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Err(target.taken(false)),
            Err(Errno::XDEV) => Err(self.path.refused(format!(
                "is not moved: '{}' is on another file system; write the new file, then delete the old one",
                target.path.as_str()
            ))),
            // Some file systems cannot rename exclusively. The lock still excludes all other tool calls.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                target.check_free()?;
                let renamed = self.folder.rename(self.name, &target.folder, target.name);
                renamed.map_err(|error| path_error(self.path, &error)).map(|()| true)
            }
            Err(error) => Err(path_error(self.path, &error.into())),
        }
    }

    /// Refuses a path at which something exists.
    pub(crate) fn check_free(&self) -> Result<(), Error> {
        match self.folder.symlink_metadata(self.name) {
            Ok(found) => Err(self.taken(found.is_dir())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(path_error(self.path, &error)),
        }
    }

    fn taken(&self, is_folder: bool) -> Error {
        self.path.refused(if is_folder {
            "is a folder; give the new path with the name of the file"
        } else {
            "exists already and is not replaced; give another path, or delete it first"
        })
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
