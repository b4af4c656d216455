//! The server seen from the other end of the socket, by a client that knows nothing but bytes.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod chat;
mod client;
mod completions;
mod concurrency;
mod cuts;
mod messages;
mod replies;
mod script;
mod streams;
