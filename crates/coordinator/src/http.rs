//! The HTTP API.
//!
//! A request passes through the connection, the panic handler, the guard (origin and token), its extractors, and its
//! handler. Short requests pass the limits as well; those that wait, such as `POST /runs`, take a permit only for what they
//! do before. A handler calls one operation of [`App`](crate::App), or submits a run and waits for it. `errors.rs` converts
//! all errors into responses.
//!
//! Modules, in reading order:
//! - `server`, `tls`, `connection`, `write_timeout`: accept, encrypt and serve connections; shutdown.
//! - `guard`, `origin`, `tokens`: authentication and authorization.
//! - `router`, `limits`, `context`, `extract`: routes, concurrency limits, shared state, request parsing.
//! - `runs`, `sessions`, `events`, `agents`, `schemas`, `check`, `runner`, `operations`: the handlers.
//! - `ui`: the files of the dashboard.
//! - `mounted`: routers of other crates.
//! - `stream`: server-sent events.
//! - `errors`, `catch_panic`: error responses.
//! - `openapi`: the generated OpenAPI document.

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
mod mounted;
mod openapi;
mod operations;
mod origin;
mod places;
mod router;
mod runner;
mod runs;
mod schemas;
mod server;
mod sessions;
mod stream;
mod tls;
mod tokens;
mod ui;
mod write_timeout;

pub use mounted::{ErrorForm, Mount};
pub use openapi::openapi;
pub use server::{Bound, Server, ServerOptions};
pub use tls::TlsFiles;
