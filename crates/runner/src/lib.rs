//! Runners: they claim a run, do what the engine says, and append what happened to the journal.
//!
//! - [`Coordinator`] is whom a runner reports to. [`Memory`] is one inside the process, whose journal lives
//!   as long as it does.
//! - [`Claim`] holds everything a run needs; nothing is fetched later.
//! - [`drive`] performs one run to its end, or to where it waits for a child.
//! - [`Local`] is a coordinator inside the process that performs runs and their children; a [`Desk`] makes their claims.
//!
//! Not in here: deciding (`formwork-engine`), storing, knowing agents.

mod claim;
mod clock;
mod drive;
mod error;
mod journal;
mod local;
mod tools;
mod variables;

pub use claim::{Claim, Rung};
pub use clock::{Clock, SystemClock};
pub use drive::{Driven, Progress, Stop, drive, perform};
pub use error::Error;
pub use formwork_engine::{Child, ChildTask, ModelCall};
pub use formwork_tools::builtin_names;
pub use journal::{Accepted, Coordinator, Memory, Reported};
pub use local::{Admitted, Desk, Local, Submission};
pub use variables::Variables;
