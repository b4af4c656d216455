//! Runs, from submission to their end.

use serde_json::{Value, json};

use crate::test_server::TestServer;

fn start(more: Value) -> Value {
    let mut body = json!({"type": "start_session", "agent_name": "writer", "prompt": "Hello."});
    for (key, value) in more.as_object().unwrap() {
        body[key] = value.clone();
    }
    body
}

#[tokio::test]
async fn a_run_is_taken_on_worked_off_and_shown() {
    let server = TestServer::open().await;
    server.agent("writer", json!({})).await;
    let (run, session) = server.submit("writer").await;
    let pending = server.get(&format!("/runs/{run}")).send().await.ok(200);
    assert_eq!((&pending["status"], &pending["session_id"]), (&json!("pending"), &json!(session)));
    server.get(&format!("/sessions/{session}/result")).send().await.refused(409, "NotFinished");
    server.work_off("Good day.").await;
    let done = server.get(&format!("/runs/{run}")).send().await.ok(200);
    assert_eq!((&done["status"], &done["attempts"]), (&json!("completed"), &json!(1)));
    let result = server.get(&format!("/sessions/{session}/result")).send().await.ok(200);
    assert_eq!((&result["result_text"], &result["result"]), (&json!("Good day."), &json!("Good day.")));
}

#[tokio::test]
async fn what_cannot_be_taken_on_is_refused() {
    let server = TestServer::open().await;
    let schema = json!({"type": "object"});
    server.agent("writer", json!({"output_schema": schema})).await;
    let cases = [
        (start(json!({"agent_name": "nobody"})), 404, "AgentNotFound"),
        (start(json!({"agent_name": null})), 400, "InvalidRequest"),
        (start(json!({"parameters": {"prompt": "Other."}})), 400, "InvalidRequest"),
        (start(json!({"parameters": [1]})), 400, "InvalidRequest"),
        (start(json!({"session_id": "ses_0123456789ab"})), 400, "InvalidRequest"),
        (start(json!({"execution_mode": "async_callback"})), 400, "InvalidRequest"),
        (start(json!({"output_schema": {"type": "array"}})), 409, "OutputSchemaConflict"),
        (start(json!({"prompt": null})), 422, "InvalidParameters"),
        (json!({"type": "resume_session", "prompt": "x"}), 400, "InvalidRequest"),
        (
            json!({"type": "resume_session", "session_id": "ses_0123456789ab", "prompt": "x"}),
            404,
            "SessionNotFound",
        ),
    ];
    for (body, status, code) in cases {
        server.post("/runs", &body).send().await.refused(status, code);
    }
    server.agent("other", json!({})).await;
    let wanted = [
        (json!({"agent_name": "other", "output_schema": {"type": "nothing"}}), 422, "InvalidSchema"),
        (json!({"agent_name": "other", "output_schema_name": "none"}), 404, "SchemaNotFound"),
    ];
    for (more, status, code) in wanted {
        server.post("/runs", &start(more)).send().await.refused(status, code);
    }
}

#[tokio::test]
async fn nobody_calls_back_what_cannot_be_resumed() {
    let server = TestServer::open().await;
    server.agent("writer", json!({})).await;
    server.agent("helper", json!({})).await;
    server.agent("program", json!({"type": "procedural", "command": ["./scan"]})).await;
    for (agent, is_resumable) in [("writer", true), ("program", false)] {
        let (_, session) = server.submit(agent).await;
        let mode =
            json!({"agent_name": "helper", "execution_mode": "async_callback", "parent_session_id": session});
        let answer = server.post("/runs", &start(mode)).send().await;
        match is_resumable {
            true => drop(answer.ok(201)),
            false => drop(answer.refused(409, "NotResumable")),
        }
    }
    let nowhere = json!({"execution_mode": "async_callback", "parent_session_id": "ses_0123456789ab"});
    server.post("/runs", &start(nowhere)).send().await.refused(404, "SessionNotFound");
}

#[tokio::test]
async fn asking_twice_with_a_key_is_asking_once() {
    let server = TestServer::open().await;
    server.agent("writer", json!({})).await;
    let ask = |body: &Value, key: &str| server.post("/runs", body).header("idempotency-key", key);
    let first = ask(&start(json!({})), "a").send().await.ok(201);
    let again = ask(&start(json!({})), "a").send().await.ok(201);
    assert_eq!(first, again);
    let other = ask(&start(json!({})), "b").send().await.ok(201);
    assert_ne!(first["run_id"], other["run_id"]);
    ask(&start(json!({"prompt": "Other."})), "a").send().await.refused(409, "IdempotencyConflict");
    ask(&start(json!({})), &"x".repeat(256)).send().await.refused(400, "InvalidRequest");
    ask(&start(json!({})), "\u{fc}").send().await.refused(400, "InvalidRequest");
    server.work_off("Done.").await;
    let ended = ask(&start(json!({})), "a").send().await.ok(201);
    assert_eq!(ended["status"], "completed");
    server.ask("DELETE", "/agents/writer").send().await;
    let gone = ask(&start(json!({})), "a").send().await.ok(201);
    assert_eq!(gone["run_id"], first["run_id"], "whatever has become of its agent");
    ask(&start(json!({"prompt": "Other."})), "a").send().await.refused(409, "IdempotencyConflict");
    ask(&start(json!({})), "c").send().await.refused(404, "AgentNotFound");
}

