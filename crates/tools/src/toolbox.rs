//! Opens and calls the tools of one run.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use slipform_types::{McpServer, ToolDefinition};
use tokio::task::JoinSet;

use crate::builtin::with_commands;
use crate::check::Commands;
use crate::mcp::{self, ToolContext};
use crate::{Error, Project, Tool, builtin_names};

/// Returns the server whose name is the prefix of a `server:tool` name.
fn server_of<'s>(name: &str, servers: &'s BTreeMap<String, McpServer>) -> Option<&'s String> {
    servers.keys().find(|server| {
        name.strip_prefix(server.as_str()).is_some_and(|rest| rest.starts_with(':') && rest.len() > 1)
    })
}

/// The tools that an agent may call.
#[derive(Debug, Clone, Default)]
pub struct Toolbox {
    tools: Vec<Arc<dyn Tool>>,
}

impl Toolbox {
    /// Creates a toolbox from these tools.
    pub fn new(tools: Vec<Arc<dyn Tool>>) -> Toolbox {
        Toolbox { tools }
    }

    /// Opens the built-in tools that a blueprint names and the tools of its MCP servers. A server contributes
    /// all of its tools, unless the blueprint names some of them as `server:tool`.
    ///
    /// # Errors
    /// Returns an error when a name is unknown, when the project cannot be opened, or as
    /// [`Toolbox::connect`].
    pub async fn open(
        names: &[String],
        servers: &BTreeMap<String, McpServer>,
        context: &ToolContext,
    ) -> Result<Toolbox, Error> {
        if names.is_empty() && servers.is_empty() {
            return Ok(Toolbox::default());
        }
        let project = Arc::new(Project::open_with(&context.folder, &context.policy)?);
        let commands = Commands::of(context);
        let (own, foreign): (Vec<&String>, Vec<&String>) =
            names.iter().partition(|name| server_of(name, servers).is_none());
        let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
        for name in own {
            let tool = with_commands(name, &project, &commands).ok_or_else(|| {
                let known: Vec<&str> =
                    builtin_names().into_iter().chain(servers.keys().map(String::as_str)).collect();
                Error::Unknown { name: name.clone(), known: known.join(", ") }
            })?;
            if !tools.iter().any(|other| other.definition().name == *name) {
                tools.push(tool);
            }
        }
        let connected = Toolbox::connect(servers, context).await?;
        for name in &foreign {
            if !connected.iter().any(|tool| tool.definition().name == **name) {
                let known: Vec<_> = connected.iter().map(|tool| tool.definition().name.clone()).collect();
                return Err(Error::Unknown { name: (*name).clone(), known: known.join(", ") });
            }
        }
        let is_wanted = |tool: &Arc<dyn Tool>| {
            let name = &tool.definition().name;
            let server = server_of(name, servers);
            foreign.contains(&name) || !foreign.iter().any(|named| server_of(named, servers) == server)
        };
        tools.extend(connected.into_iter().filter(is_wanted));
        Ok(Toolbox { tools })
    }

    /// Connects to all servers concurrently and returns their tools, sorted by server name.
    ///
    /// # Errors
    /// As [`mcp::connect`], for the first server by name that fails; the other connections are closed.
    pub async fn connect(
        servers: &BTreeMap<String, McpServer>,
        context: &ToolContext,
    ) -> Result<Vec<Arc<dyn Tool>>, Error> {
        let mut connecting = JoinSet::new();
        for (name, server) in servers {
            let (name, server, context) = (name.clone(), server.clone(), context.clone());
            connecting.spawn(async move {
                let tools = mcp::connect(&name, &server, &context).await;
                (name, tools)
            });
        }
        let mut connected = BTreeMap::new();
        while let Some(joined) = connecting.join_next().await {
            // Only a panic in this crate fails the join; server errors are in `tools`.
            let (name, tools) =
                joined.map_err(|error| Error::Failed(format!("connecting broke off: {error}")))?;
            connected.insert(name, tools);
        }
        let tools: Result<Vec<_>, _> = connected.into_values().collect();
        Ok(tools?.into_iter().flatten().collect())
    }

    /// Returns the definitions of all tools, in the order in which they were opened.
    pub fn definitions(&self) -> Vec<ToolDefinition> {
        self.tools.iter().map(|tool| tool.definition().clone()).collect()
    }

    /// Calls a tool by name.
    ///
    /// # Errors
    /// Returns an error when the toolbox has no such tool, or the tool fails.
    pub async fn call(&self, name: &str, arguments: &Value) -> Result<Value, Error> {
        match self.tools.iter().find(|tool| tool.definition().name == name) {
            Some(tool) => tool.call(arguments).await,
            None => {
                let known: Vec<_> = self.tools.iter().map(|tool| tool.definition().name.as_str()).collect();
                Err(Error::Unknown { name: name.to_owned(), known: known.join(", ") })
            }
        }
    }
}
