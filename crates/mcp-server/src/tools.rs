//! The tools: one for each agent, and those that start, read and stop sessions.

pub(crate) mod agent;
pub(crate) mod cache;
mod session;

use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, ListToolsResult, PaginatedRequestParams,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use slipform_api::CallerApi;

use crate::pages::{LIST_TTL_MS, Page, page};
use crate::server::McpServer;

/// Lists the tools: first those for sessions, then the agents, each sorted by name.
pub(crate) async fn list(
    server: &McpServer,
    api: &dyn CallerApi,
    request: Option<PaginatedRequestParams>,
) -> Result<ListToolsResult, ErrorData> {
    let mut tools = if server.options().has_session_tools { session::tools() } else { Vec::new() };
    let agents = server.agents(api).await?;
    tools.extend(agent::tools(server, api, &agents).await?);
    let Page { items, next } = page(tools, request, |tool| (!is_reserved(server, &tool.name), &tool.name))?;
    let mut result = ListToolsResult::with_all_items(items);
    result.next_cursor = next;
    result.ttl_ms = Some(LIST_TTL_MS);
    // What a caller sees depends on its token.
    result.cache_scope = Some(CacheScope::Private);
    Ok(result)
}

/// Performs a call.
pub(crate) async fn call(
    server: &McpServer,
    request: CallToolRequestParams,
    context: RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    let arguments = request.arguments.unwrap_or_default();
    if is_reserved(server, &request.name) {
        return session::call(server, &request.name, arguments, context).await;
    }
    if !server.options().shows(&request.name) {
        return Err(unknown_tool(&request.name));
    }
    agent::call(server, &request.name, arguments, context).await
}

/// Returns whether a name belongs to a tool for sessions. An agent of this name is not offered as a tool.
fn is_reserved(server: &McpServer, name: &str) -> bool {
    server.options().has_session_tools && session::is_name(name)
}

pub(crate) fn unknown_tool(name: &str) -> ErrorData {
    ErrorData::invalid_params(format!("unknown tool `{name}`; tools/list has the names of all tools"), None)
}
