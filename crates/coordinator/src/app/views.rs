//! What is kept, as the API shows it.

use serde_json::value::RawValue;
use serde_json::{Value, json};
use slipform_api::{Code, Error, RunResult, RunSummary, RunView, SchemaValidation, SessionView, StatsRow};
use slipform_schema::universal;
use slipform_store::{AgentStats, RunDetails, RunRecord, SessionRecord, StoredEvent};
use slipform_types::{Contract, EventBody, Receipt, RunError, RunStatus, UniversalResponse, timestamp};

/// A run, with what came of it where it has ended.
pub(super) fn run(finished: RunDetails) -> Result<RunView, Error> {
    let result = if finished.run.status.is_ended() { Some(result(&finished)?) } else { None };
    let RunDetails { run: record, continued_by, awaits_callback, .. } = finished;
    let schema = record.contract.as_ref().map(|contract| &contract["schema"]);
    let error = record.error.map(|error| match serde_json::from_value(error.clone()) {
        Ok(read) => json!(answering(read, schema)),
        Err(_) => error,
    });
    Ok(RunView {
        run_id: record.run_id,
        session_id: record.session_id,
        agent_name: record.agent_name,
        run_type: record.run_type,
        status: record.status,
        error,
        retry_count: record.retry_count,
        attempts: record.attempts,
        contract: record.contract,
        continued_by,
        awaits_callback,
        created_at: timestamp(record.created_at),
        started_at: record.started_at.map(timestamp),
        finished_at: record.finished_at.map(timestamp),
        result,
    })
}

/// A run in a list.
pub(super) fn summary(record: RunRecord) -> RunSummary {
    let error = record.error.map(|error| json!({"type": error["type"], "message": error["message"]}));
    RunSummary {
        run_id: record.run_id,
        session_id: record.session_id,
        agent_name: record.agent_name,
        run_type: record.run_type,
        status: record.status,
        error,
        retry_count: record.retry_count,
        attempts: record.attempts,
        parent_run_id: record.parent_run_id,
        backend: record.backend,
        tokens: record.tokens,
        created_at: timestamp(record.created_at),
        started_at: record.started_at.map(timestamp),
        finished_at: record.finished_at.map(timestamp),
    }
}

/// What came of a run that has ended. One that was stopped before its turn has no end in the journal yet.
pub(super) fn result(finished: &RunDetails) -> Result<RunResult, Error> {
    let RunDetails { run, start, result, end, .. } = finished;
    let damaged = || Error::new(Code::Internal, format!("the journal of {} cannot be read", run.session_id));
    let read = |event: &StoredEvent| serde_json::from_str::<EventBody>(&event.body).map_err(|_| damaged());
    let EventBody::RunStart { contract, .. } = read(start)? else { return Err(damaged()) };
    let (salvage, tried) = match end.as_ref().map(read).transpose()? {
        Some(EventBody::RunCompleted { salvage, receipt, .. }) => (salvage, receipt),
        Some(_) => return Err(damaged()),
        None => (None, None),
    };
    let (result_text, result_data, receipt) = match result.as_ref().map(read).transpose()? {
        Some(EventBody::Result { result_text, result_data, receipt }) => {
            (result_text, result_data, Some(receipt))
        }
        _ => (None, None, None),
    };
    let (is_valid, receipt) = (run.status == RunStatus::Completed, receipt.or(tried));
    let validation = contract
        .as_deref()
        .map(|contract| validation(contract, is_valid, run.retry_count, receipt.as_deref()));
    let text = result_text.clone().or_else(|| result_data.as_ref().map(Value::to_string));
    Ok(RunResult {
        result: text,
        validated_output: result_data.clone().filter(|_| contract.is_some()),
        schema_validation: validation.or_else(|| (!is_valid).then(without_contract)),
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
        strategy: receipt.and_then(|receipt| json!(receipt)["strategy"].as_str().map(str::to_owned)),
        repairs: receipt
            .into_iter()
            .flat_map(|receipt| &receipt.repairs)
            .map(|repair| json!(repair))
            .collect(),
    }
}

/// A failed run says that nothing is valid, whether or not there was a contract.
fn without_contract() -> SchemaValidation {
    SchemaValidation {
        valid: false,
        schema_name: None,
        schema_source: "none".to_owned(),
        retry_count: 0,
        strategy: None,
        repairs: Vec::new(),
    }
}

/// A failure with a response for whoever reads universal responses and nothing else. The journals of runs that end while
/// nobody works on them have none.
pub(super) fn answering(mut error: RunError, schema: Option<&Value>) -> RunError {
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
        last_seq: record.last_seq,
        created_at: timestamp(record.created_at),
        updated_at: timestamp(record.updated_at),
    }
}

pub(super) fn stats(figures: AgentStats) -> StatsRow {
    let share = |part: i64, whole: i64| (whole > 0).then(|| part as f64 / whole as f64);
    StatsRow {
        success_rate: share(figures.completed, figures.runs).unwrap_or_default(),
        first_pass_rate: share(figures.first_pass, figures.completed),
        tokens_per_valid_result: share(figures.tokens, figures.completed),
        agent_name: figures.agent_name,
        backend: figures.backend,
        runs: figures.runs,
        completed: figures.completed,
        first_pass: figures.first_pass,
        retries: figures.retries,
        missing_submits: figures.missing_submits,
        escalations: figures.escalations,
        tokens: figures.tokens,
        p50_ms: figures.p50_ms,
        p95_ms: figures.p95_ms,
    }
}

/// An event with its envelope. Its body is not read: it is the same text wherever it goes.
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

pub(super) fn raw(stored: &StoredEvent) -> Result<Box<RawValue>, Error> {
    RawValue::from_string(event(stored))
        .map_err(|error| Error::new(Code::Internal, format!("an event of the journal is not JSON: {error}")))
}
