//! Sweeps runs whose lease, stop request or deadline has expired. A query finds the candidates; each is swept
//! in its own transaction.

use slipform_types::{EventBody, RunId, RunStatus};

use super::run::Run;
use super::{end, journal, run};
use crate::error::Error;
use crate::record::SweepLimits;
use crate::tx::Tx;

/// Maximum number of runs of each kind per sweep.
const BATCH_MAX: usize = 10_000;

/// The change made to a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SweepAction {
    Nothing,
    Returned,
    Lost,
    Stopped,
    Overdue,
}

/// Returns runs that may have to be swept.
pub(crate) async fn candidates(tx: &mut Tx, limits: &SweepLimits) -> Result<Vec<RunId>, Error> {
    let batch = limits.batch.min(BATCH_MAX) as i64;
    let mut rows = tx
        .query(
            "SELECT run_id FROM runs WHERE status IN ('claimed', 'running', 'stopping') AND lease_until < {now}
             ORDER BY lease_until LIMIT $1",
            &[batch.into()],
        )
        .await?;
    rows.extend(
        tx.query(
            "SELECT run_id FROM runs
             WHERE status = 'stopping' AND lease_until IS NULL AND stop_asked_at < {now} - $2
             ORDER BY stop_asked_at LIMIT $1",
            &[batch.into(), limits.stop_wait_ms.into()],
        )
        .await?,
    );
    rows.extend(
        tx.query(
            "SELECT run_id FROM runs WHERE status = 'waiting' AND deadline_at < {now}
             ORDER BY deadline_at LIMIT $1",
            &[batch.into()],
        )
        .await?,
    );
    rows.into_iter().map(|mut row| row.id()).collect()
}

/// Sweeps a run if it is still due. Another coordinator may have swept it since the query.
pub(crate) async fn sweep(tx: &mut Tx, id: &RunId, limits: &SweepLimits) -> Result<SweepAction, Error> {
    let Some(run) = run::lock(tx, id).await?.filter(|run| !run.is_ended) else {
        return Ok(SweepAction::Nothing);
    };
    let is_past = |moment: Option<i64>| moment.is_some_and(|moment| moment < run.now);
    if is_past(run.lease_until) {
        return expire_lease(tx, &run, limits).await;
    }
    let asked_at = run.stop_asked_at.map(|moment| moment.saturating_add(limits.stop_wait_ms));
    if run.status == RunStatus::Stopping && run.lease_until.is_none() && is_past(asked_at) {
        let model_replies = journal::model_replies(tx, &run.session_id, &run.run_id).await?;
        end::end_without_runner(tx, &run, &end::stopped(model_replies)).await?;
        return Ok(SweepAction::Stopped);
    }
    if run.status == RunStatus::Waiting && is_past(run.deadline_at) {
        run::make_available(tx, &run.run_id).await?;
        return Ok(SweepAction::Overdue);
    }
    Ok(SweepAction::Nothing)
}

async fn expire_lease(tx: &mut Tx, run: &Run, limits: &SweepLimits) -> Result<SweepAction, Error> {
    let losses = run.losses + 1;
    let expired = EventBody::LeaseExpired { attempt: run.attempts, losses };
    // The pin stays: the pinned runner may only have been suspended, and it claims nothing else.
    tx.execute("UPDATE runs SET losses = $2 WHERE run_id = $1", &[run.run_id.as_str().into(), losses.into()])
        .await?;
    if losses >= limits.losses_max {
        let model_replies = journal::model_replies(tx, &run.session_id, &run.run_id).await?;
        end::end_without_runner(tx, run, &[expired, end::lost(losses, model_replies)]).await?;
        return Ok(SweepAction::Lost);
    }
    journal::write(tx, &run.session_id, &run.run_id, &[expired]).await?;
    run::make_available(tx, &run.run_id).await?;
    Ok(SweepAction::Returned)
}
