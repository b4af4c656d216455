//! Tests the scripted server from the client's side of the socket, byte by byte.
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
