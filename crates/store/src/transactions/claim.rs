//! Giving work to runners, and prolonging their leases.

use slipform_types::SessionId;

use super::names::{from_json, to_json};
use super::{journal, runner};
use crate::error::Error;
use crate::record::{Beat, ClaimRequest, Claimed, Fence, Millis};
use crate::tx::{Param, Row, Tx, changing};

/// The most runs of one claim: their journals are read with it.
const SLOTS_MAX: usize = 100;

/// What a claim does to a run. A run's own time counts from its first claim; where it works for another it has that one's
/// deadline already, and no claim moves it back.
macro_rules! claiming {
    () => {
        "UPDATE runs SET
            status = CASE WHEN is_stopping = 1 THEN 'stopping' ELSE 'claimed' END,
            available_at = NULL, runner_id = $1, token = token + 1, attempts = attempts + 1, appends = 0,
            lease_until = {now} + $3, started_at = COALESCE(started_at, {now}),
            deadline_at = CASE WHEN timeout_ms IS NULL OR deadline_at <= {now} + timeout_ms THEN deadline_at
                ELSE {now} + timeout_ms END"
    };
}

/// What is read of a run that was claimed.
macro_rules! claimed_columns {
    () => {
        "number, run_id, token, session_id, deadline_at - {now}, is_stopping,
            (SELECT project_dir FROM sessions s WHERE s.session_id = runs.session_id),
            (SELECT lineage FROM sessions s WHERE s.session_id = runs.session_id)"
    };
}

/// How runs are picked and claimed: at once where others do so at the same time, and in steps where nobody does, which
/// SQLite is faster at.
struct Picking {
    at_once: &'static str,
    first: &'static str,
}

macro_rules! picking {
    ($picking:literal) => {
        Picking {
            at_once: concat!(
                "WITH picked AS MATERIALIZED (",
                $picking,
                " ORDER BY available_at, number LIMIT $2 {skip}) ",
                claiming!(),
                " WHERE run_id IN (SELECT run_id FROM picked) RETURNING ",
                claimed_columns!()
            ),
            first: concat!($picking, " ORDER BY available_at, number LIMIT $2"),
        }
    };
}

const CLAIM: &str = concat!(claiming!(), " WHERE run_id = $5");
const CLAIMED: &str = concat!("SELECT ", claimed_columns!(), " FROM runs WHERE run_id = $1");

/// Gives a runner as many runs as it has room for, the one that has waited longest first.
pub(crate) async fn claim(tx: &mut Tx, request: &ClaimRequest) -> Result<Vec<Claimed>, Error> {
    let picking = picking!(
        "SELECT run_id FROM runs WHERE available_at IS NOT NULL AND available_at <= {now}
            AND (pinned_to = $1 OR (pinned_to IS NULL AND CAST($4 AS BIGINT) = 0))"
    );
    let claims = give(tx, &picking, request, i64::from(request.only_pinned)).await?;
    runner::seen(tx, &request.runner_id).await?;
    Ok(claims)
}

/// A claim of what is kept for runners that were not heard of for a while.
pub(crate) struct Adoption {
    pub(crate) request: ClaimRequest,
    pub(crate) silence_ms: Millis,
}

/// Gives a runner what is kept for others that are gone. It has been waiting for as long: who submits for a runner may
/// do so before that one says hello.
pub(crate) async fn adopt(tx: &mut Tx, adoption: &Adoption) -> Result<Vec<Claimed>, Error> {
    let picking = picking!(
        "SELECT run_id FROM runs WHERE available_at IS NOT NULL AND available_at <= {now} - $4
            AND pinned_to IS NOT NULL AND NOT EXISTS (
                SELECT 1 FROM runners n WHERE n.runner_id = pinned_to AND n.seen_at >= {now} - $4
            )"
    );
    // When a runner was heard of is known only so exactly.
    let silence_ms = adoption.silence_ms.saturating_add(runner::SEEN_EVERY_MS);
    let claimed = give(tx, &picking, &adoption.request, silence_ms).await?;
    let ids: Vec<&str> = claimed.iter().map(|run| run.fence.run_id.as_str()).collect();
    if !ids.is_empty() {
        // Whoever they were kept for is gone: what else was kept for it need not wait once more.
        tx.execute(
            "UPDATE runs SET pinned_to = NULL WHERE finished_at IS NULL
                AND pinned_to IN (SELECT r.pinned_to FROM runs r WHERE r.run_id IN ({each}))",
            &[(&to_json(&ids)?).into()],
        )
        .await?;
    }
    Ok(claimed)
}

