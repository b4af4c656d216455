//! A tool implemented as a blocking function over the project.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use slipform_types::ToolDefinition;

use super::cancel::run_blocking;
use super::{Cancellation, Project};
use crate::{Error, Tool, ToolFuture};

/// Performs one call.
pub(crate) type ToolFunction = fn(&Project, &Value, &Cancellation) -> Result<Value, Error>;

/// A tool that runs a blocking function on the project's files.
#[derive(Debug)]
pub(crate) struct ProjectTool {
    pub(crate) definition: ToolDefinition,
    pub(crate) project: Arc<Project>,
    /// Time limit of one call.
    pub(crate) limit: Duration,
    pub(crate) run: ToolFunction,
}

impl Tool for ProjectTool {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn call<'a>(&'a self, arguments: &'a Value) -> ToolFuture<'a> {
        let (project, run, arguments) = (Arc::clone(&self.project), self.run, arguments.clone());
        Box::pin(run_blocking(&self.definition.name, self.limit, move |cancel| {
            run(&project, &arguments, cancel)
        }))
    }
}
