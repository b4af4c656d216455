//! The runner: claims runs from a coordinator, performs the engine's actions and appends the resulting
//! events.
//!
//! Modules, in reading order:
//!
//! - `worker`: [`Worker`] registers, claims as many runs as it has slots, sends heartbeats and releases runs
//!   on shutdown.
//! - `resources`: [`Resources`] of a run (backends, folder, variables, tools), and [`ResourceProvider`], which prepares
//!   them.
//! - `run_context`: [`RunContext`], an assignment with its resources.
//! - `attempt`: [`Attempt`] numbers the events of an attempt and appends them, with retries during an outage.
//! - `drive`: [`drive`] performs actions until the run ends or waits for a child.
//! - `tools`: calls tools and runs the programs of procedural agents.
//! - `memory_journal`: [`MemoryJournal`], the coordinator's side of an attempt in memory, without children.
//! - `requests`: [`derive_requests`] shows what models were asked.
//! - `partial`, `secrets`, `variables`: partial replies, redaction, and the environment variables of an
//!   agent.
//! - `backoff`, `clock`, `confinement`, `spans`, `error`: retries, time, a warning, tracing spans and errors.
//!
//! Runs, model calls and tool calls are `tracing` spans with OpenTelemetry's names for generative AI
//! (`invoke_agent`, `chat`, `execute_tool`). The process installs the subscriber. Spans never contain
//! prompts, replies or tool arguments.
//!
//! ```
//! use std::sync::Arc;
//!
//! use slipform_runner::{MemoryJournal, SystemClock};
//!
//! let journal = MemoryJournal::new(Arc::new(SystemClock));
//! assert!(journal.events().is_empty());
//! ```
//!
//! Not in this crate: deciding the next action (`slipform-engine`), storing journals (`slipform-store`),
//! loading agents (`slipform-agents`).

mod attempt;
mod backoff;
mod clock;
mod confinement;
mod drive;
mod error;
mod memory_journal;
mod partial;
mod requests;
mod resources;
mod run_context;
mod secrets;
mod spans;
mod tools;
mod variables;
mod worker;

pub use attempt::{Attempt, Deadline};
pub use clock::{Clock, SystemClock};
pub use drive::{DriveOutcome, Progress, StopSignal, drive, drive_to_end, unsupported_message};
pub use error::Error;
pub use memory_journal::MemoryJournal;
pub use requests::derive_requests;
pub use resources::{LadderRung, Prepared, ResourceProvider, Resources};
pub use run_context::RunContext;
pub use secrets::{Secrets, is_secret_variable};
pub use slipform_engine::{Child, ChildTask, ModelCall};
pub use slipform_model::{Error as ModelError, Watch, estimated_input_tokens};
pub use slipform_process::program_positions;
pub use slipform_tools::{CommandPattern, ProjectPolicy, resolve_folder};
pub use spans::{TraceLinks, set_trace_links};
pub use variables::Variables;
pub use worker::{Worker, WorkerOptions};
