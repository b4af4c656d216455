//! Registers runners and tracks when they were last seen.

use super::encoding::{from_json, to_json};
use crate::error::Error;
use crate::record::{Millis, Registration, RunnerRecord};
use crate::tx::{Row, Tx};

/// Accuracy of `seen_at`. Runners poll more often than it is worth a write.
pub(crate) const SEEN_INTERVAL_MS: Millis = 1000;

/// Time after which a runner that is not seen is removed.
const FORGOTTEN_AFTER_MS: Millis = 3_600_000;

/// Maximum number of registered runners.
const RUNNERS_MAX: i64 = 1_000;

/// Registers a runner, or updates it if the same API token has registered it.
pub(crate) async fn register(tx: &mut Tx, runner: &RunnerRecord) -> Result<Registration, Error> {
    tx.execute("DELETE FROM runners WHERE seen_at < {now} - $1", &[FORGOTTEN_AFTER_MS.into()]).await?;
    let row = tx
        .query_one("SELECT count(*) FROM runners WHERE runner_id <> $1", &[(&runner.runner_id).into()])
        .await?;
    if row.map_or(Ok(0), |mut row| row.integer())? >= RUNNERS_MAX {
        return Ok(Registration::TooMany);
    }
    let details = to_json(&runner.details)?;
    let registered = tx
        .execute(
            "INSERT INTO runners (runner_id, name, slots, details, created_by, registered_at, seen_at)
         VALUES ($1, $2, $3, $4, $5, {now}, {now})
         ON CONFLICT (runner_id) DO UPDATE SET name = excluded.name, slots = excluded.slots,
            details = excluded.details, registered_at = excluded.registered_at, seen_at = excluded.seen_at
         WHERE runners.created_by IS NOT DISTINCT FROM excluded.created_by",
            &[
                (&runner.runner_id).into(),
                (&runner.name).into(),
                runner.slots.into(),
                (&details).into(),
                runner.created_by.as_deref().into(),
            ],
        )
        .await?;
    Ok(if registered == 1 { Registration::Done } else { Registration::Foreign })
}

pub(crate) async fn remove(tx: &mut Tx, runner_id: &str) -> Result<(), Error> {
    tx.execute("DELETE FROM runners WHERE runner_id = $1", &[runner_id.into()]).await?;
    Ok(())
}

/// Returns the API token that registered a runner; `None` for an unknown runner.
pub(crate) async fn creator(tx: &mut Tx, runner_id: &str) -> Result<Option<Option<String>>, Error> {
    let row =
        tx.query_one("SELECT created_by FROM runners WHERE runner_id = $1", &[runner_id.into()]).await?;
    row.map(|mut row| row.optional_text()).transpose()
}

/// Updates the time when a runner was last seen.
pub(crate) async fn touch(tx: &mut Tx, runner_id: &str) -> Result<(), Error> {
    tx.execute_all(&[(
        "UPDATE runners SET seen_at = {now} WHERE runner_id = $1 AND seen_at < {now} - $2",
        vec![runner_id.into(), SEEN_INTERVAL_MS.into()],
    )])
    .await
}

pub(crate) async fn all(tx: &mut Tx, seen_within_ms: Millis) -> Result<Vec<RunnerRecord>, Error> {
    let rows = tx
        .query(
            "SELECT n.runner_id, n.name, n.slots, n.details, n.created_by, n.registered_at, n.seen_at,
                (SELECT count(*) FROM runs r
                 WHERE r.status IN ('claimed', 'running', 'stopping') AND r.runner_id = n.runner_id)
             FROM runners n WHERE n.seen_at >= {now} - $1 ORDER BY n.registered_at, n.runner_id",
            &[seen_within_ms.into()],
        )
        .await?;
    rows.into_iter().map(record).collect()
}

fn record(mut row: Row) -> Result<RunnerRecord, Error> {
    Ok(RunnerRecord {
        runner_id: row.text()?,
        name: row.text()?,
        slots: row.integer()?,
        details: from_json(&row.text()?)?,
        created_by: row.optional_text()?,
        registered_at: row.integer()?,
        seen_at: row.integer()?,
        working_on: row.integer()?,
    })
}
