//! The caller API in process.

use std::time::Duration;

use serde_json::Value;
use slipform_api::{
    AgentView, Answer, BackendView, CallerApi, CheckRequest, CheckView, Error, EventFeed, EventPage,
    EventSender, EventsQuery, ResultView, RunCreated, RunPage, RunRequest, RunView, RunnerView, RunsQuery,
    SchemaRequest, SchemaSummary, SchemaView, SessionPage, SessionView, SessionsQuery, StatsQuery, StatsRow,
    Verdict,
};
use slipform_types::{RunId, SessionId};

use super::reading::SessionReader;
use super::{App, views};

impl App {
    /// Follows a session's journal after an event. The [`Tail`](crate::Tail) must be running.
    async fn follow_session(&self, session: &SessionId, after: i64) -> Result<EventFeed, Error> {
        let reader = self.read_session(session.clone(), after).await?;
        let (sender, feed) = EventFeed::new();
        tokio::spawn(async move {
            let closed = sender.clone();
            tokio::select! {
                () = forward(reader, sender) => {}
                () = closed.closed() => {}
            }
        });
        Ok(feed)
    }
}

/// Forwards the events of a session until it is deleted or the feed is dropped.
async fn forward(mut reader: SessionReader, sender: EventSender) {
    while let Ok(Some(events)) = reader.next().await {
        for event in events {
            let Ok(event) = views::raw(&event) else { return };
            if sender.send(event).await.is_err() {
                return;
            }
        }
    }
}

impl CallerApi for App {
    fn submit(&self, request: RunRequest, idempotency_key: Option<String>) -> Answer<'_, RunCreated> {
        Box::pin(App::submit(self, request, idempotency_key))
    }

    fn run<'a>(&'a self, run: &'a RunId) -> Answer<'a, RunView> {
        Box::pin(App::run(self, run))
    }

    fn wait<'a>(&'a self, run: &'a RunId, limit: Duration) -> Answer<'a, RunView> {
        Box::pin(App::wait(self, run, limit))
    }

    fn runs(&self, query: RunsQuery) -> Answer<'_, RunPage> {
        Box::pin(App::runs(self, query))
    }

    fn stop_run<'a>(&'a self, run: &'a RunId) -> Answer<'a, RunView> {
        Box::pin(App::stop_run(self, run))
    }

    fn session<'a>(&'a self, session: &'a SessionId) -> Answer<'a, SessionView> {
        Box::pin(App::session(self, session))
    }

    fn sessions(&self, query: SessionsQuery) -> Answer<'_, SessionPage> {
        Box::pin(App::sessions(self, query))
    }

    fn stop_session<'a>(&'a self, session: &'a SessionId) -> Answer<'a, RunView> {
        Box::pin(App::stop_session(self, session))
    }

    fn delete_session<'a>(&'a self, session: &'a SessionId) -> Answer<'a, ()> {
        Box::pin(App::delete_session(self, session))
    }

    fn session_result<'a>(&'a self, session: &'a SessionId) -> Answer<'a, ResultView> {
        Box::pin(App::session_result(self, session))
    }

    fn events<'a>(&'a self, session: &'a SessionId, query: EventsQuery) -> Answer<'a, EventPage> {
        Box::pin(App::events(self, session, query))
    }

    fn follow<'a>(&'a self, session: &'a SessionId, after: i64) -> Answer<'a, EventFeed> {
        Box::pin(self.follow_session(session, after))
    }

    fn agents(&self) -> Answer<'_, Vec<AgentView>> {
        Box::pin(App::agents(self))
    }

    fn agent<'a>(&'a self, name: &'a str) -> Answer<'a, AgentView> {
        Box::pin(App::agent(self, name))
    }

    fn create_agent<'a>(&'a self, definition: &'a Value) -> Answer<'a, AgentView> {
        Box::pin(App::create_agent(self, definition))
    }

    fn change_agent<'a>(&'a self, name: &'a str, changes: &'a Value) -> Answer<'a, AgentView> {
        Box::pin(App::change_agent(self, name, changes, None))
    }

    fn delete_agent<'a>(&'a self, name: &'a str) -> Answer<'a, ()> {
        Box::pin(App::delete_agent(self, name))
    }

    fn validate_agent<'a>(&'a self, definition: &'a Value) -> Answer<'a, Verdict> {
        Box::pin(App::validate_agent(self, definition))
    }

    fn schemas(&self) -> Answer<'_, Vec<SchemaSummary>> {
        Box::pin(App::schemas(self))
    }

    fn schema<'a>(&'a self, name: &'a str) -> Answer<'a, SchemaView> {
        Box::pin(App::schema(self, name))
    }

    fn add_schema<'a>(&'a self, request: &'a SchemaRequest) -> Answer<'a, SchemaView> {
        Box::pin(App::add_schema(self, request))
    }

    fn remove_schema<'a>(&'a self, name: &'a str) -> Answer<'a, ()> {
        Box::pin(App::remove_schema(self, name))
    }

    fn validate_schema<'a>(&'a self, schema: &'a Value) -> Answer<'a, Verdict> {
        Box::pin(App::validate_schema(self, schema))
    }

    fn check(&self, request: CheckRequest) -> Answer<'_, CheckView> {
        Box::pin(App::check(self, request))
    }

    fn stats(&self, query: StatsQuery) -> Answer<'_, Vec<StatsRow>> {
        Box::pin(App::stats(self, query))
    }

    fn runners(&self) -> Answer<'_, Vec<RunnerView>> {
        Box::pin(App::runners(self))
    }

    fn backends(&self) -> Answer<'_, Vec<BackendView>> {
        Box::pin(App::backends(self))
    }
}
