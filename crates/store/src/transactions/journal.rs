//! Writes and reads journals.

use slipform_types::{EventBody, EventKind, RunId, SessionId, Tokens};

use super::encoding::{EncodedEvent, encode_events, read_event_kind};
use crate::error::Error;
use crate::record::{EventsPage, Fence, Position, Stale, StoredEvent};
use crate::tx::{BoundStatement, Row, Tx, update_returning};

/// Maximum number of events per read.
const EVENTS_MAX: usize = 10_000;

/// Maximum number of bytes per read. A page has at least one event.
const BYTES_MAX: i64 = 4 << 20;

/// Maximum numbers of events and bytes of each journal in a claim. The runner reads the rest page by page.
const CLAIM_EVENTS_MAX: i64 = 500;
const CLAIM_BYTES_MAX: i64 = 256 << 10;

/// The columns that `read_event` expects.
macro_rules! event_columns {
    () => {
        "{transaction}, e.position, e.seq, e.session_id, e.run_id, e.at, e.kind, e.body"
    };
}

/// Appends events to a session's journal and returns the `seq` of the last one.
pub(crate) async fn write(
    tx: &mut Tx,
    session: &SessionId,
    run: &RunId,
    bodies: &[EventBody],
) -> Result<i64, Error> {
    write_encoded(tx, session, run, &encode_events(bodies)?).await
}

/// Appends events that are already encoded.
pub(crate) async fn write_encoded(
    tx: &mut Tx,
    session: &SessionId,
    run: &RunId,
    events: &[EncodedEvent],
) -> Result<i64, Error> {
    let count = events.len() as i64;
    let row = tx
        .update_one(
            &update_returning!(
                "UPDATE sessions SET last_seq = last_seq + $2, updated_at = {now} WHERE session_id = $1",
                "last_seq",
                "sessions WHERE session_id = $1"
            ),
            &[session.as_str().into(), count.into()],
        )
        .await?;
    let last_seq = row.ok_or_else(|| no_session(session, run))?.integer()?;
    insert_events(tx, session, run, last_seq, events).await?;
    Ok(last_seq)
}

/// Appends events when the session's current `last_seq` is known, which saves a query.
pub(crate) async fn write_after(
    tx: &mut Tx,
    session: &SessionId,
    run: &RunId,
    last_seq: i64,
    events: &[EncodedEvent],
) -> Result<i64, Error> {
    let last_seq = last_seq + events.len() as i64;
    tx.execute(
        "UPDATE sessions SET last_seq = $2, updated_at = {now} WHERE session_id = $1",
        &[session.as_str().into(), last_seq.into()],
    )
    .await?;
    insert_events(tx, session, run, last_seq, events).await?;
    Ok(last_seq)
}

/// The state of a session after its active run has ended.
pub(crate) struct SessionState {
    /// `seq` of the last event.
    pub(crate) last_seq: i64,
    /// Whether the session has no active run.
    pub(crate) is_idle: bool,
    /// Name of the session's agent.
    pub(crate) agent_name: String,
    /// Whether queued runs or callbacks may wait for the session.
    pub(crate) has_waiting: bool,
}

/// Appends a run's final events and clears the session's active run. The session row stays locked.
pub(crate) async fn write_last(
    tx: &mut Tx,
    session: &SessionId,
    run: &RunId,
    events: &[EncodedEvent],
) -> Result<SessionState, Error> {
    let count = events.len() as i64;
    let row = tx
        .update_one(
            &update_returning!(
                "UPDATE sessions SET last_seq = last_seq + $2, updated_at = {now},
                    active_run_id = CASE WHEN active_run_id = $3 THEN NULL ELSE active_run_id END
                 WHERE session_id = $1",
                "last_seq, active_run_id, agent_name, {has_waiting}",
                "sessions WHERE session_id = $1"
            ),
            &[session.as_str().into(), count.into(), run.as_str().into()],
        )
        .await?;
    let mut row = row.ok_or_else(|| no_session(session, run))?;
    let (last_seq, is_idle) = (row.integer()?, row.optional_text()?.is_none());
    insert_events(tx, session, run, last_seq, events).await?;
    Ok(SessionState { last_seq, is_idle, agent_name: row.text()?, has_waiting: row.flag()? })
}

fn no_session(session: &SessionId, run: &RunId) -> Error {
    Error::Damaged(format!("session {session} of run {run} is missing"))
}

