//! Runs child processes with a fixed environment, bounded output and guaranteed cleanup.
//!
//! A program is started without a shell and inherits no environment variables. It leads its own process
//! group, and the whole group is killed when the program exits, fails or is dropped.
//!
//! # Modules
//! - `program`: [`Program`] names the command, working folder and environment, and starts the process.
//! - `run`: [`Program::run`] writes stdin and collects [`Output`] until the process exits, within [`Limits`].
//! - `confinement`: [`FileAccess`], the files that a program may use.
//! - `running`: [`Program::spawn`] returns a [`Running`] process and its [`Pipes`], for long-lived servers.
//! - `group`: kills a process group exactly once.
//! - `tail`: keeps the last bytes of a stream; [`output_tail`] formats them for a message.
//! - `error`: [`Error`].
//!
//! # Example
//! ```
//! use slipform_process::{Limits, Program};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let argv = vec!["tr".to_owned(), "a-z".to_owned(), "A-Z".to_owned()];
//! let program = Program { argv, folder: ".".into(), environment: Vec::new(), access: None };
//! let limits = Limits { timeout: None, stdout_bytes_max: 1_000, stderr_bytes_max: 1_000 };
//! let output = program.run(b"green", &limits).await?;
//! assert!(output.status.success());
//! assert_eq!(output.stdout, b"GREEN");
//! # Ok::<(), slipform_process::Error>(())
//! # }).unwrap();
//! ```
//!
//! Not in this crate: the meaning of a program's output, and the redaction of secrets in it. See
//! `slipform-model` and `slipform-tools`.

mod confinement;
mod error;
mod group;
mod program;
mod run;
mod running;
mod tail;

pub use confinement::{FileAccess, is_confinement_available};
pub use error::Error;
pub use program::{COMMON_ENVIRONMENT, Program, anchor_command, common_environment, program_positions};
pub use run::{Limits, Output};
pub use running::{Pipes, Running};
pub use tail::output_tail;
