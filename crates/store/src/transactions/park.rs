//! Parks runs and releases them.

use slipform_types::RunStatus;

use super::{end, run};
use crate::error::Error;
use crate::record::{Fence, Parked, Stale};
use crate::tx::Tx;

/// Parks a run until a child ends. Ending a child locks the same row, so one of the two transactions sees the
/// other's change.
pub(crate) async fn park(tx: &mut Tx, fence: &Fence) -> Result<Result<Parked, Stale>, Error> {
    let Some(run) = run::lock_alone(tx, &fence.run_id).await?.filter(|run| run.is_held_by(fence)) else {
        return Ok(Err(Stale));
    };
    if end::deliver(tx, &run).await? {
        return Ok(Ok(Parked::Available));
    }
    if run.is_stopping {
        run::make_available(tx, &run.run_id).await?;
        return Ok(Ok(Parked::Available));
    }
    tx.execute(
        "UPDATE runs SET status = $2, lease_until = NULL, runner_id = NULL WHERE run_id = $1",
        &[run.run_id.as_str().into(), RunStatus::Waiting.name().into()],
    )
    .await?;
    tx.has_notification = true;
    Ok(Ok(Parked::Waiting))
}

/// Returns a run to the queue.
pub(crate) async fn release(tx: &mut Tx, fence: &Fence) -> Result<Result<(), Stale>, Error> {
    match run::lock_alone(tx, &fence.run_id).await? {
        Some(run) if run.is_held_by(fence) => {
            run::make_available(tx, &run.run_id).await?;
            Ok(Ok(()))
        }
        _ => Ok(Err(Stale)),
    }
}
