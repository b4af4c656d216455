//! Journals: writing and reading events.

use slipform_types::{EventBody, RunId, SessionId, Tokens};

use super::names::texts;
use crate::error::Error;
use crate::record::{Position, StoredEvent};
use crate::tx::{Change, Row, Tx, changing};

/// The most events that are read at once.
const EVENTS_MAX: usize = 10_000;

/// The columns of an event.
macro_rules! event_columns {
    () => {
        "{transaction}, e.position, e.seq, e.session_id, e.run_id, e.at, e.body"
    };
}

/// Appends to a session's journal; the number of the last event.
pub(crate) async fn write(
    tx: &mut Tx,
    session: &SessionId,
    run: &RunId,
    bodies: &[EventBody],
) -> Result<i64, Error> {
    write_texts(tx, session, run, &texts(bodies)?).await
}

/// The same with what is JSON already.
pub(crate) async fn write_texts(
    tx: &mut Tx,
    session: &SessionId,
    run: &RunId,
    texts: &[String],
) -> Result<i64, Error> {
    let count = texts.len() as i64;
    let row = tx
        .change_one(
            &changing!(
                "UPDATE sessions SET last_seq = last_seq + $2, updated_at = {now} WHERE session_id = $1",
                "last_seq",
                "sessions WHERE session_id = $1"
            ),
            &[session.as_str().into(), count.into()],
        )
        .await?;
    let last_seq = row.ok_or_else(|| no_session(session, run))?.integer()?;
    add(tx, session, run, last_seq, texts).await?;
    Ok(last_seq)
}

/// The same where the number of the session's last event is known.
pub(crate) async fn write_after(
    tx: &mut Tx,
    session: &SessionId,
    run: &RunId,
    last_seq: i64,
    texts: &[String],
) -> Result<i64, Error> {
    let last_seq = last_seq + texts.len() as i64;
    tx.execute(
        "UPDATE sessions SET last_seq = $2, updated_at = {now} WHERE session_id = $1",
        &[session.as_str().into(), last_seq.into()],
    )
    .await?;
    add(tx, session, run, last_seq, texts).await?;
    Ok(last_seq)
}

/// A session that a run has left.
pub(crate) struct Left {
    /// The number of the last event.
    pub(crate) last_seq: i64,
    /// Whether no run is active in it.
    pub(crate) is_free: bool,
    /// Its agent.
    pub(crate) agent_name: String,
    /// Whether something may wait for it.
    pub(crate) has_more: bool,
}

/// Appends a run's last events and takes the session from it. The session stays locked.
pub(crate) async fn write_last(
    tx: &mut Tx,
    session: &SessionId,
    run: &RunId,
    texts: &[String],
) -> Result<Left, Error> {
    let count = texts.len() as i64;
    let row = tx
        .change_one(
            &changing!(
                "UPDATE sessions SET last_seq = last_seq + $2, updated_at = {now},
                    active_run_id = CASE WHEN active_run_id = $3 THEN NULL ELSE active_run_id END
                 WHERE session_id = $1",
                "last_seq, active_run_id, agent_name, {has_more}",
                "sessions WHERE session_id = $1"
            ),
            &[session.as_str().into(), count.into(), run.as_str().into()],
        )
        .await?;
    let mut row = row.ok_or_else(|| no_session(session, run))?;
    let (last_seq, is_free) = (row.integer()?, row.optional_text()?.is_none());
    add(tx, session, run, last_seq, texts).await?;
    Ok(Left { last_seq, is_free, agent_name: row.text()?, has_more: row.flag()? })
}

fn no_session(session: &SessionId, run: &RunId) -> Error {
    Error::Damaged(format!("the run {run} has no session {session}"))
}

/// Adds events whose last one has this number.
async fn add(
    tx: &mut Tx,
    session: &SessionId,
    run: &RunId,
    last_seq: i64,
    texts: &[String],
) -> Result<(), Error> {
    let first = last_seq - texts.len() as i64 + 1;
    let additions = texts.iter().zip(first..).map(|(text, seq)| addition(session, run, seq, text));
    let additions: Vec<Change<'_>> = additions.collect();
    tx.execute_all(&additions).await?;
    tx.has_news = true;
    Ok(())
}

