//! Enforces the delegation limits.

use slipform_types::SessionId;

use super::encoding::from_json;
use super::submit::SubmitError;
use crate::error::Error;
use crate::record::{NewRun, Parent, Refusal, SessionTarget};
use crate::tx::{Param, Tx};

/// The position of a session in its delegation tree.
pub(crate) struct Lineage {
    /// Agent names from the root down to this session's agent.
    pub(crate) names: Vec<String>,
    /// The root session; `None` if this session is the root.
    pub(crate) root: Option<SessionId>,
}

/// Returns the lineage of a new run, or refuses it if it would exceed the delegation limits.
pub(crate) async fn admit(tx: &mut Tx, new: &NewRun) -> Result<Lineage, SubmitError> {
    let Some(parent) = &new.parent else {
        return Ok(Lineage { names: vec![new.agent_name.clone()], root: None });
    };
    let mut lineage = lineage_of(tx, &parent.session_id).await?;
    check_counts(tx, parent, lineage.root.as_ref()).await?;
    match &new.session {
        SessionTarget::Resume { session_id, .. } => check_is_child(tx, parent, session_id).await?,
        SessionTarget::New { .. } => check_depth(parent, &lineage.names, &new.agent_name)?,
    }
    lineage.names.push(new.agent_name.clone());
    Ok(lineage)
}

/// Reads the parent's lineage. Locks the session so that it cannot be deleted while a child is created.
async fn lineage_of(tx: &mut Tx, session: &SessionId) -> Result<Lineage, SubmitError> {
    let row = tx
        .query_one(
            "SELECT lineage, root_session_id FROM sessions WHERE session_id = $1 {lock}",
            &[session.as_str().into()],
        )
        .await?;
    let Some(mut row) = row else {
        return Err(Refusal::SessionNotFound(session.clone()).into());
    };
    Ok(Lineage { names: from_json(&row.text()?)?, root: Some(row.id()?) })
}

async fn check_counts(tx: &mut Tx, parent: &Parent, root: Option<&SessionId>) -> Result<(), SubmitError> {
    let root = root.unwrap_or(&parent.session_id).as_str();
    let runs = count(
        tx,
        "SELECT count(*) FROM runs r JOIN sessions s ON s.session_id = r.session_id WHERE s.root_session_id = $1",
        root,
    );
    let (runs, runs_max) = (runs.await?, parent.limits.runs_max);
    if runs >= runs_max {
        return refuse(format!(
            "no more than {runs_max} runs may come of one task, and there have been as many"
        ));
    }
    if let Some(call) = &parent.call {
        let run = call.fence.run_id.as_str();
        let children = count(tx, "SELECT count(*) FROM runs WHERE parent_run_id = $1", run).await?;
        let children_max = parent.limits.children_max;
        if children >= children_max {
            return refuse(format!("one run may start no more than {children_max} agents, and this one has"));
        }
    }
    Ok(())
}

async fn check_is_child(tx: &mut Tx, parent: &Parent, session: &SessionId) -> Result<(), SubmitError> {
    let row = tx
        .query_one(
            "SELECT session_id FROM sessions WHERE session_id = $1 AND parent_session_id = $2",
            &[session.as_str().into(), parent.session_id.as_str().into()],
        )
        .await?;
    match row {
        Some(_) => Ok(()),
        None => refuse(format!("there is no session {session} of this agent")),
    }
}

fn check_depth(parent: &Parent, lineage: &[String], name: &str) -> Result<(), SubmitError> {
    if lineage.iter().any(|above| above == name) {
        let path = lineage.join(" > ");
        return refuse(format!(
            "the agent '{name}' is already at work above this one ({path}): it cannot be called"
        ));
    }
    let depth_max = parent.limits.depth_max;
    if lineage.len() >= depth_max {
        return refuse(format!("agents may be nested {depth_max} deep, and '{name}' would be one more"));
    }
    Ok(())
}

async fn count(tx: &mut Tx, sql: &'static str, id: &str) -> Result<usize, Error> {
    let row = tx.query_one(sql, &[Param::from(id)]).await?;
    row.map_or(Ok(0), |mut row| Ok(usize::try_from(row.integer()?).unwrap_or(usize::MAX)))
}

fn refuse<T>(reason: String) -> Result<T, SubmitError> {
    Err(Refusal::Delegation(reason).into())
}
