//! The tools of one run.

use std::sync::Arc;

use formwork_types::ToolDefinition;
use serde_json::Value;

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
