//! Runners: they claim a run, do what the engine says, and append what happened to the journal.
//!
//! - [`Coordinator`] is whom a runner reports to. [`Memory`] is one inside the process, whose journal lives
//!   as long as it does.
//! - [`Claim`] holds everything a run needs; nothing is fetched later.
//! - [`drive`] performs one run to its end.
//!
//! Not in here: deciding (`formwork-engine`), storing, knowing agents.

mod claim;
mod clock;
mod drive;
mod error;
mod journal;

pub use claim::{Claim, Rung};
pub use clock::{Clock, SystemClock};
pub use drive::{Progress, Stop, drive};
pub use error::Error;
pub use formwork_engine::ModelCall;
pub use journal::{Coordinator, Memory, Reported};
