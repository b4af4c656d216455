//! Stops runs.

use std::collections::VecDeque;

use slipform_types::{RunId, RunStatus};

use super::journal::ModelReplies;
use super::run::Run;
use super::{end, run, runs};
use crate::error::Error;
use crate::record::RunRecord;
use crate::tx::{BoxFuture, Tx};

/// Maximum number of runs that one stop reaches. Delegation limits keep trees smaller.
const RUNS_MAX: usize = 10_000;

/// Asks a run, and the children that it waits for, to stop.
pub(crate) async fn stop(tx: &mut Tx, run: &RunId) -> Result<Option<RunRecord>, Error> {
    stop_all(tx, VecDeque::from([run.clone()])).await?;
    runs::one(tx, run).await
}

/// Asks the children that a run waits for to stop, because the run is ending. Boxed because ending a run can
/// end others recursively.
pub(crate) fn stop_children<'a>(tx: &'a mut Tx, run: &'a RunId) -> BoxFuture<'a, Result<(), Error>> {
    Box::pin(async move {
        let left = children(tx, run).await?;
        stop_all(tx, left.into()).await
    })
}

async fn stop_all(tx: &mut Tx, mut waiting: VecDeque<RunId>) -> Result<(), Error> {
    let mut count = 0;
    while let Some(next) = waiting.pop_front()
        && count < RUNS_MAX
    {
        count += 1;
        let Some(found) = run::lock(tx, &next).await? else { continue };
        if found.is_ended {
            continue;
        }
        stop_one(tx, &found).await?;
        waiting.extend(children(tx, &next).await?);
    }
    Ok(())
}

async fn stop_one(tx: &mut Tx, run: &Run) -> Result<(), Error> {
    match run.status {
        _ if run.is_queued => end::end_queued(tx, run, &end::stopped(ModelReplies::default())).await,
        RunStatus::Pending if run.attempts == 0 => {
            end::end_without_runner(tx, run, &end::stopped(ModelReplies::default())).await
        }
        RunStatus::Stopping => Ok(()),
        status => {
            tx.execute(
                "UPDATE runs SET status = 'stopping', is_stopping = 1, stop_asked_at = {now} WHERE run_id = $1",
                &[run.run_id.as_str().into()],
            )
            .await?;
            tx.has_notification = true;
            // A runner ends the run through the engine, which keeps its partial output.
            if matches!(status, RunStatus::Waiting | RunStatus::Pending) {
                run::make_available(tx, &run.run_id).await?;
            }
            Ok(())
        }
    }
}

async fn children(tx: &mut Tx, run: &RunId) -> Result<Vec<RunId>, Error> {
    let rows = tx
        .query(
            "SELECT run_id FROM runs WHERE parent_run_id = $1 AND mode = 'sync' AND finished_at IS NULL
             ORDER BY number",
            &[run.as_str().into()],
        )
        .await?;
    rows.into_iter().map(|mut row| row.id()).collect()
}
