//! Claims runs for runners and renews their leases.

use slipform_types::SessionId;

use super::encoding::{from_json, to_json};
use super::{journal, runner};
use crate::error::Error;
use crate::record::{ClaimRequest, Claimed, EventsPage, Fence, Millis, RenewedLease};
use crate::tx::{Param, Row, Tx, update_returning};

/// Maximum number of runs per claim. The transaction also reads their journals.
const SLOTS_MAX: usize = 100;

/// The update that claims a run. The time limit starts with the first claim. A child starts with its parent's
/// deadline, and no claim extends it.
macro_rules! claim_update {
    () => {
        "UPDATE runs SET
            status = CASE WHEN is_stopping = 1 THEN 'stopping' ELSE 'claimed' END,
            available_at = NULL, runner_id = $1, token = $5, attempts = attempts + 1, appends = 0,
            lease_until = {now} + $3, started_at = COALESCE(started_at, {now}),
            deadline_at = CASE WHEN timeout_ms IS NULL OR deadline_at <= {now} + timeout_ms THEN deadline_at
                ELSE {now} + timeout_ms END"
    };
}

/// The columns of a claimed run.
macro_rules! claimed_columns {
    () => {
        "number, run_id, token, session_id, deadline_at - {now}, is_stopping,
            (SELECT project_dir FROM sessions s WHERE s.session_id = runs.session_id),
            (SELECT lineage FROM sessions s WHERE s.session_id = runs.session_id)"
    };
}

/// A claim in two forms. PostgreSQL has concurrent claimers and uses one statement. SQLite uses a select
/// followed by single updates, which is faster there.
struct ClaimQuery {
    single_statement: &'static str,
    select: &'static str,
}

macro_rules! claim_query {
    ($select:literal) => {
        ClaimQuery {
            single_statement: concat!(
                "WITH picked AS MATERIALIZED (",
                $select,
                " ORDER BY available_at, number LIMIT $2 {skip}) ",
                claim_update!(),
                " WHERE run_id IN (SELECT run_id FROM picked) RETURNING ",
                claimed_columns!()
            ),
            select: concat!($select, " ORDER BY available_at, number LIMIT $2"),
        }
    };
}

const CLAIM: &str = concat!(claim_update!(), " WHERE run_id = $6");
const CLAIMED: &str = concat!("SELECT ", claimed_columns!(), " FROM runs WHERE run_id = $1");

/// Claims up to `slots` runs, the longest waiting first.
pub(crate) async fn claim(tx: &mut Tx, request: &ClaimRequest) -> Result<Vec<Claimed>, Error> {
    let query = claim_query!(
        "SELECT run_id FROM runs WHERE available_at IS NOT NULL AND available_at <= {now}
            AND (pinned_to = $1 OR (pinned_to IS NULL AND CAST($4 AS BIGINT) = 0))"
    );
    let claims = claim_runs(tx, &query, request, i64::from(request.only_pinned)).await?;
    runner::touch(tx, &request.runner_id).await?;
    Ok(claims)
}

/// A claim of runs that are pinned to silent runners.
pub(crate) struct Adoption {
    pub(crate) request: ClaimRequest,
    pub(crate) silence_ms: Millis,
}

/// Claims runs pinned to runners that have been silent for `silence_ms`.
///
/// A run whose lease has expired is claimed at once: its runner has been silent for a lease. Other runs also wait for
/// the inaccuracy of `seen_at`. A run whose runner is unknown must have waited in the queue as long, because a caller
/// may submit it before its runner registers.
pub(crate) async fn adopt(tx: &mut Tx, adoption: &Adoption) -> Result<Vec<Claimed>, Error> {
    let query = claim_query!(
        "SELECT run_id FROM runs WHERE available_at IS NOT NULL AND available_at <= {now}
            AND pinned_to IS NOT NULL AND NOT EXISTS (
                SELECT 1 FROM runners n WHERE n.runner_id = pinned_to
                    AND n.seen_at >= {now} - $4 - CASE WHEN runs.losses > 0 THEN 0 ELSE 1000 END
            ) AND (available_at <= {now} - $4 - 1000
                OR EXISTS (SELECT 1 FROM runners n WHERE n.runner_id = pinned_to))"
    );
    // The constant of the query.
    const { assert!(runner::SEEN_INTERVAL_MS == 1000) };
    let claimed = claim_runs(tx, &query, &adoption.request, adoption.silence_ms).await?;
    let ids: Vec<&str> = claimed.iter().map(|run| run.fence.run_id.as_str()).collect();
    if !ids.is_empty() {
        // The runner is considered dead, so its other runs are unpinned as well and need no second wait.
        tx.execute(
            "UPDATE runs SET pinned_to = NULL WHERE finished_at IS NULL
                AND pinned_to IN (SELECT r.pinned_to FROM runs r WHERE r.run_id IN ({each}))",
            &[(&to_json(&ids)?).into()],
        )
        .await?;
    }
    Ok(claimed)
}

