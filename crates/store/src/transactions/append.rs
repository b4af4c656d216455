//! Appends a runner's events, and finishes runs.

use slipform_types::{EventBody, SessionId};

use super::encoding::EncodedEvent;
use super::run::Run;
use super::{end, journal, run};
use crate::error::Error;
use crate::record::{Append, Appended, Stale};
use crate::tx::{Tx, update_returning};

/// Appends events; `events` are the encoded bodies.
pub(crate) async fn append(
    tx: &mut Tx,
    append: &Append,
    events: &[EncodedEvent],
) -> Result<Result<Appended, Stale>, Error> {
    let progress = append.progress.as_ref();
    let row = tx
        .update_one(
            &update_returning!(
                "UPDATE runs SET appends = $3, lease_until = {now} + $4,
                    losses = CASE WHEN $5 = 1 THEN 0 ELSE losses END, retry_count = COALESCE($6, retry_count),
                    backend = COALESCE($7, backend), model = COALESCE($8, model),
                    status = CASE WHEN is_stopping = 1 THEN 'stopping' ELSE 'running' END
                 WHERE run_id = $1 AND token = $2 AND appends = $3 - 1 AND lease_until >= {now}",
                "session_id, is_stopping, {last_seq}",
                "runs WHERE run_id = $1"
            ),
            &[
                append.fence.run_id.as_str().into(),
                append.fence.token.into(),
                append.number.into(),
                append.lease_ms.into(),
                i64::from(append.bodies.iter().any(is_progress)).into(),
                progress.map(|progress| i64::from(progress.retry_count)).into(),
                progress.and_then(|progress| progress.backend.as_deref()).into(),
                progress.and_then(|progress| progress.model.as_deref()).into(),
            ],
        )
        .await?;
    let Some(mut row) = row else {
        return repetition(tx, append).await;
    };
    let (session, is_stopping, known): (SessionId, _, _) = (row.id()?, row.flag()?, row.optional_integer()?);
    let last_seq = match known {
        Some(known) => journal::write_after(tx, &session, &append.fence.run_id, known, events).await?,
        None => journal::write_encoded(tx, &session, &append.fence.run_id, events).await?,
    };
    Ok(Ok(Appended { last_seq, is_stopping, is_repeated: false, has_queued_run: false }))
}

/// Whether an event shows progress. Progress resets the count of lost attempts, so only losses at the same
/// step add up.
fn is_progress(body: &EventBody) -> bool {
    matches!(body, EventBody::Message { .. } | EventBody::PostTool { .. } | EventBody::ChildStarted { .. })
}

/// Answers an append that changed no row: it was stored before, or the attempt is stale.
async fn repetition(tx: &mut Tx, append: &Append) -> Result<Result<Appended, Stale>, Error> {
    match run::lock_alone(tx, &append.fence.run_id).await? {
        Some(run) if run.is_held_by(&append.fence) && run.appends == append.number => {
            Ok(Ok(answer(tx, &run).await?))
        }
        _ => Ok(Err(Stale)),
    }
}

/// The answer to an append that was stored before.
async fn answer(tx: &mut Tx, run: &Run) -> Result<Appended, Error> {
    let row = tx
        .query_one("SELECT last_seq FROM sessions WHERE session_id = $1", &[run.session_id.as_str().into()])
        .await?;
    let last_seq = row.map_or(Ok(0), |mut row| row.integer())?;
    Ok(Appended { last_seq, is_stopping: run.is_stopping, is_repeated: true, has_queued_run: false })
}

/// Appends the final events of a run and ends it.
pub(crate) async fn finish(
    tx: &mut Tx,
    append: &Append,
    events: &[EncodedEvent],
) -> Result<Result<Appended, Stale>, Error> {
    let Some(run) = run::lock(tx, &append.fence.run_id).await? else { return Ok(Err(Stale)) };
    if run.is_ended {
        // Every other way to end a run increments its token. A matching token means that this request ended
        // it.
        let is_same = run.token == append.fence.token && run.appends == append.number;
        return if is_same { Ok(Ok(answer(tx, &run).await?)) } else { Ok(Err(Stale)) };
    }
    if !run.is_held_by(&append.fence) || run.appends != append.number - 1 {
        return Ok(Err(Stale));
    }
    if !matches!(append.bodies.last(), Some(EventBody::RunCompleted { .. })) {
        return Err(Error::Unsuitable("the last event of a run must be `run_completed`".to_owned()));
    }
    tx.has_queued_run = false;
    let last_seq = end::end(tx, &run, &append.bodies, events, Some(append.number)).await?;
    Ok(Ok(Appended {
        last_seq,
        is_stopping: run.is_stopping,
        is_repeated: false,
        has_queued_run: tx.has_queued_run,
    }))
}
