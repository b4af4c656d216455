//! Why an agent, a contract or a placeholder could not be used.

use std::path::PathBuf;

use slipform_types::RETRIES_MAX;
use thiserror::Error;

use crate::Problems;

/// What goes wrong around agents, other than in their definitions (see [`Problems`]).
#[derive(Debug, Error)]
pub enum Error {
    /// The folder of agents cannot be listed.
    #[error("the agents' folder {} cannot be read; check that it is a folder and its permissions", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: std::io::Error,
    },
    /// A name that no agent can have.
    #[error("'{name}' cannot be an agent's name; {}", crate::names::RULE)]
    Name {
        /// The name as given.
        name: String,
    },
    /// A request brings two schemas.
    #[error("the request has both output_schema and output_schema_name ('{name}'); send one of them")]
    TwoSchemas {
        /// The name that was sent.
        name: String,
    },
    /// A request brings another schema to an agent that owns its output schema.
    #[error(
        "the agent '{agent}' has its own output_schema, which a request cannot replace; send the request without \
         a schema, or use an agent with a default_output_schema"
    )]
    OutputSchemaConflict {
        /// The agent's name.
        agent: String,
    },
    /// A contract's schema cannot be used.
    #[error("{origin} cannot be used as a schema")]
    Schema {
        /// Which schema: `output_schema`, the registered one of a name, the agent's own.
        origin: String,
        /// Where and why.
        #[source]
        source: slipform_schema::Error,
    },
    /// More retries than there may be.
    #[error("{origin} asks for {given} retries; max_retries is at most {RETRIES_MAX}")]
    Retries {
        /// Who asks.
        origin: String,
        /// For how many.
        given: u32,
    },
    /// A setting in the environment that cannot be read.
    #[error("the environment variable {name} is '{value}'; it must be {expected}")]
    Environment {
        /// The variable.
        name: &'static str,
        /// Its value.
        value: String,
        /// What it may be.
        expected: String,
    },
    /// Placeholders that stand for nothing.
    #[error("placeholders of the agent '{agent}' cannot be filled in: {problems}")]
    Placeholders {
        /// The agent's name.
        agent: String,
        /// Each placeholder with its place.
        problems: Problems,
    },
}