/// Inserts events; `last_seq` is the number of the last one.
async fn insert_events(
    tx: &mut Tx,
    session: &SessionId,
    run: &RunId,
    last_seq: i64,
    events: &[EncodedEvent],
) -> Result<(), Error> {
    let first = last_seq - events.len() as i64 + 1;
    let inserts = events
        .iter()
        .zip(first..)
        .map(|(event, seq)| insert_event(session, run, seq, event.kind, &event.body));
    let inserts: Vec<BoundStatement<'_>> = inserts.collect();
    tx.execute_all(&inserts).await?;
    tx.has_notification = true;
    Ok(())
}

/// Returns the insert statement for one event.
pub(crate) fn insert_event<'a>(
    session: &'a SessionId,
    run: &'a RunId,
    seq: i64,
    kind: EventKind,
    body: &'a str,
) -> BoundStatement<'a> {
    (
        "INSERT INTO events (session_id, seq, run_id, at, kind, body{and_transaction})
            VALUES ($1, $2, $3, {now}, $4, $5{and_its_transaction})",
        vec![session.as_str().into(), seq.into(), run.as_str().into(), kind.name().into(), body.into()],
    )
}

/// Selects up to `$3` events of session `$1` after `$2`, as many as have `$4` bytes together, at least one. Events are
/// numbered without gaps. The last column is the number of the session's last event. Neither database reads a text to
/// tell its length.
const PAGE: &str = concat!(
    "WITH sized AS (
        SELECT seq, sum(size) OVER (ORDER BY seq) AS total FROM (
            SELECT seq, octet_length(body) AS size FROM events
            WHERE session_id = $1 AND seq > $2 ORDER BY seq LIMIT $3
        ) AS next_events
     )
     SELECT ",
    event_columns!(),
    ", (SELECT last_seq FROM sessions s WHERE s.session_id = $1)
     FROM events e
     WHERE session_id = $1 AND seq > $2
        AND seq <= COALESCE((SELECT max(seq) FROM sized WHERE total <= $4), $2 + 1)
     ORDER BY seq"
);

/// Returns events of a session with `seq > after`.
pub(crate) async fn events(
    tx: &mut Tx,
    session: &SessionId,
    after: i64,
    limit: usize,
) -> Result<EventsPage, Error> {
    let limit = limit.min(EVENTS_MAX) as i64;
    page(tx.query(PAGE, &[session.as_str().into(), after.into(), limit.into(), BYTES_MAX.into()]).await?)
}

/// Returns the first events of several sessions.
pub(crate) async fn first_pages(tx: &mut Tx, sessions: &[&SessionId]) -> Result<Vec<EventsPage>, Error> {
    let limits = || [0.into(), CLAIM_EVENTS_MAX.into(), CLAIM_BYTES_MAX.into()];
    let queries: Vec<BoundStatement<'_>> = sessions
        .iter()
        .map(|session| (PAGE, std::iter::once(session.as_str().into()).chain(limits()).collect()))
        .collect();
    tx.query_all(&queries).await?.into_iter().map(page).collect()
}

/// Returns events of the session of an attempt. Fails for a stale attempt.
pub(crate) async fn events_of_attempt(
    tx: &mut Tx,
    fence: &Fence,
    after: i64,
) -> Result<Result<EventsPage, Stale>, Error> {
    let row = tx
        .query_one(
            "SELECT session_id FROM runs WHERE run_id = $1 AND token = $2 AND lease_until >= {now}",
            &[fence.run_id.as_str().into(), fence.token.into()],
        )
        .await?;
    let Some(mut row) = row else { return Ok(Err(Stale)) };
    Ok(Ok(events(tx, &row.id()?, after, EVENTS_MAX).await?))
}

fn page(rows: Vec<Row>) -> Result<EventsPage, Error> {
    let mut page = EventsPage::default();
    for mut row in rows {
        let event = read_event(&mut row)?;
        page.has_more = event.seq < row.integer()?;
        page.events.push(event);
    }
    Ok(page)
}

/// Returns one event of a session.
pub(crate) async fn event_at(
    tx: &mut Tx,
    session: &SessionId,
    seq: i64,
) -> Result<Option<StoredEvent>, Error> {
    let sql = concat!("SELECT ", event_columns!(), " FROM events e WHERE session_id = $1 AND seq = $2");
    tx.query_one(sql, &[session.as_str().into(), seq.into()]).await?.map(event).transpose()
}

/// Returns the `result` event of a completed run.
pub(crate) async fn result_event(
    tx: &mut Tx,
    session: &SessionId,
    run: &RunId,
) -> Result<Option<StoredEvent>, Error> {
    last_of_kind(tx, session, run, EventKind::Result).await
}

