//! Tests of the test kit. The scripted server is tested from the client's side of the socket, byte by byte.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod chat;
mod completions;
mod concurrency;
mod cuts;
mod fixtures;
mod messages;
mod replies;
mod script;
mod streams;
mod support;
mod wait;
