//! Tasks: calls that outlive their request. A task is a run, and its id is the id of the run, so every coordinator of the
//! same store answers for it, also after a restart.

use std::sync::Arc;

use rmcp::model::{CreateTaskResult, DetailedTask, GetTaskResult, JsonObject, Task, TaskPayload, TaskStatus};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::Value;
use slipform_api::waiting;
use slipform_api::{CallerApi, EventsQuery, RunView};
use slipform_types::{Event, RunId, RunStatus};

use crate::progress::{EventText, shortened};
use crate::results;
use crate::server::{McpServer, is_modern, protocol_error};

/// The suggested polling interval of a task, in milliseconds. Some clients wait for it before their first request.
const POLL_INTERVAL_MS: u64 = 500;

/// The most events that are read for the message of a task.
const EVENTS_MAX: i64 = 50;

/// Returns whether the sender of a request declared that it knows tasks. They exist since 2026-07-28; some clients declare
/// them in the older era too and then do not understand a task.
pub(crate) fn are_known_to(context: &RequestContext<RoleServer>) -> bool {
    is_modern(context)
        && context.client_capabilities().is_some_and(|capabilities| capabilities.supports_tasks())
}

/// Returns a new task for a run.
pub(crate) async fn create(api: &dyn CallerApi, run: &RunId) -> Result<CreateTaskResult, ErrorData> {
    let run = api.run(run).await.map_err(protocol_error)?;
    Ok(CreateTaskResult::new(task(&run, TaskStatus::Working)))
}

/// Returns the state of a task, with its result once it has ended.
///
/// The task ends when a call without a task would: after the run's descendants and the runs that callbacks resume.
pub(crate) async fn get(
    server: &McpServer,
    api: &dyn CallerApi,
    task_id: &str,
) -> Result<GetTaskResult, ErrorData> {
    let root = find(server, api, task_id).await?;
    let tree = waiting::run_tree(api, root.clone()).await.map_err(protocol_error)?;
    let run = if tree.is_idle() { tree.last } else { RunView { status: RunStatus::Running, ..root.clone() } };
    let payload = match run.status {
        RunStatus::Stopped => TaskPayload::Cancelled,
        // A run that failed is a call that ended with an error.
        RunStatus::Completed | RunStatus::Failed => {
            TaskPayload::Completed { result: as_object(&results::of_agent(&run))? }
        }
        _ => TaskPayload::Working,
    };
    let mut task = task(&run, payload.status());
    task.task_id = root.run_id.to_string();
    task.created_at = root.created_at;
    task.status_message = status_message(api, &run).await;
    Ok(GetTaskResult::new(DetailedTask::new(task, payload)))
}

/// Accepts input for a task. No task asks for any.
pub(crate) async fn update(server: &McpServer, api: &dyn CallerApi, task_id: &str) -> Result<(), ErrorData> {
    find(server, api, task_id).await?;
    Ok(())
}

/// Stops the run of a task. Its status follows when the run has ended.
pub(crate) async fn cancel(
    server: &McpServer,
    api: &Arc<dyn CallerApi>,
    task_id: &str,
) -> Result<(), ErrorData> {
    let run = find(server, &**api, task_id).await?;
    api.stop_run(&run.run_id).await.map_err(protocol_error)?;
    let api = api.clone();
    // The run's children are stopped as well, which takes longer than a client should wait.
    tokio::spawn(async move {
        let _ = waiting::stop_tree(&*api, &run.run_id).await;
    });
    Ok(())
}

/// Returns the run of a task whose agent the client sees.
async fn find(server: &McpServer, api: &dyn CallerApi, task_id: &str) -> Result<RunView, ErrorData> {
    let unknown = || ErrorData::invalid_params(format!("unknown task `{task_id}`"), None);
    let run: RunId = task_id.parse().map_err(|_| unknown())?;
    let run = api.run(&run).await.map_err(|error| match error.code {
        slipform_api::Code::RunNotFound => unknown(),
        _ => protocol_error(error),
    })?;
    if server.options().shows(&run.agent_name) { Ok(run) } else { Err(unknown()) }
}

fn task(run: &RunView, status: TaskStatus) -> Task {
    let changed = run.finished_at.as_ref().or(run.started_at.as_ref()).unwrap_or(&run.created_at);
    Task::new(run.run_id.to_string(), status, run.created_at.clone(), changed.clone())
        .with_poll_interval_ms(POLL_INTERVAL_MS)
}

/// Describes the last event of the run.
async fn status_message(api: &dyn CallerApi, run: &RunView) -> Option<String> {
    if run.status == RunStatus::Pending {
        return Some("waiting for a runner".to_owned());
    }
    let session = api.session(&run.session_id).await.ok()?;
    let after = (session.last_seq - EVENTS_MAX).max(0);
    let query = EventsQuery { after: Some(after), limit: Some(EVENTS_MAX) };
    let page = api.events(&run.session_id, query).await.ok()?;
    let mut text = EventText::of_last_events();
    let events = page.events.iter().filter_map(|event| serde_json::from_str::<Event>(event.get()).ok());
    let of_run = events.filter(|event| event.run_id == run.run_id);
    of_run.filter_map(|event| text.describe(&event.body)).last().map(|message| shortened(&message))
}

fn as_object(result: &rmcp::model::CallToolResult) -> Result<JsonObject, ErrorData> {
    match serde_json::to_value(result) {
        Ok(Value::Object(members)) => Ok(members),
        _ => Err(ErrorData::internal_error("the result cannot be written as JSON", None)),
    }
}
