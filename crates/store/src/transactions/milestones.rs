//! Reads events for analytics, without prompts and replies.

use std::collections::{BTreeSet, HashMap};

use slipform_types::RunId;

use super::encoding::to_json;
use super::journal;
use crate::error::Error;
use crate::record::{Milestone, Position, RunFacts, StoredEvent};
use crate::tx::{Row, Tx};

/// Maximum number of events per read.
const EVENTS_MAX: usize = 10_000;

/// Skips the bodies of other events, most of which are prompts and replies. Those events are still returned
/// because the reader's cursor must advance past them.
const EVENTS: &str = "SELECT {transaction}, position, seq, session_id, run_id, at, kind,
        CASE WHEN kind IN ('run_completed', 'validation_failed', 'plan_created', 'escalated') THEN body ELSE '' END
     FROM events WHERE {after} AND {settled} ORDER BY {order} LIMIT $3";

const FACTS: &str = "SELECT run_id, agent_name, parent_session_id, backend, retry_count, COALESCE(missing_submits, 0),
        COALESCE(is_reported_error, 0), COALESCE(escalations, 0), COALESCE(input_tokens, 0) + COALESCE(output_tokens, 0), finished_at - started_at
     FROM runs WHERE run_id IN ({each})";

/// Returns events of all sessions after a position.
pub(crate) async fn after(tx: &mut Tx, after: Position, limit: usize) -> Result<Vec<Milestone>, Error> {
    let limit = limit.min(EVENTS_MAX) as i64;
    let rows = tx.query(EVENTS, &[after.transaction.into(), after.event.into(), limit.into()]).await?;
    let events = rows.into_iter().map(|mut row| journal::read_event(&mut row));
    let events = events.collect::<Result<Vec<_>, _>>()?;
    let runs = facts(tx, &events).await?;
    let milestone = |event: StoredEvent| {
        let run = runs.get(&event.run_id).filter(|_| !event.body.is_empty()).cloned();
        Milestone { event, run }
    };
    Ok(events.into_iter().map(milestone).collect())
}

/// Returns the runs of events that have a body. Selects by id because a join could make the database scan all
/// runs.
async fn facts(tx: &mut Tx, events: &[StoredEvent]) -> Result<HashMap<RunId, RunFacts>, Error> {
    let wanted = events.iter().filter(|event| !event.body.is_empty());
    let ids: BTreeSet<&str> = wanted.map(|event| event.run_id.as_str()).collect();
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let rows = tx.query(FACTS, &[(&to_json(&ids)?).into()]).await?;
    rows.into_iter().map(read).collect()
}

fn read(mut row: Row) -> Result<(RunId, RunFacts), Error> {
    let run_id = row.id()?;
    let facts = RunFacts {
        agent_name: row.text()?,
        parent_session_id: row.optional_id()?,
        backend: row.optional_text()?,
        retries: row.integer()?,
        missing_submits: row.integer()?,
        is_reported_error: row.integer()? != 0,
        escalations: row.integer()?,
        tokens: row.integer()?,
        duration_ms: row.optional_integer()?,
    };
    Ok((run_id, facts))
}
