//! Reads and lists sessions.

use slipform_types::{RunStatus, SessionId};

use super::encoding::read_status;
use super::runs::{bounds, listed};
use crate::error::Error;
use crate::record::{Listed, Page, SessionFilter, SessionRecord};
use crate::tx::{Param, Row, Tx};

macro_rules! select_sessions {
    ($conditions:expr) => {
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

/// Selects a page of sessions. `$1` is the cursor, `$2` the limit, and `$3` to `$6` are owner, agent, status and parent;
/// NULL disables a filter.
macro_rules! page_of_sessions {
    ($condition:literal) => {
        select_sessions!(concat!(
            "WHERE s.number < $1 AND ",
            $condition,
            " AND ($3 IS NULL OR s.created_by = $3) AND ($4 IS NULL OR s.agent_name = $4)
              AND ($5 IS NULL OR r.status = $5) AND ($6 IS NULL OR s.parent_session_id = $6)
              ORDER BY s.number DESC LIMIT $2"
        ))
    };
}

/// Lists sessions, newest first.
pub(crate) async fn list(
    tx: &mut Tx,
    filter: &SessionFilter,
    page: &Page,
) -> Result<Listed<SessionRecord>, Error> {
    let (before, limit) = bounds(page);
    let owner = filter.owner.as_deref();
    let parent = filter.parent_session_id.as_ref().map(SessionId::as_str);
    // Names the most selective index; the optional conditions alone would make the database scan the table.
    let sql = match (parent, owner, &filter.agent_name) {
        (Some(_), ..) => page_of_sessions!("s.parent_session_id = $6"),
        (None, Some(_), _) => page_of_sessions!("s.created_by = $3"),
        (None, None, Some(_)) => page_of_sessions!("s.agent_name = $4"),
        (None, None, None) => page_of_sessions!("1 = 1"),
    };
    let params: [Param<'_>; 6] = [
        before.into(),
        (limit + 1).into(),
        owner.into(),
        filter.agent_name.as_deref().into(),
        filter.status.map(RunStatus::name).into(),
        parent.into(),
    ];
    let rows = tx.query(sql, &params).await?;
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
