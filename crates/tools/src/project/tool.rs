//! A tool that works on the project's files.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use slipform_types::ToolDefinition;

use super::cancel::perform;
use super::{Cancel, Project};
use crate::{Error, Tool, ToolFuture};

/// The work of one call.
pub(crate) type Run = fn(&Project, &Value, &Cancel) -> Result<Value, Error>;

/// A tool that works on the project's files.
#[derive(Debug)]
pub(crate) struct ProjectTool {
    pub(crate) definition: ToolDefinition,
    pub(crate) project: Arc<Project>,
    /// How long one call may take.
    pub(crate) limit: Duration,
    pub(crate) run: Run,
}

impl Tool for ProjectTool {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn call<'a>(&'a self, arguments: &'a Value) -> ToolFuture<'a> {
        let (project, run, arguments) = (Arc::clone(&self.project), self.run, arguments.clone());
        Box::pin(perform(&self.definition.name, self.limit, move |cancel| run(&project, &arguments, cancel)))
    }
}
