//! Agents: their files, their blueprints, and what a run of one takes and has to give.
//!
//! - [`load`] and [`parse`] read agent files, YAML or JSON, in Slipform's keys or as `kb.agent/1`;
//!   [`check`] does the same for a value that came another way. A [`Blueprint`] that was checked can be
//!   run: its schemas compile, its example satisfies them, its keys agree with each other. What is wrong
//!   is told completely, each [`Problem`] with its path and line.
//! - [`contract::resolve`] decides what the result of a run has to satisfy.
//! - [`parameters`] checks what a run is given and writes it down for the model.
//! - [`placeholders`] fills in `${params.x}` and its like.
//! - [`starter`] is the agent that someone starts from; [`shipped`] are those that come with the program.
//!
//! ```
//! use slipform_agents::contract::{self, ContractRequest, EnvironmentDefaults};
//! use slipform_agents::{Format, parameters, parse};
//! use serde_json::json;
//!
//! let text = "
//! name: judge
//! output_schema: {type: object, required: [verdict], properties: {verdict: {enum: [yes, no]}}}
//! ";
//! let agent = parse(text, Format::Yaml, None)?.blueprint;
//! parameters::check(&agent, &json!({"prompt": "Is water wet?"}))?;
//! let contract = contract::resolve(&agent, &ContractRequest::default(), &EnvironmentDefaults::default())?;
//! assert_eq!(contract.map(|contract| contract.options.max_retries), Some(1));
//!
//! let problems = parse("name: judge\noutput_shema: {}", Format::Yaml, None).unwrap_err();
//! assert_eq!(
//!     problems.to_string(),
//!     "line 2: $.output_shema: unknown key 'output_shema'; did you mean 'output_schema'?"
//! );
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Not in here: running agents, and the environment. Files are read by [`load`] alone, and only the
//! agents' own.
//!
//! [`Blueprint`]: slipform_types::Blueprint

mod blueprint;
pub mod contract;
mod document;
mod error;
mod init;
mod kb;
mod load;
mod names;
pub mod parameters;
pub mod placeholders;
mod problem;
mod shipped;

pub use blueprint::{BLUEPRINT_SCHEMA, Checked, check};
pub use document::Format;
pub use error::Error;
pub use init::starter;
pub use load::{FILE_BYTES_MAX, Loaded, load, load_one, parse};
pub use names::is_name;
pub use problem::{PROBLEMS_MAX, Problem, Problems};
pub use shipped::{shipped, shipped_names};
