//! Ended runs as results of tools.

use rmcp::ErrorData;
use rmcp::model::{CallToolResult, ContentBlock, MetaObject, Resource};
use serde_json::{Value, json};
use slipform_api::{Code, Error, RunCreated, RunResult, RunView};
use slipform_schema::is_always_object;
use slipform_types::RunStatus;

/// The most bytes of a result. It is sent twice, as structured content and as text.
const RESULT_BYTES_MAX: usize = 8 * 1024 * 1024;

/// The most violations in the text of an error.
const VIOLATIONS_MAX: usize = 20;

/// Returns the result of an agent's run.
pub(crate) fn of_agent(run: &RunView) -> CallToolResult {
    let Some(result) = run.result.as_ref().filter(|_| run.status == RunStatus::Completed) else {
        return of_failed(run);
    };
    match &run.contract {
        Some(contract) => {
            let data = result.result_data.clone().unwrap_or_default();
            structured(run, with_object_root(data, &contract["schema"]))
        }
        None => {
            // Programs return JSON without a contract too.
            let shown = match without_contract(result) {
                Value::String(text) => CallToolResult::success(vec![ContentBlock::text(text)]),
                object @ Value::Object(_) => of_value(object),
                other => CallToolResult::success(vec![ContentBlock::text(other.to_string())]),
            };
            with_ids(bounded(shown, run), run)
        }
    }
}

/// Returns the result of a run without a contract.
pub(crate) fn without_contract(result: &RunResult) -> Value {
    match &result.result_text {
        Some(text) => Value::String(text.clone()),
        None => result.result_data.clone().unwrap_or_default(),
    }
}

/// Returns a value as the published schema describes it.
fn with_object_root(value: Value, schema: &Value) -> Value {
    if is_always_object(schema) { value } else { json!({"result": value}) }
}

/// Returns a successful result with structured content and the same JSON as text.
pub(crate) fn structured(run: &RunView, content: Value) -> CallToolResult {
    with_ids(bounded(of_value(content), run), run)
}

/// Returns a successful result that belongs to no run.
pub(crate) fn of_value(content: Value) -> CallToolResult {
    let mut result = CallToolResult::success(vec![ContentBlock::text(content.to_string())]);
    result.structured_content = Some(content);
    result
}

/// Replaces a result that is too large by an error with a link to it.
fn bounded(result: CallToolResult, run: &RunView) -> CallToolResult {
    let text = result.content.iter().filter_map(ContentBlock::as_text);
    let bytes: usize = text.map(|text| text.text.len()).sum();
    if bytes <= RESULT_BYTES_MAX {
        return result;
    }
    let message = format!(
        "the result has {bytes} bytes, more than the {RESULT_BYTES_MAX} that a tool call returns; read it as resource {}",
        uri(run)
    );
    let link = Resource::new(uri(run), run.run_id.to_string()).with_mime_type("application/json");
    CallToolResult::error(vec![ContentBlock::text(message), ContentBlock::resource_link(link)])
}

fn uri(run: &RunView) -> String {
    format!("slipform://runs/{}", run.run_id)
}

/// Returns the result of a run that failed or was stopped: what is wrong and where, and the id of the run.
pub(crate) fn of_failed(run: &RunView) -> CallToolResult {
    let error = run.error.clone().unwrap_or_default();
    let kind =
        error["type"].as_str().unwrap_or(if run.status == RunStatus::Stopped { "stopped" } else { "failed" });
    let message = error["message"].as_str().unwrap_or("the run has no result");
    let mut lines = vec![format!("{kind}: {message}")];
    let violations = error["validation_errors"].as_array().map(Vec::as_slice).unwrap_or_default();
    let shown = violations.iter().take(VIOLATIONS_MAX).map(|violation| match violation.as_str() {
        Some(text) => format!("- {text}"),
        None => format!("- {violation}"),
    });
    lines.extend(shown.filter(|line| !message.contains(line.trim_start_matches("- "))));
    if violations.len() > VIOLATIONS_MAX {
        lines.push(format!("- and {} more", violations.len() - VIOLATIONS_MAX));
    }
    lines.push(format!("Run {}; read {} for everything that it did.", run.run_id, uri(run)));
    with_ids(CallToolResult::error(vec![ContentBlock::text(lines.join("\n"))]), run)
}

/// Adds the ids of the run. They are not in the content, which some clients pass to their model as it is.
fn with_ids(mut result: CallToolResult, run: &RunView) -> CallToolResult {
    let mut meta = MetaObject::new();
    meta.insert("slipform/run_id".to_owned(), json!(run.run_id));
    meta.insert("slipform/session_id".to_owned(), json!(run.session_id));
    meta.insert("slipform/retry_count".to_owned(), json!(run.retry_count));
    result.meta = Some(meta);
    result
}

/// Returns the result for a request that the coordinator refuses. Its message tells the model what to change.
pub(crate) fn refusal(error: &Error) -> Result<CallToolResult, ErrorData> {
    if error.code == Code::Internal {
        return Err(ErrorData::internal_error(error.message.clone(), None));
    }
    let mut lines = vec![format!("{:?}: {}", error.code, error.message)];
    let problems = error.details.as_ref().map(|details| &details["validation_errors"]);
    for problem in problems.and_then(Value::as_array).into_iter().flatten().take(VIOLATIONS_MAX) {
        let (path, message) = (problem["path"].as_str(), problem["message"].as_str());
        let line = format!("- {}: {}", path.unwrap_or("$"), message.unwrap_or_default());
        if !error.message.contains(line.trim_start_matches("- ")) {
            lines.push(line);
        }
    }
    Ok(CallToolResult::error(vec![ContentBlock::text(lines.join("\n"))]))
}

/// Returns the result for arguments that a tool does not take.
pub(crate) fn bad_arguments(message: &str) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(format!("InvalidParameters: {message}"))])
}

/// The error for a run whose coordinator cannot be reached. The run continues.
pub(crate) fn unreachable(error: &Error, created: &RunCreated) -> ErrorData {
    let message = format!(
        "{}; run {} continues: read slipform://runs/{} later",
        error.message, created.run_id, created.run_id
    );
    ErrorData::internal_error(message, None)
}
