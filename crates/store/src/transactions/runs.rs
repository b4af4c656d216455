//! Reads and lists runs.

use serde_json::Value;
use slipform_types::{EventKind, RunErrorType, RunId, RunStatus, RunVerdict, SessionId, Tokens};

use super::encoding::{from_json, read_run_type, read_status};
use super::journal;
use crate::error::Error;
use crate::record::{Counts, Listed, Page, Position, RunDetails, RunFilter, RunRecord, StoredEvent};
use crate::tx::{Param, Row, Tx};

/// Maximum number of items per page.
const PAGE_MAX: usize = 1_000;

/// How the result of a completed run with a contract was reached, as [`RunVerdict`] names it.
macro_rules! verdict {
    () => {
        "CASE WHEN r.status = 'completed' AND r.max_retries IS NOT NULL THEN
            CASE WHEN COALESCE(r.escalations, 0) > 0 THEN 'escalated' WHEN r.retry_count > 0 THEN 'retried'
                WHEN COALESCE(r.repairs, 0) > 0 THEN 'repaired' ELSE 'first_pass' END
         END"
    };
}

/// Selects runs. The last column is the `run_start` event, which contains the contract.
macro_rules! select_runs {
    ($error:literal, $start:literal, $($conditions:expr),+) => {
        concat!(
            "SELECT r.number, r.run_id, r.session_id, r.agent_name, r.type, r.status, ", $error, ", r.retry_count,
                r.attempts, r.parent_run_id, r.created_by,
                (SELECT created_by FROM sessions s WHERE s.session_id = r.session_id), r.backend, r.model, r.input_tokens, r.output_tokens, r.created_at, r.started_at,
                r.finished_at, r.max_retries, COALESCE(r.repairs, 0), ",
            verdict!(),
            ", ",
            $start,
            " FROM runs r ",
            $($conditions),+
        )
    };
}

/// Selects a page of runs without their contracts and texts. `$1` is the cursor, `$2` the limit, and `$3` to
/// `$13` are session, agent, status, parent, owner, backend, type of error, verdict, the limits of the time of
/// submission and the idempotency key; NULL disables a filter.
macro_rules! page_of_runs {
    ($condition:literal) => {
        select_runs!(
            "r.error_summary",
            "NULL",
            "WHERE r.number < $1 AND ",
            $condition,
            " AND ($10 IS NULL OR ",
            verdict!(),
            " = $10) AND ($3 IS NULL OR r.session_id = $3) AND ($4 IS NULL OR r.agent_name = $4)
              AND ($5 IS NULL OR r.status = $5) AND ($6 IS NULL OR r.parent_run_id = $6)
              AND ($7 IS NULL OR r.session_id IN (SELECT s.session_id FROM sessions s WHERE s.created_by = $7))
              AND ($8 IS NULL OR r.backend = $8) AND ($9 IS NULL OR r.error_type = $9)
              AND ($13 IS NULL OR r.run_id = (SELECT i.run_id FROM idempotency i WHERE i.key = $13))
              AND ($11 IS NULL OR r.created_at >= $11) AND ($12 IS NULL OR r.created_at < $12)
              ORDER BY r.number DESC LIMIT $2"
        )
    };
}

/// Returns a run with its contract.
pub(crate) async fn one(tx: &mut Tx, run: &RunId) -> Result<Option<RunRecord>, Error> {
    let sql = select_runs!(
        "r.error",
        "COALESCE(r.start, e.body)",
        "LEFT JOIN events e ON e.session_id = r.session_id AND e.seq = r.start_seq WHERE r.run_id = $1"
    );
    let row = tx.query_one(sql, &[run.as_str().into()]).await?;
    Ok(row.map(record).transpose()?.map(|(_, record)| record))
}

/// Lists runs, newest first.
pub(crate) async fn list(tx: &mut Tx, filter: &RunFilter, page: &Page) -> Result<Listed<RunRecord>, Error> {
    let session = filter.session_id.as_ref().map(SessionId::as_str);
    let parent = filter.parent_run_id.as_ref().map(RunId::as_str);
    let agent = filter.agent_name.as_deref();
    let status = filter.status.map(RunStatus::name);
    // Names the most selective index; the optional conditions alone would make the database scan the table.
    let sql = match (&filter.idempotency_key, parent, session, filter.error_type, status, agent) {
        (Some(_), ..) => page_of_runs!("r.run_id = (SELECT i.run_id FROM idempotency i WHERE i.key = $13)"),
        (None, Some(_), ..) => page_of_runs!("r.parent_run_id = $6"),
        (None, None, Some(_), ..) => page_of_runs!("r.session_id = $3"),
        (None, None, None, Some(_), ..) => page_of_runs!("r.error_type = $9"),
        (None, None, None, None, Some(_), _) => page_of_runs!("r.status = $5"),
        (None, None, None, None, None, Some(_)) => page_of_runs!("r.agent_name = $4"),
        (None, None, None, None, None, None) => page_of_runs!("1 = 1"),
    };
    let (before, limit) = bounds(page);
    let params: [Param<'_>; 13] = [
        before.into(),
        (limit + 1).into(),
        session.into(),
        agent.into(),
        status.into(),
        parent.into(),
        filter.owner.as_deref().into(),
        filter.backend.as_deref().into(),
        filter.error_type.map(RunErrorType::name).into(),
        filter.verdict.map(RunVerdict::name).into(),
        filter.created_after.into(),
        filter.created_before.into(),
        filter.idempotency_key.as_deref().into(),
    ];
    let rows = tx.query(sql, &params).await?;
    let found = rows.into_iter().map(record).collect::<Result<Vec<_>, _>>()?;
    Ok(listed(found, limit))
}

