//! The verbs, one file a group. Each is a function of a transaction and works on either database.
//!
//! Locks are taken in one order, so that no two verbs wait for each other: the run that is worked for before the run
//! that works for it, and runs before sessions. See [`run::lock`].

pub(crate) mod append;
pub(crate) mod check;
pub(crate) mod claim;
pub(crate) mod delete;
pub(crate) mod end;
pub(crate) mod family;
pub(crate) mod figures;
pub(crate) mod journal;
pub(crate) mod milestones;
pub(crate) mod names;
pub(crate) mod park;
pub(crate) mod registry;
pub(crate) mod retain;
pub(crate) mod run;
pub(crate) mod runner;
pub(crate) mod runs;
pub(crate) mod sessions;
pub(crate) mod stop;
pub(crate) mod submit;
pub(crate) mod sweep;
pub(crate) mod token;
pub(crate) mod turn;
