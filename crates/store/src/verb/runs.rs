//! Runs as others see them.

use formwork_types::{RunId, RunStatus, SessionId};
use serde_json::Value;

use super::journal;
use super::names::{from_json, read_run_type, read_status};
use crate::error::Error;
use crate::record::{Counts, Finished, Listed, Page, Position, RunFilter, RunRecord, StoredEvent};
use crate::tx::{Param, Row, Tx};

/// The most items of a page.
const PAGE_MAX: usize = 500;

macro_rules! select_runs {
    ($($conditions:literal),+) => {
        concat!(
            "SELECT r.number, r.run_id, r.session_id, r.agent_name, r.type, r.status, r.error, r.retry_count,
                r.attempts, r.parent_run_id, r.created_at, r.started_at, r.finished_at, COALESCE(r.start, e.body)
             FROM runs r LEFT JOIN events e ON e.session_id = r.session_id AND e.seq = r.start_seq ",
            $($conditions),+
        )
    };
}

/// A page of runs: `$1` is where it begins and `$2` how many there may be; then session, agent and status, each of
/// which may be left open.
macro_rules! page_of_runs {
    ($condition:literal) => {
        select_runs!(
            "WHERE r.number < $1 AND ",
            $condition,
            " AND ($3 IS NULL OR r.session_id = $3) AND ($4 IS NULL OR r.agent_name = $4)
              AND ($5 IS NULL OR r.status = $5) ORDER BY r.number DESC LIMIT $2"
        )
    };
}

/// A run.
pub(crate) async fn one(tx: &mut Tx, run: &RunId) -> Result<Option<RunRecord>, Error> {
    let row = tx.query_one(select_runs!("WHERE r.run_id = $1"), &[run.as_str().into()]).await?;
    Ok(row.map(record).transpose()?.map(|(_, record)| record))
}

/// Runs, newest first.
pub(crate) async fn list(tx: &mut Tx, filter: &RunFilter, page: &Page) -> Result<Listed<RunRecord>, Error> {
    let session = filter.session_id.as_ref().map(SessionId::as_str);
    let agent = filter.agent_name.as_deref();
    let status = filter.status.map(RunStatus::name);
    // The narrowest index: what is left open would otherwise make the database read everything.
    let sql = match (session, status, agent) {
        (Some(_), ..) => page_of_runs!("r.session_id = $3"),
        (None, Some(_), _) => page_of_runs!("r.status = $5"),
        (None, None, Some(_)) => page_of_runs!("r.agent_name = $4"),
        (None, None, None) => page_of_runs!("1 = 1"),
    };
    let (before, limit) = bounds(page);
    let params: [Param<'_>; 5] =
        [before.into(), (limit + 1).into(), session.into(), agent.into(), status.into()];
    let rows = tx.query(sql, &params).await?;
    let found = rows.into_iter().map(record).collect::<Result<Vec<_>, _>>()?;
    Ok(listed(found, limit))
}

/// Where a page begins and how many it has at most. A cursor that is none begins at the end.
pub(crate) fn bounds(page: &Page) -> (i64, i64) {
    let before = match page.after.as_deref() {
        Some(after) => after.parse().unwrap_or(0),
        None => i64::MAX,
    };
    (before, page.limit.clamp(1, PAGE_MAX) as i64)
}

/// The page out of one item more than it may have.
pub(crate) fn listed<T>(mut found: Vec<(i64, T)>, limit: i64) -> Listed<T> {
    let has_more = found.len() as i64 > limit;
    found.truncate(limit as usize);
    let next = found.last().filter(|_| has_more).map(|(number, _)| number.to_string());
    Listed { items: found.into_iter().map(|(_, item)| item).collect(), next }
}

fn record(mut row: Row) -> Result<(i64, RunRecord), Error> {
    let number = row.integer()?;
    let record = RunRecord {
        run_id: row.id()?,
        session_id: row.id()?,
        agent_name: row.text()?,
        run_type: read_run_type(&row.text()?)?,
        status: read_status(&row.text()?)?,
        error: row.optional_text()?.as_deref().map(from_json).transpose()?,
        retry_count: row.integer()?,
        attempts: row.integer()?,
        parent_run_id: row.optional_id()?,
        created_at: row.integer()?,
        started_at: row.optional_integer()?,
        finished_at: row.optional_integer()?,
        contract: row.optional_text()?.as_deref().map(contract).transpose()?.flatten(),
    };
    Ok((number, record))
}

fn contract(start: &str) -> Result<Option<Value>, Error> {
    let mut start: Value = from_json(start)?;
    Ok(start.get_mut("contract").map(Value::take).filter(|contract| !contract.is_null()))
}

/// The `run_start` of a run. That of a run whose turn has not come has no place in the journal: its number is 0.
pub(crate) async fn start_of(tx: &mut Tx, run: &RunId) -> Result<Option<StoredEvent>, Error> {
    let row = tx
        .query_one(
            "SELECT session_id, start_seq, start, created_at FROM runs WHERE run_id = $1",
            &[run.as_str().into()],
        )
        .await?;
    let Some(mut row) = row else { return Ok(None) };
    let session_id = row.id()?;
    match (row.optional_integer()?, row.optional_text()?) {
        (Some(seq), _) => journal::at(tx, &session_id, seq).await,
        (None, Some(body)) => {
            let (run_id, at) = (run.clone(), row.integer()?);
            Ok(Some(StoredEvent { position: Position::default(), seq: 0, session_id, run_id, at, body }))
        }
        (None, None) => Ok(None),
    }
}

/// The latest run of a session, and what came of it.
pub(crate) async fn finished(tx: &mut Tx, session: &SessionId) -> Result<Option<Finished>, Error> {
    let row = tx
        .query_one(
            "SELECT r.run_id, r.end_seq FROM sessions s JOIN runs r ON r.run_id = s.last_run_id
             WHERE s.session_id = $1",
            &[session.as_str().into()],
        )
        .await?;
    let Some(mut row) = row else { return Ok(None) };
    let (run_id, end_seq): (RunId, _) = (row.id()?, row.optional_integer()?);
    let (Some(run), Some(start)) = (one(tx, &run_id).await?, start_of(tx, &run_id).await?) else {
        return Err(Error::Damaged(format!("the run {run_id} does not begin with a `run_start`")));
    };
    let (mut result, mut end) = (None, None);
    if let Some(seq) = end_seq {
        end = journal::at(tx, session, seq).await?;
        result = journal::result_of(tx, session, &run_id).await?;
    }
    Ok(Some(Finished { run, start, result, end }))
}

/// How many runs stand how.
pub(crate) async fn counts(tx: &mut Tx) -> Result<Counts, Error> {
    let mut counts = Counts::default();
    for mut row in tx.query("SELECT status, count(*) FROM runs GROUP BY status ORDER BY status", &[]).await? {
        counts.by_status.push((read_status(&row.text()?)?, row.integer()?));
    }
    let row = tx
        .query_one(
            "SELECT count(*), {now} - min(available_at) FROM runs
             WHERE available_at IS NOT NULL AND available_at <= {now}",
            &[],
        )
        .await?;
    if let Some(mut row) = row {
        (counts.queue_depth, counts.oldest_wait_ms) = (row.integer()?, row.optional_integer()?);
    }
    Ok(counts)
}
