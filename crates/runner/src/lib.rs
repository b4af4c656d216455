//! Runners: they claim a run, do what the engine says, and append what happened to the journal.
//!
//! - [`Coordinator`] is whom a runner reports to. [`Memory`] is one inside the process that starts no children and whose
//!   journal lives as long as it does.
//! - [`RunContext`] holds everything a run needs; nothing is fetched later.
//! - [`drive`] performs one run to its end, or to where it waits for a child.
//! - [`Worker`] takes its work from a coordinator behind a [`slipform_api::RunnerApi`]: it claims as many runs as it has
//!   slots, says that it lives, and gives back what it holds when it goes home. An [`ResourceProvider`] makes the claim of each
//!   [`Job`]; an [`Attempt`] carries what happens to the coordinator, and again while that is away.
//!
//! Runs, calls and tools are `tracing` spans under OpenTelemetry's names for generative AI (`invoke_agent`, `chat`,
//! `execute_tool`); whoever starts the process decides where they go. What is said in them is never recorded.
//!
//! Not in here: deciding (`slipform-engine`), storing, knowing agents.

mod attempt;
mod backoff;
mod clock;
mod drive;
mod error;
mod job;
mod journal;
mod partial;
mod run_context;
mod secrets;
mod spans;
mod tools;
mod variables;
mod worker;

pub use attempt::Attempt;
pub use clock::{Clock, SystemClock};
pub use drive::{Driven, Progress, StopSignal, drive, perform};
pub use error::Error;
pub use job::{First, Job, Prepared, ResourceProvider};
pub use journal::{Accepted, Coordinator, Memory, Reported};
pub use run_context::{LadderRung, RunContext};
pub use secrets::{Secrets, is_secret_variable};
pub use slipform_engine::{Child, ChildTask, ModelCall};
pub use slipform_process::program_positions;
pub use slipform_tools::{ProjectPolicy, builtin_names, resolve_folder};
pub use variables::Variables;
pub use worker::{Worker, WorkerOptions};
