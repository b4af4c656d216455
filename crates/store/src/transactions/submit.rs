//! Submits runs.

use slipform_types::{EventBody, EventKind, RunId, SessionId};

use super::encoding::EncodedEvent;
use super::{delegation, encoding, journal};
use crate::error::Error;
use crate::record::{Idempotency, NewRun, ParentCall, Refusal, SessionTarget, Stale, Submitted};
use crate::tx::{BoundStatement, Tx};

/// Why a submission stops early: refused, or failed with an error.
pub(crate) enum SubmitError {
    Refused(Refusal),
    Failed(Error),
}

impl From<Error> for SubmitError {
    fn from(error: Error) -> SubmitError {
        SubmitError::Failed(error)
    }
}

impl From<Refusal> for SubmitError {
    fn from(refusal: Refusal) -> SubmitError {
        SubmitError::Refused(refusal)
    }
}

/// Submits a run; `start` is its `run_start` event as JSON.
pub(crate) async fn submit(
    tx: &mut Tx,
    new: &NewRun,
    start: &str,
) -> Result<Result<Submitted, Refusal>, Error> {
    match create(tx, new, start).await {
        Ok(submitted) => Ok(Ok(submitted)),
        Err(SubmitError::Refused(refusal)) => {
            release_key(tx, new.idempotency.as_ref()).await?;
            Ok(Err(refusal))
        }
        Err(SubmitError::Failed(error)) => Err(error),
    }
}

async fn create(tx: &mut Tx, new: &NewRun, start: &str) -> Result<Submitted, SubmitError> {
    if let Some(earlier) = earlier_by_key(tx, new.idempotency.as_ref()).await? {
        return Ok(earlier);
    }
    let call = new.parent.as_ref().and_then(|parent| parent.call.as_ref());
    if let Some(earlier) = earlier_by_call(tx, call).await? {
        return Ok(earlier);
    }
    let lineage = delegation::admit(tx, new).await?;
    let submitted = match &new.session {
        SessionTarget::New { session_id, project_dir } => {
            create_session(tx, new, session_id, project_dir.as_deref(), &lineage, start).await?;
            session_id
        }
        SessionTarget::Resume { session_id, queues } => {
            resume(tx, new, session_id, *queues, start).await?;
            session_id
        }
    };
    if let Some(idempotency) = &new.idempotency {
        store_key(tx, idempotency, &new.run_id).await?;
    }
    tx.has_notification = true;
    Ok(Submitted { run_id: new.run_id.clone(), session_id: submitted.clone(), is_repeated: false })
}

/// Returns the run created with the same idempotency key.
async fn earlier_by_key(tx: &mut Tx, key: Option<&Idempotency>) -> Result<Option<Submitted>, SubmitError> {
    let Some(Idempotency { key, body_hash }) = key else { return Ok(None) };
    // A concurrent request with the same key waits here for the first one to commit, and then finds its run.
    let is_first = tx
        .execute(
            "INSERT INTO idempotency (key, body_hash, run_id, created_at) VALUES ($1, $2, '', {now})
             ON CONFLICT (key) DO NOTHING",
            &[key.into(), body_hash.into()],
        )
        .await?;
    if is_first == 1 {
        return Ok(None);
    }
    match find_by_key(tx, key).await? {
        Some((_, known)) if known != *body_hash => Err(Refusal::IdempotencyConflict.into()),
        earlier => Ok(earlier.map(|(submitted, _)| submitted)),
    }
}

/// Returns the run created with a key, and the hash of its request body.
pub(crate) async fn find_by_key(tx: &mut Tx, key: &str) -> Result<Option<(Submitted, String)>, Error> {
    let row = tx
        .query_one(
            "SELECT r.run_id, r.session_id, i.body_hash FROM idempotency i JOIN runs r ON r.run_id = i.run_id
             WHERE i.key = $1",
            &[key.into()],
        )
        .await?;
    let Some(mut row) = row else { return Ok(None) };
    let submitted = Submitted { run_id: row.id()?, session_id: row.id()?, is_repeated: true };
    Ok(Some((submitted, row.text()?)))
}

