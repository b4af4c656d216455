//! What is kept, as the API shows it.

use formwork_api::{Code, Error, RunView, SessionView, StatsRow};
use formwork_schema::universal;
use formwork_store::{Figures, RunRecord, SessionRecord, StoredEvent};
use formwork_types::{RunError, UniversalResponse, timestamp};
use serde_json::value::RawValue;
use serde_json::{Value, json};

pub(super) fn run(record: RunRecord) -> RunView {
    let schema = record.contract.as_ref().map(|contract| &contract["schema"]);
    let error = record.error.map(|error| match serde_json::from_value(error.clone()) {
        Ok(read) => json!(answering(read, schema)),
        Err(_) => error,
    });
    RunView {
        run_id: record.run_id,
        session_id: record.session_id,
        agent_name: record.agent_name,
        run_type: record.run_type,
        status: record.status,
        error,
        retry_count: record.retry_count,
        attempts: record.attempts,
        contract: record.contract,
        created_at: timestamp(record.created_at),
        started_at: record.started_at.map(timestamp),
        finished_at: record.finished_at.map(timestamp),
    }
}

/// A failure with a response for whoever reads universal responses and nothing else. The journals of runs that end while
/// nobody works on them have none.
pub(super) fn answering(mut error: RunError, schema: Option<&Value>) -> RunError {
    if error.response.is_none() && schema.is_some_and(universal::says_universal) {
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

pub(super) fn stats(figures: Figures) -> StatsRow {
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
