//! The API over HTTP: handlers of a few lines each, the guard before them, and the streams.
//!
//! A request passes, in this order: the connection (bounded in number and time), the net that catches
//! panics, the guard (where it comes from, whose token it shows), the limits, its extractors, and its handler. A
//! handler calls one verb of [`App`](crate::App). Whatever refuses answers through `errors.rs`.

mod agents;
mod catch_panic;
mod check;
mod connection;
mod context;
mod errors;
mod events;
mod extract;
mod guard;
mod limits;
mod openapi;
mod operations;
mod origin;
mod router;
mod runner;
mod runs;
mod schemas;
mod server;
mod sessions;
mod stream;
mod tokens;
mod write_timeout;

pub use openapi::openapi;
pub use server::{Bound, Server, ServerOptions};
