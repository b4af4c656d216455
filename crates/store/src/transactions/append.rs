//! What runners say of the run that they work on.

use slipform_types::{EventBody, SessionId};

use super::run::Run;
use super::{end, journal, run};
use crate::error::Error;
use crate::record::{Append, Appended, Stale};
use crate::tx::{Tx, changing};

/// Appends what happened; `texts` are the bodies as JSON.
pub(crate) async fn append(
    tx: &mut Tx,
    append: &Append,
    texts: &[String],
) -> Result<Result<Appended, Stale>, Error> {
    let row = tx
        .change_one(
            &changing!(
                "UPDATE runs SET appends = $3, lease_until = {now} + $4,
                    losses = CASE WHEN $5 = 1 THEN 0 ELSE losses END,
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
            ],
        )
        .await?;
    let Some(mut row) = row else {
        return repetition(tx, append).await;
    };
    let (session, stop, known): (SessionId, _, _) = (row.id()?, row.flag()?, row.optional_integer()?);
    let last_seq = match known {
        Some(known) => journal::write_after(tx, &session, &append.fence.run_id, known, texts).await?,
        None => journal::write_texts(tx, &session, &append.fence.run_id, texts).await?,
    };
    Ok(Ok(Appended { last_seq, stop, is_repeated: false, makes_work: false }))
}

/// Whether the run has come further than it was. What killed its runners before did not do so again: only losses at the
/// same step count together.
fn is_progress(body: &EventBody) -> bool {
    matches!(body, EventBody::Message { .. } | EventBody::PostTool { .. } | EventBody::ChildStarted { .. })
}

/// The answer to an append that was not written: it had been before, or it may not be.
async fn repetition(tx: &mut Tx, append: &Append) -> Result<Result<Appended, Stale>, Error> {
    match run::lock_alone(tx, &append.fence.run_id).await? {
        Some(run) if run.is_held_by(&append.fence) && run.appends == append.number => {
            Ok(Ok(answer(tx, &run).await?))
        }
        _ => Ok(Err(Stale)),
    }
}

/// The answer to what was written before.
async fn answer(tx: &mut Tx, run: &Run) -> Result<Appended, Error> {
    let row = tx
        .query_one("SELECT last_seq FROM sessions WHERE session_id = $1", &[run.session_id.as_str().into()])
        .await?;
    let last_seq = row.map_or(Ok(0), |mut row| row.integer())?;
    Ok(Appended { last_seq, stop: run.is_stopping, is_repeated: true, makes_work: false })
}

/// Appends what ends a run, with all that follows from its end.
pub(crate) async fn finish(
    tx: &mut Tx,
    append: &Append,
    texts: &[String],
) -> Result<Result<Appended, Stale>, Error> {
    let Some(run) = run::lock(tx, &append.fence.run_id).await? else { return Ok(Err(Stale)) };
    if run.is_ended {
        // Whoever else ends a run takes its attempt's token away: this one was ended by the same request.
        let is_same = run.token == append.fence.token && run.appends == append.number;
        return if is_same { Ok(Ok(answer(tx, &run).await?)) } else { Ok(Err(Stale)) };
    }
    if !run.is_held_by(&append.fence) || run.appends != append.number - 1 {
        return Ok(Err(Stale));
    }
    if !matches!(append.bodies.last(), Some(EventBody::RunCompleted { .. })) {
        return Err(Error::Unsuitable("a run ends with a `run_completed`".to_owned()));
    }
    tx.makes_work = false;
    let last_seq = end::end(tx, &run, &append.bodies, texts, Some(append.number)).await?;
    Ok(Ok(Appended { last_seq, stop: run.is_stopping, is_repeated: false, makes_work: tx.makes_work }))
}