/// Releases the key after a refusal, so that a later request can use it.
async fn release_key(tx: &mut Tx, idempotency: Option<&Idempotency>) -> Result<(), Error> {
    if let Some(Idempotency { key, .. }) = idempotency {
        tx.execute("DELETE FROM idempotency WHERE key = $1 AND run_id = ''", &[key.into()]).await?;
    }
    Ok(())
}

async fn store_key(tx: &mut Tx, idempotency: &Idempotency, run: &RunId) -> Result<(), Error> {
    tx.execute(
        "UPDATE idempotency SET body_hash = $2, run_id = $3 WHERE key = $1",
        &[(&idempotency.key).into(), (&idempotency.body_hash).into(), run.as_str().into()],
    )
    .await?;
    Ok(())
}

/// Returns the child that the same call has started. The parent stays locked, so the call cannot start
/// another child concurrently.
async fn earlier_by_call(tx: &mut Tx, call: Option<&ParentCall>) -> Result<Option<Submitted>, SubmitError> {
    let Some(ParentCall { fence, call_id }) = call else { return Ok(None) };
    let parent = super::run::lock_alone(tx, &fence.run_id).await?.filter(|run| run.is_held_by(fence));
    let Some(parent) = parent else { return Err(Refusal::Stale.into()) };
    let row = tx
        .query_one(
            "SELECT run_id, session_id FROM runs WHERE parent_run_id = $1 AND parent_call_id = $2",
            &[fence.run_id.as_str().into(), call_id.into()],
        )
        .await?;
    let Some(mut row) = row else {
        if parent.is_stopping {
            // The stop has already reached the existing children and would miss this one.
            let reason = "the run is to stop: it starts nothing more".to_owned();
            return Err(Refusal::Delegation(reason).into());
        }
        return Ok(None);
    };
    Ok(Some(Submitted { run_id: row.id()?, session_id: row.id()?, is_repeated: true }))
}

/// Returns the child that a call has started. Fails for a stale attempt.
pub(crate) async fn find_child(
    tx: &mut Tx,
    call: &ParentCall,
) -> Result<Result<Option<Submitted>, Stale>, Error> {
    let row = tx
        .query_one(
            "SELECT c.run_id, c.session_id FROM runs p
                LEFT JOIN runs c ON c.parent_run_id = p.run_id AND c.parent_call_id = $3
             WHERE p.run_id = $1 AND p.token = $2 AND p.lease_until >= {now}",
            &[call.fence.run_id.as_str().into(), call.fence.token.into(), (&call.call_id).into()],
        )
        .await?;
    let Some(mut row) = row else { return Ok(Err(Stale)) };
    let Some(run_id) = row.optional_id()? else { return Ok(Ok(None)) };
    Ok(Ok(Some(Submitted { run_id, session_id: row.id()?, is_repeated: true })))
}

/// Inserts session, run and `run_start` together. Most submissions take this path, and it needs one round
/// trip.
async fn create_session(
    tx: &mut Tx,
    new: &NewRun,
    session: &SessionId,
    project_dir: Option<&str>,
    lineage: &delegation::Lineage,
    start: &str,
) -> Result<(), Error> {
    let parent = new.parent.as_ref().map(|parent| parent.session_id.as_str());
    let names = encoding::to_json(&lineage.names)?;
    let insert_session = (
        "INSERT INTO sessions (session_id, agent_name, parent_session_id, root_session_id, lineage, project_dir, last_seq,
            active_run_id, last_run_id, created_by, created_at, updated_at)
         VALUES ($1, $2, $3, $4, $5, $6, 1, $7, $7, $8, {now}, {now})",
        vec![
            session.as_str().into(),
            (&new.agent_name).into(),
            parent.into(),
            lineage.root.as_ref().unwrap_or(session).as_str().into(),
            (&names).into(),
            project_dir.into(),
            new.run_id.as_str().into(),
            new.created_by.as_deref().into(),
        ],
    );
    let insert_run = insert_run(new, session, Activation::Now(1))?;
    tx.execute_all(&[
        insert_session,
        insert_run,
        journal::insert_event(session, &new.run_id, 1, EventKind::RunStart, start),
    ])
    .await
}

/// When a run becomes active.
enum Activation<'a> {
    /// At once; its `run_start` has this `seq`.
    Now(i64),
    /// When its turn comes. Until then the row holds the `run_start`.
    Later(&'a str),
}