#[tokio::test]
async fn a_caller_can_wait_for_the_end() {
    let server = TestServer::open().await;
    server.agent("writer", json!({})).await;
    let late = server.post("/runs?wait=0", &start(json!({}))).send().await.ok(202);
    assert_eq!(late["status"], "pending");
    server.work_off("Nobody waits.").await;
    for body in [start(json!({})), start(json!({"execution_mode": "sync"}))] {
        let path = if body.get("execution_mode").is_some() { "/runs" } else { "/runs?wait=600" };
        let waiting = tokio::spawn(server.post(path, &body).send());
        server.work_off("Good day.").await;
        let run = waiting.await.unwrap().ok(200);
        assert_eq!(run["status"], "completed");
    }
    server.agent("hurried", json!({"limits": {"timeout_seconds": 1}})).await;
    let hurried = start(json!({"agent_name": "hurried", "execution_mode": "sync"}));
    assert_eq!(server.post("/runs", &hurried).send().await.ok(202)["status"], "pending");
}

#[tokio::test]
async fn runs_are_listed_page_by_page() {
    let server = TestServer::open().await;
    server.agent("writer", json!({})).await;
    server.agent("reader", json!({})).await;
    let mut runs = Vec::new();
    for agent in ["writer", "writer", "reader"] {
        runs.push(server.submit(agent).await);
    }
    server.work_off("Done.").await;
    let ids = |page: &Value| -> Vec<String> {
        page["runs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|run| run["run_id"].as_str().unwrap().to_owned())
            .collect()
    };
    let newest_first: Vec<String> = runs.iter().rev().map(|(run, _)| run.clone()).collect();
    let all = server.get("/runs").send().await.ok(200);
    assert_eq!((ids(&all), &all["next"]), (newest_first.clone(), &Value::Null));
    let first = server.get("/runs?limit=2").send().await.ok(200);
    assert_eq!(ids(&first), newest_first[..2]);
    let next = first["next"].as_str().unwrap();
    let second = server.get(&format!("/runs?limit=2&after={next}")).send().await.ok(200);
    assert_eq!((ids(&second), &second["next"]), (newest_first[2..].to_vec(), &Value::Null));
    let of = async |query: String| ids(&server.get(&format!("/runs?{query}")).send().await.ok(200));
    assert_eq!(of("agent_name=reader".into()).await, [runs[2].0.clone()]);
    assert_eq!(of("status=completed".into()).await, [runs[0].0.clone()]);
    assert_eq!(of(format!("session_id={}", runs[1].1)).await, [runs[1].0.clone()]);
}

#[tokio::test]
async fn a_run_can_be_stopped() {
    let server = TestServer::open().await;
    server.agent("writer", json!({})).await;
    let (run, _) = server.submit("writer").await;
    let mut work = server.claim(&server.runner().await).await;
    let stopping = server.ask("POST", &format!("/runs/{run}/stop")).send().await.ok(200);
    assert_eq!(stopping["status"], "stopping");
    let appended = server.append(&mut work, &json!([crate::test_server::started()])).await;
    assert_eq!(appended["stop"], true);
    let end = json!([{"event_type": "run_completed", "status": "stopped"}]);
    server.post("/runner/finish", &work.message(&end)).send().await.ok(200);
    let (_, session) = server.submit("writer").await;
    server.ask("POST", &format!("/sessions/{session}/stop")).send().await.ok(200);
    let ended = server.ask("POST", &format!("/runs/{run}/stop")).send().await.ok(200);
    assert_eq!(ended["status"], "stopped");
}

#[tokio::test]
async fn whoever_asks_for_a_sync_child_waits_for_it() {
    let server = TestServer::open().await;
    server.agent("writer", json!({})).await;
    server.agent("helper", json!({})).await;
    let (_, session) = server.submit("writer").await;
    server.work_off("One.").await;
    let start = json!({"type": "start_session", "agent_name": "helper", "prompt": "x",
        "parent_session_id": session, "execution_mode": "sync"});
    let asking = server.post("/runs", &start);
    let (answer, ()) = tokio::join!(asking.send(), server.work_off("Two."));
    assert_eq!(answer.ok(200)["status"], "completed");
}

#[tokio::test]
async fn two_keys_are_refused() {
    let server = TestServer::open().await;
    server.agent("writer", json!({})).await;
    let start = json!({"type": "start_session", "agent_name": "writer", "prompt": "x"});
    let with = |other: &str| {
        let mut asking = server.post("/runs", &start).header("idempotency-key", "one");
        asking.headers.push(("idempotency-key".to_owned(), other.to_owned()));
        asking.send()
    };
    with("two").await.refused(400, "InvalidRequest");
    with("one").await.ok(201);
}

#[tokio::test]
async fn a_failure_is_a_universal_response_where_the_contract_is_one_even_if_nobody_worked_on_it() {
    let server = TestServer::open().await;
    let form = slipform_schema::universal::schema().unwrap();
    server.agent("planner", json!({"output_schema": form.source(), "response_type": "planning"})).await;
    server.agent("writer", json!({})).await;
    for (agent, is_universal) in [("planner", true), ("writer", false)] {
        let (run, session) = server.submit(agent).await;
        server.ask("POST", &format!("/runs/{run}/stop")).send().await.ok(200);
        let result = server.get(&format!("/sessions/{session}/result")).send().await.ok(200);
        let view = server.get(&format!("/runs/{run}")).send().await.ok(200);
        assert_eq!(result["error"], view["error"], "{agent}");
        assert_eq!(view["error"]["type"], "stopped", "{agent}");
        let response = &view["error"]["response"];
        assert_eq!(!response.is_null(), is_universal, "{agent}");
        if is_universal {
            assert_eq!(form.violations(response).lines(), [""; 0]);
            assert_eq!(response["error_details"]["error_code"], "stopped");
        }
    }
}
