//! Reads and lists sessions.

use slipform_types::SessionId;

use super::encoding::read_status;
use super::runs::{bounds, listed};
use crate::error::Error;
use crate::record::{Listed, Page, SessionRecord};
use crate::tx::{Row, Tx};

macro_rules! select_sessions {
    ($conditions:literal) => {
        concat!(
            "SELECT s.number, s.session_id, s.agent_name, s.parent_session_id,
                (SELECT string_agg(c.session_id, ',' ORDER BY c.number) FROM sessions c
                 WHERE c.parent_session_id = s.session_id),
                s.project_dir, s.created_by, s.last_run_id, r.status, s.created_at, s.updated_at, s.last_seq
             FROM sessions s JOIN runs r ON r.run_id = s.last_run_id ",
            $conditions
        )
    };
}

/// Returns a session.
pub(crate) async fn one(tx: &mut Tx, session: &SessionId) -> Result<Option<SessionRecord>, Error> {
    let sql = select_sessions!("WHERE s.session_id = $1");
    let row = tx.query_one(sql, &[session.as_str().into()]).await?;
    Ok(row.map(record).transpose()?.map(|(_, record)| record))
}

/// Lists sessions, newest first; with an owner, only those of that API token.
pub(crate) async fn list(
    tx: &mut Tx,
    owner: Option<&str>,
    page: &Page,
) -> Result<Listed<SessionRecord>, Error> {
    let (before, limit) = bounds(page);
    let bounds = [before.into(), (limit + 1).into()];
    let rows = match owner {
        Some(owner) => {
            let sql =
                select_sessions!("WHERE s.number < $1 AND s.created_by = $3 ORDER BY s.number DESC LIMIT $2");
            tx.query(sql, &[bounds[0], bounds[1], owner.into()]).await?
        }
        None => {
            let sql = select_sessions!("WHERE s.number < $1 ORDER BY s.number DESC LIMIT $2");
            tx.query(sql, &bounds).await?
        }
    };
    let found = rows.into_iter().map(record).collect::<Result<Vec<_>, _>>()?;
    Ok(listed(found, limit))
}

fn record(mut row: Row) -> Result<(i64, SessionRecord), Error> {
    let number = row.integer()?;
    let record = SessionRecord {
        session_id: row.id()?,
        agent_name: row.text()?,
        parent_session_id: row.optional_id()?,
        children: children(row.optional_text()?.as_deref())?,
        project_dir: row.optional_text()?,
        created_by: row.optional_text()?,
        last_run_id: row.id()?,
        status: read_status(&row.text()?)?,
        created_at: row.integer()?,
        updated_at: row.integer()?,
        last_seq: row.integer()?,
    };
    Ok((number, record))
}

fn children(ids: Option<&str>) -> Result<Vec<SessionId>, Error> {
    let ids = ids.unwrap_or_default().split(',').filter(|id| !id.is_empty());
    ids.map(|id| id.parse().map_err(|error| Error::Damaged(format!("{error}")))).collect()
}
