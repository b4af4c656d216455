//! Loads agent files, checks their blueprints, and resolves the contract and parameters of a run.
//!
//! A checked [`Blueprint`] can run: its schemas compile, its example satisfies them, and its keys
//! are consistent. Checks report every [`Problem`], each with its path and, for YAML, its line.
//!
//! Modules, in reading order:
//!
//! - `load`: reads agent folders and files ([`load_project`], [`load()`], [`load_one`]) and texts
//!   ([`parse`]).
//! - `document`: parses YAML and JSON to values with line numbers.
//! - `blueprint`: checks a value ([`check`]): its shape by `blueprint.schema.json`, the rules
//!   between keys in `blueprint::rules`.
//! - `kb`: converts `kb.agent/1` documents to blueprints.
//! - `names`: the rule for agent names ([`is_name`]) and suggestions for mistyped keys.
//! - `problem`: problems and warnings with path and line.
//! - [`contract`]: resolves the output contract of a run.
//! - [`parameters`]: checks the parameters of a run and writes them as text for the model.
//! - [`placeholders`]: fills in `${params.x}`, `${env.X}` and `${runtime.…}`.
//! - `surroundings`: checks the tools, agents, tiers and variables that an agent refers to ([`Surroundings`]).
//! - `task`: finds the task in a prompt, for opening searches.
//! - `tools`: finds tools that no runner has ([`unknown_tool`]).
//! - `shipped`: the built-in agents ([`shipped()`]).
//! - `init`: the template for new agent files ([`starter`]).
//! - `error`: errors outside of agent definitions.
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
//! Not in this crate: running agents, and access to the environment. Only `load` reads files, and
//! only those of agents.
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
mod surroundings;
mod task;
mod tools;

pub use blueprint::{BLUEPRINT_SCHEMA, Checked, check};
pub use document::Format;
pub use error::Error;
pub use init::starter;
pub use load::{
    AGENTS_FOLDER, FILE_BYTES_MAX, KB_AGENTS_FOLDER, Loaded, load, load_one, load_one_in, load_project, parse,
};
pub use names::{is_name, is_reserved_name};
pub use problem::{PROBLEMS_MAX, Problem, Problems};
pub use shipped::{shipped, shipped_names};
pub use surroundings::Surroundings;
pub use tools::unknown_tool;