async fn give(
    tx: &mut Tx,
    picking: &Picking,
    request: &ClaimRequest,
    fourth: i64,
) -> Result<Vec<Claimed>, Error> {
    let slots = request.slots.min(SLOTS_MAX) as i64;
    let params = [(&request.runner_id).into(), slots.into(), request.lease_ms.into(), fourth.into()];
    let rows = match tx.is_alone() {
        true => claim_each(tx, picking, params).await?,
        false => tx.query(picking.at_once, &params).await?,
    };
    let mut claims = rows.into_iter().map(claimed).collect::<Result<Vec<_>, _>>()?;
    claims.sort_by_key(|(number, _)| *number);
    let sessions: Vec<&SessionId> = claims.iter().map(|(_, claimed)| &claimed.session_id).collect();
    let journals = if sessions.is_empty() { Vec::new() } else { journal::whole(tx, &sessions).await? };
    let claims = claims.into_iter().zip(journals);
    Ok(claims.map(|((_, claimed), journal)| Claimed { journal, ..claimed }).collect())
}

/// Picks runs, then claims one after the other.
async fn claim_each(
    tx: &mut Tx,
    picking: &Picking,
    [runner, slots, lease, fourth]: [Param<'_>; 4],
) -> Result<Vec<Row>, Error> {
    let mut claimed = Vec::new();
    for mut row in tx.query(picking.first, &[runner, slots, lease, fourth]).await? {
        let run = row.text()?;
        tx.execute(CLAIM, &[runner, slots, lease, fourth, (&run).into()]).await?;
        claimed.extend(tx.query_one(CLAIMED, &[(&run).into()]).await?);
    }
    Ok(claimed)
}

/// A claim without its journal, after the run's number.
fn claimed(mut row: Row) -> Result<(i64, Claimed), Error> {
    let number = row.integer()?;
    let fence = Fence { run_id: row.id()?, token: row.integer()? };
    let (session_id, time_left_ms, stop): (SessionId, _, _) =
        (row.id()?, row.optional_integer()?, row.flag()?);
    let project_dir = row.optional_text()?;
    let line = row.optional_text()?;
    let line = line.ok_or_else(|| Error::Damaged(format!("the session {session_id} is missing")))?;
    let (line, journal) = (from_json(&line)?, Vec::new());
    Ok((number, Claimed { fence, session_id, project_dir, line, time_left_ms, stop, journal }))
}

/// Time in which nobody could renew a lease.
pub(crate) struct Absence {
    pub(crate) away_ms: Option<Millis>,
    pub(crate) lease_ms: Millis,
}

/// Prolongs leases by such a time, up to one lease from now on; how many. Runs that somebody changes at this moment are
/// left out: they are heard of.
pub(crate) async fn grace(tx: &mut Tx, absence: &Absence) -> Result<u64, Error> {
    let away_ms = match absence.away_ms {
        Some(away_ms) => Some(away_ms),
        None => {
            let row = tx.query_one("SELECT {now} - max(seen_at) FROM runners", &[]).await?;
            row.map_or(Ok(None), |mut row| row.optional_integer())?
        }
    };
    let Some(away_ms) = away_ms.filter(|away_ms| *away_ms > 0) else { return Ok(0) };
    tx.execute(
        "WITH picked AS MATERIALIZED (
            SELECT run_id FROM runs
            WHERE status IN ('claimed', 'running', 'stopping') AND lease_until < {now} + $1 {skip}
         )
         UPDATE runs SET lease_until =
            CASE WHEN lease_until + $2 < {now} + $1 THEN lease_until + $2 ELSE {now} + $1 END
         WHERE run_id IN (SELECT run_id FROM picked)",
        &[absence.lease_ms.into(), away_ms.into()],
    )
    .await
}

/// What a heartbeat says.
pub(crate) struct Renewal {
    pub(crate) runner_id: String,
    pub(crate) fences: Vec<Fence>,
    pub(crate) lease_ms: Millis,
}

/// Prolongs leases that have not expired.
pub(crate) async fn renew(tx: &mut Tx, renewal: &Renewal) -> Result<Vec<Beat>, Error> {
    if renewal.fences.len() > 1 {
        lock_in_order(tx, &renewal.fences).await?;
    }
    let mut beats = Vec::with_capacity(renewal.fences.len());
    for fence in &renewal.fences {
        let row = tx
            .change_one(
                &changing!(
                    "UPDATE runs SET lease_until = {now} + $3
                     WHERE run_id = $1 AND token = $2 AND lease_until >= {now}",
                    "is_stopping",
                    "runs WHERE run_id = $1"
                ),
                &[fence.run_id.as_str().into(), fence.token.into(), renewal.lease_ms.into()],
            )
            .await?;
        let stop = row.map(|mut row| row.flag()).transpose()?;
        let (is_stale, stop) = (stop.is_none(), stop.unwrap_or(false));
        beats.push(Beat { fence: fence.clone(), stop, is_stale });
    }
    runner::seen(tx, &renewal.runner_id).await?;
    Ok(beats)
}

/// Locks runs in the order in which they were asked for. One that is worked for is older than those that work for it:
/// that is the order of all verbs.
async fn lock_in_order(tx: &mut Tx, fences: &[Fence]) -> Result<(), Error> {
    let runs: Vec<&str> = fences.iter().map(|fence| fence.run_id.as_str()).collect();
    tx.query(
        "SELECT number FROM runs WHERE run_id IN ({each}) ORDER BY number {lock}",
        &[(&to_json(&runs)?).into()],
    )
    .await?;
    Ok(())
}