async fn claim_runs(
    tx: &mut Tx,
    query: &ClaimQuery,
    request: &ClaimRequest,
    fourth: i64,
) -> Result<Vec<Claimed>, Error> {
    let slots = request.slots.min(SLOTS_MAX) as i64;
    let params = [
        (&request.runner_id).into(),
        slots.into(),
        request.lease_ms.into(),
        fourth.into(),
        request.token.into(),
    ];
    let rows = if tx.is_single_writer() {
        claim_each(tx, query, params).await?
    } else {
        tx.query(query.single_statement, &params).await?
    };
    let mut claims = rows.into_iter().map(claimed).collect::<Result<Vec<_>, _>>()?;
    claims.sort_by_key(|(number, _)| *number);
    let sessions: Vec<&SessionId> = claims.iter().map(|(_, claimed)| &claimed.session_id).collect();
    let journals = if sessions.is_empty() { Vec::new() } else { journal::first_pages(tx, &sessions).await? };
    let claims = claims.into_iter().zip(journals);
    Ok(claims.map(|((_, claimed), journal)| Claimed { journal, ..claimed }).collect())
}

/// Selects runs and claims them one by one.
async fn claim_each(
    tx: &mut Tx,
    query: &ClaimQuery,
    [runner, slots, lease, fourth, token]: [Param<'_>; 5],
) -> Result<Vec<Row>, Error> {
    let mut claimed = Vec::new();
    for mut row in tx.query(query.select, &[runner, slots, lease, fourth]).await? {
        let run = row.text()?;
        tx.execute(CLAIM, &[runner, slots, lease, fourth, token, (&run).into()]).await?;
        claimed.extend(tx.query_one(CLAIMED, &[(&run).into()]).await?);
    }
    Ok(claimed)
}

/// Reads a claimed run, without its journal, and the run's `number`.
fn claimed(mut row: Row) -> Result<(i64, Claimed), Error> {
    let number = row.integer()?;
    let fence = Fence { run_id: row.id()?, token: row.integer()? };
    let (session_id, time_left_ms, is_stopping): (SessionId, _, _) =
        (row.id()?, row.optional_integer()?, row.flag()?);
    let project_dir = row.optional_text()?;
    let lineage = row.optional_text()?;
    let lineage = lineage.ok_or_else(|| Error::Damaged(format!("session {session_id} is missing")))?;
    let (lineage, journal) = (from_json(&lineage)?, EventsPage::default());
    Ok((number, Claimed { fence, session_id, project_dir, lineage, time_left_ms, is_stopping, journal }))
}

/// A period in which runners could not renew their leases.
pub(crate) struct Outage {
    pub(crate) outage_ms: Option<Millis>,
    pub(crate) lease_ms: Millis,
}

/// Extends leases by the duration of an outage, up to one full lease from now, and returns their number. Rows
/// locked by another transaction are skipped: they are being renewed.
pub(crate) async fn extend_leases(tx: &mut Tx, outage: &Outage) -> Result<u64, Error> {
    let outage_ms = match outage.outage_ms {
        Some(outage_ms) => Some(outage_ms),
        None => {
            let row = tx.query_one("SELECT {now} - max(seen_at) FROM runners", &[]).await?;
            row.map_or(Ok(None), |mut row| row.optional_integer())?
        }
    };
    let Some(outage_ms) = outage_ms.filter(|outage_ms| *outage_ms > 0) else { return Ok(0) };
    tx.execute(
        "WITH picked AS MATERIALIZED (
            SELECT run_id FROM runs
            WHERE status IN ('claimed', 'running', 'stopping') AND lease_until < {now} + $1 {skip}
         )
         UPDATE runs SET lease_until =
            CASE WHEN lease_until + $2 < {now} + $1 THEN lease_until + $2 ELSE {now} + $1 END
         WHERE run_id IN (SELECT run_id FROM picked)",
        &[outage.lease_ms.into(), outage_ms.into()],
    )
    .await
}

/// A heartbeat.
pub(crate) struct Renewal {
    pub(crate) runner_id: String,
    pub(crate) fences: Vec<Fence>,
    pub(crate) lease_ms: Millis,
}

/// Renews the leases that have not expired.
pub(crate) async fn renew(tx: &mut Tx, renewal: &Renewal) -> Result<Vec<RenewedLease>, Error> {
    if renewal.fences.len() > 1 {
        lock_in_order(tx, &renewal.fences).await?;
    }
    let mut beats = Vec::with_capacity(renewal.fences.len());
    for fence in &renewal.fences {
        let row = tx
            .update_one(
                &update_returning!(
                    "UPDATE runs SET lease_until = {now} + $3
                     WHERE run_id = $1 AND token = $2 AND lease_until >= {now}",
                    "is_stopping",
                    "runs WHERE run_id = $1"
                ),
                &[fence.run_id.as_str().into(), fence.token.into(), renewal.lease_ms.into()],
            )
            .await?;
        let is_stopping = row.map(|mut row| row.flag()).transpose()?;
        let (is_stale, is_stopping) = (is_stopping.is_none(), is_stopping.unwrap_or(false));
        beats.push(RenewedLease { fence: fence.clone(), is_stopping, is_stale });
    }
    runner::touch(tx, &renewal.runner_id).await?;
    Ok(beats)
}

/// Locks runs by submission order. A parent is older than its children, so this matches the lock order of all
/// operations.
async fn lock_in_order(tx: &mut Tx, fences: &[Fence]) -> Result<(), Error> {
    let runs: Vec<&str> = fences.iter().map(|fence| fence.run_id.as_str()).collect();
    tx.query(
        "SELECT number FROM runs WHERE run_id IN ({each}) ORDER BY number {lock}",
        &[(&to_json(&runs)?).into()],
    )
    .await?;
    Ok(())
}
