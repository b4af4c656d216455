//! Support for tests: a scripted model server, coordinators, stores, temporary folders, and waits for conditions.
//!
//! The model server listens on a real socket. It sends valid replies in every protocol, and every fault that can affect a
//! reply on its way.
//!
//! ```
//! use std::io::{Read, Write};
//! use slipform_testkit::{ScriptedServer, Step};
//!
//! let server = ScriptedServer::start([
//!     Step::text("{\"a\":1}"),
//!     Step::status(429).header("Retry-After", "1"),
//! ]);
//!
//! let mut client = std::net::TcpStream::connect(server.address())?;
//! let body = r#"{"model":"m","messages":[{"role":"user","content":"hello"}]}"#;
//! let head = "POST /v1/chat/completions HTTP/1.1\r\nConnection: close";
//! write!(client, "{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len())?;
//! let mut reply = String::new();
//! client.read_to_string(&mut reply)?;
//!
//! assert!(reply.starts_with("HTTP/1.1 200 OK"));
//! assert_eq!(server.requests()[0].body["model"], "m");
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Modules, in reading order:
//!
//! - `script`: a [`Script`] assigns a [`Step`] to each model request.
//! - `step`: a [`Step`] is one reply with its faults.
//! - `server`: a [`ScriptedServer`] runs a script on its own thread; `state` is shared between the thread and
//!   the test.
//! - `connection`: reads requests; a [`Recorded`] request is what the test sees.
//! - `protocol`: encodes a step for chat completions, legacy completions or messages.
//! - `reply`, `events`: build the HTTP reply and the events of a stream.
//! - `delivery`, `wire`: send the reply with its faults and its framing.
//! - `gate`: a [`Gate`] holds replies back until the test opens it.
//! - [`fixtures`]: agents with an input and a valid reply.
//! - `specification`: [`universal_examples`] of the universal response.
//! - `allocation`: [`measure_memory`] counts what a piece of work allocates.
//! - `wait`: [`wait_until`] and its variants, the only code of the tests that polls.
//! - `folder`: a [`TestFolder`] is a temporary folder. `external`: finds data and programs outside the repository.
//! - `file_limit`: [`raise_file_limit`] for tests with many connections.
//! - `grandchild`: a [`Grandchild`] is a process whose lifetime a test observes.
//! - `postgres`: a [`PostgresServer`] that a test can crash.
//! - `certificates` (feature `certificates`): a `TestAuthority` issues certificates for tests of TLS.
//! - `store` (feature `store`): a `TestStore` is a store with its own database.
//! - `coordinator` (feature `server`): a `TestServer` is a coordinator on a real socket.
//!
//! HTTP is read and written by hand, because faults concern single bytes and the time at which they are sent.
//!
//! Not in this crate: a model server with TLS, HTTP/2, chunked request bodies, and assertions about requests.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "for tests only")]

mod allocation;
#[cfg(feature = "certificates")]
mod certificates;
mod connection;
#[cfg(feature = "server")]
mod coordinator;
mod delivery;
mod events;
mod external;
mod file_limit;
pub mod fixtures;
mod folder;
mod gate;
mod grandchild;
mod postgres;
mod protocol;
mod recorded;
mod reply;
mod script;
mod server;
mod specification;
mod state;
mod step;
#[cfg(feature = "store")]
mod store;
mod wait;
mod wire;

pub use allocation::{CountingAllocator, Usage, measure_memory};
#[cfg(feature = "certificates")]
pub use certificates::{TestAuthority, TestCertificate, self_signed};
#[cfg(feature = "server")]
pub use coordinator::TestServer;
pub use external::{corpus, gateway_clients, mcp_clients, mcp_python};
pub use file_limit::raise_file_limit;
pub use folder::{TestFolder, unique_number};
pub use gate::Gate;
pub use grandchild::Grandchild;
pub use postgres::PostgresServer;
pub use protocol::Protocol;
pub use recorded::Recorded;
pub use script::Script;
pub use server::ScriptedServer;
pub use specification::{actions_specification, universal_examples, universal_specification};
pub use step::{Arguments, Step};
#[cfg(feature = "store")]
pub use store::{TestStore, execute};
#[cfg(feature = "paused-clock")]
pub use wait::elapse;
pub use wait::{WAIT_MAX, wait_for, wait_until, wait_until_async};
