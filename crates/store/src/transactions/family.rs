//! How far delegation may go.

use slipform_types::SessionId;

use super::names::from_json;
use super::submit::Halt;
use crate::error::Error;
use crate::record::{NewRun, Parent, Refusal, SessionTarget};
use crate::tx::{Param, Tx};

/// Where a session stands in its family.
pub(crate) struct Line {
    /// The agents above it, the first one first, and itself.
    pub(crate) names: Vec<String>,
    /// The first session; none where it is the first itself.
    pub(crate) root: Option<SessionId>,
}

/// Where the run would stand; refused where delegation may not go that far.
pub(crate) async fn admit(tx: &mut Tx, new: &NewRun) -> Result<Line, Halt> {
    let Some(parent) = &new.parent else {
        return Ok(Line { names: vec![new.agent_name.clone()], root: None });
    };
    let mut line = line_of(tx, &parent.session_id).await?;
    check_counts(tx, parent, line.root.as_ref()).await?;
    match &new.session {
        SessionTarget::Resume { session_id, .. } => check_kinship(tx, parent, session_id).await?,
        SessionTarget::New { .. } => check_depth(parent, &line.names, &new.agent_name)?,
    }
    line.names.push(new.agent_name.clone());
    Ok(line)
}

/// Locked, so that the session is not deleted while somebody begins to work for it.
async fn line_of(tx: &mut Tx, session: &SessionId) -> Result<Line, Halt> {
    let row = tx
        .query_one(
            "SELECT lineage, root_session_id FROM sessions WHERE session_id = $1 {lock}",
            &[session.as_str().into()],
        )
        .await?;
    let Some(mut row) = row else {
        return Err(Refusal::SessionNotFound(session.clone()).into());
    };
    Ok(Line { names: from_json(&row.text()?)?, root: Some(row.id()?) })
}

async fn check_counts(tx: &mut Tx, parent: &Parent, root: Option<&SessionId>) -> Result<(), Halt> {
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

async fn check_kinship(tx: &mut Tx, parent: &Parent, session: &SessionId) -> Result<(), Halt> {
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

fn check_depth(parent: &Parent, line: &[String], name: &str) -> Result<(), Halt> {
    if line.iter().any(|above| above == name) {
        let way = line.join(" > ");
        return refuse(format!(
            "the agent '{name}' is already at work above this one ({way}): it cannot be called"
        ));
    }
    let depth_max = parent.limits.depth_max;
    if line.len() >= depth_max {
        return refuse(format!("agents may be nested {depth_max} deep, and '{name}' would be one more"));
    }
    Ok(())
}

async fn count(tx: &mut Tx, sql: &'static str, id: &str) -> Result<usize, Error> {
    let row = tx.query_one(sql, &[Param::from(id)]).await?;
    row.map_or(Ok(0), |mut row| Ok(usize::try_from(row.integer()?).unwrap_or(usize::MAX)))
}

fn refuse<T>(reason: String) -> Result<T, Halt> {
    Err(Refusal::Family(reason).into())
}
