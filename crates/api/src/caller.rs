//! The API that callers use.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use serde_json::value::RawValue;
use slipform_types::{RunId, SessionId};
use tokio::sync::mpsc;

use crate::check::{CheckRequest, CheckView};
use crate::error::Error;
use crate::operations::{BackendView, RunnerView, StatsQuery, StatsRow};
use crate::registry::{AgentView, SchemaRequest, SchemaSummary, SchemaView, Verdict};
use crate::run::{RunCreated, RunPage, RunRequest, RunView, RunsQuery};
use crate::runner::Answer;
use crate::session::{EventPage, EventsQuery, ResultView, SessionPage, SessionView, SessionsQuery};

/// The coordinator's interface for callers: commands, other programs, and what is built on top of runs.
///
/// `slipform_coordinator::App` implements it in process, and [`Client`](crate::Client) over HTTP.
pub trait CallerApi: Send + Sync {
    /// Submits a run. Repeating a request with the same idempotency key returns the same run.
    fn submit(&self, request: RunRequest, idempotency_key: Option<String>) -> Answer<'_, RunCreated>;

    /// Returns a run, with its result once it has ended.
    fn run<'a>(&'a self, run: &'a RunId) -> Answer<'a, RunView>;

    /// Waits until a run has ended or the time limit passes, and returns the run.
    fn wait<'a>(&'a self, run: &'a RunId, limit: Duration) -> Answer<'a, RunView>;

    /// Lists runs, newest first.
    fn runs(&self, query: RunsQuery) -> Answer<'_, RunPage>;

    /// Asks a run to stop.
    fn stop_run<'a>(&'a self, run: &'a RunId) -> Answer<'a, RunView>;

    /// Returns a session.
    fn session<'a>(&'a self, session: &'a SessionId) -> Answer<'a, SessionView>;

    /// Lists sessions, newest first.
    fn sessions(&self, query: SessionsQuery) -> Answer<'_, SessionPage>;

    /// Asks all runs of a session to stop, and returns the active run.
    fn stop_session<'a>(&'a self, session: &'a SessionId) -> Answer<'a, RunView>;

    /// Deletes a session and its descendants.
    fn delete_session<'a>(&'a self, session: &'a SessionId) -> Answer<'a, ()>;

    /// Returns the result of a session's latest run.
    fn session_result<'a>(&'a self, session: &'a SessionId) -> Answer<'a, ResultView>;

    /// Returns a page of a session's journal.
    fn events<'a>(&'a self, session: &'a SessionId, query: EventsQuery) -> Answer<'a, EventPage>;

    /// Follows a session's journal after an event, without gaps or repetitions.
    fn follow<'a>(&'a self, session: &'a SessionId, after: i64) -> Answer<'a, EventFeed>;

    /// Returns every agent, sorted by name.
    fn agents(&self) -> Answer<'_, Vec<AgentView>>;

    /// Returns an agent.
    fn agent<'a>(&'a self, name: &'a str) -> Answer<'a, AgentView>;

    /// Saves a new agent.
    fn create_agent<'a>(&'a self, definition: &'a Value) -> Answer<'a, AgentView>;

    /// Changes an agent by a JSON Merge Patch (RFC 7396).
    fn change_agent<'a>(&'a self, name: &'a str, changes: &'a Value) -> Answer<'a, AgentView>;

    /// Deletes an agent.
    fn delete_agent<'a>(&'a self, name: &'a str) -> Answer<'a, ()>;

    /// Checks a blueprint without saving it.
    fn validate_agent<'a>(&'a self, definition: &'a Value) -> Answer<'a, Verdict>;

    /// Returns every registered schema, sorted by name.
    fn schemas(&self) -> Answer<'_, Vec<SchemaSummary>>;

    /// Returns a registered schema.
    fn schema<'a>(&'a self, name: &'a str) -> Answer<'a, SchemaView>;

    /// Registers a schema.
    fn add_schema<'a>(&'a self, request: &'a SchemaRequest) -> Answer<'a, SchemaView>;

    /// Removes a schema from the registry.
    fn remove_schema<'a>(&'a self, name: &'a str) -> Answer<'a, ()>;

    /// Checks a schema without registering it.
    fn validate_schema<'a>(&'a self, schema: &'a Value) -> Answer<'a, Verdict>;

    /// Extracts JSON from a text and validates it.
    fn check(&self, request: CheckRequest) -> Answer<'_, CheckView>;

    /// Returns statistics of ended runs per agent and backend.
    fn stats(&self, query: StatsQuery) -> Answer<'_, Vec<StatsRow>>;

    /// Returns the runners seen in the last minute.
    fn runners(&self) -> Answer<'_, Vec<RunnerView>>;

    /// Returns the backends of these runners.
    fn backends(&self) -> Answer<'_, Vec<BackendView>>;
}

/// A caller's operations with its authority, attached to the requests of routers that a coordinator's server mounts.
#[derive(Clone)]
pub struct Caller(pub Arc<dyn CallerApi>);

/// Events of a session as they are appended. Dropping it ends the subscription.
#[derive(Debug)]
pub struct EventFeed(mpsc::Receiver<Box<RawValue>>);

/// Events that a slow reader may lag behind before the feed waits for it.
const FEED_EVENTS_MAX: usize = 64;

/// Puts events into an [`EventFeed`].
pub type EventSender = mpsc::Sender<Box<RawValue>>;

impl EventFeed {
    /// Creates a feed and its sender. The feed ends when the sender is dropped.
    pub fn new() -> (EventSender, EventFeed) {
        let (sender, receiver) = mpsc::channel(FEED_EVENTS_MAX);
        (sender, EventFeed(receiver))
    }

    /// Waits for the next event, as JSON. Returns `None` when the session was deleted or the connection is lost.
    pub async fn next(&mut self) -> Option<Box<RawValue>> {
        self.0.recv().await
    }
}

/// Percent-encodes a text for a URL path segment or query value.
pub(crate) fn percent_encode(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~');
    text.bytes()
        .map(|byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// Returns a path with a query string. Members that are null are left out.
pub(crate) fn with_query(path: &str, query: &impl serde::Serialize) -> Result<String, Error> {
    let invalid = |error: serde_json::Error| Error::new(crate::Code::Internal, error.to_string());
    let members = serde_json::to_value(query).map_err(invalid)?;
    let members = members.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
    let pairs: Vec<String> = members
        .map(|(name, value)| {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            format!("{name}={}", percent_encode(&text))
        })
        .collect();
    Ok(if pairs.is_empty() { path.to_owned() } else { format!("{path}?{}", pairs.join("&")) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_is_encoded_and_leaves_out_missing_members() {
        let query =
            RunsQuery { agent_name: Some("a b&c".to_owned()), limit: Some(5), ..RunsQuery::default() };
        assert_eq!(with_query("runs", &query).unwrap(), "runs?agent_name=a%20b%26c&limit=5");
        assert_eq!(with_query("runs", &RunsQuery::default()).unwrap(), "runs");
    }
}
