//! The API over real sockets, with a real store.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod access;
mod both_apis;
mod check;
mod drain;
mod exhaustion;
mod leases;
mod limits;
mod malformed;
mod openapi;
mod operations;
mod registry;
mod routes;
mod runner;
mod runs;
mod sessions;
mod streams;
mod support;
mod tls;
mod tokens;
