//! Converts stored records into API types.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use slipform_api::{
    Code, Error, RunResult, RunSummary, RunView, SchemaValidation, SessionView, StatsRow, TimelineRow,
};
use slipform_schema::universal;
use slipform_store::{
    AgentStats, EventsPage, IntervalStats, Millis, RunDetails, RunRecord, SessionRecord, StoredEvent,
};
use slipform_types::{
    Contract, EventBody, EventKind, Receipt, RunError, RunStatus, SUBMIT_RESULT, ToolCall, UniversalResponse,
    timestamp,
};

/// Converts a run, with its result if it has ended.
pub(super) fn run(details: RunDetails) -> Result<RunView, Error> {
    let result = if details.run.status.is_ended() { Some(result(&details)?) } else { None };
    let RunDetails { run: record, continued_by, awaits_callback, .. } = details;
    let schema = record.contract.as_ref().map(|contract| &contract["schema"]);
    let error = record.error.map(|error| match serde_json::from_value(error.clone()) {
        Ok(read) => json!(with_universal_response(read, schema)),
        Err(_) => error,
    });
    let max_retries =
        record.contract.as_ref().and_then(|contract| contract["options"]["max_retries"].as_i64());
    Ok(RunView {
        run_id: record.run_id,
        session_id: record.session_id,
        agent_name: record.agent_name,
        run_type: record.run_type,
        status: record.status,
        error,
        retry_count: record.retry_count,
        max_retries,
        attempts: record.attempts,
        created_by: record.created_by,
        contract: record.contract,
        backend: record.backend,
        model: record.model,
        continued_by,
        awaits_callback,
        created_at: timestamp(record.created_at),
        started_at: record.started_at.map(timestamp),
        finished_at: record.finished_at.map(timestamp),
        result,
    })
}

/// Converts a run for a list.
pub(super) fn summary(record: RunRecord) -> RunSummary {
    let error = record.error.map(|error| json!({"type": error["type"], "message": error["message"]}));
    RunSummary {
        run_id: record.run_id,
        session_id: record.session_id,
        agent_name: record.agent_name,
        run_type: record.run_type,
        status: record.status,
        error,
        verdict: record.verdict,
        repairs: record.repairs,
        retry_count: record.retry_count,
        max_retries: record.max_retries,
        attempts: record.attempts,
        parent_run_id: record.parent_run_id,
        created_by: record.created_by,
        backend: record.backend,
        model: record.model,
        tokens: record.tokens,
        created_at: timestamp(record.created_at),
        started_at: record.started_at.map(timestamp),
        finished_at: record.finished_at.map(timestamp),
    }
}

/// Converts a page of a journal, and returns `seq` of its last event if more follow.
pub(super) fn journal(page: &EventsPage) -> Result<(Vec<Box<RawValue>>, Option<i64>), Error> {
    let events = page.events.iter().map(raw).collect::<Result<_, _>>()?;
    Ok((events, page.events.last().filter(|_| page.has_more).map(|event| event.seq)))
}

/// Builds the result of an ended run. A run stopped while queued has no end in the journal yet.
pub(super) fn result(details: &RunDetails) -> Result<RunResult, Error> {
    let RunDetails { run, start, result, last_reply, end, .. } = details;
    let damaged =
        || Error::new(Code::Internal, format!("cannot parse the journal of session {}", run.session_id));
    let read = |event: &StoredEvent| serde_json::from_str::<EventBody>(&event.body).map_err(|_| damaged());
    let EventBody::RunStart { contract, .. } = read(start)? else { return Err(damaged()) };
    let (salvage, tried) = match end.as_ref().map(read).transpose()? {
        Some(EventBody::RunCompleted { salvage, receipt, .. }) => (salvage, receipt),
        Some(_) => return Err(damaged()),
        None => (None, None),
    };
    let (result_text, result_data, receipt) = match result.as_ref().map(read).transpose()? {
        Some(EventBody::Result { result_text, result_data, receipt }) => {
            // A result that is null reads back from the journal as an absent one.
            let is_null = contract.is_some() && result_text.is_none();
            (result_text, result_data.or_else(|| is_null.then_some(Value::Null)), Some(receipt))
        }
        _ => (None, None, None),
    };
    let (is_valid, receipt) = (run.status == RunStatus::Completed, receipt.or(tried));
    let validation = contract
        .as_deref()
        .map(|contract| validation(contract, is_valid, run.retry_count, receipt.as_deref()));
    let reply = last_reply.as_ref().map(read).transpose()?;
    let raw = reply.and_then(|reply| raw_text(reply, receipt.as_deref(), result_data.as_ref()));
    let raw = raw.or_else(|| result_text.clone());
    Ok(RunResult {
        // A journal without replies, such as an imported one, has only the result.
        result: raw.or_else(|| result_data.as_ref().map(Value::to_string)).filter(|_| is_valid),
        validated_output: result_data.clone().filter(|_| contract.is_some()),
        schema_validation: validation,
        receipt: receipt.map(|receipt| json!(receipt)),
        salvage: salvage.map(|salvage| *salvage),
        result_text,
        result_data,
    })
}

