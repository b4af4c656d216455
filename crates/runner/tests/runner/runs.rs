//! Whole runs of agents with tools: models on real sockets, programs that are really started, files that are really read.

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
