//! A coordinator with a store of its own, listening somewhere.

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

use crate::client::Asking;

pub(crate) struct TestServer {
    pub(crate) address: SocketAddr,
    pub(crate) app: App,
    shutdown: Option<oneshot::Sender<()>>,
    served: JoinHandle<()>,
    tail: JoinHandle<()>,
}

/// Where no files are.
const NO_PROJECT: &str = "/nonexistent";

impl TestServer {
    pub(crate) async fn open() -> TestServer {
        TestServer::with(|_| {}).await
    }

    pub(crate) async fn with(change: impl FnOnce(&mut ServerOptions)) -> TestServer {
        TestServer::of(Path::new(NO_PROJECT), change).await
    }

    pub(crate) async fn of(project: &Path, change: impl FnOnce(&mut ServerOptions)) -> TestServer {
        let store = Store::open("sqlite::memory:", &Options::default()).await.unwrap();
        TestServer::over(store, project, change).await
    }

    pub(crate) async fn over(
        store: Store,
        project: &Path,
        change: impl FnOnce(&mut ServerOptions),
    ) -> TestServer {
        TestServer::serving(App::new(store, Arc::new(Registry::read(project)), AppOptions::default()), change)
            .await
    }

    /// With leases of a length of its own.
    pub(crate) async fn leasing(lease: Duration) -> TestServer {
        let store = Store::open("sqlite::memory:", &Options::default()).await.unwrap();
        let options = AppOptions { lease, ..AppOptions::default() };
        let app = App::new(store, Arc::new(Registry::read(Path::new(NO_PROJECT))), options);
        TestServer::serving(app, |_| {}).await
    }

    async fn serving(app: App, change: impl FnOnce(&mut ServerOptions)) -> TestServer {
        let mut options = ServerOptions::new("127.0.0.1:0".parse().unwrap());
        change(&mut options);
        let bound = Server::bind(options, app.clone()).await.unwrap();
        let address = bound.address();
        let (shutdown, told) = oneshot::channel::<()>();
        let served = tokio::spawn(bound.run(async {
            let _ = told.await;
        }));
        let tail = app.tail().clone();
        let tail = tokio::spawn(async move { tail.run().await });
        TestServer { address, app, shutdown: Some(shutdown), served, tail }
    }

    /// Asks the server to go down.
    pub(crate) fn shut_down(&mut self) {
        self.shutdown.take().unwrap().send(()).unwrap();
    }

    /// Waits until it is down.
    pub(crate) async fn down(self) {
        self.served.await.unwrap();
        self.tail.abort();
    }

    pub(crate) fn ask(&self, method: &str, path: &str) -> Asking {
        Asking::new(self.address, method, path)
    }

    pub(crate) fn get(&self, path: &str) -> Asking {
        self.ask("GET", path)
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Asking {
        self.ask("POST", path).json(body)
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

    /// Takes a run on; its ids.
    pub(crate) async fn submit(&self, agent: &str) -> (String, String) {
        let body = json!({"type": "start_session", "agent_name": agent, "prompt": "Hello."});
        let created = self.post("/runs", &body).send().await.ok(201);
        assert_eq!(created["status"], "pending");
        let text = |key: &str| created[key].as_str().unwrap().to_owned();
        (text("run_id"), text("session_id"))
    }

    /// A runner that says hello.
    pub(crate) async fn runner(&self) -> String {
        let details = json!({"backends": [{"name": "here", "kind": "openai", "model": "m"}]});
        let hello = json!({"name": "tester", "slots": 2, "details": details});
        let registered = self.post("/runner/register", &hello).send().await.ok(200);
        registered["runner_id"].as_str().unwrap().to_owned()
    }

    /// Claims the next run, which has to be there.
    pub(crate) async fn claim(&self, runner: &str) -> ClaimedRun {
        let request = json!({"runner_id": runner, "slots": 1, "wait_ms": 5_000});
        let claims = self.post("/runner/claim", &request).send().await.ok(200);
        let work = claims["claims"][0].clone();
        let run_id = work["run_id"].as_str().expect("work").to_owned();
        ClaimedRun { run_id, token: work["token"].as_i64().unwrap(), number: 0, work }
    }

    /// Appends events.
    pub(crate) async fn append(&self, work: &mut ClaimedRun, events: &Value) -> Value {
        self.post("/runner/append", &work.message(events)).send().await.ok(200)
    }

    /// Ends a run with a text.
    pub(crate) async fn finish(&self, work: &mut ClaimedRun, text: &str) {
        let events = json!([result(json!({"result_text": text})), completed()]);
        self.post("/runner/finish", &work.message(&events)).send().await.ok(200);
    }

    /// Works on the next run from its claim to its end.
    pub(crate) async fn work_off(&self, text: &str) {
        let mut work = self.claim(&self.runner().await).await;
        self.append(&mut work, &json!([started()])).await;
        self.finish(&mut work, text).await;
    }
}

/// A run that a runner has.
pub(crate) struct ClaimedRun {
    pub(crate) run_id: String,
    pub(crate) token: i64,
    pub(crate) number: i64,
    pub(crate) work: Value,
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

/// A result event.
pub(crate) fn result(what: Value) -> Value {
    let receipt = serde_json::to_value(slipform_types::Receipt::default()).unwrap();
    let mut event =
        json!({"event_type": "result", "result_text": null, "result_data": null, "receipt": receipt});
    for (key, value) in what.as_object().unwrap() {
        event[key] = value.clone();
    }
    event
}
