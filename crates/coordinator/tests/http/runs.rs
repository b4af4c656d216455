//! Runs, from submission to their end.

use serde_json::{Value, json};
use slipform_testkit::TestServer;

use crate::support::{Requests as _, completed, result, started};

fn start(more: Value) -> Value {
    let mut body = json!({"type": "start_session", "agent_name": "writer", "prompt": "Hello."});
    for (key, value) in more.as_object().unwrap() {
        body[key] = value.clone();
    }
    body
}

#[tokio::test]
async fn submitted_run_is_executed_and_shown() {
    let server = TestServer::open().await;
    server.agent("writer", json!({})).await;
    let (run, session) = server.submit("writer").await;
    let pending = server.get(&format!("/runs/{run}")).send().await.ok(200);
    assert_eq!((&pending["status"], &pending["session_id"]), (&json!("pending"), &json!(session)));
    server.get(&format!("/sessions/{session}/result")).send().await.refused(409, "NotFinished");
    server.complete_next("Good day.").await;
    let done = server.get(&format!("/runs/{run}")).send().await.ok(200);
    assert_eq!((&done["status"], &done["attempts"]), (&json!("completed"), &json!(1)));
    let result = server.get(&format!("/sessions/{session}/result")).send().await.ok(200);
    assert_eq!((&result["result_text"], &result["result"]), (&json!("Good day."), &json!("Good day.")));
}

