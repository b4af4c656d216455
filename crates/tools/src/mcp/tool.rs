//! One tool of a server.

use std::sync::Arc;

use rmcp::model::CallToolRequestParams;
use serde_json::Value;
use slipform_types::ToolDefinition;

use super::connection::Connection;
use super::listing::Listed;
use super::result;
use crate::{Error, Tool, ToolFuture};

/// One tool of a server. The tools of a server share its connection, and the last one ends it.
pub(crate) struct McpTool {
    listed: Listed,
    connection: Arc<Connection>,
}

impl McpTool {
    pub(crate) fn shared(listed: Listed, connection: Arc<Connection>) -> Arc<dyn Tool> {
        Arc::new(McpTool { listed, connection })
    }

    async fn perform(&self, arguments: &Value) -> Result<Value, Error> {
        let name = &self.listed.definition.name;
        let Value::Object(arguments) = arguments else {
            return Err(Error::Arguments(format!("the arguments of '{name}' have to be an object")));
        };
        let request = CallToolRequestParams::new(self.listed.name.clone()).with_arguments(arguments.clone());
        let Connection { side, limits, .. } = &*self.connection;
        let oversized = side.heard.until_oversized();
        // Whether it takes too long or its caller goes away: a call that is dropped is cancelled at the
        // server.
        let response = tokio::select! {
            // The reason comes before what it leads to: a stream that is too long breaks off as well.
            biased;
            () = oversized => return Err(result::too_large(name, limits.message_bytes_max)),
            response = tokio::time::timeout(limits.call, self.connection.peer().call_tool_once(request)) => {
                response.map_err(|_| Error::Timeout { tool: name.clone(), limit: limits.call })?
            }
        };
        let response = match response {
            Ok(response) => response,
            Err(error) => {
                let during = format!("while '{name}' was being called");
                return Err(self.connection.unanswered(error, &during).await);
            }
        };
        result::of(response, &self.listed, side, limits.result_bytes_max)
    }
}

impl std::fmt::Debug for McpTool {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("McpTool").field(&self.listed.definition.name).finish()
    }
}

impl Tool for McpTool {
    fn definition(&self) -> &ToolDefinition {
        &self.listed.definition
    }

    fn call<'a>(&'a self, arguments: &'a Value) -> ToolFuture<'a> {
        Box::pin(self.perform(arguments))
    }
}
