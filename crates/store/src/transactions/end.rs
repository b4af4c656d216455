//! Ends runs and notifies their parents.

use serde_json::json;
use slipform_types::{
    ChildEnd, EventBody, ExecutionMode, Receipt, RunError, RunErrorType, RunId, RunStatus, Salvage,
    SubtaskOutcome, UniversalResponse,
};

use super::encoding::{EncodedEvent, encode_events, from_json, read_status, to_json};
use super::journal::ModelReplies;
use super::run::Run;
use super::{journal, next_run, run, stop};
use crate::error::Error;
use crate::tx::Tx;

/// Upper bound on each count stored for a run. Runners report the counts, and the sum over all runs must not
/// overflow.
const COUNT_MAX: u64 = 1_000_000_000_000;

/// Maximum number of characters of an error message in lists.
const MESSAGE_CHARS_MAX: usize = 500;

/// Ends a run: stops the children that it waited for, appends its final events, notifies its parent and
/// activates the session's next run. Returns the `seq` of the last event. `events` are the encoded bodies;
/// `appends` is the number of the attempt's last append.
pub(crate) async fn end(
    tx: &mut Tx,
    run: &Run,
    bodies: &[EventBody],
    events: &[EncodedEvent],
    appends: Option<i64>,
) -> Result<i64, Error> {
    if run.has_children {
        stop::stop_children(tx, &run.run_id).await?;
    }
    let session = journal::write_last(tx, &run.session_id, &run.run_id, events).await?;
    store_outcome(tx, &run.run_id, bodies, Some(session.last_seq), appends).await?;
    notify_parent(tx, run).await?;
    if session.is_idle && session.has_waiting {
        next_run::activate_next_idle(tx, &run.session_id, session.agent_name).await?;
    }
    Ok(session.last_seq)
}

/// Ends a run without a runner. Revokes the token of its last attempt.
pub(crate) async fn end_without_runner(tx: &mut Tx, run: &Run, bodies: &[EventBody]) -> Result<(), Error> {
    revoke(tx, &run.run_id).await?;
    let events = encode_events(bodies)?;
    end(tx, run, bodies, &events, None).await.map(drop)
}

/// Ends a run that is queued behind another in its session. Its events are journaled when its turn comes,
/// because the journal currently belongs to the active run.
pub(crate) async fn end_queued(tx: &mut Tx, run: &Run, bodies: &[EventBody]) -> Result<(), Error> {
    revoke(tx, &run.run_id).await?;
    store_outcome(tx, &run.run_id, bodies, None, None).await?;
    tx.has_notification = true;
    notify_parent(tx, run).await
}

async fn revoke(tx: &mut Tx, run: &RunId) -> Result<(), Error> {
    tx.execute("UPDATE runs SET token = token + 1 WHERE run_id = $1", &[run.as_str().into()]).await?;
    Ok(())
}

/// Copies the outcome from the final events to the run's row.
async fn store_outcome(
    tx: &mut Tx,
    run: &RunId,
    bodies: &[EventBody],
    end_seq: Option<i64>,
    appends: Option<i64>,
) -> Result<(), Error> {
    let (mut ended, mut error, mut retries, mut last_receipt) = (RunStatus::Failed, None, None, None);
    let (mut is_reported_error, mut summary, mut error_type) = (false, None, None);
    for body in bodies {
        match body {
            EventBody::Result { receipt, result_data, .. } => {
                last_receipt = Some(receipt);
                is_reported_error = result_data.as_ref().is_some_and(UniversalResponse::reports_error);
            }
            EventBody::RunCompleted { status, error: failure, receipt, .. } => {
                ended = *status;
                last_receipt = last_receipt.or(receipt.as_ref());
                retries = failure.as_ref().map(|error| error.retry_count);
                error = failure.as_ref().map(to_json).transpose()?;
                summary = failure.as_deref().map(summary_of).transpose()?;
                error_type = failure.as_ref().map(|error| error.kind.name());
            }
            _ => {}
        }
    }
    // An end without a receipt does not know the retries, which the row has from earlier appends.
    let retries = last_receipt.map(|receipt| receipt.retries).or(retries.filter(|&count| count > 0));
    let rung = last_receipt.and_then(|receipt| receipt.rungs.last());
    let count = |of: fn(&Receipt) -> u64| last_receipt.map(|receipt| of(receipt).min(COUNT_MAX) as i64);
    tx.execute_all(&[(
        "UPDATE runs SET status = $2, error = $3, retry_count = COALESCE($4, retry_count), end_seq = $5, finished_at = {now},
            available_at = NULL, lease_until = NULL, runner_id = NULL, appends = COALESCE($6, appends),
            backend = COALESCE($7, backend), escalations = $8, missing_submits = $9, input_tokens = $10, output_tokens = $11,
            model = COALESCE($12, model), is_reported_error = $13, error_summary = $14,
            error_type = $15, repairs = $16
         WHERE run_id = $1",
        vec![
            run.as_str().into(),
            ended.name().into(),
            error.as_deref().into(),
            retries.map(i64::from).into(),
            end_seq.into(),
            appends.into(),
            rung.map(|rung| rung.backend.as_str()).into(),
            count(|receipt| receipt.rungs.len().saturating_sub(1) as u64).into(),
            count(|receipt| receipt.missing_submits.into()).into(),
            count(|receipt| receipt.tokens.input).into(),
            count(|receipt| receipt.tokens.output).into(),
            rung.map(|rung| rung.model.as_str()).into(),
            i64::from(is_reported_error).into(),
            summary.as_deref().into(),
            error_type.into(),
            count(|receipt| receipt.repairs.len() as u64).into(),
        ],
    )])
    .await
}

