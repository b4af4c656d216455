//! Runs that are given back: to wait for children, or for another runner.

use slipform_types::RunStatus;

use super::{end, run};
use crate::error::Error;
use crate::record::{Fence, Parked, Stale};
use crate::tx::Tx;

/// Lets a run wait for its children. Whoever ends a child locks the same row: one of the two sees what the other did.
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
    tx.has_news = true;
    Ok(Ok(Parked::Waiting))
}

/// Gives a run back at once.
pub(crate) async fn release(tx: &mut Tx, fence: &Fence) -> Result<Result<(), Stale>, Error> {
    match run::lock_alone(tx, &fence.run_id).await? {
        Some(run) if run.is_held_by(fence) => {
            run::make_available(tx, &run.run_id).await?;
            Ok(Ok(()))
        }
        _ => Ok(Err(Stale)),
    }
}
