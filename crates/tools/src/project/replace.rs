//! Writing files: a file has its new content or its old one, one writer at a time, and never through a link.

use std::io::{self, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use cap_fs_ext::{
    DirExt as _, FollowSymlinks, MetadataExt as _, OpenOptionsFollowExt as _, OpenOptionsSyncExt as _,
};
use cap_std::fs::{Dir, File, Metadata, OpenOptions, Permissions};

use super::inside::DRAFT;
use super::lock::FileLock;
use super::{Cancel, FILE_BYTES_MAX, Inside, Project, bounded, refusal, regular, too_large};
use crate::Error;

/// How many names are tried for the temporary file beside the target. More collisions mean that another program takes
/// the names on purpose; the write then fails.
const NAMES_MAX: usize = 16;

/// A file that is about to be written: its folder, opened without following links, and its name there. No other tool
/// call writes to it while this exists.
pub(crate) struct WriteTarget<'a> {
    path: &'a Inside,
    folder: Dir,
    name: &'a str,
    _lock: FileLock,
}

/// A file at a moment: equal where nothing was written in between.
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
    /// Opens a target that tools may write to.
    pub(crate) fn write_target<'a>(
        &'a self,
        path: &'a Inside,
        create: bool,
        cancel: &Cancel,
    ) -> Result<WriteTarget<'a>, Error> {
        if path.is_protected() {
            return Err(path.refused("is in a folder that tools do not write to (.git, .slipform)"));
        }
        // Links are not followed on the way, so this is where the target really is.
        self.policy.check_write(path, &self.folder.join(path.as_path()))?;
        self.own_target(path, create, cancel)
    }

    /// Opens a target anywhere in the folder, for our own records.
    pub(crate) fn own_target<'a>(
        &'a self,
        path: &'a Inside,
        create: bool,
        cancel: &Cancel,
    ) -> Result<WriteTarget<'a>, Error> {
        let mut parts: Vec<&str> = path.parts().collect();
        let Some(name) = parts.pop() else {
            return Err(path.refused("is the project's folder; name a file in it"));
        };
        let mut folder = self.dir.try_clone().map_err(|error| refusal(path, &error))?;
        for part in parts {
            folder = enter(&folder, part, create).map_err(|error| match folder.symlink_metadata(part) {
                Ok(found) if found.is_symlink() => path
                    .refused(format!("goes through the link '{part}'; give the path that the link leads to")),
                Ok(found) if !found.is_dir() => path.refused(format!("takes the file '{part}' for a folder")),
                _ => refusal(path, &error),
            })?;
        }
        let lock = FileLock::acquire(&folder, name, path, cancel)?;
        Ok(WriteTarget { path, folder, name, _lock: lock })
    }
}

fn enter(folder: &Dir, part: &str, create: bool) -> io::Result<Dir> {
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
    /// What is there now, if anything. Anything other than a file is refused.
    pub(crate) fn existing(&self) -> Result<Option<Metadata>, Error> {
        match self.folder.symlink_metadata(self.name) {
            Ok(found) if found.is_symlink() => Err(self
                .path
                .refused("is a link and is not written to; give the path that the link leads to")),
            Ok(found) if found.is_file() && found.permissions().readonly() => {
                Err(self.path.refused("is read-only; a person has to allow writing first"))
            }
            Ok(found) => regular(self.path, &found).map(|()| Some(found)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(refusal(self.path, &error)),
        }
    }

    /// Reads the file that is there, with the version that was read.
    pub(crate) fn read(&self) -> Result<(Vec<u8>, Version), Error> {
        let failed = |error: io::Error| refusal(self.path, &error);
        if self.existing()?.is_none() {
            return Err(failed(io::ErrorKind::NotFound.into()));
        }
        let mut options = OpenOptions::new();
        options.read(true).nonblock(true).follow(FollowSymlinks::No);
        let file = self.folder.open_with(self.name, &options).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        regular(self.path, &metadata)?;
        let bytes = bounded(file, metadata.len(), FILE_BYTES_MAX)
            .map_err(failed)?
            .ok_or_else(|| self.path.refused(too_large(metadata.len(), FILE_BYTES_MAX)))?;
        Ok((bytes, Version::of(&metadata)))
    }

    /// The version that is there now, if there is a file.
    pub(crate) fn version(&self) -> Result<Option<Version>, Error> {
        Ok(self.existing()?.as_ref().map(Version::of))
    }

    /// Replaces the file: writes a temporary file beside it in full, then renames it. Nothing changes if the call was
    /// cancelled. With `expected`, nothing changes either if the file is another one by now; the result is then false.
    pub(crate) fn put(
        &self,
        bytes: &[u8],
        permissions: Option<Permissions>,
        expected: Option<&Version>,
        cancel: &Cancel,
    ) -> Result<bool, Error> {
        let failed = |error: io::Error| refusal(self.path, &error);
        let (beside, file) = self.beside().map_err(failed)?;
        let done = write(file, bytes, permissions).map_err(failed).and_then(|()| {
            cancel.check()?;
            // Programs that are not ours heed no lock.
            if expected.is_some() && self.version()?.as_ref() != expected {
                return Ok(false);
            }
            self.folder.rename(&beside, &self.folder, self.name).map_err(failed).map(|()| true)
        });
        if !matches!(done, Ok(true)) {
            // A file that cannot be removed has a name that tells where it comes from.
            let _ = self.folder.remove_file(&beside);
        }
        done
    }

    /// A new file in the same folder.
    fn beside(&self) -> io::Result<(String, File)> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).follow(FollowSymlinks::No);
        let mut refused = io::Error::from(io::ErrorKind::AlreadyExists);
        for _ in 0..NAMES_MAX {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!("{DRAFT}{}-{number}.tmp", std::process::id());
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