/// Returns what lists show of an error.
fn summary_of(error: &RunError) -> Result<String, Error> {
    let mut message: String = error.message.chars().take(MESSAGE_CHARS_MAX).collect();
    if message.len() < error.message.len() {
        message.push('…');
    }
    to_json(&json!({"type": error.kind, "message": message}))
}

/// Notifies the parent of a run that has ended.
async fn notify_parent(tx: &mut Tx, run: &Run) -> Result<(), Error> {
    match (run.mode, &run.parent_run_id, &run.parent_session_id) {
        (ExecutionMode::Sync, Some(parent), _) => {
            // A parent with a runner receives the result when it parks, because its runner has already folded
            // the journal.
            if let Some(parent) = run::lock_alone(tx, parent).await?
                && parent.status == RunStatus::Waiting
            {
                deliver(tx, &parent).await?;
            }
        }
        (ExecutionMode::AsyncCallback, _, Some(session)) => {
            tx.execute(
                "INSERT INTO callbacks (parent_session_id, child_run_id) VALUES ($1, $2)",
                &[session.as_str().into(), run.run_id.as_str().into()],
            )
            .await?;
            next_run::activate_next(tx, session).await?;
        }
        _ => {}
    }
    Ok(())
}

/// Appends the results of ended children to the parent's journal and queues the parent. Returns false if no
/// child has ended since the last delivery.
pub(crate) async fn deliver(tx: &mut Tx, parent: &Run) -> Result<bool, Error> {
    let rows = tx
        .query(
            "UPDATE runs SET is_delivered = 1
             WHERE parent_run_id = $1 AND mode = 'sync' AND is_delivered = 0 AND finished_at IS NOT NULL
             RETURNING number, run_id",
            &[parent.run_id.as_str().into()],
        )
        .await?;
    let mut children = Vec::with_capacity(rows.len());
    for mut row in rows {
        children.push((row.integer()?, row.id::<RunId>()?));
    }
    if children.is_empty() {
        return Ok(false);
    }
    children.sort();
    let mut bodies = Vec::with_capacity(children.len());
    for (_, child) in &children {
        bodies.push(EventBody::ChildCompleted(Box::new(child_end(tx, child).await?)));
    }
    journal::write(tx, &parent.session_id, &parent.run_id, &bodies).await?;
    run::make_available(tx, &parent.run_id).await?;
    Ok(true)
}

/// Returns the outcome of a child run.
pub(crate) async fn child_end(tx: &mut Tx, child: &RunId) -> Result<ChildEnd, Error> {
    let row = tx
        .query_one(
            "SELECT agent_name, session_id, status, error FROM runs WHERE run_id = $1",
            &[child.as_str().into()],
        )
        .await?;
    let mut row = row.ok_or_else(|| Error::Damaged(format!("run {child} is missing")))?;
    let mut end = ChildEnd {
        agent_name: row.text()?,
        child_session_id: row.id()?,
        child_run_id: child.clone(),
        status: read_status(&row.text()?)?,
        result_text: None,
        result_data: None,
        error: row.optional_text()?.as_deref().map(from_json).transpose()?,
    };
    if end.is_completed()
        && let Some(event) = journal::result_event(tx, &end.child_session_id, child).await?
        && let EventBody::Result { result_text, result_data, receipt } = from_json(&event.body)?
    {
        (end.result_text, end.result_data) = (result_text, result_data);
        if end.result_data.is_some() && receipt.is_incomplete() {
            // A text names what it lacks; JSON has no place for it.
            let problems: Vec<String> = receipt.subtasks.iter().filter_map(SubtaskOutcome::problem).collect();
            end.result_text = Some(format!("This result is incomplete: {}", problems.join("; ")));
        }
    }
    Ok(end)
}

/// The final events of a run that was stopped without a runner.
pub(crate) fn stopped(model_replies: ModelReplies) -> Vec<EventBody> {
    let end =
        completed(RunStatus::Stopped, RunErrorType::Stopped, "the run was stopped".to_owned(), model_replies);
    vec![EventBody::StopRequested { partial: None }, end]
}

/// The final event of a run that lost too many attempts.
pub(crate) fn lost(losses: i64, model_replies: ModelReplies) -> EventBody {
    completed(
        RunStatus::Failed,
        RunErrorType::Lost,
        format!("the run's lease expired {losses} times without progress"),
        model_replies,
    )
}

/// A `run_completed` that the store writes without the engine. It salvages the model replies; the
/// tiers are unknown.
fn completed(
    status: RunStatus,
    kind: RunErrorType,
    message: String,
    model_replies: ModelReplies,
) -> EventBody {
    let ModelReplies { replies, tokens, retries } = model_replies;
    let calls = u32::try_from(replies.len()).unwrap_or(u32::MAX);
    let error = RunError {
        kind,
        message,
        validation_errors: Vec::new(),
        last_output: replies.last().cloned(),
        calls,
        retry_count: retries,
        call_error: None,
        response: None,
    };
    let receipt = (calls > 0).then(|| Box::new(Receipt { calls, retries, tokens, ..Receipt::default() }));
    let salvage = Salvage { replies, ..Salvage::default() };
    EventBody::RunCompleted {
        status,
        error: Some(Box::new(error)),
        salvage: Some(Box::new(salvage)),
        receipt,
    }
}
