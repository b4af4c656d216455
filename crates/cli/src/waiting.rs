//! Runs that wait for a runner, and the end of stopped runs.

use std::time::Duration;

use anyhow::Result;
use slipform_api::{CallerApi, RunView, RunnerView};
use slipform_types::{RunId, RunStatus};

use crate::output;

/// The time that `stop` waits for the end of a run: the lease of a dead runner, and the sweep after it.
const STOP_WAIT_MAX: Duration = Duration::from_secs(20);

/// The time after which `stop` reports that it is waiting.
const STOP_NOTICE_DELAY: Duration = Duration::from_secs(1);

/// Whether a run waits for a runner and none is connected. An unreachable coordinator says nothing about that.
pub(crate) async fn lacks_runner(api: &dyn CallerApi, run: &RunId) -> bool {
    let is_pending = api.run(run).await.is_ok_and(|view| view.status == RunStatus::Pending);
    let takes_runs = |runner: &RunnerView| runner.details["own_runs_only"] != true;
    is_pending && api.runners().await.is_ok_and(|runners| !runners.iter().any(takes_runs))
}

/// Waits until a stopping run has ended. If its runner is dead, that takes until its lease expires.
pub(crate) async fn wait_for_stop(api: &dyn CallerApi, run: RunView) -> Result<RunView> {
    let run = api.wait(&run.run_id, STOP_NOTICE_DELAY).await?;
    if run.status.is_ended() {
        return Ok(run);
    }
    output::lines([format!(
        "slipform: waiting for run `{}` to stop; if its process is dead, this takes up to {} s",
        run.run_id,
        STOP_WAIT_MAX.as_secs()
    )]);
    Ok(api.wait(&run.run_id, STOP_WAIT_MAX - STOP_NOTICE_DELAY).await?)
}
