//! The runner API.

use serde_json::{Value, json};
use slipform_testkit::TestServer;

use crate::support::client::Connection;
use crate::support::{Requests as _, completed, result, started};

#[tokio::test]
async fn write_of_stale_attempt_is_refused() {
    let server = TestServer::open().await;
    server.agent("writer", json!({})).await;
    server.submit("writer").await;
    let runner = server.runner().await;
    let mut first = server.claim(&runner).await;
    assert_eq!(server.post("/runner/release", &first.attempt()).send().await.status, 204);
    let mut second = server.claim(&runner).await;
    assert_ne!(second.token, first.token);
    for path in ["/runner/park", "/runner/release"] {
        server.post(path, &first.attempt()).send().await.refused(409, "StaleAttempt");
    }
    let late = first.message(&json!([started()]));
    server.post("/runner/append", &late).send().await.refused(409, "StaleAttempt");
    let late = first.message(&json!([result(json!({"result_text": "x"})), completed()]));
    server.post("/runner/finish", &late).send().await.refused(409, "StaleAttempt");
    let beats = json!({"runner_id": runner, "attempts": [first.attempt(), second.attempt()]});
    let beats = server.post("/runner/heartbeat", &beats).send().await.ok(200);
    let stale: Vec<_> = beats["attempts"].as_array().unwrap().iter().map(|beat| &beat["stale"]).collect();
    assert_eq!(stale, [&json!(true), &json!(false)]);
    server.append(&mut second, &json!([started()])).await;
    server.finish(&mut second, "Done.").await;
}

#[tokio::test]
async fn result_violating_its_contract_is_refused() {
    let server = TestServer::open().await;
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    server.agent("counter", json!({"output_schema": schema})).await;
    let (_, session) = server.submit("counter").await;
    let mut work = server.claim(&server.runner().await).await;
    server.append(&mut work, &json!([started()])).await;
    let number = work.number;
    for events in [
        json!([result(json!({"result_data": {"n": "x"}})), completed()]),
        json!([result(json!({"result_text": "x"})), completed()]),
        json!([completed()]),
    ] {
        work.number = number;
        server.post("/runner/finish", &work.message(&events)).send().await.refused(422, "InvalidResult");
    }
    work.number = number;
    server
        .post("/runner/finish", &work.message(&json!([started()])))
        .send()
        .await
        .refused(400, "InvalidRequest");
    work.number = number;
    server.post("/runner/append", &work.message(&json!([]))).send().await.refused(400, "InvalidRequest");
    work.number = number;
    let good = json!([result(json!({"result_data": {"n": 1}})), completed()]);
    server.post("/runner/finish", &work.message(&good)).send().await.ok(200);
    let view = server.get(&format!("/sessions/{session}/result")).send().await.ok(200);
    assert_eq!((&view["result_data"], &view["schema_validation"]["valid"]), (&json!({"n": 1}), &json!(true)));
}

#[tokio::test]
async fn universal_response_violating_extra_rules_is_refused() {
    let server = TestServer::open().await;
    let schema = &slipform_schema::shipped()[0];
    let agent = json!({"output_schema": schema.schema.source(), "response_type": "planning"});
    server.agent("planner", agent).await;
    let (_, session) = server.submit("planner").await;
    let mut work = server.claim(&server.runner().await).await;
    server.append(&mut work, &json!([started()])).await;
    let number = work.number;
    let bare = json!({"response_type": "planning", "status": "success", "message": "A plan."});
    let answer = json!({
        "response_type": "answer", "status": "success", "message": "Yes.", "answer_data": {"confidence": "low"},
    });
    for (data, error) in [
        (json!({"status": "success"}), "$.response_type: required property is missing"),
        (bare, "$.planning_data: required property is missing"),
        (answer, "$.response_type: 'answer' is not one of ['planning', 'error']"),
    ] {
        assert!(schema.schema.is_valid(&data) || data.get("message").is_none());
        work.number = number;
        let events = json!([result(json!({"result_data": data})), completed()]);
        let refused = server.post("/runner/finish", &work.message(&events)).send().await;
        let message = refused.refused(422, "InvalidResult");
        assert!(message.contains(error), "{message}");
    }
    work.number = number;
    let failure = json!({
        "response_type": "error", "status": "error", "message": "No.", "error_details": {"error_code": "E"},
    });
    let good = json!([result(json!({"result_data": failure})), completed()]);
    server.post("/runner/finish", &work.message(&good)).send().await.ok(200);
    let view = server.get(&format!("/sessions/{session}/result")).send().await.ok(200);
    assert_eq!(view["result_data"], failure);
}

