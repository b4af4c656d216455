//! Deletes sessions.

use slipform_types::{RunId, SessionId};

use crate::error::Error;
use crate::tx::Tx;

/// The ids of a session and all its descendants.
macro_rules! descendants {
    () => {
        "WITH RECURSIVE tree(session_id) AS (
            SELECT session_id FROM sessions WHERE session_id = $1
            UNION ALL SELECT s.session_id FROM sessions s JOIN tree t ON s.parent_session_id = t.session_id
         ) "
    };
}

/// A run of the tree that has not ended.
const UNFINISHED: &str = concat!(
    descendants!(),
    "SELECT run_id FROM runs WHERE session_id IN (SELECT session_id FROM tree) AND finished_at IS NULL
     ORDER BY number LIMIT 1"
);

/// A run outside the tree that waits for the result of a run in it. It would wait forever.
const UNDELIVERED: &str = concat!(
    descendants!(),
    "SELECT p.run_id FROM runs r JOIN runs p ON p.run_id = r.parent_run_id
     WHERE r.session_id IN (SELECT session_id FROM tree) AND r.mode = 'sync' AND r.is_delivered = 0
        AND p.finished_at IS NULL ORDER BY p.number LIMIT 1"
);

/// The run of an outside session that has a pending callback from the tree.
const PENDING_CALLBACK: &str = concat!(
    descendants!(),
    "SELECT COALESCE(s.active_run_id, s.last_run_id) FROM callbacks c
        JOIN runs r ON r.run_id = c.child_run_id JOIN sessions s ON s.session_id = c.parent_session_id
     WHERE r.session_id IN (SELECT session_id FROM tree)
        AND s.session_id NOT IN (SELECT session_id FROM tree) ORDER BY c.position LIMIT 1"
);

/// Deletes a session and its descendants, unless a run of the tree has not ended or an outside run still
/// waits for its result. Returns the number of deleted rows.
pub(crate) async fn delete(tx: &mut Tx, session: &SessionId) -> Result<Option<Result<u64, RunId>>, Error> {
    let tree = lock(tx, session).await?;
    if tree.is_empty() {
        return Ok(None);
    }
    for sql in [UNFINISHED, UNDELIVERED, PENDING_CALLBACK] {
        if let Some(mut row) = tx.query_one(sql, &[session.as_str().into()]).await? {
            return Ok(Some(Err(row.id()?)));
        }
    }
    let mut rows = 0;
    for session in &tree {
        rows += delete_one(tx, session).await?;
    }
    Ok(Some(Ok(rows)))
}

/// Locks all sessions of the tree, so that none is resumed concurrently.
pub(crate) async fn lock(tx: &mut Tx, session: &SessionId) -> Result<Vec<SessionId>, Error> {
    let sql = concat!(
        descendants!(),
        "SELECT session_id FROM sessions WHERE session_id IN (SELECT session_id FROM tree) ORDER BY number {lock}"
    );
    let rows = tx.query(sql, &[session.as_str().into()]).await?;
    rows.into_iter().map(|mut row| row.id()).collect()
}

async fn delete_one(tx: &mut Tx, session: &SessionId) -> Result<u64, Error> {
    let statements = [
        "DELETE FROM callbacks WHERE parent_session_id = $1
            OR child_run_id IN (SELECT run_id FROM runs WHERE session_id = $1)",
        "DELETE FROM idempotency WHERE run_id IN (SELECT run_id FROM runs WHERE session_id = $1)",
        "DELETE FROM events WHERE session_id = $1",
        "DELETE FROM runs WHERE session_id = $1",
        "DELETE FROM sessions WHERE session_id = $1",
    ];
    let mut rows = 0;
    for sql in statements {
        rows += tx.execute(sql, &[session.as_str().into()]).await?;
    }
    Ok(rows)
}
