//! Whole runs of agents with tools, with models on real sockets, real programs and real files.

mod callbacks;
mod calls;
mod delegation;
mod journals;
mod limits;
mod partial;
mod programs;
mod protocols;
mod resume;
mod servers;
mod sessions;
mod trees;
mod universal;
