//! Reads and locks the row of a run that an operation changes.

use slipform_types::{ExecutionMode, RunId, RunStatus, SessionId};

use super::encoding::{read_mode, read_status};
use crate::error::Error;
use crate::record::{Fence, Millis};
use crate::tx::{Row, Tx};

/// A locked row of the `runs` table.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub(crate) run_id: RunId,
    pub(crate) session_id: SessionId,
    pub(crate) status: RunStatus,
    pub(crate) mode: ExecutionMode,
    pub(crate) parent_session_id: Option<SessionId>,
    pub(crate) parent_run_id: Option<RunId>,
    pub(crate) attempts: i64,
    pub(crate) losses: i64,
    pub(crate) token: i64,
    pub(crate) appends: i64,
    pub(crate) lease_until: Option<Millis>,
    pub(crate) is_stopping: bool,
    pub(crate) stop_asked_at: Option<Millis>,
    pub(crate) deadline_at: Option<Millis>,
    /// Whether the run waits behind another in its session. Its `run_start` is not in the journal yet.
    pub(crate) is_queued: bool,
    pub(crate) is_ended: bool,
    /// Whether the run may have unfinished children. Always true on PostgreSQL, where it must be queried
    /// after locking.
    pub(crate) has_children: bool,
    pub(crate) now: Millis,
}

impl Run {
    /// Whether this attempt is the latest and its lease has not expired.
    pub(crate) fn is_held_by(&self, fence: &Fence) -> bool {
        self.token == fence.token && self.lease_until.is_some_and(|until| until >= self.now)
    }
}

const LOCK_PARENT: &str =
    "SELECT number FROM runs WHERE run_id = (SELECT parent_run_id FROM runs WHERE run_id = $1) {lock}";

const LOCK: &str =
    "SELECT run_id, session_id, status, mode, parent_session_id, parent_run_id, attempts, losses,
        token, appends, lease_until, is_stopping, stop_asked_at, deadline_at,
        CASE WHEN start IS NULL THEN 0 ELSE CAST(1 AS BIGINT) END,
        CASE WHEN finished_at IS NULL THEN 0 ELSE CAST(1 AS BIGINT) END, {has_children}, {now}
     FROM runs WHERE run_id = $1 {lock}";

/// Reads and locks a run that may end, together with its parent. Ending a child changes its parent, and
/// inconsistent lock order would deadlock.
pub(crate) async fn lock(tx: &mut Tx, run: &RunId) -> Result<Option<Run>, Error> {
    if tx.is_single_writer() {
        return lock_alone(tx, run).await;
    }
    let id = || vec![run.as_str().into()];
    let mut found = tx.query_all(&[(LOCK_PARENT, id()), (LOCK, id())]).await?;
    found.pop().and_then(|rows| rows.into_iter().next()).map(read).transpose()
}

/// Reads and locks a run that this operation does not end. The parent is not locked.
pub(crate) async fn lock_alone(tx: &mut Tx, run: &RunId) -> Result<Option<Run>, Error> {
    tx.query_one(LOCK, &[run.as_str().into()]).await?.map(read).transpose()
}

fn read(mut row: Row) -> Result<Run, Error> {
    Ok(Run {
        run_id: row.id()?,
        session_id: row.id()?,
        status: read_status(&row.text()?)?,
        mode: read_mode(&row.text()?)?,
        parent_session_id: row.optional_id()?,
        parent_run_id: row.optional_id()?,
        attempts: row.integer()?,
        losses: row.integer()?,
        token: row.integer()?,
        appends: row.integer()?,
        lease_until: row.optional_integer()?,
        is_stopping: row.flag()?,
        stop_asked_at: row.optional_integer()?,
        deadline_at: row.optional_integer()?,
        is_queued: row.flag()?,
        is_ended: row.flag()?,
        has_children: row.flag()?,
        now: row.integer()?,
    })
}

/// Puts a run without a runner into the queue. A run that was asked to stop keeps the status `stopping`.
pub(crate) async fn make_available(tx: &mut Tx, run: &RunId) -> Result<(), Error> {
    tx.execute(
        "UPDATE runs SET status = CASE WHEN is_stopping = 1 THEN 'stopping' ELSE 'pending' END,
            available_at = {now}, lease_until = NULL, runner_id = NULL WHERE run_id = $1",
        &[run.as_str().into()],
    )
    .await?;
    tx.has_notification = true;
    tx.has_queued_run = true;
    Ok(())
}
