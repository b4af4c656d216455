//! A coordinator with its own store, listening on a free port.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use slipform_coordinator::http::{Server, ServerOptions};
use slipform_coordinator::{App, AppOptions, Registry, Scope};
use slipform_store::{Options, Store};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::client::TestRequest;

pub(crate) struct TestServer {
    pub(crate) address: SocketAddr,
    pub(crate) app: App,
    shutdown: Option<oneshot::Sender<()>>,
    served: JoinHandle<()>,
    tail: JoinHandle<()>,
}

/// A project without files.
const NO_PROJECT: &str = "/nonexistent";

impl TestServer {
    pub(crate) async fn open() -> TestServer {
        TestServer::with(|_| {}).await
    }

    pub(crate) async fn with(change: impl FnOnce(&mut ServerOptions)) -> TestServer {
        TestServer::with_project(Path::new(NO_PROJECT), change).await
    }

    pub(crate) async fn with_project(project: &Path, change: impl FnOnce(&mut ServerOptions)) -> TestServer {
        let store = Store::open("sqlite::memory:", &Options::default()).await.unwrap();
        TestServer::with_store(store, project, change).await
    }

    pub(crate) async fn with_store(
        store: Store,
        project: &Path,
        change: impl FnOnce(&mut ServerOptions),
    ) -> TestServer {
        TestServer::start(App::new(store, Arc::new(Registry::read(project)), AppOptions::default()), change)
            .await
    }

    /// Starts a server with this lease duration.
    pub(crate) async fn with_lease(lease: Duration) -> TestServer {
        let store = Store::open("sqlite::memory:", &Options::default()).await.unwrap();
        let options = AppOptions { lease, ..AppOptions::default() };
        let app = App::new(store, Arc::new(Registry::read(Path::new(NO_PROJECT))), options);
        TestServer::start(app, |_| {}).await
    }

    async fn start(app: App, change: impl FnOnce(&mut ServerOptions)) -> TestServer {
        let mut options = ServerOptions::new("127.0.0.1:0".parse().unwrap());
        change(&mut options);
        let bound = Server::bind(options, app.clone()).await.unwrap();
        let address = bound.address();
        let (shutdown, requested) = oneshot::channel::<()>();
        let served = tokio::spawn(bound.run(async {
            let _ = requested.await;
        }));
        let tail = app.tail().clone();
        let tail = tokio::spawn(async move { tail.run().await });
        TestServer { address, app, shutdown: Some(shutdown), served, tail }
    }

    /// Starts the shutdown.
    pub(crate) fn shut_down(&mut self) {
        self.shutdown.take().unwrap().send(()).unwrap();
    }

    /// Waits until the server has stopped.
    pub(crate) async fn stopped(self) {
        self.served.await.unwrap();
        self.tail.abort();
    }

    pub(crate) fn request(&self, method: &str, path: &str) -> TestRequest {
        TestRequest::new(self.address, method, path)
    }

    pub(crate) fn get(&self, path: &str) -> TestRequest {
        self.request("GET", path)
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> TestRequest {
        self.request("POST", path).json(body)
    }

    pub(crate) async fn token(&self, scope: Scope) -> String {
        self.app.create_token("a test", scope).await.unwrap().token
    }

    /// Saves an agent; `more` is merged into its blueprint.
    pub(crate) async fn agent(&self, name: &str, more: Value) {
        let mut blueprint = json!({"name": name, "description": "An agent.", "system_prompt": "Be brief."});
        for (key, value) in more.as_object().unwrap() {
            blueprint[key] = value.clone();
        }
        self.app.create_agent(&blueprint).await.unwrap();
    }

    /// Submits a run and returns its run id and session id.
    pub(crate) async fn submit(&self, agent: &str) -> (String, String) {
        let body = json!({"type": "start_session", "agent_name": agent, "prompt": "Hello."});
        let created = self.post("/runs", &body).send().await.ok(201);
        assert_eq!(created["status"], "pending");
        let text = |key: &str| created[key].as_str().unwrap().to_owned();
        (text("run_id"), text("session_id"))
    }

    /// Registers a runner and returns its id.
    pub(crate) async fn runner(&self) -> String {
        let details = json!({"backends": [{"name": "here", "kind": "openai", "model": "m"}]});
        let registration = json!({"name": "tester", "slots": 2, "details": details});
        let registered = self.post("/runner/register", &registration).send().await.ok(200);
        registered["runner_id"].as_str().unwrap().to_owned()
    }

    /// Claims the next run; panics if the queue stays empty.
    pub(crate) async fn claim(&self, runner: &str) -> ClaimedRun {
        let request = json!({"runner_id": runner, "slots": 1, "wait_ms": 5_000});
        let claims = self.post("/runner/claim", &request).send().await.ok(200);
        let assignment = claims["claims"][0].clone();
        let run_id = assignment["run_id"].as_str().expect("an assignment").to_owned();
        ClaimedRun { run_id, token: assignment["token"].as_i64().unwrap(), number: 0, assignment }
    }

    /// Appends events.
    pub(crate) async fn append(&self, run: &mut ClaimedRun, events: &Value) -> Value {
        self.post("/runner/append", &run.message(events)).send().await.ok(200)
    }

    /// Finishes a run with a text.
    pub(crate) async fn finish(&self, run: &mut ClaimedRun, text: &str) {
        let events = json!([result(json!({"result_text": text})), completed()]);
        self.post("/runner/finish", &run.message(&events)).send().await.ok(200);
    }

    /// Claims the next run and finishes it.
    pub(crate) async fn complete_next(&self, text: &str) {
        let mut work = self.claim(&self.runner().await).await;
        self.append(&mut work, &json!([started()])).await;
        self.finish(&mut work, text).await;
    }
}

/// A run claimed by a test.
pub(crate) struct ClaimedRun {
    pub(crate) run_id: String,
    pub(crate) token: i64,
    pub(crate) number: i64,
    pub(crate) assignment: Value,
}

impl ClaimedRun {
    pub(crate) fn message(&mut self, events: &Value) -> Value {
        self.number += 1;
        json!({"run_id": self.run_id, "token": self.token, "number": self.number, "events": events})
    }

    pub(crate) fn attempt(&self) -> Value {
        json!({"run_id": self.run_id, "token": self.token})
    }
}

pub(crate) fn started() -> Value {
    json!({"event_type": "attempt_started", "ladder": []})
}

pub(crate) fn completed() -> Value {
    json!({"event_type": "run_completed", "status": "completed"})
}

/// A `result` event.
pub(crate) fn result(fields: Value) -> Value {
    let receipt = serde_json::to_value(slipform_types::Receipt::default()).unwrap();
    let mut event =
        json!({"event_type": "result", "result_text": null, "result_data": null, "receipt": receipt});
    for (key, value) in fields.as_object().unwrap() {
        event[key] = value.clone();
    }
    event
}
