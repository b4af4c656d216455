//! A program under control: what it is given, what it may say, and that nothing of it is left.
//!
//! - [`Program`] is a program, its arguments, its folder and every variable it sees. It is never handed to a
//!   shell, and it inherits nothing.
//! - [`Program::run`] hands it its input and listens until it has ended, within [`Limits`].
//! - [`Program::spawn`] leaves it [`Running`], to be talked to through [`Pipes`].
//!
//! Either way it has a process group of its own, which is killed as a whole however things end: by a result,
//! by an error, or by the future or the [`Running`] being dropped.
//!
//! ```
//! use slipform_process::{Limits, Program};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let argv = vec!["tr".to_owned(), "a-z".to_owned(), "A-Z".to_owned()];
//! let program = Program { argv, folder: ".".into(), environment: Vec::new() };
//! let limits = Limits { timeout: None, stdout_bytes_max: 1_000, stderr_bytes_max: 1_000 };
//! let ended = program.run(b"green", &limits).await?;
//! assert!(ended.status.success());
//! assert_eq!(ended.stdout, b"GREEN");
//! # Ok::<(), slipform_process::Error>(())
//! # }).unwrap();
//! ```
//!
//! Not in here: what a program means, and keeping secrets out of what it says (`slipform-model`,
//! `slipform-tools`).

mod error;
mod group;
mod program;
mod run;
mod running;
mod tail;

pub use error::Error;
pub use program::{COMMON_ENVIRONMENT, Program, anchor_command, common_environment, program_positions};
pub use run::{Ended, Limits};
pub use running::{Pipes, Running};
pub use tail::last_words;
