//! Tools of other people: MCP servers, started or reached, and what they offer as [`Tool`]s.
//!
//! What a server said about its tools when it was reached is what holds: a server that changes its list later
//! changes nothing here. It is asked for tools and nothing else; when it asks for something itself (a model's
//! answer, a person's input), it is told that there is none.
//!
//! A tool's result is its `structuredContent` where the server gives one, checked against the tool's output
//! schema. Otherwise it is made of the content: one item is that item, several are an array of them. A text
//! is a string, whatever it says; pictures, sounds and files are objects that tell their type and size
//! without their bytes.

mod connection;
mod heard;
mod http;
mod listing;
mod result;
mod side;
mod stdio;
mod tool;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use slipform_types::McpServer;

use crate::{Error, ProjectPolicy, Tool};
use connection::Connection;
use tool::McpTool;

/// What servers and commands find around them, and how much they may take.
#[derive(Clone)]
pub struct Surroundings {
    /// The folder that programs work in.
    pub folder: PathBuf,
    /// All the variables that programs see.
    pub environment: Vec<(String, String)>,
    /// How much a server may take.
    pub limits: Limits,
    /// The commands that `check:criteria` may run, by their first words, such as `cargo test`.
    pub commands: Vec<String>,
    /// What tools may not write and read, beyond what always holds.
    pub policy: ProjectPolicy,
}

/// Variables hold keys, so that only their names are shown.
impl std::fmt::Debug for Surroundings {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.environment.iter().map(|(name, _)| name.as_str()).collect();
        formatter
            .debug_struct("Surroundings")
            .field("folder", &self.folder)
            .field("environment", &names)
            .field("limits", &self.limits)
            .field("commands", &self.commands)
            .field("policy", &self.policy)
            .finish()
    }
}

/// How much a server may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// How long it may take to answer for the first time, and how long to list its tools.
    pub connect: Duration,
    /// How long one call may take.
    pub call: Duration,
    /// How long one message of it may be.
    pub message_bytes_max: usize,
    /// How long one result may be that goes to a model.
    pub result_bytes_max: usize,
}

/// Programs written in Python or run by a package manager take seconds to start; one that takes half a minute
/// does not speak MCP, and the agent is refused.
const CONNECT_MAX: Duration = Duration::from_secs(30);

/// Searches and builds take seconds. A call that takes a minute is cancelled, and the model is told.
const CALL_MAX: Duration = Duration::from_secs(60);

/// Screenshots come as text of some megabytes. A longer message is thrown away, and the calls that wait fail.
const MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A quarter of a million tokens: more than models read. A longer result fails, and the model is told to ask
/// for less.
const RESULT_BYTES_MAX: usize = 1024 * 1024;

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connect: CONNECT_MAX,
            call: CALL_MAX,
            message_bytes_max: MESSAGE_BYTES_MAX,
            result_bytes_max: RESULT_BYTES_MAX,
        }
    }
}

/// Starts or reaches a server and lists its tools, named `server:tool`. A program is killed, with all that it
/// started, when the last of its tools is dropped. Needs a tokio runtime with time and I/O, which the tools
/// keep using.
///
/// # Errors
/// When the server cannot be started or reached, does not speak MCP, or offers something that cannot be used:
/// a schema that does not compile, two tools of one name, more than the bounds allow.
pub async fn connect(
    name: &str,
    server: &McpServer,
    surroundings: &Surroundings,
) -> Result<Vec<Arc<dyn Tool>>, Error> {
    let connection = Arc::new(Connection::open(name, server, surroundings).await?);
    let listed = listing::list(&connection).await?;
    Ok(listed.into_iter().map(|tool| McpTool::shared(tool, connection.clone())).collect())
}