/// Returns the cursor and limit of a page. An invalid cursor yields an empty page.
pub(crate) fn bounds(page: &Page) -> (i64, i64) {
    let before = match page.after.as_deref() {
        Some(after) => after.parse().unwrap_or(0),
        None => i64::MAX,
    };
    (before, page.limit.clamp(1, PAGE_MAX) as i64)
}

/// Builds a page from up to `limit + 1` items; the extra item shows that another page follows.
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
        created_by: row.optional_text()?,
        owner: row.optional_text()?,
        backend: row.optional_text()?,
        model: row.optional_text()?.filter(|model| !model.is_empty()),
        tokens: tokens(row.optional_integer()?, row.optional_integer()?),
        created_at: row.integer()?,
        started_at: row.optional_integer()?,
        finished_at: row.optional_integer()?,
        max_retries: row.optional_integer()?,
        repairs: row.integer()?,
        verdict: row.optional_text()?.as_deref().and_then(RunVerdict::named),
        contract: row.optional_text()?.as_deref().map(contract).transpose()?.flatten(),
    };
    Ok((number, record))
}

fn tokens(input: Option<i64>, output: Option<i64>) -> Option<Tokens> {
    let count = |tokens: i64| u64::try_from(tokens).unwrap_or(0);
    Some(Tokens { input: count(input?), output: count(output?) })
}

fn contract(start: &str) -> Result<Option<Value>, Error> {
    let mut start: Value = from_json(start)?;
    Ok(start.get_mut("contract").map(Value::take).filter(|contract| !contract.is_null()))
}

/// Returns a run's `run_start`. For a run that is still queued in its session, `seq` is 0.
pub(crate) async fn run_start(tx: &mut Tx, run: &RunId) -> Result<Option<StoredEvent>, Error> {
    let row = tx
        .query_one(
            "SELECT session_id, start_seq, start, created_at FROM runs WHERE run_id = $1",
            &[run.as_str().into()],
        )
        .await?;
    let Some(mut row) = row else { return Ok(None) };
    let session_id = row.id()?;
    match (row.optional_integer()?, row.optional_text()?) {
        (Some(seq), _) => journal::event_at(tx, &session_id, seq).await,
        (None, Some(body)) => {
            let (run_id, at) = (run.clone(), row.integer()?);
            let (position, kind) = (Position::default(), EventKind::RunStart);
            Ok(Some(StoredEvent { position, seq: 0, session_id, run_id, at, kind, body }))
        }
        (None, None) => Ok(None),
    }
}

/// Returns the latest run of a session with its events.
pub(crate) async fn latest_run_details(
    tx: &mut Tx,
    session: &SessionId,
) -> Result<Option<RunDetails>, Error> {
    let row = tx
        .query_one("SELECT last_run_id FROM sessions WHERE session_id = $1", &[session.as_str().into()])
        .await?;
    match row {
        Some(mut row) => run_details(tx, &row.id()?).await,
        None => Ok(None),
    }
}

/// Returns a run with its start, result and end events.
pub(crate) async fn run_details(tx: &mut Tx, run_id: &RunId) -> Result<Option<RunDetails>, Error> {
    let Some(run) = one(tx, run_id).await? else { return Ok(None) };
    let Some(start) = run_start(tx, run_id).await? else {
        return Err(Error::Damaged(format!("run {run_id} has no `run_start`")));
    };
    let row = tx.query_one("SELECT end_seq FROM runs WHERE run_id = $1", &[run_id.as_str().into()]).await?;
    let end_seq = row.map(|mut row| row.optional_integer()).transpose()?.flatten();
    let (mut result, mut last_reply, mut end) = (None, None, None);
    if let Some(seq) = end_seq {
        end = journal::event_at(tx, &run.session_id, seq).await?;
        result = journal::result_event(tx, &run.session_id, run_id).await?;
        if result.is_some() {
            last_reply = journal::last_reply_event(tx, &run.session_id, run_id).await?;
        }
    }
    let continued_by = continuations(tx, run_id).await?;
    let awaits_callback = awaits_callback(tx, run_id).await?;
    Ok(Some(RunDetails { run, continued_by, awaits_callback, start, result, last_reply, end }))
}

/// Returns the callback runs that continued a run, oldest first.
async fn continuations(tx: &mut Tx, run: &RunId) -> Result<Vec<RunId>, Error> {
    let sql = "SELECT run_id FROM runs WHERE continues_run_id = $1 ORDER BY number";
    let rows = tx.query(sql, &[run.as_str().into()]).await?;
    rows.into_iter().map(|mut row| row.id()).collect()
}

/// Whether a child with a callback has not ended, or its callback has not started a run yet.
async fn awaits_callback(tx: &mut Tx, run: &RunId) -> Result<bool, Error> {
    let sql = "SELECT r.run_id FROM runs r LEFT JOIN callbacks c ON c.child_run_id = r.run_id
        WHERE r.parent_run_id = $1 AND r.mode = 'async_callback'
            AND (r.finished_at IS NULL OR c.child_run_id IS NOT NULL) LIMIT 1";
    Ok(tx.query_one(sql, &[run.as_str().into()]).await?.is_some())
}

/// Counts runs by status and measures the queue.
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
