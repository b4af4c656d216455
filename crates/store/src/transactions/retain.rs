//! Deletes sessions that exceed the retention limits. A session tree is kept or deleted as a whole.

use slipform_types::SessionId;

use super::delete;
use crate::error::Error;
use crate::record::{Millis, Retention};
use crate::tx::Tx;

/// Maximum number of session trees per call. Finding them reads all sessions. The next call deletes the rest.
const TREES_MAX: i64 = 10_000;

/// Rows after which a transaction ends. Other writes wait for it, so it takes some milliseconds at most, unless a
/// single session is larger.
const ROWS_MAX: u64 = 1_000;

/// Sessions of trees without active runs and without pending callbacks.
macro_rules! ended_trees {
    ($select:literal) => {
        concat!(
            $select,
            " FROM sessions WHERE root_session_id NOT IN (
                SELECT s.root_session_id FROM runs r JOIN sessions s ON s.session_id = r.session_id
                WHERE r.status IN ('pending', 'claimed', 'running', 'waiting', 'stopping')
             ) AND root_session_id NOT IN (
                SELECT s.root_session_id FROM callbacks c JOIN sessions s ON s.session_id = c.parent_session_id
             )"
        )
    };
}

/// Returns the roots of the trees to delete, oldest first.
pub(crate) async fn candidates(tx: &mut Tx, retention: &Retention) -> Result<Vec<SessionId>, Error> {
    let row = tx.query_one(ended_trees!("SELECT count(*), {now}"), &[]).await?;
    let Some(mut row) = row else { return Ok(Vec::new()) };
    let (mut kept, now) = (row.integer()?, row.integer()?);
    let sql = concat!(
        ended_trees!("SELECT root_session_id, max(updated_at), count(*)"),
        " GROUP BY root_session_id ORDER BY 2, 1 LIMIT $1"
    );
    let sessions_max = retention.sessions_max.map(|max| i64::try_from(max).unwrap_or(i64::MAX));
    let mut trees = Vec::new();
    for mut row in tx.query(sql, &[TREES_MAX.into()]).await? {
        let (root, updated_at, sessions): (SessionId, Millis, _) =
            (row.id()?, row.integer()?, row.integer()?);
        let is_old = retention.age_ms_max.is_some_and(|max| now.saturating_sub(updated_at) > max);
        if !is_old && sessions_max.is_none_or(|max| kept <= max) {
            break;
        }
        kept -= sessions;
        trees.push(root);
    }
    Ok(trees)
}

/// What a transaction has deleted.
pub(crate) struct DeletedTrees {
    /// Number of trees that were deleted or have become active again.
    pub(crate) trees: usize,
    pub(crate) sessions: usize,
}

/// Deletes the first of these session trees, at least one. Trees that have become active again are kept.
pub(crate) async fn delete_trees(tx: &mut Tx, roots: &[SessionId]) -> Result<DeletedTrees, Error> {
    let (mut deleted, mut rows) = (DeletedTrees { trees: 0, sessions: 0 }, 0);
    for root in roots {
        let (sessions, more) = delete_tree(tx, root).await?;
        deleted.trees += 1;
        deleted.sessions += sessions;
        rows += more;
        if rows >= ROWS_MAX {
            break;
        }
    }
    Ok(deleted)
}

/// Deletes a session tree unless it has become active again. Returns the number of deleted sessions and rows.
async fn delete_tree(tx: &mut Tx, root: &SessionId) -> Result<(usize, u64), Error> {
    let count = delete::lock(tx, root).await?.len();
    let called_back = tx
        .query_one(
            "SELECT c.position FROM callbacks c JOIN sessions s ON s.session_id = c.parent_session_id
             WHERE s.root_session_id = $1 LIMIT 1",
            &[root.as_str().into()],
        )
        .await?;
    if called_back.is_some() {
        return Ok((0, 0));
    }
    match delete::delete(tx, root).await? {
        Some(Ok(rows)) => Ok((count, rows)),
        Some(Err(_)) | None => Ok((0, 0)),
    }
}
