//! Runs that a call waits for.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::http::request::Parts;
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use sha2::{Digest as _, Sha256};
use slipform_api::waiting;
use slipform_api::{CallerApi, Code, Error, RunCreated, RunRequest, RunView, RunsQuery};

use crate::progress::Reporter;
use crate::results;
use crate::server::{McpServer, is_modern};

/// The header in which clients of versions before 2026-07-28 repeat the id of their session.
pub(crate) const SESSION_HEADER: &str = "mcp-session-id";

/// The time for which the end of a run that was just submitted is awaited before its progress is followed.
const QUICK_END: Duration = Duration::from_millis(50);

/// How a call ended.
pub(crate) enum CallEnd {
    /// The run has ended.
    Ended(Box<RunView>),
    /// The client does not wait for the result.
    Cancelled,
}

/// The answer to a cancelled call. Clients do not read it.
pub(crate) fn cancelled() -> ErrorData {
    ErrorData::internal_error("the call was cancelled", None)
}

/// Submits the run that a call waits for.
pub(crate) async fn submit(
    api: &dyn CallerApi,
    request: RunRequest,
    context: &RequestContext<RoleServer>,
) -> Result<RunCreated, Error> {
    let parts = context.extensions.get::<Parts>().filter(|_| !is_modern(context));
    let session = parts.and_then(|parts| parts.headers.get(SESSION_HEADER));
    let Some(session) = session else { return api.submit(request, None).await };
    // A later `notifications/cancelled` may reach another coordinator, which finds the run by this key.
    let key = call_key(session.as_bytes(), &context.id.to_string());
    match api.submit(request.clone(), Some(key)).await {
        Ok(created) if created.status.is_ended() => api.submit(request, None).await,
        // A client that uses an id twice gets a run for each call.
        Err(error) if error.code == Code::IdempotencyConflict => api.submit(request, None).await,
        outcome => outcome,
    }
}

/// Returns the key of the run that a request of a session has submitted.
fn call_key(session: &[u8], request: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(session);
    hash.update([0]);
    hash.update(request.as_bytes());
    slipform_types::with_hex("mcp_", &hash.finalize())
}

/// Stops the run that a request of a session has submitted, if it has not ended.
pub(crate) async fn cancel(api: &dyn CallerApi, session: &[u8], request: &str) -> Result<(), Error> {
    let query = RunsQuery { idempotency_key: Some(call_key(session, request)), ..RunsQuery::default() };
    for run in api.runs(query).await?.runs {
        waiting::stop_tree(api, &run.run_id).await?;
    }
    Ok(())
}

/// Waits for the end of a run and reports its progress to clients that asked for it. A cancelled call stops its run.
pub(crate) async fn wait(
    server: &McpServer,
    api: &Arc<dyn CallerApi>,
    created: &RunCreated,
    context: &RequestContext<RoleServer>,
) -> Result<CallEnd, ErrorData> {
    let mut ended = std::pin::pin!(waiting::wait_until_idle(&**api, &created.run_id));
    let token = context.meta.get_progress_token();
    let progress = async {
        if let Some(token) = token {
            // A run that ends at once has no progress to report.
            tokio::time::sleep(QUICK_END).await;
            Reporter::new(context.peer.clone(), token).follow(&**api, created).await;
        }
        std::future::pending::<Infallible>().await
    };
    tokio::select! {
        tree = &mut ended => match tree {
            Ok(tree) => Ok(CallEnd::Ended(Box::new(tree.last))),
            Err(error) => Err(results::unreachable(&error, created)),
        },
        never = progress => match never {},
        () = server.closing().cancelled() => Ok(CallEnd::Cancelled),
        () = context.ct.cancelled() => {
            if stops_run(server, context) {
                stop(api.clone(), created.clone());
            }
            Ok(CallEnd::Cancelled)
        }
    }
}

/// Returns whether the end of a request means that its result is not wanted. Before 2026-07-28, a client over HTTP may
/// lose its connection and ask for the result later.
fn stops_run(server: &McpServer, context: &RequestContext<RoleServer>) -> bool {
    let is_http = context.extensions.get::<Parts>().is_some();
    !server.closing().is_cancelled() && (is_modern(context) || !is_http)
}

/// Stops a run in the background.
fn stop(api: Arc<dyn CallerApi>, created: RunCreated) {
    tokio::spawn(async move {
        // An unreachable coordinator leaves the run to its time limit.
        let _ = waiting::stop_tree(&*api, &created.run_id).await;
    });
}
