//! The caller API over HTTP.

use std::time::Duration;

use serde_json::Value;
use serde_json::value::RawValue;
use slipform_types::{RunId, SessionId, TraceParent};
use tokio::time::Instant;

use super::Client;
use super::stream::EventStream;
use crate::caller::{CallerApi, EventFeed, EventSender, percent_encode, with_query};
use crate::check::{CheckRequest, CheckView};
use crate::error::Error;
use crate::operations::{BackendView, RunnerView, StatsQuery, StatsRow};
use crate::registry::{AgentView, SchemaRequest, SchemaSummary, SchemaView, ValidateSchemaRequest, Verdict};
use crate::run::{RunCreated, RunPage, RunRequest, RunView, RunsQuery};
use crate::runner::Answer;
use crate::session::{EventPage, EventsQuery, ResultView, SessionPage, SessionView, SessionsQuery};

/// Time between two requests for a run that has not ended.
const POLL_INTERVAL: Duration = Duration::from_millis(300);

impl Client {
    async fn wait_for_end(&self, run: &RunId, limit: Duration) -> Result<RunView, Error> {
        let until = Instant::now() + limit;
        loop {
            let view = self.run(run).await?;
            let left = until.saturating_duration_since(Instant::now());
            if view.status.is_ended() || left.is_zero() {
                return Ok(view);
            }
            tokio::time::sleep(left.min(POLL_INTERVAL)).await;
        }
    }
}

fn agent_path(name: &str) -> String {
    format!("agents/{}", percent_encode(name))
}

fn schema_path(name: &str) -> String {
    format!("schemas/{}", percent_encode(name))
}

/// Forwards the events of a stream until it ends or the feed is dropped.
async fn forward(mut stream: EventStream, sender: EventSender) {
    while let Some(data) = stream.next().await {
        let Ok(event) = RawValue::from_string(data) else { return };
        if sender.send(event).await.is_err() {
            return;
        }
    }
}

impl CallerApi for Client {
    fn submit(&self, request: RunRequest, idempotency_key: Option<String>) -> Answer<'_, RunCreated> {
        Box::pin(async move {
            let trace_parent = request.trace_parent.as_ref().map(TraceParent::as_str);
            let headers = [("idempotency-key", idempotency_key.as_deref()), ("traceparent", trace_parent)];
            self.post_with_headers("runs", &request, &headers).await
        })
    }

    fn run<'a>(&'a self, run: &'a RunId) -> Answer<'a, RunView> {
        Box::pin(async move { self.get(&format!("runs/{run}")).await })
    }

    fn wait<'a>(&'a self, run: &'a RunId, limit: Duration) -> Answer<'a, RunView> {
        Box::pin(self.wait_for_end(run, limit))
    }

    fn runs(&self, query: RunsQuery) -> Answer<'_, RunPage> {
        Box::pin(async move { self.get(&with_query("runs", &query)?).await })
    }

    fn stop_run<'a>(&'a self, run: &'a RunId) -> Answer<'a, RunView> {
        Box::pin(async move { self.post(&format!("runs/{run}/stop"), &()).await })
    }

    fn session<'a>(&'a self, session: &'a SessionId) -> Answer<'a, SessionView> {
        Box::pin(async move { self.get(&format!("sessions/{session}")).await })
    }

    fn sessions(&self, query: SessionsQuery) -> Answer<'_, SessionPage> {
        Box::pin(async move { self.get(&with_query("sessions", &query)?).await })
    }

    fn stop_session<'a>(&'a self, session: &'a SessionId) -> Answer<'a, RunView> {
        Box::pin(async move { self.post(&format!("sessions/{session}/stop"), &()).await })
    }

    fn delete_session<'a>(&'a self, session: &'a SessionId) -> Answer<'a, ()> {
        Box::pin(async move { self.delete(&format!("sessions/{session}")).await })
    }

    fn session_result<'a>(&'a self, session: &'a SessionId) -> Answer<'a, ResultView> {
        Box::pin(async move { self.get(&format!("sessions/{session}/result")).await })
    }

    fn events<'a>(&'a self, session: &'a SessionId, query: EventsQuery) -> Answer<'a, EventPage> {
        Box::pin(async move { self.get(&with_query(&format!("sessions/{session}/events"), &query)?).await })
    }

    fn follow<'a>(&'a self, session: &'a SessionId, after: i64) -> Answer<'a, EventFeed> {
        Box::pin(async move {
            let stream = self.stream(&format!("sessions/{session}/events/stream?after={after}")).await?;
            let (sender, feed) = EventFeed::new();
            tokio::spawn(async move {
                let closed = sender.clone();
                tokio::select! {
                    () = forward(stream, sender) => {}
                    () = closed.closed() => {}
                }
            });
            Ok(feed)
        })
    }

    fn agents(&self) -> Answer<'_, Vec<AgentView>> {
        Box::pin(self.get("agents"))
    }

    fn agent<'a>(&'a self, name: &'a str) -> Answer<'a, AgentView> {
        Box::pin(async move { self.get(&agent_path(name)).await })
    }

    fn create_agent<'a>(&'a self, definition: &'a Value) -> Answer<'a, AgentView> {
        Box::pin(self.post("agents", definition))
    }

    fn change_agent<'a>(&'a self, name: &'a str, changes: &'a Value) -> Answer<'a, AgentView> {
        Box::pin(async move { self.patch(&agent_path(name), changes).await })
    }

    fn delete_agent<'a>(&'a self, name: &'a str) -> Answer<'a, ()> {
        Box::pin(async move { self.delete(&agent_path(name)).await })
    }

    fn validate_agent<'a>(&'a self, definition: &'a Value) -> Answer<'a, Verdict> {
        Box::pin(self.post("agents/validate", definition))
    }

    fn schemas(&self) -> Answer<'_, Vec<SchemaSummary>> {
        Box::pin(self.get("schemas"))
    }

    fn schema<'a>(&'a self, name: &'a str) -> Answer<'a, SchemaView> {
        Box::pin(async move { self.get(&schema_path(name)).await })
    }

    fn add_schema<'a>(&'a self, request: &'a SchemaRequest) -> Answer<'a, SchemaView> {
        Box::pin(self.post("schemas", request))
    }

    fn remove_schema<'a>(&'a self, name: &'a str) -> Answer<'a, ()> {
        Box::pin(async move { self.delete(&schema_path(name)).await })
    }

    fn validate_schema<'a>(&'a self, schema: &'a Value) -> Answer<'a, Verdict> {
        Box::pin(async move {
            self.post("schemas/validate", &ValidateSchemaRequest { schema: schema.clone() }).await
        })
    }

    fn check(&self, request: CheckRequest) -> Answer<'_, CheckView> {
        Box::pin(async move { self.post("check", &request).await })
    }

    fn stats(&self, query: StatsQuery) -> Answer<'_, Vec<StatsRow>> {
        Box::pin(async move { self.get(&with_query("stats", &query)?).await })
    }

    fn runners(&self) -> Answer<'_, Vec<RunnerView>> {
        Box::pin(self.get("runners"))
    }

    fn backends(&self) -> Answer<'_, Vec<BackendView>> {
        Box::pin(self.get("backends"))
    }
}