#[tokio::test]
async fn invalid_submission_is_refused() {
    let server = TestServer::open().await;
    let schema = json!({"type": "object"});
    server.agent("writer", json!({"output_schema": schema})).await;
    let cases = [
        (start(json!({"agent_name": "unknown"})), 404, "AgentNotFound"),
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
async fn type_of_a_run_follows_from_its_session() {
    let server = TestServer::open().await;
    server.agent("writer", json!({})).await;
    let body = json!({"agent_name": "writer", "prompt": "Hello."});
    let first = server.post("/runs", &body).send().await.ok(201);
    let run = server.get(&format!("/runs/{}", first["run_id"].as_str().unwrap())).send().await.ok(200);
    assert_eq!(run["type"], "start_session");
    let resumed = json!({"session_id": first["session_id"], "prompt": "And?", "queue": true});
    let resumed = server.post("/runs", &resumed).send().await.ok(201);
    assert_eq!(resumed["session_id"], first["session_id"]);
    let run = server.get(&format!("/runs/{}", resumed["run_id"].as_str().unwrap())).send().await.ok(200);
    assert_eq!(run["type"], "resume_session");
}

#[tokio::test]
async fn inline_schema_takes_precedence_over_a_named_one() {
    let server = TestServer::open().await;
    server.agent("writer", json!({})).await;
    let both = json!({"output_schema": {"type": "object"}, "output_schema_name": "no such schema"});
    let created = server.post("/runs", &start(both)).send().await.ok(201);
    let run = server.get(&format!("/runs/{}", created["run_id"].as_str().unwrap())).send().await.ok(200);
    assert_eq!(
        (&run["contract"]["source"], &run["contract"]["schema"]),
        (&json!("inline"), &json!({"type": "object"}))
    );
}

#[tokio::test]
async fn result_that_is_null_is_accepted_where_the_contract_allows_it() {
    let server = TestServer::open().await;
    server.agent("writer", json!({})).await;
    let runner = server.runner().await;
    for (kind, is_allowed) in [("null", true), ("object", false)] {
        let body = start(json!({"output_schema": {"type": kind}}));
        let created = server.post("/runs", &body).send().await.ok(201);
        let mut claimed = server.claim(&runner).await;
        server.append(&mut claimed, &json!([started()])).await;
        let end = json!([result(json!({"result_data": null})), completed()]);
        let finished = server.post("/runner/finish", &claimed.message(&end)).send().await;
        if !is_allowed {
            finished.refused(422, "InvalidResult");
            continue;
        }
        finished.ok(200);
        let run = server.get(&format!("/runs/{}", created["run_id"].as_str().unwrap())).send().await.ok(200);
        assert_eq!(run["status"], "completed");
        assert_eq!((&run["result"], &run["schema_validation"]["valid"]), (&json!("null"), &json!(true)));
    }
}

#[tokio::test]
async fn callback_to_procedural_agent_is_refused() {
    let server = TestServer::open().await;
    server.agent("writer", json!({})).await;
    server.agent("helper", json!({})).await;
    server.agent("program", json!({"type": "procedural", "command": ["./scan"]})).await;
    for (agent, is_resumable) in [("writer", true), ("program", false)] {
        let (_, session) = server.submit(agent).await;
        let mode =
            json!({"agent_name": "helper", "execution_mode": "async_callback", "parent_session_id": session});
        let answer = server.post("/runs", &start(mode)).send().await;
        if is_resumable {
            answer.ok(201);
        } else {
            answer.refused(409, "NotResumable");
        }
    }
    let nowhere = json!({"execution_mode": "async_callback", "parent_session_id": "ses_0123456789ab"});
    server.post("/runs", &start(nowhere)).send().await.refused(404, "SessionNotFound");
}

#[tokio::test]
async fn repeated_idempotency_key_returns_same_run() {
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
    server.complete_next("Done.").await;
    let ended = ask(&start(json!({})), "a").send().await.ok(201);
    assert_eq!(ended["status"], "completed");
    server.request("DELETE", "/agents/writer").send().await;
    let gone = ask(&start(json!({})), "a").send().await.ok(201);
    assert_eq!(gone["run_id"], first["run_id"], "the key works after its agent was deleted");
    ask(&start(json!({"prompt": "Other."})), "a").send().await.refused(409, "IdempotencyConflict");
    ask(&start(json!({})), "c").send().await.refused(404, "AgentNotFound");
}

#[tokio::test]
async fn wait_returns_ended_run_or_times_out() {
    let server = TestServer::open().await;
    server.agent("writer", json!({})).await;
    let late = server.post("/runs?wait=0", &start(json!({}))).send().await.ok(202);
    assert_eq!(late["status"], "pending");
    server.complete_next("No caller waits.").await;
    for body in [start(json!({})), start(json!({"execution_mode": "sync"}))] {
        let path = if body.get("execution_mode").is_some() { "/runs" } else { "/runs?wait=600" };
        let waiting = tokio::spawn(server.post(path, &body).send());
        server.complete_next("Good day.").await;
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
    server.complete_next("Done.").await;
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
async fn stop_is_reported_to_runner_and_ends_run() {
    let server = TestServer::open().await;
    server.agent("writer", json!({})).await;
    let (run, _) = server.submit("writer").await;
    let mut work = server.claim(&server.runner().await).await;
    let stopping = server.request("POST", &format!("/runs/{run}/stop")).send().await.ok(200);
    assert_eq!(stopping["status"], "stopping");
    let appended = server.append(&mut work, &json!([crate::support::started()])).await;
    assert_eq!(appended["stop"], true);
    let end = json!([{"event_type": "run_completed", "status": "stopped"}]);
    server.post("/runner/finish", &work.message(&end)).send().await.ok(200);
    let (_, session) = server.submit("writer").await;
    server.request("POST", &format!("/sessions/{session}/stop")).send().await.ok(200);
    let ended = server.request("POST", &format!("/runs/{run}/stop")).send().await.ok(200);
    assert_eq!(ended["status"], "stopped");
}

#[tokio::test]
async fn sync_child_submission_waits_for_its_end() {
    let server = TestServer::open().await;
    server.agent("writer", json!({})).await;
    server.agent("helper", json!({})).await;
    let (_, session) = server.submit("writer").await;
    server.complete_next("One.").await;
    let start = json!({"type": "start_session", "agent_name": "helper", "prompt": "x",
        "parent_session_id": session, "execution_mode": "sync"});
    let request = server.post("/runs", &start);
    let (answer, ()) = tokio::join!(request.send(), server.complete_next("Two."));
    assert_eq!(answer.ok(200)["status"], "completed");
}

#[tokio::test]
async fn different_idempotency_keys_are_refused() {
    let server = TestServer::open().await;
    server.agent("writer", json!({})).await;
    let start = json!({"type": "start_session", "agent_name": "writer", "prompt": "x"});
    let with = |other: &str| {
        let mut request = server.post("/runs", &start).header("idempotency-key", "one");
        request.headers.push(("idempotency-key".to_owned(), other.to_owned()));
        request.send()
    };
    with("two").await.refused(400, "InvalidRequest");
    with("one").await.ok(201);
}

#[tokio::test]
async fn unclaimed_failure_has_universal_response_if_contract_is_universal() {
    let server = TestServer::open().await;
    let form = slipform_schema::universal::schema().unwrap();
    server.agent("planner", json!({"output_schema": form.source(), "response_type": "planning"})).await;
    server.agent("writer", json!({})).await;
    for (agent, is_universal) in [("planner", true), ("writer", false)] {
        let (run, session) = server.submit(agent).await;
        server.request("POST", &format!("/runs/{run}/stop")).send().await.ok(200);
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
