//! Tests of the `slipform` command: each test runs the built binary in its own project folder and checks stdout,
//! stderr, the exit status and the files that the command leaves.
//!
//! - [`support`]: [`support::Project`] (a project folder), [`support::serve`] (a coordinator) and
//!   [`support::request`] (one HTTP request). Models are scripted servers from `slipform_testkit`.
//! - One run: [`run`], [`overrides`], [`results`], [`universal`], [`embedded`], [`executor`].
//! - Several agents: [`orchestrate`], [`child_agents`], [`tools_and_delegation`], [`roles`],
//!   [`verification`].
//! - Tools and secrets: [`edits`], [`changes`], [`protection`], [`secrets`].
//! - Terminals: [`terminal`].
//! - Other commands: [`check`], [`agents`], [`coordinators`], [`model`], [`stats`], [`spans`].
//! - The dashboard: [`dashboard`].
//! - The gateway: [`gateway`] message by message, [`gateway_clients`] with published client libraries.
//! - The MCP server: [`mcp`] message by message, [`mcp_clients`] with published clients.
//! - The documentation's examples and the API description: [`docs`], [`api`].
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "tests report what they skip")]

mod agents;
mod api;
mod changes;
mod check;
mod child_agents;
mod coordinators;
mod dashboard;
mod database;
mod docs;
mod edits;
mod embedded;
mod executor;
mod gateway;
mod gateway_clients;
mod mcp;
mod mcp_clients;
mod model;
mod orchestrate;
mod overrides;
mod protection;
mod reference;
mod results;
mod roles;
mod run;
mod secrets;
mod spans;
mod stats;
mod support;
mod terminal;
mod tls;
mod tools_and_delegation;
mod universal;
mod verification;
