//! The command as people and scripts run it: a project folder, a process, what it prints and how it ends.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]
#![allow(clippy::print_stdout, reason = "tests say what they skip")]

mod acting;
mod agents;
mod api;
mod check;
mod coordinators;
mod docs;
mod edits;
mod embedded;
mod executor;
mod families;
mod model;
mod orchestrate;
mod protection;
mod results;
mod roles;
mod run;
mod secrets;
mod spans;
mod stats;
mod support;
mod universal;
