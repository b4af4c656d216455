//! A model server that does what a test tells it to, on a real socket: right answers in every protocol's words, and
//! every way in which an answer can go wrong on its way.
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
//! Layout: a [`Script`] holds [`Step`]s, one for each model request; `protocol/` says a step in the words of chat
//! completions, legacy completions or messages; `events` makes a stream of it, `reply` a whole HTTP
//! reply; `delivery` sends that with the faults asked for, by way of `wire`'s framing; `connection` reads requests;
//! `state` is what the thread and the test share; [`ScriptedServer`] owns the thread. [`fixtures`] are agents with an
//! input and a valid reply; [`universal_examples`] are the responses of the specification.
//!
//! HTTP is read and written by hand, because a fault is a matter of bytes and of when they are sent.
//!
//! Not in here: TLS, HTTP/2, requests with a chunked body, and any judgement about what a client sends.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "for tests only")]

mod connection;
mod delivery;
mod events;
pub mod fixtures;
mod gate;
mod protocol;
mod recorded;
mod reply;
mod script;
mod server;
mod specification;
mod state;
mod step;
mod wire;

pub use gate::Gate;
pub use protocol::Protocol;
pub use recorded::Recorded;
pub use script::Script;
pub use server::ScriptedServer;
pub use specification::{universal_examples, universal_specification};
pub use step::{Arguments, Step};
