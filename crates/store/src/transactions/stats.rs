//! Statistics of ended runs.

use super::encoding::from_json;
use crate::error::Error;
use crate::record::{AgentStats, FailedValidation, IntervalStats, Millis, StatsFilter};
use crate::tx::{Param, Row, Tx};

/// The ended runs, and the requests of the gateway in their form. `sender` is the API token of a request.
macro_rules! ended_runs {
    () => {
        "(SELECT agent_name, backend, model, status, retry_count, is_reported_error, missing_submits, escalations,
                input_tokens, output_tokens, started_at, finished_at, session_id, CAST(NULL AS TEXT) AS sender
            FROM runs WHERE finished_at IS NOT NULL
            UNION ALL
            SELECT '(gateway)', backend, model, status, retry_count, 0, 0, escalations, input_tokens, output_tokens,
                started_at, finished_at, CAST(NULL AS TEXT), created_by
            FROM gateway_requests) AS ended_runs"
    };
}

/// Statistics per agent, backend and model. `$1` is an agent name and `$2` a timestamp, `$3` the
/// API token that the sessions belong to, `$4` a timestamp; NULL disables a filter.
///
/// Percentiles use the nearest rank: the shortest duration that at least that share of runs does not exceed.
/// Runs that ended without a claim have no duration and sort last.
const STATS: &str = concat!(
    "WITH ended AS (
        SELECT agent_name, backend, model, retry_count,
            CASE WHEN status = 'completed' THEN 1 - COALESCE(is_reported_error, 0) ELSE 0 END AS has_result,
            CASE WHEN status = 'completed' THEN COALESCE(is_reported_error, 0) ELSE 0 END AS is_reported_error, COALESCE(missing_submits, 0) AS missing_submits,
            COALESCE(escalations, 0) AS escalations,
            COALESCE(input_tokens, 0) + COALESCE(output_tokens, 0) AS tokens, finished_at - started_at AS duration
        FROM ",
    ended_runs!(),
    " WHERE ($1 IS NULL OR agent_name = $1) AND ($2 IS NULL OR finished_at >= $2)
            AND ($4 IS NULL OR finished_at < $4)
            AND ($3 IS NULL OR sender = $3
                OR session_id IN (SELECT s.session_id FROM sessions s WHERE s.created_by = $3))
     ), ranked AS (
        SELECT ended.*, count(duration) OVER (PARTITION BY agent_name, backend, model) AS measured,
            row_number() OVER (PARTITION BY agent_name, backend, model ORDER BY duration NULLS LAST) AS place
        FROM ended
     )
     SELECT agent_name, backend, model, count(*),
        CAST(sum(has_result) AS BIGINT), CAST(sum(is_reported_error) AS BIGINT),
        CAST(sum(CASE WHEN has_result = 1 AND retry_count = 0 AND escalations = 0 THEN 1 ELSE 0 END) AS BIGINT),
        CAST(sum(retry_count) AS BIGINT), CAST(sum(missing_submits) AS BIGINT), CAST(sum(escalations) AS BIGINT),
        CAST(sum(tokens) AS BIGINT),
        min(CASE WHEN place = (measured * 50 + 99) / 100 THEN duration END),
        min(CASE WHEN place = (measured * 95 + 99) / 100 THEN duration END)
     FROM ranked GROUP BY agent_name, backend, model
     ORDER BY agent_name, backend NULLS FIRST, model NULLS FIRST"
);

/// Returns statistics per agent, backend and model.
pub(crate) async fn agent_stats(tx: &mut Tx, filter: &StatsFilter) -> Result<Vec<AgentStats>, Error> {
    let rows = tx.query(STATS, &params(filter)).await?;
    rows.into_iter().map(read).collect()
}

fn params(filter: &StatsFilter) -> [Param<'_>; 4] {
    [
        filter.agent_name.as_deref().into(),
        filter.since.into(),
        filter.owner.as_deref().into(),
        filter.until.into(),
    ]
}

/// Returns the time of the database's clock.
pub(crate) async fn now(tx: &mut Tx) -> Result<Millis, Error> {
    let row = tx.query_one("SELECT {now}", &[]).await?;
    row.map(|mut row| row.integer()).transpose().map(Option::unwrap_or_default)
}

