//! Errors of loading agents, resolving contracts and filling placeholders.

use std::path::PathBuf;

use slipform_types::RETRIES_MAX;
use thiserror::Error;

use crate::Problems;

/// An error outside of agent definitions. Problems of definitions are [`Problems`].
#[derive(Debug, Error)]
pub enum Error {
    /// The agents folder cannot be listed.
    #[error("the agents' folder {} cannot be read; check that it is a folder and its permissions", path.display())]
    Folder {
        /// The folder that was passed to [`crate::load()`].
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// The name is not a valid agent name.
    #[error("'{name}' cannot be an agent's name; {}", crate::names::RULE)]
    Name {
        /// The refused name.
        name: String,
    },
    /// The name has another meaning.
    #[error("'{name}' is a reserved name; choose another")]
    ReservedName {
        /// The refused name.
        name: String,
    },
    /// A request has a schema that differs from the `output_schema` of the agent.
    #[error(
        "the agent '{agent}' has its own output_schema, which a request cannot replace; send the request without \
         a schema, or use an agent with a default_output_schema"
    )]
    OutputSchemaConflict {
        /// The name of the agent.
        agent: String,
    },
    /// The schema of a contract does not compile.
    #[error("{origin} cannot be used as a schema")]
    Schema {
        /// The source of the schema, as in `the registered schema 'list'`.
        origin: String,
        /// The path and reason.
        #[source]
        source: slipform_schema::Error,
    },
    /// `max_retries` is larger than [`RETRIES_MAX`].
    #[error("{origin} asks for {given} retries; max_retries is at most {RETRIES_MAX}")]
    Retries {
        /// The source of the option: the request or the agent.
        origin: String,
        /// The requested number.
        given: u32,
    },
    /// An environment variable has an invalid value.
    #[error("the environment variable {name} is '{value}'; it must be {expected}")]
    Environment {
        /// The name of the variable.
        name: &'static str,
        /// Its value, trimmed.
        value: String,
        /// The accepted values.
        expected: String,
    },
    /// Placeholders have no value.
    #[error("placeholders of the agent '{agent}' cannot be filled in: {problems}")]
    Placeholders {
        /// The name of the agent.
        agent: String,
        /// One problem per placeholder, with its path.
        problems: Problems,
    },
}
