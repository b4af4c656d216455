//! The operations, grouped by file. Each is a function of a transaction and runs on both databases.
//!
//! Operations lock rows in one order to avoid deadlocks: parent runs before child runs, and runs before
//! sessions. See [`run::lock`].

pub(crate) mod append;
pub(crate) mod check;
pub(crate) mod claim;
pub(crate) mod delegation;
pub(crate) mod delete;
pub(crate) mod encoding;
pub(crate) mod end;
pub(crate) mod gateway;
pub(crate) mod journal;
pub(crate) mod milestones;
pub(crate) mod next_run;
pub(crate) mod park;
pub(crate) mod registry;
pub(crate) mod retain;
pub(crate) mod run;
pub(crate) mod runner;
pub(crate) mod runs;
pub(crate) mod sessions;
pub(crate) mod space;
pub(crate) mod stats;
pub(crate) mod stop;
pub(crate) mod submit;
pub(crate) mod sweep;
pub(crate) mod token;