/// Figures per interval of `$5` milliseconds. The other parameters are those of [`STATS`]; both timestamps are set.
const TIMELINE: &str = concat!(
    "SELECT finished_at / $5 * $5, count(*),
        CAST(sum(CASE WHEN status = 'completed' THEN 1 - COALESCE(is_reported_error, 0) ELSE 0 END) AS BIGINT),
        CAST(sum(CASE WHEN status = 'failed' THEN 1 ELSE 0 END) AS BIGINT),
        CAST(sum(CASE WHEN status = 'completed' AND COALESCE(is_reported_error, 0) = 0 AND retry_count = 0
            AND COALESCE(escalations, 0) = 0 THEN 1 ELSE 0 END) AS BIGINT),
        CAST(sum(retry_count) AS BIGINT), CAST(sum(COALESCE(input_tokens, 0) + COALESCE(output_tokens, 0)) AS BIGINT)
     FROM ",
    ended_runs!(),
    " WHERE finished_at >= $2 AND finished_at < $4 AND ($1 IS NULL OR agent_name = $1)
        AND ($3 IS NULL OR sender = $3
            OR session_id IN (SELECT s.session_id FROM sessions s WHERE s.created_by = $3))
     GROUP BY 1 ORDER BY 1"
);

/// Returns figures per interval, oldest first, without intervals in which no run ended.
pub(crate) async fn timeline(
    tx: &mut Tx,
    filter: &StatsFilter,
    interval: Millis,
) -> Result<Vec<IntervalStats>, Error> {
    let [agent, since, owner, until] = params(filter);
    let rows = tx.query(TIMELINE, &[agent, since, owner, until, interval.into()]).await?;
    let read = |mut row: Row| {
        Ok(IntervalStats {
            start: row.integer()?,
            runs: row.integer()?,
            completed: row.integer()?,
            failed: row.integer()?,
            first_pass: row.integer()?,
            retries: row.integer()?,
            tokens: row.integer()?,
        })
    };
    rows.into_iter().map(read).collect()
}

/// The newest violations. `$5` is their number; the other parameters are those of [`STATS`]. A request that a backend refuses
/// has no reply that could violate anything.
const FAILED_VALIDATIONS: &str = "SELECT {errors}, r.backend FROM events e JOIN runs r ON r.run_id = e.run_id
     WHERE e.kind IN ('validation_failed', 'escalated') AND {errors} IS NOT NULL
        AND COALESCE({cause}, '') NOT IN ('backend_rejected', 'backend_unavailable') AND ($1 IS NULL OR r.agent_name = $1) AND ($2 IS NULL OR e.at >= $2)
        AND ($4 IS NULL OR e.at < $4)
        AND ($3 IS NULL OR r.session_id IN (SELECT s.session_id FROM sessions s WHERE s.created_by = $3))
     ORDER BY e.at DESC LIMIT $5";

/// Returns the violations of the newest rejected replies.
pub(crate) async fn failed_validations(
    tx: &mut Tx,
    filter: &StatsFilter,
    limit: i64,
) -> Result<Vec<FailedValidation>, Error> {
    let [agent, since, owner, until] = params(filter);
    let rows = tx.query(FAILED_VALIDATIONS, &[agent, since, owner, until, limit.into()]).await?;
    let read = |mut row: Row| {
        Ok(FailedValidation { errors: from_json(&row.text()?)?, backend: row.optional_text()? })
    };
    rows.into_iter().map(read).collect()
}

fn read(mut row: Row) -> Result<AgentStats, Error> {
    Ok(AgentStats {
        agent_name: row.text()?,
        backend: row.optional_text()?,
        model: row.optional_text()?.filter(|model| !model.is_empty()),
        runs: row.integer()?,
        completed: row.integer()?,
        reported_errors: row.integer()?,
        first_pass: row.integer()?,
        retries: row.integer()?,
        missing_submits: row.integer()?,
        escalations: row.integer()?,
        tokens: row.integer()?,
        p50_ms: row.optional_integer()?,
        p95_ms: row.optional_integer()?,
    })
}
