//! The tools of one run.

use std::collections::BTreeMap;
use std::sync::Arc;

use formwork_types::{McpServer, ToolDefinition};
use serde_json::Value;
use tokio::task::JoinSet;

use crate::mcp::{self, Surroundings};
use crate::{Error, Tool};

/// The tools that an agent may call, found by name.
#[derive(Debug, Clone, Default)]
pub struct Toolbox {
    tools: Vec<Arc<dyn Tool>>,
}

impl Toolbox {
    /// A box of these tools.
    pub fn of(tools: Vec<Arc<dyn Tool>>) -> Toolbox {
        Toolbox { tools }
    }

    /// The tools of these servers, which are started or reached all at once, in the order of the servers'
    /// names.
    ///
    /// # Errors
    /// As [`mcp::connect`], of the first server by name that cannot be used; the others are ended again.
    pub async fn connect(
        servers: &BTreeMap<String, McpServer>,
        surroundings: &Surroundings,
    ) -> Result<Vec<Arc<dyn Tool>>, Error> {
        let mut connecting = JoinSet::new();
        for (name, server) in servers {
            let (name, server, surroundings) = (name.clone(), server.clone(), surroundings.clone());
            connecting.spawn(async move {
                let tools = mcp::connect(&name, &server, &surroundings).await;
                (name, tools)
            });
        }
        let mut connected = BTreeMap::new();
        while let Some(joined) = connecting.join_next().await {
            // A task that panics is a mistake in here, not of a server.
            let (name, tools) =
                joined.map_err(|error| Error::Failed(format!("connecting broke off: {error}")))?;
            connected.insert(name, tools);
        }
        let tools: Result<Vec<_>, _> = connected.into_values().collect();
        Ok(tools?.into_iter().flatten().collect())
    }

    /// What is in it.
    pub fn definitions(&self) -> Vec<ToolDefinition> {
        self.tools.iter().map(|tool| tool.definition().clone()).collect()
    }

    /// Calls a tool by name.
    ///
    /// # Errors
    /// When there is no such tool, or the tool fails.
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
