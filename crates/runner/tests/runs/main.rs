//! Whole runs of agents that act: models on real sockets, programs that are really started, files that are really read.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

#[path = "../play/agency.rs"]
mod agency;
#[path = "../play/claims.rs"]
mod claims;
#[path = "../play/folder.rs"]
mod folder;
#[path = "../play/model.rs"]
mod model;
#[path = "../play/parts.rs"]
mod parts;
#[path = "../play/place.rs"]
mod place;
#[path = "../play/runs.rs"]
mod runs;

mod acting;
mod callbacks;
mod calls;
mod delegation;
mod journals;
mod limits;
mod partial;
mod programs;
mod resume;
mod servers;
mod sessions;
mod trees;
mod universal;
