//! Writing: a file is there in its new form or in its old one, and never through a link.

use std::io::{self, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{MutexGuard, PoisonError};

use cap_fs_ext::{DirExt as _, FollowSymlinks, OpenOptionsFollowExt as _, OpenOptionsSyncExt as _};
use cap_std::fs::{Dir, File, Metadata, OpenOptions, Permissions};

use super::inside::DRAFT;
use super::{Cancel, FILE_BYTES_MAX, Inside, Project, bounded, refusal, regular, too_large};
use crate::Error;

/// How many names are tried for the file that is written beside. More are taken only if someone takes them on purpose;
/// the write then fails.
const NAMES_MAX: usize = 16;

/// Where a file is to be written: its folder, reached without following links, and its name there.
pub(crate) struct Place<'a> {
    path: &'a Inside,
    folder: Dir,
    name: &'a str,
    _alone: MutexGuard<'a, ()>,
}

impl Project {
    /// A place that tools may write to.
    pub(crate) fn place<'a>(&'a self, path: &'a Inside, create: bool) -> Result<Place<'a>, Error> {
        if path.is_protected() {
            return Err(path.refused("is in a folder that tools do not write to (.git, .formwork)"));
        }
        if is_of_formwork(path) {
            return Err(path.refused(
                "says which programs and keys agents may use; tools do not write to it, a person has to",
            ));
        }
        self.own_place(path, create)
    }

    /// A place anywhere, for our own records.
    pub(crate) fn own_place<'a>(&'a self, path: &'a Inside, create: bool) -> Result<Place<'a>, Error> {
        let alone = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
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
        Ok(Place { path, folder, name, _alone: alone })
    }
}

/// Whether a file decides what agents may do: one that an agent writes could give it programs and keys.
fn is_of_formwork(path: &Inside) -> bool {
    let parts: Vec<String> = path.parts().map(str::to_ascii_lowercase).collect();
    let is_agent = |name: &str| [".yaml", ".yml", ".json"].iter().any(|end| name.ends_with(end));
    match parts.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["formwork.toml"] => true,
        ["agents", name] => is_agent(name),
        ["agents", _, name] => is_agent(name) || *name == "system-prompt.md",
        _ => false,
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

impl Place<'_> {
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

    /// Reads the file that is there.
    pub(crate) fn read(&self) -> Result<Vec<u8>, Error> {
        let failed = |error: io::Error| refusal(self.path, &error);
        if self.existing()?.is_none() {
            return Err(failed(io::ErrorKind::NotFound.into()));
        }
        let mut options = OpenOptions::new();
        options.read(true).nonblock(true).follow(FollowSymlinks::No);
        let file = self.folder.open_with(self.name, &options).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        regular(self.path, &metadata)?;
        bounded(file, metadata.len(), FILE_BYTES_MAX)
            .map_err(failed)?
            .ok_or_else(|| self.path.refused(too_large(metadata.len(), FILE_BYTES_MAX)))
    }

    /// Puts a file there: written beside in full, then renamed. A new one is not made if nobody waits for it any more.
    pub(crate) fn put(
        &self,
        bytes: &[u8],
        permissions: Option<Permissions>,
        cancel: &Cancel,
    ) -> Result<(), Error> {
        let failed = |error: io::Error| refusal(self.path, &error);
        let (beside, file) = self.beside().map_err(failed)?;
        let done = write(file, bytes, permissions).map_err(failed).and_then(|()| {
            cancel.check()?;
            self.folder.rename(&beside, &self.folder, self.name).map_err(failed)
        });
        if done.is_err() {
            // What cannot be removed was not there, or stays behind under a name that says whose it is.
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
