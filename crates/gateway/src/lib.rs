//! The gateway: chat completions for the clients of OpenAI's API, with the guarantee.
//!
//! A structured answer satisfies its schema, and so do the arguments of every tool call, or the request fails with a
//! typed error.
//!
//! Modules, in reading order:
//!
//! - `http`: [`router`] and its handlers; `error`: [`ApiError`], an error in the form of this API.
//! - `models`: what a model name means: an agent, or a backend. [`ModelProvider`] connects backends.
//! - `chat`: chat completions. `chat/body` and `chat/forms` read what clients send, `chat/request`, `chat/messages` and `chat/schemas` check
//!   it, `chat/response` builds responses and `chat/stream` streams them.
//! - `direct`: answers a request by a run in memory. `durable`: answers it by a run of an agent.
//! - `observer`: keeps what a response needs of a run, and passes its text on; `failure`: the errors of failed runs.
//! - `respond`: waits for the end of a request and responds.
//! - `in_flight`: requests that are being answered, which a repeated request joins.
//! - `deadline`: the time that a client waits. `budget`: what an API token may use per minute.
//! - `summary`: the record of a request for statistics; `usage`: its calls and tokens.
//!
//! ```
//! use slipform_gateway::ModelName;
//!
//! assert_eq!(ModelName::parse("agent/triage"), ModelName::Agent("triage".to_owned()));
//! ```
//!
//! Not in this crate: enforcing contracts (`slipform-engine`), calling models (`slipform-model`), tokens and limits
//! (`slipform-coordinator`).

mod budget;
mod chat;
mod deadline;
mod direct;
mod durable;
mod error;
mod failure;
mod http;
mod in_flight;
mod models;
mod observer;
mod random;
mod respond;
mod summary;
mod usage;

pub use error::{ApiError, error_message};
pub use http::{BODY_BYTES_MAX, Gateway, GatewayOptions, PATH, router};
pub use models::{ConnectError, Connected, ModelEntry, ModelName, ModelProvider, ModelRoute, RouteStep};
