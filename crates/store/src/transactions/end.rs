//! The end of a run, and what follows from it.

use slipform_types::{
    ChildEnd, EventBody, ExecutionMode, Receipt, RunError, RunErrorType, RunId, RunStatus, Salvage,
};

use super::journal::Said;
use super::names::{from_json, read_status, texts, to_json};
use super::run::Run;
use super::{journal, run, stop, turn};
use crate::error::Error;
use crate::tx::Tx;

/// The most that is counted of anything in one run. Runners may say what they like, and a sum over all runs has to fit.
const COUNT_MAX: u64 = 1_000_000_000_000;

/// Ends a run with its last events: children that it waited for are to stop, its parent hears of it, and sessions go on
/// with what waits for them. Gives the number of the last event. `texts` are the bodies as JSON; with `appends` the
/// attempt's last message is counted.
pub(crate) async fn end(
    tx: &mut Tx,
    run: &Run,
    bodies: &[EventBody],
    texts: &[String],
    appends: Option<i64>,
) -> Result<i64, Error> {
    if run.has_children {
        stop::stop_children(tx, &run.run_id).await?;
    }
    let left = journal::write_last(tx, &run.session_id, &run.run_id, texts).await?;
    close(tx, &run.run_id, bodies, Some(left.last_seq), appends).await?;
    tell(tx, run).await?;
    if left.is_free && left.has_more {
        turn::go_on_free(tx, &run.session_id, left.agent_name).await?;
    }
    Ok(left.last_seq)
}

/// Ends a run that nobody works on. Whatever attempt there was may say no more of it.
pub(crate) async fn end_unattended(tx: &mut Tx, run: &Run, bodies: &[EventBody]) -> Result<(), Error> {
    revoke(tx, &run.run_id).await?;
    let texts = texts(bodies)?;
    end(tx, run, bodies, &texts, None).await.map(drop)
}

/// Ends a run whose turn has not come. Its events wait for that turn: the journal belongs to another run now.
pub(crate) async fn end_queued(tx: &mut Tx, run: &Run, bodies: &[EventBody]) -> Result<(), Error> {
    revoke(tx, &run.run_id).await?;
    close(tx, &run.run_id, bodies, None, None).await?;
    tx.has_news = true;
    tell(tx, run).await
}

async fn revoke(tx: &mut Tx, run: &RunId) -> Result<(), Error> {
    tx.execute("UPDATE runs SET token = token + 1 WHERE run_id = $1", &[run.as_str().into()]).await?;
    Ok(())
}

/// Notes in the run's row what its last events say.
async fn close(
    tx: &mut Tx,
    run: &RunId,
    bodies: &[EventBody],
    end_seq: Option<i64>,
    appends: Option<i64>,
) -> Result<(), Error> {
    let (mut ended, mut error, mut retries, mut account) = (RunStatus::Failed, None, None, None);
    for body in bodies {
        match body {
            EventBody::Result { receipt, .. } => account = Some(receipt),
            EventBody::RunCompleted { status, error: why, receipt, .. } => {
                ended = *status;
                account = account.or(receipt.as_ref());
                retries = why.as_ref().map(|error| error.retry_count);
                error = why.as_ref().map(to_json).transpose()?;
            }
            _ => {}
        }
    }
    let retries = account.map(|receipt| receipt.retries).or(retries).unwrap_or(0);
    let backend = account.and_then(|receipt| receipt.rungs.last()).map(|rung| rung.backend.as_str());
    let count = |of: fn(&Receipt) -> u64| account.map(|receipt| of(receipt).min(COUNT_MAX) as i64);
    tx.execute_all(&[(
        "UPDATE runs SET status = $2, error = $3, retry_count = $4, end_seq = $5, finished_at = {now},
            available_at = NULL, lease_until = NULL, runner_id = NULL, appends = COALESCE($6, appends),
            backend = $7, escalations = $8, missing_submits = $9, input_tokens = $10, output_tokens = $11
         WHERE run_id = $1",
        vec![
            run.as_str().into(),
            ended.name().into(),
            error.as_deref().into(),
            i64::from(retries).into(),
            end_seq.into(),
            appends.into(),
            backend.into(),
            count(|receipt| receipt.rungs.len().saturating_sub(1) as u64).into(),
            count(|receipt| receipt.missing_submits.into()).into(),
            count(|receipt| receipt.tokens.input).into(),
            count(|receipt| receipt.tokens.output).into(),
        ],
    )])
    .await
}

/// Tells whoever the run worked for.
async fn tell(tx: &mut Tx, run: &Run) -> Result<(), Error> {
    match (run.mode, &run.parent_run_id, &run.parent_session_id) {
        (ExecutionMode::Sync, Some(parent), _) => {
            // A parent that is worked on hears of it when it parks: its runner has folded the journal already.
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
            turn::go_on(tx, session).await?;
        }
        _ => {}
    }
    Ok(())
}

/// Puts the ends of children that a run has not heard of into its journal, and the run into the queue; false where
/// there are none.
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

/// How a child has ended.
pub(crate) async fn child_end(tx: &mut Tx, child: &RunId) -> Result<ChildEnd, Error> {
    let row = tx
        .query_one(
            "SELECT agent_name, session_id, status, error FROM runs WHERE run_id = $1",
            &[child.as_str().into()],
        )
        .await?;
    let mut row = row.ok_or_else(|| Error::Damaged(format!("the run {child} is missing")))?;
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
        && let Some(event) = journal::result_of(tx, &end.child_session_id, child).await?
        && let EventBody::Result { result_text, result_data, .. } = from_json(&event.body)?
    {
        (end.result_text, end.result_data) = (result_text, result_data);
    }
    Ok(end)
}

/// The last events of a run that was stopped while nobody worked on it.
pub(crate) fn stopped(said: Said) -> Vec<EventBody> {
    let end = completed(RunStatus::Stopped, RunErrorType::Stopped, "the run was stopped".to_owned(), said);
    vec![EventBody::StopRequested { partial: None }, end]
}

/// The last event of a run whose runners died too often.
pub(crate) fn lost(losses: i64, said: Said) -> EventBody {
    completed(RunStatus::Failed, RunErrorType::Lost, format!("its runners died {losses} times"), said)
}

/// An end that no engine has decided on: it has what was said, and knows nothing of tiers and retries.
fn completed(status: RunStatus, kind: RunErrorType, message: String, said: Said) -> EventBody {
    let Said { replies, tokens } = said;
    let calls = u32::try_from(replies.len()).unwrap_or(u32::MAX);
    let error = RunError {
        kind,
        message,
        validation_errors: Vec::new(),
        last_output: replies.last().cloned(),
        calls,
        retry_count: 0,
        response: None,
    };
    let receipt = (calls > 0).then(|| Box::new(Receipt { calls, tokens, ..Receipt::default() }));
    let salvage = Salvage { replies, ..Salvage::default() };
    EventBody::RunCompleted {
        status,
        error: Some(Box::new(error)),
        salvage: Some(Box::new(salvage)),
        receipt,
    }
}
