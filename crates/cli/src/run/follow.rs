//! Shows the events of a run that other runners perform, and those of its children.

use std::sync::Arc;
use std::time::Duration;

use slipform_api::CallerApi;
use slipform_types::{Event, EventBody, RunId, SessionId};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::progress_line::ProgressLine;

/// The time that a command waits for the last events of a run that has ended.
const LAST_EVENTS_WAIT: Duration = Duration::from_secs(2);

/// Follows sessions in the background until it is dropped.
pub(super) struct Follower {
    /// The runs whose last event was shown.
    ended: watch::Receiver<Vec<RunId>>,
    _task: JoinSet<()>,
}

/// A session to follow, and the name of its agent.
struct Followed {
    session_id: SessionId,
    agent: String,
}

impl Follower {
    /// Follows a session and the sessions of its descendants.
    pub(super) fn start(
        api: Arc<dyn CallerApi>,
        session_id: SessionId,
        agent: String,
        line: Arc<ProgressLine>,
    ) -> Follower {
        let (ended, shown) = watch::channel(Vec::new());
        let (children, mut started) = mpsc::unbounded_channel();
        let _ = children.send(Followed { session_id, agent });
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut feeds = JoinSet::new();
            while let Some(followed) = started.recv().await {
                feeds.spawn(show(api.clone(), followed, line.clone(), children.clone(), ended.clone()));
            }
        });
        Follower { ended: shown, _task: task }
    }

    /// Waits until the last event of a run was shown. A lost connection must not delay the result for long.
    pub(super) async fn last_event_of(&mut self, run: &RunId) {
        let shown = self.ended.wait_for(|ended| ended.contains(run));
        let _ = tokio::time::timeout(LAST_EVENTS_WAIT, shown).await;
    }
}

async fn show(
    api: Arc<dyn CallerApi>,
    Followed { session_id, agent }: Followed,
    line: Arc<ProgressLine>,
    children: mpsc::UnboundedSender<Followed>,
    ended: watch::Sender<Vec<RunId>>,
) {
    let Ok(mut feed) = api.follow(&session_id, 0).await else { return };
    while let Some(event) = feed.next().await {
        let Ok(event) = serde_json::from_str::<Event>(event.get()) else { continue };
        line.event(&agent, &event.body);
        match event.body {
            EventBody::ChildStarted { agent_name, child_session_id, .. } => {
                let _ = children.send(Followed { session_id: child_session_id, agent: agent_name });
            }
            EventBody::RunCompleted { .. } => ended.send_modify(|ended| ended.push(event.run_id)),
            _ => {}
        }
    }
}
