//! Health, metrics, statistics and runners.

use serde_json::{Value, json};
use slipform_coordinator::Scope;
use slipform_testkit::{TestFolder, TestServer};

use crate::support::{Requests as _, completed, result};

#[tokio::test]
async fn health_readiness_and_metrics_are_served() {
    let server = TestServer::open().await;
    assert_eq!(server.get("/healthz").send().await.ok(200)["status"], "ok");
    let ready = server.get("/readyz").send().await.ok(200);
    assert_eq!(
        (&ready["ready"], &ready["database"], &ready["draining"]),
        (&json!(true), &json!("ok"), &json!(false))
    );
    let metrics = server.get("/metrics").send().await;
    assert_eq!(metrics.status, 200);
    assert_eq!(metrics.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    assert!(metrics.text.contains("slipform_runs_submitted_total 0"), "{}", metrics.text);
}

#[tokio::test]
async fn repeated_requests_are_counted_once() {
    let server = TestServer::open().await;
    server.agent("writer", json!({})).await;
    let ask = json!({"type": "start_session", "agent_name": "writer", "prompt": "Hello."});
    for _ in 0..2 {
        server.post("/runs", &ask).header("idempotency-key", "a").send().await.ok(201);
    }
    let mut work = server.claim(&server.runner().await).await;
    let end = work.message(&json!([result(json!({"result_text": "Done."})), completed()]));
    for _ in 0..2 {
        server.post("/runner/finish", &end).send().await.ok(200);
    }
    let metrics = server.get("/metrics").send().await.text;
    for line in [
        "slipform_runs_submitted_total 1\n",
        "slipform_runs_total{status=\"completed\"} 1\n",
        "slipform_run_duration_seconds_count 1\n",
    ] {
        assert!(metrics.contains(line), "{line}{metrics}");
    }
}

#[tokio::test]
async fn stats_have_one_row_per_agent_and_backend() {
    let server = TestServer::open().await;
    assert_eq!(server.get("/stats").send().await.ok(200), json!([]));
    server.agent("writer", json!({})).await;
    server.agent("tester", json!({})).await;
    for (agent, backend, retries) in [("writer", "large", 0), ("writer", "small", 2), ("tester", "small", 0)]
    {
        server.submit(agent).await;
        let mut work = server.claim(&server.runner().await).await;
        let mut end = result(json!({"result_text": "Done."}));
        end["receipt"]["retries"] = json!(retries);
        end["receipt"]["tokens"] = json!({"input": 30, "output": 10});
        end["receipt"]["rungs"] = json!([{"tier": "t", "backend": backend, "model": "m", "calls": 1}]);
        server.post("/runner/finish", &work.message(&json!([end, completed()]))).send().await.ok(200);
    }
    let (stopped, _) = server.submit("writer").await;
    server.post(&format!("/runs/{stopped}/stop"), &json!({})).send().await.ok(200);

    let mut rows = server.get("/stats?agent=writer").send().await.ok(200);
    for row in rows.as_array_mut().unwrap().iter_mut().skip(1) {
        assert!(row["p50_ms"].as_i64() >= Some(0) && row["p95_ms"].as_i64() >= Some(0), "{row}");
        row["p50_ms"] = json!(null);
        row["p95_ms"] = json!(null);
    }
    let row = |backend: Option<&str>, more: Value| {
        let mut row = json!({
            "agent_name": "writer", "backend": backend, "model": backend.map(|_| "m"), "runs": 1, "completed": 1, "success_rate": 1.0,
            "first_pass": 1, "first_pass_rate": 1.0, "retries": 0, "missing_submits": 0, "escalations": 0,
            "reported_errors": 0, "tokens": 40, "tokens_per_valid_result": 40.0, "p50_ms": null, "p95_ms": null,
        });
        row.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        row
    };
    let nothing = json!({"completed": 0, "success_rate": 0.0, "first_pass": 0, "first_pass_rate": null,
        "tokens": 0, "tokens_per_valid_result": null});
    let retried = json!({"first_pass": 0, "first_pass_rate": 0.0, "retries": 2});
    assert_eq!(rows, json!([row(None, nothing), row(Some("large"), json!({})), row(Some("small"), retried)]));
    let agents = server.get("/stats").send().await.ok(200);
    assert_eq!(agents.as_array().unwrap().len(), 4);
}

#[tokio::test]
async fn reported_errors_are_counted_apart_from_results() {
    let server = TestServer::open().await;
    server.agent("writer", json!({})).await;
    for (kind, status) in [("error", "error"), ("verification", "FAIL")] {
        server.submit("writer").await;
        let mut work = server.claim(&server.runner().await).await;
        let data = json!({"response_type": kind, "status": status, "message": "No."});
        let end = result(json!({"result_data": data}));
        server.post("/runner/finish", &work.message(&json!([end, completed()]))).send().await.ok(200);
    }
    let rows = server.get("/stats").send().await.ok(200);
    let numbers = ["runs", "completed", "reported_errors", "first_pass"].map(|name| rows[0][name].clone());
    assert_eq!(numbers, [json!(2), json!(1), json!(1), json!(1)], "{rows}");
    assert_eq!(rows[0]["success_rate"], json!(0.5));
    let metrics = server.get("/metrics").send().await;
    assert!(metrics.text.contains("slipform_reported_errors_total 1\n"), "{}", metrics.text);
}

#[tokio::test]
async fn runners_and_their_backends_are_listed() {
    let server = TestServer::open().await;
    assert_eq!(server.get("/runners").send().await.ok(200), json!([]));
    let runner = server.runner().await;
    let listed = server.get("/runners").send().await.ok(200);
    assert_eq!((&listed[0]["runner_id"], &listed[0]["slots"]), (&json!(runner), &json!(2)));
    let backends = server.get("/backends").send().await.ok(200);
    assert_eq!(
        backends,
        json!([{"name": "here", "kind": "openai", "model": "m", "runners": [runner], "probe": null}])
    );
}

#[tokio::test]
async fn readiness_hides_details_from_anonymous_requests() {
    let files = [("agents/broken.yaml", "name: broken\nsystem_promt: x\n")];
    let project = TestFolder::with_files("project", &files);
    let server = TestServer::with_project(project.path(), |options| options.needs_token = true).await;
    server.get("/healthz").send().await.ok(200);
    for ask in [server.get("/readyz"), server.get("/readyz").token("sf_wrong")] {
        assert_eq!(ask.send().await.ok(200)["files"], json!([]));
    }
    let token = server.token(Scope::Caller).await;
    let known = server.get("/readyz").token(&token).send().await.ok(200);
    assert_eq!(known["files"][0]["name"], "broken");
}

#[tokio::test]
async fn runner_that_leaves_is_not_listed_and_its_texts_are_bounded() {
    let server = TestServer::open().await;
    let (first, second) = (server.runner().await, server.runner().await);
    let leave = json!({"runner_id": first});
    for _ in 0..2 {
        assert_eq!(server.post("/runner/leave", &leave).send().await.status, 204);
    }
    let listed = server.get("/runners").send().await.ok(200);
    let ids: Vec<_> = listed.as_array().unwrap().iter().map(|runner| &runner["runner_id"]).collect();
    assert_eq!(ids, [&json!(second)]);
    let long = "x".repeat(20_000);
    for (key, value) in [("name", json!(long)), ("details", json!({"a": long})), ("runner_id", json!(long))] {
        let mut registration = json!({"name": "tester", "slots": 1});
        registration[key] = value;
        let refused = server.post("/runner/register", &registration).send().await;
        let message = refused.refused(400, "InvalidRequest");
        assert!(message.starts_with(&format!("`{key}` has 20")), "{message}");
    }
}

#[tokio::test]
async fn list_of_failed_runs_is_small() {
    let server = TestServer::open().await;
    server.agent("writer", json!({})).await;
    let runner = server.runner().await;
    let long = "x".repeat(1 << 20);
    for _ in 0..5 {
        server.submit("writer").await;
        let mut work = server.claim(&runner).await;
        let error = json!({"type": "tool_failed", "message": long, "last_output": long, "retry_count": 0});
        let end = json!([{"event_type": "run_completed", "status": "failed", "error": error}]);
        server.post("/runner/finish", &work.message(&end)).send().await.ok(200);
    }
    let listed = server.get("/runs").send().await;
    assert!(listed.text.len() < 10_000, "{} bytes", listed.text.len());
    let runs = listed.ok(200)["runs"].clone();
    assert_eq!((runs.as_array().unwrap().len(), &runs[0]["error"]["type"]), (5, &json!("tool_failed")));
}