#[tokio::test]
async fn events_reserved_for_coordinator_are_refused() {
    let server = TestServer::open().await;
    server.agent("writer", json!({})).await;
    let (_, session) = server.submit("writer").await;
    let mut work = server.claim(&server.runner().await).await;
    let mut begun = work.assignment["journal"][0].clone();
    for key in ["seq", "session_id", "run_id", "timestamp"] {
        begun.as_object_mut().unwrap().remove(key);
    }
    let child = json!({"event_type": "child_completed", "agent_name": "x", "child_session_id": "ses_0123456789ab",
        "child_run_id": "run_0123456789ab", "status": "completed"});
    let expired = json!({"event_type": "lease_expired", "attempt": 1, "losses": 1});
    let text = result(json!({"result_text": "x"}));
    for event in [&begun, &child, &expired, &text, &completed()] {
        work.number = 0;
        let events = json!([started(), event]);
        let answer = server.post("/runner/append", &work.message(&events)).send().await;
        let message = answer.refused(400, "InvalidRequest");
        assert!(message.contains(event["event_type"].as_str().unwrap()), "{message}");
    }
    for before in
        [json!([begun]), json!([expired]), json!([completed()]), json!([text]), json!([text, started()])]
    {
        work.number = 0;
        let mut events = before.as_array().unwrap().clone();
        events.extend([text.clone(), completed()]);
        let answer = server.post("/runner/finish", &work.message(&json!(events))).send().await;
        answer.refused(400, "InvalidRequest");
    }
    work.number = 0;
    let events = json!([started(), {"event_type": "stop_requested"}, text, completed()]);
    server.post("/runner/finish", &work.message(&events)).send().await.ok(200);
    let journal = server.get(&format!("/sessions/{session}/events")).send().await.ok(200);
    assert_eq!(journal["events"].as_array().unwrap().len(), 5);
}

#[tokio::test]
async fn claim_returns_assignment_or_nothing() {
    let server = TestServer::open().await;
    let runner = server.runner().await;
    let request = json!({"runner_id": runner, "slots": 1});
    assert_eq!(server.post("/runner/claim", &request).send().await.ok(200), json!({"claims": []}));
    server.agent("writer", json!({})).await;
    let waiting = tokio::spawn(
        server.post("/runner/claim", &json!({"runner_id": runner, "slots": 1, "wait_ms": 20_000})).send(),
    );
    let (run, session) = server.submit("writer").await;
    let claims = waiting.await.unwrap().ok(200);
    let work = &claims["claims"][0];
    assert_eq!((&work["run_id"], &work["session_id"]), (&json!(run), &json!(session)));
    assert_eq!(work["journal"][0]["event_type"], "run_start");
}

#[tokio::test]
async fn claim_of_disconnected_runner_is_released() {
    let server = TestServer::open().await;
    server.agent("writer", json!({})).await;
    let runner = server.runner().await;
    let request = server.post("/runner/claim", &json!({"runner_id": runner, "slots": 1, "wait_ms": 20_000}));
    let mut leaving = Connection::open(server.address).await;
    leaving.write(&(request.head() + request.body.as_deref().unwrap())).await;
    drop(leaving);
    // Whether or not the claim came first, another runner gets the run without waiting for a lease to expire.
    server.submit("writer").await;
    let mut work = server.claim(&server.runner().await).await;
    server.finish(&mut work, "Done.").await;
}

#[tokio::test]
async fn delegated_child_resumes_parked_parent() {
    let server = TestServer::open().await;
    server.agent("helper", json!({})).await;
    server.agent("leader", json!({"agents": ["helper"]})).await;
    let (_, session) = server.submit("leader").await;
    let runner = server.runner().await;
    let mut work = server.claim(&runner).await;
    assert_eq!(work.assignment["agents"][0]["name"], "helper");
    server.append(&mut work, &json!([started()])).await;
    let ask = |agent: &str, call: &str| -> Value {
        json!({"run_id": work.run_id, "token": work.token, "call_id": call, "agent_name": agent,
            "parameters": {"prompt": "Help."}, "execution_mode": "sync"})
    };
    let refused = server.post("/runner/delegate", &ask("unknown", "c0")).send().await.ok(200);
    assert!(refused["refused"]["reason"].is_string(), "{refused}");
    let child = server.post("/runner/delegate", &ask("helper", "c1")).send().await.ok(200);
    let child_session = child["accepted"]["session_id"].as_str().unwrap();
    server.request("DELETE", "/agents/helper").send().await;
    let again = server.post("/runner/delegate", &ask("helper", "c1")).send().await.ok(200);
    assert_eq!(again, child, "the child exists although its agent was deleted");
    let gone = server.post("/runner/delegate", &ask("helper", "c2")).send().await.ok(200);
    assert!(gone["refused"]["reason"].is_string(), "{gone}");
    assert_eq!(server.post("/runner/park", &work.attempt()).send().await.status, 204);
    let parent = server.get(&format!("/sessions/{session}")).send().await.ok(200);
    assert_eq!((&parent["children"], &parent["status"]), (&json!([child_session]), &json!("waiting")));
    server.complete_next("Helped.").await;
    let again = server.claim(&runner).await;
    assert_eq!(again.run_id, work.run_id);
    let last = again.assignment["journal"].as_array().unwrap().last().unwrap();
    assert_eq!(last["event_type"], "child_completed");
}
