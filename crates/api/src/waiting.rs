//! Waits for runs and stops them, together with the runs that they started.

use std::collections::VecDeque;
use std::time::Duration;

use slipform_types::{RunId, SessionId};
use tokio::time::Instant;

use crate::caller::CallerApi;
use crate::error::Error;
use crate::run::{RunSummary, RunView, RunsQuery};

/// The longest wait of one request; the caller then waits again.
const WAIT: Duration = Duration::from_secs(60);

/// The time between two looks at runs that wait for a callback.
const POLL_INTERVAL: Duration = Duration::from_millis(300);

/// The time that a caller who stops a run waits for callbacks, to stop the runs that they start.
const STOP_CALLBACK_WAIT: Duration = Duration::from_secs(5);

/// The maximum number of children per run that a coordinator accepts.
const CHILDREN_MAX: i64 = 16;

/// The longest outage of a coordinator that a waiting caller tolerates. The run itself continues.
const OUTAGE_MAX: Duration = Duration::from_secs(300);

/// The pause before an unreachable coordinator is asked again.
const OUTAGE_PAUSE: Duration = Duration::from_secs(1);

/// Waits until a run has ended.
async fn wait(api: &dyn CallerApi, run: &RunId) -> Result<RunView, Error> {
    let mut outage = Outage::default();
    loop {
        let view = outage.tolerate(api.wait(run, WAIT).await).await?;
        if let Some(view) = view.filter(|view| view.status.is_ended()) {
            return Ok(view);
        }
    }
}

/// Waits until a run, its descendants and the runs that callbacks resume have ended. Other runs of the session are ignored.
///
/// # Errors
/// Fails if the run does not exist, or the coordinator is unreachable for minutes.
pub async fn wait_until_idle(api: &dyn CallerApi, run: &RunId) -> Result<RunTree, Error> {
    let root = wait(api, run).await?;
    let mut outage = Outage::default();
    loop {
        let Some(tree) = outage.tolerate(run_tree(api, root.clone()).await).await? else { continue };
        match tree.active.first() {
            Some(active) => drop(wait(api, active).await?),
            None if tree.awaits_callback => tokio::time::sleep(POLL_INTERVAL).await,
            None => return Ok(tree),
        }
    }
}

/// Stops a run, its descendants and the runs that continue it, and waits until all have ended.
///
/// # Errors
/// Fails if the run does not exist, or the coordinator is unreachable.
pub async fn stop_tree(api: &dyn CallerApi, run: &RunId) -> Result<RunTree, Error> {
    let start = Instant::now();
    loop {
        let tree = run_tree(api, api.run(run).await?).await?;
        // Parents come before children: a parent would otherwise continue with the result of its stopped child.
        for run in &tree.active {
            api.stop_run(run).await?;
        }
        match tree.active.first() {
            Some(run) => drop(wait(api, run).await?),
            // A pending callback may still start a run that has to be stopped.
            None if tree.awaits_callback && start.elapsed() < STOP_CALLBACK_WAIT => {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
            None => return Ok(tree),
        }
    }
}

/// Returns the child runs of a run.
async fn children_of(api: &dyn CallerApi, run: &RunId) -> Result<Vec<RunSummary>, Error> {
    let query =
        RunsQuery { parent_run_id: Some(run.clone()), limit: Some(CHILDREN_MAX), ..RunsQuery::default() };
    Ok(api.runs(query).await?.runs)
}

/// A run with its descendants and continuations.
pub struct RunTree {
    /// The run itself, or the latest run that continued it.
    pub last: RunView,
    /// The child sessions of the run and of the runs that continue it, oldest first.
    pub children: Vec<SessionId>,
    /// Runs that have not ended, parents before their children.
    active: Vec<RunId>,
    /// Whether a child has yet to call back.
    awaits_callback: bool,
}

impl RunTree {
    /// Whether all runs have ended and no callback is pending.
    pub fn is_idle(&self) -> bool {
        self.active.is_empty() && !self.awaits_callback
    }
}

/// Reads the descendants of a run and the runs that continue it. The end of a child and the callback to its parent are one
/// transaction, so reading children before continuations misses nothing.
///
/// # Errors
/// Fails if the coordinator is unreachable.
pub async fn run_tree(api: &dyn CallerApi, root: RunView) -> Result<RunTree, Error> {
    let mut last = root;
    let (mut active, mut own_children, mut awaits_callback) = (Vec::new(), Vec::new(), false);
    let mut pending = VecDeque::from([(last.clone(), true)]);
    while let Some((view, is_own)) = pending.pop_front() {
        if !view.status.is_ended() {
            active.push(view.run_id.clone());
        }
        let children = children_of(api, &view.run_id).await?;
        if is_own {
            own_children.extend(children.iter().rev().map(|child| child.session_id.clone()));
        }
        for child in &children {
            pending.push_back((api.run(&child.run_id).await?, false));
        }
        // Read again: a child that ended in the meantime may have called back.
        let view = if children.is_empty() { view } else { api.run(&view.run_id).await? };
        awaits_callback |= view.awaits_callback;
        for next in &view.continued_by {
            pending.push_back((api.run(next).await?, is_own));
        }
        if is_own && view.created_at >= last.created_at {
            last = view;
        }
    }
    Ok(RunTree { last, children: own_children, active, awaits_callback })
}

/// Tracks how long a coordinator has been unreachable.
#[derive(Default)]
struct Outage {
    since: Option<Instant>,
}

impl Outage {
    /// Returns the answer. If the coordinator is unreachable, pauses and returns `None`, until the outage exceeds
    /// [`OUTAGE_MAX`].
    async fn tolerate<T>(&mut self, answer: Result<T, Error>) -> Result<Option<T>, Error> {
        let error = match answer {
            Ok(answer) => {
                self.since = None;
                return Ok(Some(answer));
            }
            Err(error) => error,
        };
        let since = *self.since.get_or_insert_with(Instant::now);
        if !error.code.is_passing() || since.elapsed() > OUTAGE_MAX {
            return Err(error);
        }
        tokio::time::sleep(OUTAGE_PAUSE).await;
        Ok(None)
    }
}
