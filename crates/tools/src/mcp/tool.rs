//! A tool of an MCP server.

use std::sync::Arc;

use rmcp::model::CallToolRequestParams;
use serde_json::Value;
use slipform_types::ToolDefinition;

use super::connection::Connection;
use super::listing::ListedTool;
use super::result;
use crate::{Error, Tool, ToolFuture};

/// A tool of a server. The tools of a server share its connection; dropping the last one closes it.
pub(crate) struct McpTool {
    listed: ListedTool,
    connection: Arc<Connection>,
}

impl McpTool {
    pub(crate) fn shared(listed: ListedTool, connection: Arc<Connection>) -> Arc<dyn Tool> {
        Arc::new(McpTool { listed, connection })
    }

    async fn call_server(&self, arguments: &Value) -> Result<Value, Error> {
        let name = &self.listed.definition.name;
        let Value::Object(arguments) = arguments else {
            return Err(Error::Arguments(format!("the arguments of '{name}' have to be an object")));
        };
        let request = CallToolRequestParams::new(self.listed.name.clone()).with_arguments(arguments.clone());
        let Connection { server, limits, .. } = &*self.connection;
        let oversized = server.diagnostics.next_oversized();
        // Dropping the request, on timeout or when the caller is dropped, cancels it at the server.
        let response = tokio::select! {
            // Poll this branch first: an oversized message also closes the stream, and the size is the actual
            // cause.
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
                return Err(self.connection.request_error(error, &during).await);
            }
        };
        result::from_response(response, &self.listed, server, limits.result_bytes_max)
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
        Box::pin(self.call_server(arguments))
    }
}