/// Adds a run to an idle session and activates it.
pub(crate) async fn add_active(
    tx: &mut Tx,
    new: &NewRun,
    session: &SessionId,
    start: &str,
) -> Result<(), Error> {
    tx.execute_all(&[insert_run(new, session, Activation::Later(start))?]).await?;
    activate(tx, session, &new.run_id, start).await
}

/// Returns the insert statement for a run. A child inherits its parent's deadline.
fn insert_run<'a>(
    new: &'a NewRun,
    session: &'a SessionId,
    activation: Activation<'a>,
) -> Result<BoundStatement<'a>, Error> {
    let (run_type, contract) = match &new.start {
        EventBody::RunStart { run_type, contract, .. } => (*run_type, contract),
        _ => return Err(Error::Unsuitable("the first event of a run must be `run_start`".to_owned())),
    };
    let (start, start_seq) = match activation {
        Activation::Now(seq) => (None, Some(seq)),
        Activation::Later(start) => (Some(start), None),
    };
    let call = new.parent.as_ref().and_then(|parent| parent.call.as_ref());
    let sql = "INSERT INTO runs (run_id, session_id, agent_name, type, status, mode, parent_session_id, parent_run_id,
            parent_call_id, start, start_seq, timeout_ms, pinned_to, continues_run_id, created_by, max_retries,
            created_at, available_at, deadline_at)
         VALUES ($1, $2, $3, $4, 'pending', $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, {now},
            CASE WHEN $10 IS NULL THEN NULL ELSE {now} END, (SELECT deadline_at FROM runs WHERE run_id = $7))";
    let params = vec![
        new.run_id.as_str().into(),
        session.as_str().into(),
        (&new.agent_name).into(),
        run_type.name().into(),
        new.mode.name().into(),
        new.parent.as_ref().map(|parent| parent.session_id.as_str()).into(),
        call.map(|call| call.fence.run_id.as_str()).into(),
        call.map(|call| call.call_id.as_str()).into(),
        start.into(),
        start_seq.into(),
        new.timeout_ms.into(),
        new.pinned_to.as_deref().into(),
        new.continues.as_ref().map(RunId::as_str).into(),
        new.created_by.as_deref().into(),
        contract.as_ref().map(|contract| i64::from(contract.options.max_retries)).into(),
    ];
    Ok((sql, params))
}

/// Activates a run: journals its `run_start` and makes it claimable.
pub(crate) async fn activate(
    tx: &mut Tx,
    session: &SessionId,
    run: &RunId,
    start: &str,
) -> Result<(), Error> {
    let event = EncodedEvent { kind: EventKind::RunStart, body: start.to_owned() };
    let seq = journal::write_encoded(tx, session, run, &[event]).await?;
    tx.execute(
        "UPDATE runs SET start = NULL, start_seq = $2, available_at = {now} WHERE run_id = $1",
        &[run.as_str().into(), seq.into()],
    )
    .await?;
    tx.execute(
        "UPDATE sessions SET active_run_id = $2, last_run_id = $2 WHERE session_id = $1",
        &[session.as_str().into(), run.as_str().into()],
    )
    .await?;
    tx.has_queued_run = true;
    Ok(())
}

async fn resume(
    tx: &mut Tx,
    new: &NewRun,
    session: &SessionId,
    queues: bool,
    start: &str,
) -> Result<(), SubmitError> {
    let row = tx
        .query_one(
            "SELECT active_run_id FROM sessions WHERE session_id = $1 {lock}",
            &[session.as_str().into()],
        )
        .await?;
    let Some(mut row) = row else {
        return Err(Refusal::SessionNotFound(session.clone()).into());
    };
    match row.optional_id::<RunId>()? {
        Some(_) if queues => {
            tx.execute_all(&[insert_run(new, session, Activation::Later(start))?]).await?;
        }
        // A model made this request, so the refusal is phrased for it.
        Some(_) if new.parent.as_ref().is_some_and(|parent| parent.call.is_some()) => {
            let reason = format!("the session {session} is still busy; wait for its result first");
            return Err(Refusal::Delegation(reason).into());
        }
        Some(run_id) => return Err(Refusal::SessionBusy { session_id: session.clone(), run_id }.into()),
        None => add_active(tx, new, session, start).await?,
    }
    Ok(())
}
