//! Giving work to runners, and prolonging their leases.

use formwork_types::SessionId;

use super::names::from_json;
use super::{journal, runner};
use crate::error::Error;
use crate::record::{Beat, ClaimRequest, Claimed, Fence, Millis};
use crate::tx::{Row, Tx};

/// The most runs of one claim: their journals are read with it.
const SLOTS_MAX: usize = 100;

/// Gives a runner as many runs as it has room for, the one that has waited longest first.
pub(crate) async fn claim(tx: &mut Tx, request: &ClaimRequest) -> Result<Vec<Claimed>, Error> {
    let slots = request.slots.min(SLOTS_MAX) as i64;
    let rows = tx
        .query(
            "WITH picked AS MATERIALIZED (
                SELECT run_id FROM runs
                WHERE available_at IS NOT NULL AND available_at <= {now}
                    AND (pinned_to = $1 OR (pinned_to IS NULL AND CAST($4 AS BIGINT) = 0))
                ORDER BY available_at, number LIMIT $2 {skip}
             )
             UPDATE runs SET
                status = CASE WHEN is_stopping = 1 THEN 'stopping' ELSE 'claimed' END,
                available_at = NULL, runner_id = $1, token = token + 1, attempts = attempts + 1, appends = 0,
                lease_until = {now} + $3, started_at = COALESCE(started_at, {now}),
                deadline_at = COALESCE(deadline_at, {now} + timeout_ms)
             WHERE run_id IN (SELECT run_id FROM picked)
             RETURNING number, run_id, token, session_id, deadline_at - {now}, is_stopping,
                (SELECT project_dir FROM sessions s WHERE s.session_id = runs.session_id),
                (SELECT line FROM sessions s WHERE s.session_id = runs.session_id)",
            &[
                (&request.runner_id).into(),
                slots.into(),
                request.lease_ms.into(),
                i64::from(request.only_pinned).into(),
            ],
        )
        .await?;
    let mut claims = rows.into_iter().map(claimed).collect::<Result<Vec<_>, _>>()?;
    claims.sort_by_key(|(number, _)| *number);
    let sessions: Vec<&SessionId> = claims.iter().map(|(_, claimed)| &claimed.session_id).collect();
    let journals = if sessions.is_empty() { Vec::new() } else { journal::whole(tx, &sessions).await? };
    runner::seen(tx, &request.runner_id).await?;
    let claims = claims.into_iter().zip(journals);
    Ok(claims.map(|((_, claimed), journal)| Claimed { journal, ..claimed }).collect())
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

/// What a heartbeat says.
pub(crate) struct Renewal {
    pub(crate) runner_id: String,
    pub(crate) fences: Vec<Fence>,
    pub(crate) lease_ms: Millis,
}

/// Prolongs leases that have not expired.
pub(crate) async fn renew(tx: &mut Tx, renewal: &Renewal) -> Result<Vec<Beat>, Error> {
    let mut beats = Vec::with_capacity(renewal.fences.len());
    for fence in &renewal.fences {
        let row = tx
            .query_one(
                "UPDATE runs SET lease_until = {now} + $3
                 WHERE run_id = $1 AND token = $2 AND lease_until >= {now} RETURNING is_stopping",
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
