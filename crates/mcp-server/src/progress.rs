//! The progress of a run, in messages for people.

use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::Peer;
use slipform_api::{CallerApi, RunCreated};
use slipform_types::{Event, EventBody, RUN_FAILS, Role};
use tokio::time::Instant;

/// The longest time without a report. Clients give up on calls that are silent.
const SILENCE_MAX: Duration = Duration::from_secs(8);

/// The most characters of a message.
const CHARACTERS_MAX: usize = 300;

/// Sends the progress of a run to a client.
pub(crate) struct Reporter {
    peer: Peer<RoleServer>,
    token: ProgressToken,
    /// Increases with every report, as the protocol demands.
    count: u32,
}

impl Reporter {
    pub(crate) fn new(peer: Peer<RoleServer>, token: ProgressToken) -> Reporter {
        Reporter { peer, token, count: 0 }
    }

    /// Reports the events of a run until the client is gone. Between events, it reports that the run goes on.
    pub(crate) async fn follow(mut self, api: &dyn CallerApi, created: &RunCreated) {
        let start = Instant::now();
        let mut text = EventText::default();
        let mut last = format!("run {} is waiting for a runner", created.run_id);
        if !self.send(&last).await {
            return;
        }
        let mut feed = api.follow(&created.session_id, 0).await.ok();
        let mut due = Instant::now() + SILENCE_MAX;
        loop {
            let event = async {
                match &mut feed {
                    Some(feed) => feed.next().await,
                    None => std::future::pending().await,
                }
            };
            let message = match tokio::time::timeout_at(due, event).await {
                Ok(Some(event)) => match serde_json::from_str::<Event>(event.get()) {
                    Ok(event) if event.run_id == created.run_id => text.describe(&event.body),
                    _ => None,
                },
                Ok(None) => {
                    // The connection to the coordinator was lost; the call still waits for its run.
                    feed = None;
                    None
                }
                Err(_) => Some(format!("still running after {} s: {last}", start.elapsed().as_secs())),
            };
            if let Some(message) = message {
                if !self.send(&message).await {
                    return;
                }
                due = Instant::now() + SILENCE_MAX;
                if !message.starts_with("still running") {
                    last = message;
                }
            }
        }
    }

    /// Sends one report. Returns whether the client could receive it.
    async fn send(&mut self, message: &str) -> bool {
        self.count += 1;
        let mut report = ProgressNotificationParam::new(self.token.clone(), f64::from(self.count));
        report.message = Some(shortened(message));
        self.peer.notify_progress(report).await.is_ok()
    }
}

/// Describes events to people.
#[derive(Debug, Default)]
pub(crate) struct EventText {
    retries: u32,
    max_retries: Option<u32>,
    /// Whether earlier events may be missing, so that retries cannot be counted.
    is_part: bool,
}

impl EventText {
    /// For the last events of a run, of which the first may be missing.
    pub(crate) fn of_last_events() -> EventText {
        EventText { is_part: true, ..EventText::default() }
    }

    /// Returns what an event means to a person who waits for the result, or `None` if it means nothing to them.
    pub(crate) fn describe(&mut self, body: &EventBody) -> Option<String> {
        let text = match body {
            EventBody::RunStart { contract, .. } => {
                self.max_retries = contract.as_ref().map(|contract| contract.options.max_retries);
                return None;
            }
            EventBody::AttemptStarted { ladder, .. } => match ladder.first() {
                Some(rung) => format!("started with backend {}", rung.backend.name),
                None => "started".to_owned(),
            },
            EventBody::Message { role: Role::Assistant, .. } => "the model has replied".to_owned(),
            EventBody::ValidationFailed { errors, consequence, .. } => {
                let first = errors.first().map(String::as_str).unwrap_or_default();
                let more = errors.len().saturating_sub(1);
                let more = if more > 0 { format!(" (and {more} more)") } else { String::new() };
                if consequence == RUN_FAILS {
                    format!("the result does not satisfy the contract: {first}{more}")
                } else if self.is_part {
                    format!("retrying: {first}{more}")
                } else {
                    self.retries += 1;
                    let of = self.max_retries.map(|max| format!(" of {max}")).unwrap_or_default();
                    format!("retry {}{of}: {first}{more}", self.retries)
                }
            }
            EventBody::CallFailed { error } => format!("the model call failed: {}", error.message),
            EventBody::Escalated { from, to, reason, .. } => {
                self.retries = 0;
                format!("{reason}; continuing with {to} instead of {from}")
            }
            EventBody::PreTool { tool_name, .. } => format!("using {tool_name}"),
            EventBody::PostTool { tool_name, error: Some(error), .. } => format!("{tool_name}: {error}"),
            EventBody::ChildStarted { agent_name, .. } => format!("agent {agent_name} started"),
            EventBody::ChildCompleted(end) => match &end.error {
                None => format!("agent {} has ended", end.agent_name),
                Some(error) => format!("agent {} failed: {}", end.agent_name, error.message),
            },
            EventBody::PlanCreated { subtasks, .. } => format!("planned {} subtasks", subtasks.len()),
            EventBody::ClarityScored { score, threshold, consequence, .. } => {
                format!("clarity {score} of {threshold}; {consequence}")
            }
            EventBody::LeaseExpired { .. } => "the runner was lost; another one continues".to_owned(),
            EventBody::DeadlineReached { .. } => "the time limit is reached".to_owned(),
            EventBody::StopRequested { .. } => "stopping".to_owned(),
            EventBody::Result { .. } => "the result is valid".to_owned(),
            _ => return None,
        };
        Some(text)
    }
}

/// Returns a text of at most [`CHARACTERS_MAX`] characters.
pub(crate) fn shortened(text: &str) -> String {
    match text.char_indices().nth(CHARACTERS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