/// What adds an event whose number is known.
pub(crate) fn addition<'a>(session: &'a SessionId, run: &'a RunId, seq: i64, text: &'a str) -> Change<'a> {
    (
        "INSERT INTO events (session_id, seq, run_id, at, body{and_transaction})
            VALUES ($1, $2, $3, {now}, $4{and_its_transaction})",
        vec![session.as_str().into(), seq.into(), run.as_str().into(), text.into()],
    )
}

/// Events of a session after a number.
pub(crate) async fn events(
    tx: &mut Tx,
    session: &SessionId,
    after: i64,
    limit: usize,
) -> Result<Vec<StoredEvent>, Error> {
    let limit = limit.min(EVENTS_MAX) as i64;
    let sql = concat!(
        "SELECT ",
        event_columns!(),
        " FROM events e WHERE session_id = $1 AND seq > $2 ORDER BY seq LIMIT $3"
    );
    let rows = tx.query(sql, &[session.as_str().into(), after.into(), limit.into()]).await?;
    rows.into_iter().map(event).collect()
}

/// The whole journals of sessions.
pub(crate) async fn whole(tx: &mut Tx, sessions: &[&SessionId]) -> Result<Vec<Vec<StoredEvent>>, Error> {
    let sql = concat!("SELECT ", event_columns!(), " FROM events e WHERE session_id = $1 ORDER BY seq");
    let questions: Vec<Change<'_>> =
        sessions.iter().map(|session| (sql, vec![session.as_str().into()])).collect();
    let found = tx.query_all(&questions).await?;
    found.into_iter().map(|rows| rows.into_iter().map(event).collect()).collect()
}

/// One event of a session.
pub(crate) async fn at(tx: &mut Tx, session: &SessionId, seq: i64) -> Result<Option<StoredEvent>, Error> {
    let sql = concat!("SELECT ", event_columns!(), " FROM events e WHERE session_id = $1 AND seq = $2");
    tx.query_one(sql, &[session.as_str().into(), seq.into()]).await?.map(event).transpose()
}

/// The `result` of a run that has completed. It stands just before the end, so it is looked for from there.
pub(crate) async fn result_of(
    tx: &mut Tx,
    session: &SessionId,
    run: &RunId,
) -> Result<Option<StoredEvent>, Error> {
    let sql = concat!(
        "SELECT ",
        event_columns!(),
        " FROM events e WHERE session_id = $1 AND run_id = $2
            AND seq <= (SELECT end_seq FROM runs WHERE run_id = $2)
            AND body LIKE '{\"event_type\":\"result\"%' ORDER BY seq DESC LIMIT 1"
    );
    tx.query_one(sql, &[session.as_str().into(), run.as_str().into()]).await?.map(event).transpose()
}

/// What models said in a run.
#[derive(Debug, Default)]
pub(crate) struct Said {
    /// Every reply, oldest first.
    pub(crate) replies: Vec<String>,
    /// What they consumed.
    pub(crate) tokens: Tokens,
}

/// What models said in a run.
pub(crate) async fn said_in(tx: &mut Tx, session: &SessionId, run: &RunId) -> Result<Said, Error> {
    let rows = tx
        .query(
            "SELECT body FROM events WHERE session_id = $1 AND run_id = $2
                AND body LIKE '{\"event_type\":\"message\"%' ORDER BY seq",
            &[session.as_str().into(), run.as_str().into()],
        )
        .await?;
    let mut said = Said::default();
    for mut row in rows {
        let body: serde_json::Value = super::names::from_json(&row.text()?)?;
        let count = |of: &str| body["reply"]["usage"][of].as_u64().unwrap_or_default();
        said.replies.push(body["content"].as_str().unwrap_or_default().to_owned());
        said.tokens.input = said.tokens.input.saturating_add(count("input"));
        said.tokens.output = said.tokens.output.saturating_add(count("output"));
    }
    Ok(said)
}

/// Events of all sessions after a position.
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

/// The position of the last event.
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

/// The event that a row begins with.
pub(crate) fn read_event(row: &mut Row) -> Result<StoredEvent, Error> {
    Ok(StoredEvent {
        position: Position { transaction: row.integer()?, event: row.integer()? },
        seq: row.integer()?,
        session_id: row.id()?,
        run_id: row.id()?,
        at: row.integer()?,
        body: row.text()?,
    })
}
