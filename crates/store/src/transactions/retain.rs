//! Deletes sessions that exceed the retention limits. A session tree is kept or deleted as a whole.

use slipform_types::SessionId;

use super::delete;
use crate::error::Error;
use crate::record::{Millis, Retention};
use crate::tx::Tx;

/// Maximum number of session trees per call. The next call deletes the rest.
const TREES_MAX: i64 = 1000;

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

/// Deletes a session tree unless it has become active again. Returns the number of deleted sessions.
pub(crate) async fn delete_tree(tx: &mut Tx, root: &SessionId) -> Result<usize, Error> {
    let count = delete::lock(tx, root).await?.len();
    let called_back = tx
        .query_one(
            "SELECT c.position FROM callbacks c JOIN sessions s ON s.session_id = c.parent_session_id
             WHERE s.root_session_id = $1 LIMIT 1",
            &[root.as_str().into()],
        )
        .await?;
    if called_back.is_some() {
        return Ok(0);
    }
    Ok(matches!(delete::delete(tx, root).await?, Some(Ok(()))).then_some(count).unwrap_or(0))
}
