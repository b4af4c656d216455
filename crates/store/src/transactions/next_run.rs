//! Activates the next run of an idle session.
//!
//! A run is active once its `run_start` is in the journal and runners may claim it. A session has one active run
//! at most; further runs wait in the session, with their `run_start` in the column `start`.

use std::sync::Arc;

use serde_json::json;
use slipform_types::{
    Blueprint, Callback, Contract, EventBody, ExecutionMode, RunId, RunOverrides, RunType, SessionId,
};

use super::encoding::{from_json, to_json};
use super::journal::ModelReplies;
use super::{end, journal, submit};
use crate::error::Error;
use crate::record::{NewRun, SessionTarget};
use crate::tx::{Row, Tx};

/// Activates the next run of a session: first runs that wait in it, then a callback run. Does nothing if the session
/// is busy.
pub(crate) async fn activate_next(tx: &mut Tx, session: &SessionId) -> Result<(), Error> {
    let row = tx
        .query_one(
            "SELECT active_run_id, agent_name FROM sessions WHERE session_id = $1 {lock}",
            &[session.as_str().into()],
        )
        .await?;
    let Some(mut row) = row else { return Ok(()) };
    if row.optional_text()?.is_some() {
        return Ok(());
    }
    activate_next_idle(tx, session, row.text()?).await
}

/// Activates the next run of a session that is locked and known to be idle.
pub(crate) async fn activate_next_idle(
    tx: &mut Tx,
    session: &SessionId,
    agent_name: String,
) -> Result<(), Error> {
    let id = || vec![session.as_str().into()];
    let mut found = tx.query_all(&[(WAITING, id()), (CALLBACKS, id())]).await?;
    let (callbacks, waiting) = (found.pop().unwrap_or_default(), found.pop().unwrap_or_default());
    if activate_waiting(tx, session, waiting).await? {
        return Ok(());
    }
    start_callback_run(tx, session, agent_name, callbacks).await
}

const WAITING: &str = "SELECT run_id, start, error FROM runs WHERE session_id = $1 AND start IS NOT NULL ORDER BY number {lock}";

const CALLBACKS: &str =
    "SELECT c.child_run_id, r.pinned_to, r.parent_run_id, r.created_by FROM callbacks c JOIN runs r ON r.run_id = c.child_run_id
     WHERE c.parent_session_id = $1 ORDER BY c.position";

/// Activates the oldest waiting run that was not stopped, and journals the ends of stopped runs before it.
/// Returns false if no run is left.
async fn activate_waiting(tx: &mut Tx, session: &SessionId, waiting: Vec<Row>) -> Result<bool, Error> {
    for mut row in waiting {
        let (run, start, error): (RunId, _, _) = (row.id()?, row.text()?, row.optional_text()?);
        submit::activate(tx, session, &run, &start).await?;
        if error.is_none() {
            return Ok(true);
        }
        write_stopped(tx, session, &run).await?;
    }
    Ok(false)
}

/// Journals the end of a run that was stopped while it waited, now that its `run_start` is in the journal.
async fn write_stopped(tx: &mut Tx, session: &SessionId, run: &RunId) -> Result<(), Error> {
    let last_seq = journal::write(tx, session, run, &end::stopped(ModelReplies::default())).await?;
    tx.execute(
        "UPDATE runs SET end_seq = $2, available_at = NULL WHERE run_id = $1",
        &[run.as_str().into(), last_seq.into()],
    )
    .await?;
    tx.execute("UPDATE sessions SET active_run_id = NULL WHERE session_id = $1", &[session.as_str().into()])
        .await?;
    Ok(())
}

/// Starts one callback run for all ended children of one run, with that run's blueprint and contract.
/// Children of other runs wait for the next turn.
async fn start_callback_run(
    tx: &mut Tx,
    session: &SessionId,
    agent_name: String,
    rows: Vec<Row>,
) -> Result<(), Error> {
    let mut waiting = Vec::with_capacity(rows.len());
    for mut row in rows {
        let child: RunId = row.id()?;
        let (pinned_to, parent): (_, Option<RunId>) = (row.optional_text()?, row.optional_id()?);
        waiting.push((child, pinned_to, parent, row.optional_text()?));
    }
    let Some((_, _, continues, created_by)) = waiting.first().cloned() else { return Ok(()) };
    waiting.retain(|(_, _, parent, _)| *parent == continues);
    let (mut ends, mut pinned_to) = (Vec::with_capacity(waiting.len()), None);
    for (child, pinned, ..) in waiting {
        ends.push(end::child_end(tx, &child).await?);
        pinned_to = pinned_to.or(pinned);
        tx.execute("DELETE FROM callbacks WHERE child_run_id = $1", &[child.as_str().into()]).await?;
    }
    let (blueprint, contract, overrides) = start_to_continue(tx, session, continues.as_ref()).await?;
    let limits = overrides.limits(&blueprint.limits);
    let timeout_ms = limits.timeout_seconds.map(|seconds| i64::from(seconds) * 1000);
    let input = Callback(&ends).to_string();
    let start = EventBody::RunStart {
        run_type: RunType::ResumeSession,
        blueprint,
        contract,
        parameters: json!({"prompt": input}),
        input,
        overrides,
        conversation: None,
    };
    let new = NewRun {
        run_id: random_run_id()?,
        session: SessionTarget::Resume { session_id: session.clone(), queues: false },
        agent_name,
        start,
        timeout_ms,
        mode: ExecutionMode::AsyncPoll,
        parent: None,
        idempotency: None,
        pinned_to,
        continues,
        created_by,
    };
    submit::add_active(tx, &new, session, &to_json(&new.start)?).await
}

/// Returns the blueprint, contract and overrides of the run to continue. Without a parent run (children of outside
/// callers), uses the session's latest run.
async fn start_to_continue(
    tx: &mut Tx,
    session: &SessionId,
    run: Option<&RunId>,
) -> Result<(Arc<Blueprint>, Option<Arc<Contract>>, RunOverrides), Error> {
    let sql = "SELECT e.body FROM runs r JOIN events e ON e.session_id = r.session_id AND e.seq = r.start_seq
         WHERE r.run_id = COALESCE($2, (SELECT last_run_id FROM sessions WHERE session_id = $1))";
    let params = [session.as_str().into(), run.map(RunId::as_str).into()];
    let body = tx.query_one(sql, &params).await?.map(|mut row| row.text()).transpose()?;
    match body.as_deref().map(from_json).transpose()? {
        Some(EventBody::RunStart { blueprint, contract, overrides, .. }) => {
            Ok((blueprint, contract, overrides))
        }
        _ => Err(Error::Damaged(format!("the run to continue in session {session} has no `run_start`"))),
    }
}

fn random_run_id() -> Result<RunId, Error> {
    let mut bytes = [0; 6];
    getrandom::fill(&mut bytes).map_err(|error| {
        Error::Unavailable(format!("the system's random number generator failed: {error}"))
    })?;
    Ok(RunId::from_random(bytes))
}
