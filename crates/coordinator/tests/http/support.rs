//! Requests to a coordinator, as its callers and runners send them.

pub(crate) mod client;

use serde_json::{Value, json};
use slipform_testkit::TestServer;

use client::TestRequest;

/// Requests to a [`TestServer`].
pub(crate) trait Requests {
    fn request(&self, method: &str, path: &str) -> TestRequest;

    fn get(&self, path: &str) -> TestRequest {
        self.request("GET", path)
    }

    fn post(&self, path: &str, body: &Value) -> TestRequest {
        self.request("POST", path).json(body)
    }

    /// Submits a run and returns its run id and session id.
    async fn submit(&self, agent: &str) -> (String, String) {
        let body = json!({"type": "start_session", "agent_name": agent, "prompt": "Hello."});
        let created = self.post("/runs", &body).send().await.ok(201);
        assert_eq!(created["status"], "pending");
        let text = |key: &str| created[key].as_str().unwrap().to_owned();
        (text("run_id"), text("session_id"))
    }

    /// Registers a runner and returns its id.
    async fn runner(&self) -> String {
        let details = json!({"backends": [{"name": "here", "kind": "openai", "model": "m"}]});
        let registration = json!({"name": "tester", "slots": 2, "details": details});
        let registered = self.post("/runner/register", &registration).send().await.ok(200);
        registered["runner_id"].as_str().unwrap().to_owned()
    }

    /// Claims the next run; panics if the queue stays empty.
    async fn claim(&self, runner: &str) -> ClaimedRun {
        let request = json!({"runner_id": runner, "slots": 1, "wait_ms": 5_000});
        let claims = self.post("/runner/claim", &request).send().await.ok(200);
        let assignment = claims["claims"][0].clone();
        let run_id = assignment["run_id"].as_str().expect("an assignment").to_owned();
        ClaimedRun { run_id, token: assignment["token"].as_i64().unwrap(), number: 0, assignment }
    }

    /// Appends events.
    async fn append(&self, run: &mut ClaimedRun, events: &Value) -> Value {
        self.post("/runner/append", &run.message(events)).send().await.ok(200)
    }

    /// Finishes a run with a text.
    async fn finish(&self, run: &mut ClaimedRun, text: &str) {
        let events = json!([result(json!({"result_text": text})), completed()]);
        self.post("/runner/finish", &run.message(&events)).send().await.ok(200);
    }

    /// Claims the next run and finishes it.
    async fn complete_next(&self, text: &str) {
        let mut work = self.claim(&self.runner().await).await;
        self.append(&mut work, &json!([started()])).await;
        self.finish(&mut work, text).await;
    }
}

impl Requests for TestServer {
    fn request(&self, method: &str, path: &str) -> TestRequest {
        TestRequest::new(self.address, method, path)
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
