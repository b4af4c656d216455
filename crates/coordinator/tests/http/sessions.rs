//! Sessions and their journals.

use std::time::Duration;

use serde_json::json;
use slipform_api::{ClaimRequest, RunnerApi as _};
use slipform_testkit::{TestServer, wait_until_async};
use slipform_types::RunStatus;

use crate::support::{Requests as _, started};

#[tokio::test]
async fn session_is_shown_resumed_and_deleted() {
    let server = TestServer::open().await;
    server.agent("writer", json!({})).await;
    let (run, session) = server.submit("writer").await;
    let path = format!("/sessions/{session}");
    let view = server.get(&path).send().await.ok(200);
    assert_eq!((&view["last_run_id"], &view["children"]), (&json!(run), &json!([])));
    let resume = json!({"type": "resume_session", "session_id": session, "prompt": "And?"});
    server.post("/runs", &resume).send().await.refused(409, "SessionBusy");
    server.request("DELETE", &path).send().await.refused(409, "SessionBusy");
    server.complete_next("One.").await;
    server.post("/runs", &resume).send().await.ok(201);
    server.complete_next("Two.").await;
    let result = server.get(&format!("{path}/result")).send().await.ok(200);
    assert_eq!(result["result"], "Two.");
    let listed = server.get("/sessions?limit=1").send().await.ok(200);
    assert_eq!((&listed["sessions"][0]["session_id"], &listed["next"]), (&json!(session), &json!(null)));
    let gone = server.request("DELETE", &path).send().await;
    assert_eq!((gone.status, gone.text.as_str()), (204, ""));
    server.get(&path).send().await.refused(404, "SessionNotFound");
}

#[tokio::test]
async fn failed_run_has_receipt_and_validation() {
    let server = TestServer::open().await;
    server.agent("counter", json!({"output_schema": {"type": "object"}})).await;
    let (_, session) = server.submit("counter").await;
    let mut work = server.claim(&server.runner().await).await;
    let mut receipt = serde_json::to_value(slipform_types::Receipt::default()).unwrap();
    receipt["strategy"] = json!("grammar");
    receipt["repairs"] = json!([{"kind": "fence", "pointer": "", "from": "1", "to": 1}]);
    let error = json!({"type": "timeout", "message": "too slow", "calls": 1, "retry_count": 0});
    let end =
        json!([{"event_type": "run_completed", "status": "failed", "error": error, "receipt": receipt}]);
    server.post("/runner/finish", &work.message(&end)).send().await.ok(200);
    let view = server.get(&format!("/sessions/{session}/result")).send().await.ok(200);
    let validation = &view["schema_validation"];
    assert_eq!((&validation["valid"], &validation["strategy"]), (&json!(false), &json!("grammar")));
    assert_eq!((&validation["repairs"], &view["receipt"]), (&receipt["repairs"], &receipt));
}

#[tokio::test]
async fn journal_is_read_page_by_page() {
    let server = TestServer::open().await;
    server.agent("writer", json!({})).await;
    let (run, session) = server.submit("writer").await;
    server.complete_next("Done.").await;
    let path = format!("/sessions/{session}/events");
    let all = server.get(&path).send().await.ok(200);
    let events = all["events"].as_array().unwrap();
    let kinds: Vec<_> = events.iter().map(|event| event["event_type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["run_start", "attempt_started", "result", "run_completed"]);
    for (number, event) in (1..).zip(events) {
        assert_eq!((&event["seq"], &event["run_id"]), (&json!(number), &json!(run)));
        assert_eq!(event["session_id"], *session);
        assert!(event["timestamp"].as_str().unwrap().ends_with('Z'));
    }
    assert_eq!(events[2]["result_text"], "Done.");
    let page = server.get(&format!("{path}?after=1&limit=2")).send().await.ok(200);
    assert_eq!((&page["events"], &page["next"]), (&json!(events[1..3]), &json!(3)));
    let rest = server.get(&format!("{path}?after=3")).send().await.ok(200);
    assert_eq!((&rest["events"], &rest["next"]), (&json!(events[3..]), &json!(null)));
    let nothing = server.get(&format!("{path}?after=9")).send().await.ok(200);
    assert_eq!(nothing["events"], json!([]));
}

#[tokio::test]
async fn stopping_a_session_stops_queued_runs() {
    let server = TestServer::open().await;
    server.agent("writer", json!({})).await;
    let (run, session) = server.submit("writer").await;
    let mut work = server.claim(&server.runner().await).await;
    server.append(&mut work, &json!([started()])).await;
    let resume = json!({"type": "resume_session", "session_id": session, "prompt": "And?", "queue": true});
    let queued = server.post("/runs", &resume).send().await.ok(201);
    let stopped = server.post(&format!("/sessions/{session}/stop"), &json!({})).send().await.ok(200);
    assert_eq!((&stopped["run_id"], &stopped["status"]), (&json!(run), &json!("stopping")));
    let queued = queued["run_id"].as_str().unwrap();
    assert_eq!(server.get(&format!("/runs/{queued}")).send().await.ok(200)["status"], "stopped");
}

#[tokio::test]
async fn deleting_session_with_active_child_names_the_child() {
    let server = TestServer::open().await;
    server.agent("writer", json!({})).await;
    server.agent("helper", json!({})).await;
    let (_, session) = server.submit("writer").await;
    server.complete_next("One.").await;
    let start =
        json!({"type": "start_session", "agent_name": "helper", "prompt": "x", "parent_session_id": session});
    let child = server.post("/runs", &start).send().await.ok(201);
    let message =
        server.request("DELETE", &format!("/sessions/{session}")).send().await.refused(409, "SessionBusy");
    let text = |key: &str| child[key].as_str().unwrap();
    let wanted =
        format!("session {session} is in use by run {} of session {}", text("run_id"), text("session_id"));
    assert!(message.starts_with(&wanted), "{message}");
}

#[tokio::test]
async fn stopping_run_of_killed_runner_ends_after_sweep() {
    let server = TestServer::with_app(|options| options.lease = Duration::from_millis(1)).await;
    server.agent("writer", json!({})).await;
    let app = &server.app;
    let request = json!({"type": "start_session", "agent_name": "writer", "prompt": "Hello."});
    let created = app.submit(serde_json::from_value(request).unwrap(), None).await.unwrap();
    let claim = ClaimRequest { runner_id: "killed".to_owned(), slots: 1, wait_ms: 0 };
    assert_eq!(app.claim(&claim).await.unwrap().claims.len(), 1);
    let stopped = app.stop_session(&created.session_id).await.unwrap();
    assert_eq!(stopped.status, RunStatus::Stopping);
    wait_until_async("the sweeper ends the run", async || {
        app.sweep_once().await.unwrap();
        app.run(&created.run_id).await.unwrap().status.is_ended()
    })
    .await;
    app.delete_session(&created.session_id).await.unwrap();
}
