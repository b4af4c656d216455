//! The API over real sockets, with a real store.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests say what they expect")]

mod check;
mod client;
mod drain;
mod house;
mod leases;
mod limits;
mod malformed;
mod openapi;
mod operations;
mod routes;
mod runner;
mod runs;
mod sessions;
mod shelf;
mod streams;
mod tokens;
mod typed;
