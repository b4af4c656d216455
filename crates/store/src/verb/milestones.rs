//! How runs go, told without what was said in them.

use super::journal;
use crate::error::Error;
use crate::record::{Milestone, Position, RunFacts};
use crate::tx::{Row, Tx};

/// The most events that are looked at at once.
const EVENTS_MAX: usize = 10_000;

/// Bodies are left where they are unless they are wanted: most of them are prompts and replies. Events without one are
/// told all the same, since whoever reads on needs to know how far he is.
const AFTER: &str = r#"WITH next AS (
        SELECT {transaction} AS transaction_id, position, seq, session_id, run_id, at,
            CASE WHEN body LIKE '{"event_type":"run_completed"%'
                OR body LIKE '{"event_type":"validation_failed"%'
                OR body LIKE '{"event_type":"escalated"%' THEN body ELSE '' END AS body
        FROM events WHERE {after} AND {settled} ORDER BY {order} LIMIT $3
     )
     SELECT n.transaction_id, n.position, n.seq, n.session_id, n.run_id, n.at, n.body,
        r.agent_name, r.parent_session_id, r.backend, COALESCE(r.retry_count, 0), COALESCE(r.missing_submits, 0),
        COALESCE(r.escalations, 0), COALESCE(r.input_tokens, 0) + COALESCE(r.output_tokens, 0),
        r.finished_at - r.started_at
     FROM next n LEFT JOIN runs r ON n.body <> '' AND r.run_id = n.run_id
     ORDER BY n.transaction_id, n.position"#;

/// Events of all sessions after a position.
pub(crate) async fn after(tx: &mut Tx, after: Position, limit: usize) -> Result<Vec<Milestone>, Error> {
    let limit = limit.min(EVENTS_MAX) as i64;
    let rows = tx.query(AFTER, &[after.transaction.into(), after.event.into(), limit.into()]).await?;
    rows.into_iter().map(read).collect()
}

fn read(mut row: Row) -> Result<Milestone, Error> {
    let event = journal::read_event(&mut row)?;
    let run = match row.optional_text()? {
        None => None,
        Some(agent_name) => Some(RunFacts {
            agent_name,
            parent_session_id: row.optional_id()?,
            backend: row.optional_text()?,
            retries: row.integer()?,
            missing_submits: row.integer()?,
            escalations: row.integer()?,
            tokens: row.integer()?,
            duration_ms: row.optional_integer()?,
        }),
    };
    Ok(Milestone { event, run })
}