fn validation(
    contract: &Contract,
    valid: bool,
    retry_count: i64,
    receipt: Option<&Receipt>,
) -> SchemaValidation {
    let source = serde_json::to_value(contract.source).unwrap_or_default();
    SchemaValidation {
        valid,
        schema_name: contract.schema_name.clone(),
        schema_source: source.as_str().unwrap_or_default().to_owned(),
        retry_count,
        max_retries: contract.options.max_retries.into(),
        strategy: receipt.and_then(|receipt| json!(receipt)["strategy"].as_str().map(str::to_owned)),
        repairs: receipt
            .into_iter()
            .flat_map(|receipt| &receipt.repairs)
            .map(|repair| json!(repair))
            .collect(),
    }
}

/// Returns the text that a model or program wrote as its answer: the arguments of `submit_result` if it was asked to call
/// it, otherwise the whole reply.
fn raw_text(reply: EventBody, receipt: Option<&Receipt>, result: Option<&Value>) -> Option<String> {
    let (content, mut calls) = match reply {
        EventBody::Message { content, reply, .. } => (content, reply.tool_calls),
        EventBody::PostTool { tool_output, .. } => return tool_output["stdout"].as_str().map(str::to_owned),
        _ => return None,
    };
    let by_tool = receipt.is_some_and(|receipt| receipt.strategy.as_deref() == Some("tool"));
    calls.retain(|call| call.name == SUBMIT_RESULT && (by_tool || content.trim().is_empty()));
    // Of several submissions the first valid one was accepted.
    let is_accepted =
        |call: &ToolCall| serde_json::from_str::<Value>(&call.arguments).ok().as_ref() == result;
    let accepted = calls.iter().position(is_accepted).unwrap_or(0);
    let submitted = (accepted < calls.len()).then(|| calls.swap_remove(accepted));
    Some(submitted.map_or(content, |call| call.arguments))
}

/// Adds a universal response to an error if the contract asks for one. Runs that end without a runner have
/// none in their journal.
pub(super) fn with_universal_response(mut error: RunError, schema: Option<&Value>) -> RunError {
    if error.response.is_none() && schema.is_some_and(universal::is_universal_source) {
        error.response = serde_json::to_value(UniversalResponse::of_error(&error)).ok();
    }
    error
}

pub(super) fn session(record: SessionRecord) -> SessionView {
    SessionView {
        session_id: record.session_id,
        agent_name: record.agent_name,
        status: record.status,
        last_run_id: record.last_run_id,
        parent_session_id: record.parent_session_id,
        children: record.children,
        project_dir: record.project_dir,
        created_by: record.created_by,
        last_seq: record.last_seq,
        created_at: timestamp(record.created_at),
        updated_at: timestamp(record.updated_at),
    }
}

pub(super) fn stats(stats: AgentStats) -> StatsRow {
    let share = |part: i64, whole: i64| (whole > 0).then(|| part as f64 / whole as f64);
    StatsRow {
        success_rate: share(stats.completed, stats.runs).unwrap_or_default(),
        first_pass_rate: share(stats.first_pass, stats.completed),
        tokens_per_valid_result: share(stats.tokens, stats.completed),
        agent_name: stats.agent_name,
        backend: stats.backend,
        model: stats.model,
        runs: stats.runs,
        completed: stats.completed,
        reported_errors: stats.reported_errors,
        first_pass: stats.first_pass,
        retries: stats.retries,
        missing_submits: stats.missing_submits,
        escalations: stats.escalations,
        tokens: stats.tokens,
        p50_ms: stats.p50_ms,
        p95_ms: stats.p95_ms,
    }
}

pub(super) fn timeline(start: Millis, figures: &IntervalStats) -> TimelineRow {
    TimelineRow {
        start: timestamp(start),
        runs: figures.runs,
        completed: figures.completed,
        failed: figures.failed,
        first_pass: figures.first_pass,
        retries: figures.retries,
        tokens: figures.tokens,
    }
}

/// Returns an event as JSON with its envelope. The body is copied as text, not parsed.
pub(crate) fn event(event: &StoredEvent) -> String {
    let envelope = json!({
        "seq": event.seq,
        "session_id": event.session_id,
        "run_id": event.run_id,
        "timestamp": timestamp(event.at),
    });
    let envelope = envelope.to_string();
    let body = event.body.trim_start_matches('{');
    format!("{},{body}", envelope.trim_end_matches('}'))
}

/// Returns an event without its data: the envelope, the type, and which agent started or how the run ended.
pub(crate) fn event_summary(event: &StoredEvent) -> String {
    #[derive(Deserialize)]
    struct Start {
        blueprint: Named,
    }
    #[derive(Deserialize)]
    struct Named {
        name: String,
    }
    #[derive(Deserialize)]
    struct End {
        status: RunStatus,
    }
    let mut summary = json!({
        "seq": event.seq,
        "session_id": event.session_id,
        "run_id": event.run_id,
        "timestamp": timestamp(event.at),
        "event_type": event.kind.name(),
    });
    match event.kind {
        EventKind::RunStart => {
            if let Ok(Start { blueprint }) = serde_json::from_str(&event.body) {
                summary["agent_name"] = json!(blueprint.name);
            }
        }
        EventKind::RunCompleted => {
            if let Ok(End { status }) = serde_json::from_str(&event.body) {
                summary["status"] = json!(status);
            }
        }
        _ => {}
    }
    summary.to_string()
}

pub(super) fn raw(stored: &StoredEvent) -> Result<Box<RawValue>, Error> {
    RawValue::from_string(event(stored))
        .map_err(|error| Error::new(Code::Internal, format!("a journal event is not JSON: {error}")))
}
