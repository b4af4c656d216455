//! Agents as tools of the Model Context Protocol, on stdio and over HTTP.
//!
//! Every agent is a tool with two contracts: `inputSchema` is the schema of its parameters and `outputSchema` the schema of
//! its result. A call submits an ordinary run through [`CallerApi`](slipform_api::CallerApi), in process or over HTTP, so
//! it is stored and continues after a restart.
//!
//! The server speaks both eras of the protocol: 2026-07-28, where each request stands for itself, and the versions from
//! 2025-03-26 to 2025-11-25, which begin with `initialize`. It has no sessions in memory in either, so several coordinators
//! can serve one address.
//!
//! Modules, in reading order:
//! - `server`: [`McpServer`], its options, and the methods of the protocol.
//! - `tools`: the tools. `tools::agent` publishes agents, `tools::session` has those that start, read and stop sessions.
//! - `calls`: submits a run for a call, reports its progress, waits for its end, and stops it when the call is cancelled.
//! - `progress`: events of a run as messages for people.
//! - `results`: ended runs as results of tools.
//! - `tasks`: calls that outlive their request. A task is a run.
//! - `resources`, `prompts`, `completion`: runs, journals, schemas and agents to read, agents as prompts, and their names.
//! - `pages`: lists in pages.
//! - `changes`: notices that the list of agents has changed.
//! - `stdio`, `http`: the transports.
//!
//! Not in this crate: the client for MCP servers that agents use (`slipform-tools`), tokens and origins
//! (`slipform-coordinator`), and the command line (`slipform`).

mod calls;
mod changes;
mod completion;
mod http;
mod pages;
mod progress;
mod prompts;
mod resources;
mod results;
mod server;
mod stdio;
mod tasks;
mod tools;

pub use http::{PATH, error_message, router};
pub use server::{McpServer, Options};
pub use stdio::serve_stdio;