/// Returns the last reply of a model in a completed run, or the output of its program.
pub(crate) async fn last_reply_event(
    tx: &mut Tx,
    session: &SessionId,
    run: &RunId,
) -> Result<Option<StoredEvent>, Error> {
    match last_of_kind(tx, session, run, EventKind::Message).await? {
        Some(message) => Ok(Some(message)),
        None => last_of_kind(tx, session, run, EventKind::PostTool).await,
    }
}

/// Returns the last event of a kind in an ended run. Searches backwards from the end.
async fn last_of_kind(
    tx: &mut Tx,
    session: &SessionId,
    run: &RunId,
    kind: EventKind,
) -> Result<Option<StoredEvent>, Error> {
    let sql = concat!(
        "SELECT ",
        event_columns!(),
        " FROM events e WHERE session_id = $1 AND run_id = $2
            AND seq <= (SELECT end_seq FROM runs WHERE run_id = $2)
            AND kind = $3 ORDER BY seq DESC LIMIT 1"
    );
    let params = [session.as_str().into(), run.as_str().into(), kind.name().into()];
    tx.query_one(sql, &params).await?.map(event).transpose()
}

/// The model replies of a run.
#[derive(Debug, Default)]
pub(crate) struct ModelReplies {
    /// Oldest first.
    pub(crate) replies: Vec<String>,
    /// Token usage of all replies.
    pub(crate) tokens: Tokens,
    /// The retries that the runner has reported.
    pub(crate) retries: u32,
}

/// Collects the model replies of a run.
pub(crate) async fn model_replies(
    tx: &mut Tx,
    session: &SessionId,
    run: &RunId,
) -> Result<ModelReplies, Error> {
    let rows = tx
        .query(
            "SELECT body FROM events WHERE session_id = $1 AND run_id = $2
                AND kind = 'message' ORDER BY seq",
            &[session.as_str().into(), run.as_str().into()],
        )
        .await?;
    let reported = tx
        .query_one("SELECT retry_count FROM runs WHERE run_id = $1", &[run.as_str().into()])
        .await?
        .map_or(Ok(0), |mut row| row.integer())?;
    let mut model_replies =
        ModelReplies { retries: u32::try_from(reported).unwrap_or_default(), ..ModelReplies::default() };
    for mut row in rows {
        let body: serde_json::Value = super::encoding::from_json(&row.text()?)?;
        let count = |of: &str| body["reply"]["usage"][of].as_u64().unwrap_or_default();
        model_replies.replies.push(body["content"].as_str().unwrap_or_default().to_owned());
        model_replies.tokens.input = model_replies.tokens.input.saturating_add(count("input"));
        model_replies.tokens.output = model_replies.tokens.output.saturating_add(count("output"));
    }
    Ok(model_replies)
}

/// Returns events of all sessions after a position.
pub(crate) async fn all_events(
    tx: &mut Tx,
    after: Position,
    limit: usize,
) -> Result<Vec<StoredEvent>, Error> {
    let limit = limit.min(EVENTS_MAX) as i64;
    let sql = concat!(
        "SELECT ",
        event_columns!(),
        " FROM events e WHERE {after} AND {settled} ORDER BY {order} LIMIT $3"
    );
    let rows = tx.query(sql, &[after.transaction.into(), after.event.into(), limit.into()]).await?;
    rows.into_iter().map(event).collect()
}

/// Returns whether a position is after every event that was ever stored. Events may have been deleted since.
pub(crate) async fn is_beyond_end(tx: &mut Tx, position: Position) -> Result<bool, Error> {
    let row = tx.query_one("SELECT {last_event}", &[]).await?;
    let last = row.map_or(Ok(None), |mut row| row.optional_integer())?;
    Ok(position.event > last.unwrap_or(0))
}

/// Returns the position of the last visible event.
pub(crate) async fn last_position(tx: &mut Tx) -> Result<Position, Error> {
    let row = tx
        .query_one(
            "SELECT {transaction}, position FROM events WHERE {settled} ORDER BY {backwards} LIMIT 1",
            &[],
        )
        .await?;
    row.map_or(Ok(Position::default()), |mut row| {
        Ok(Position { transaction: row.integer()?, event: row.integer()? })
    })
}

fn event(mut row: Row) -> Result<StoredEvent, Error> {
    read_event(&mut row)
}

/// Reads an event from the first columns of a row.
pub(crate) fn read_event(row: &mut Row) -> Result<StoredEvent, Error> {
    Ok(StoredEvent {
        position: Position { transaction: row.integer()?, event: row.integer()? },
        seq: row.integer()?,
        session_id: row.id()?,
        run_id: row.id()?,
        at: row.integer()?,
        kind: read_event_kind(&row.text()?)?,
        body: row.text()?,
    })
}
