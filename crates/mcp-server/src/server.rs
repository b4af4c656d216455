//! The methods of the protocol.

use std::sync::Arc;

use axum::http::request::Parts;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, CompleteRequestParams, CompleteResult,
    GetPromptRequestParams, GetPromptResponse, GetTaskParams, GetTaskResult, Implementation,
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse,
    ServerCapabilities, ServerConfig, SubscriptionFilter, UpdateTaskParams,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use slipform_api::{AgentView, Caller, CallerApi, Code, Error};
use tokio_util::sync::CancellationToken;

use crate::changes::Changes;
use crate::tools::cache::ToolCache;
use crate::{completion, prompts, resources, tasks, tools};

/// Text that clients may show to their model.
const INSTRUCTIONS: &str = "Each tool named after an agent runs that agent and returns JSON that satisfies the tool's \
    outputSchema, or an error that says why not. start_agent_session runs an agent with another output schema; with mode \
    async_poll it returns at once, and get_agent_session_result waits for the result.";

/// What a server offers.
#[derive(Debug, Clone)]
pub struct Options {
    /// The agents that clients see; `None` for all.
    pub agents: Option<Vec<String>>,
    /// Whether the tools that start, read and stop sessions are offered.
    pub has_session_tools: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options { agents: None, has_session_tools: true }
    }
}

impl Options {
    /// Returns whether clients see an agent.
    pub(crate) fn shows(&self, agent: &str) -> bool {
        self.agents.as_ref().is_none_or(|agents| agents.iter().any(|shown| shown == agent))
    }
}

/// The MCP server. Copies share their state.
#[derive(Clone)]
pub struct McpServer {
    /// Operations with the authority of this process.
    api: Arc<dyn CallerApi>,
    options: Arc<Options>,
    tools: Arc<ToolCache>,
    changes: Arc<Changes>,
    closing: CancellationToken,
}

impl McpServer {
    /// Creates a server. Requests that bring the authority of their sender are performed with it, all others with `api`.
    pub fn new(api: Arc<dyn CallerApi>, options: Options) -> McpServer {
        let options = Arc::new(options);
        let changes = Arc::new(Changes::new(api.clone()));
        McpServer { api, options, tools: Arc::default(), changes, closing: CancellationToken::new() }
    }

    /// Ends streams. Runs continue.
    pub fn close(&self) {
        self.closing.cancel();
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    pub(crate) fn tools(&self) -> &ToolCache {
        &self.tools
    }

    pub(crate) fn changes(&self) -> &Arc<Changes> {
        &self.changes
    }

    pub(crate) fn closing(&self) -> &CancellationToken {
        &self.closing
    }

    /// Returns the operations with the authority of the request's sender. On stdio, that is the authority of this process;
    /// the router refuses requests over HTTP that bring none.
    pub(crate) fn api(&self, context: &RequestContext<RoleServer>) -> Arc<dyn CallerApi> {
        let parts = context.extensions.get::<Parts>();
        let caller = parts.and_then(|parts| parts.extensions.get::<Caller>());
        caller.map_or_else(|| self.api.clone(), |caller| caller.0.clone())
    }

    /// Returns the agents that the sender of a request sees, sorted by name.
    pub(crate) async fn agents(&self, api: &dyn CallerApi) -> Result<Vec<AgentView>, ErrorData> {
        let mut agents = api.agents().await.map_err(protocol_error)?;
        agents.retain(|agent| self.options.shows(&agent.name));
        Ok(agents)
    }
}

/// Returns whether a request belongs to the versions without `initialize`.
pub(crate) fn is_modern(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|version| is_modern_version(version.as_str()))
}

/// Returns whether a version of the protocol has no `initialize`. Versions are dates, which sort as text.
pub(crate) fn is_modern_version(version: &str) -> bool {
    version >= ProtocolVersion::V_2026_07_28.as_str()
}

/// Converts an error of the coordinator into an error of the protocol, for methods other than tool calls.
pub(crate) fn protocol_error(error: Error) -> ErrorData {
    let message = error.message.clone();
    match error.code {
        Code::RunNotFound | Code::SessionNotFound | Code::AgentNotFound | Code::SchemaNotFound => {
            ErrorData::resource_not_found(message, None)
        }
        Code::Internal | Code::Unavailable | Code::RateLimited => ErrorData::internal_error(message, None),
        _ => ErrorData::invalid_params(message, None),
    }
}

impl ServerHandler for McpServer {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_completions()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_resources_list_changed()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_tasks()
            .build();
        let server = Implementation::new("slipform", env!("CARGO_PKG_VERSION")).with_title("Slipform");
        ServerConfig::new(capabilities).with_server_info(server).with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        tools::list(self, &*self.api(&context), request).await
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        tools::call(self, request, context).await
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        tasks::get(self, &*self.api(&context), &request.task_id).await
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        tasks::update(self, &*self.api(&context), &request.task_id).await
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        tasks::cancel(self, &self.api(&context), &request.task_id).await
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        resources::list(self, &*self.api(&context), request).await
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(resources::templates())
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        resources::read(self, &*self.api(&context), &request.uri).await.map(Into::into)
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        prompts::list(self, &*self.api(&context), request).await
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        prompts::get(self, &*self.api(&context), request).await.map(Into::into)
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        completion::complete(self, &*self.api(&context), request).await
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        let mut accepted = requested.clone();
        // Resources are announced as lists only.
        accepted.resource_subscriptions = None;
        Some(accepted)
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let sink = context.sink();
        let accepted = context.accepted();
        let mut changes = self.changes.subscribe().await;
        loop {
            tokio::select! {
                () = changes.next() => {}
                () = context.cancelled() => return Ok(()),
                () = self.closing.cancelled() => return Ok(()),
            }
            // An error means that the client is gone, which `cancelled` reports.
            if accepted.tools_list_changed == Some(true) {
                let _ = sink.notify_tool_list_changed().await;
            }
            if accepted.prompts_list_changed == Some(true) {
                let _ = sink.notify_prompt_list_changed().await;
            }
            if accepted.resources_list_changed == Some(true) {
                let _ = sink.notify_resource_list_changed().await;
            }
        }
    }

    /// Announces changes to a client on stdio. Over HTTP, clients of these versions open a stream for them.
    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        if context.extensions.get::<Parts>().is_some() {
            return;
        }
        let (peer, closing) = (context.peer, self.closing.clone());
        let mut changes = self.changes.subscribe().await;
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    () = changes.next() => {}
                    () = closing.cancelled() => return,
                }
                let sent = async {
                    peer.notify_tool_list_changed().await?;
                    peer.notify_prompt_list_changed().await?;
                    peer.notify_resource_list_changed().await
                };
                if sent.await.is_err() {
                    return;
                }
            }
        });
    }
}
