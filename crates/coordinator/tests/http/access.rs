//! What tokens may read, run and write.

use std::time::Duration;

use serde_json::{Value, json};
use slipform_coordinator::{Scope, TokenRequest};
use slipform_testkit::TestServer;

use crate::support::client::TestRequest;
use crate::support::{Requests, completed, result, started};

/// A coordinator that requires tokens, with two agents.
async fn guarded() -> TestServer {
    let server = TestServer::with(|options| options.needs_token = true).await;
    server.agent("writer", json!({"agents": ["reader"]})).await;
    server.agent("reader", json!({})).await;
    server
}

/// Sends every request with a token.
struct AsToken<'a> {
    server: &'a TestServer,
    token: String,
}

impl Requests for AsToken<'_> {
    fn request(&self, method: &str, path: &str) -> TestRequest {
        self.server.request(method, path).token(&self.token)
    }
}

async fn as_token(server: &TestServer, scope: Scope) -> AsToken<'_> {
    AsToken { server, token: server.token(scope).await }
}

async fn limited(server: &TestServer, change: impl FnOnce(&mut TokenRequest)) -> AsToken<'_> {
    let mut request = TokenRequest::new("a test", Scope::Caller);
    change(&mut request);
    AsToken { server, token: server.limited_token(&request).await }
}

fn ids(list: &Value, key: &str, id: &str) -> Vec<String> {
    list[key].as_array().unwrap().iter().map(|item| item[id].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn caller_reads_and_stops_only_what_it_created() {
    let server = guarded().await;
    let (mine, other) = (as_token(&server, Scope::Caller).await, as_token(&server, Scope::Caller).await);
    let (run, session) = mine.submit("writer").await;
    let created_by = mine.get(&format!("/runs/{run}")).send().await.ok(200)["created_by"].clone();
    assert!(created_by.as_str().unwrap().starts_with("tok_"), "{created_by}");
    assert_eq!(mine.get(&format!("/sessions/{session}")).send().await.ok(200)["created_by"], created_by);
    let not_found = [
        (other.get(&format!("/runs/{run}")), "RunNotFound"),
        (other.get(&format!("/runs/{run}/result")), "RunNotFound"),
        (other.request("POST", &format!("/runs/{run}/stop")), "RunNotFound"),
        (other.get(&format!("/sessions/{session}")), "SessionNotFound"),
        (other.get(&format!("/sessions/{session}/result")), "SessionNotFound"),
        (other.get(&format!("/sessions/{session}/events")), "SessionNotFound"),
        (other.get(&format!("/sessions/{session}/events/stream")), "SessionNotFound"),
        (other.request("POST", &format!("/sessions/{session}/stop")), "SessionNotFound"),
        (other.request("DELETE", &format!("/sessions/{session}")), "SessionNotFound"),
        (other.post("/runs", &json!({"session_id": session, "prompt": "x"})), "SessionNotFound"),
        (
            other
                .post("/runs", &json!({"agent_name": "writer", "prompt": "x", "parent_session_id": session})),
            "SessionNotFound",
        ),
    ];
    for (request, code) in not_found {
        let refused = request.send().await;
        let message = refused.refused(404, code);
        // The answer is that for an id that never existed.
        assert!(!message.contains("token"), "{message}");
    }
    assert_eq!(other.get("/runs").send().await.ok(200)["runs"], json!([]));
    assert_eq!(other.get("/sessions").send().await.ok(200)["sessions"], json!([]));
    assert_eq!(mine.get(&format!("/runs/{run}")).send().await.ok(200)["status"], "pending");
    assert_eq!(ids(&mine.get("/runs").send().await.ok(200), "runs", "run_id"), [run.as_str()]);
    // An administrator and a caller with `--all` read and stop everything.
    let all = limited(&server, |token| token.reads_all = true).await;
    let admin = as_token(&server, Scope::Admin).await;
    for reader in [&all, &admin] {
        assert_eq!(reader.get(&format!("/runs/{run}")).send().await.ok(200)["created_by"], created_by);
        assert_eq!(
            ids(&reader.get("/sessions").send().await.ok(200), "sessions", "session_id"),
            [session.as_str()]
        );
    }
    assert_eq!(all.request("POST", &format!("/runs/{run}/stop")).send().await.status, 200);
}

#[tokio::test]
async fn children_and_figures_belong_to_the_caller() {
    let server = guarded().await;
    let (mine, other) = (as_token(&server, Scope::Caller).await, as_token(&server, Scope::Caller).await);
    let runner = as_token(&server, Scope::Runner).await;
    let (_, session) = mine.submit("writer").await;
    let runner_id = runner.runner().await;
    let mut work = runner.claim(&runner_id).await;
    runner.append(&mut work, &json!([started()])).await;
    let child = json!({"run_id": work.run_id, "token": work.token, "call_id": "c", "agent_name": "reader",
        "parameters": {"prompt": "Read."}, "execution_mode": "async_poll"});
    let child = runner.post("/runner/delegate", &child).send().await.ok(200)["accepted"].clone();
    let child_run = child["run_id"].as_str().unwrap();
    let child_run = mine.get(&format!("/runs/{child_run}")).send().await.ok(200);
    let parent = mine.get(&format!("/sessions/{session}")).send().await.ok(200);
    assert_eq!(
        (&child_run["created_by"], &parent["children"][0]),
        (&parent["created_by"], &child["session_id"])
    );
    runner.finish(&mut work, "Written.").await;
    let runs =
        |stats: Value| stats.as_array().unwrap().iter().map(|row| row["runs"].as_i64().unwrap()).sum::<i64>();
    assert_eq!(runs(mine.get("/stats").send().await.ok(200)), 1);
    assert_eq!(runs(other.get("/stats").send().await.ok(200)), 0);
    // The stream of all sessions has only the caller's own.
    let mut stream = other.get("/events/stream?after=0").follow().await;
    let (_, own) = other.submit("reader").await;
    loop {
        let block = stream.next_block().await.expect("an event");
        assert!(!block.contains(&session), "{block}");
        if block.contains(&own) {
            break;
        }
    }
}

#[tokio::test]
async fn idempotency_keys_of_callers_are_separate() {
    let server = guarded().await;
    let (mine, other) = (as_token(&server, Scope::Caller).await, as_token(&server, Scope::Caller).await);
    let body = json!({"agent_name": "reader", "prompt": "Hello."});
    let submit = async |caller: &AsToken<'_>, body: &Value| {
        caller.post("/runs", body).header("idempotency-key", "k").send().await.ok(201)["run_id"].clone()
    };
    let first = submit(&mine, &body).await;
    assert_eq!(submit(&mine, &body).await, first);
    assert_ne!(submit(&other, &body).await, first);
}

#[tokio::test]
async fn token_limited_to_agents_runs_and_sees_those_only() {
    let server = guarded().await;
    let token = limited(&server, |token| token.agents = Some(vec!["writer".to_owned()])).await;
    let admin = as_token(&server, Scope::Admin).await;
    // Delegation is the agent's own business: `writer` may still call `reader`.
    token.submit("writer").await;
    let body = json!({"agent_name": "reader", "prompt": "Hello."});
    let refused = token.post("/runs", &body).send().await;
    let message = refused.refused(403, "Forbidden");
    assert_eq!(message, "the token may not use agent `reader`; it is limited to: writer");
    token.get("/agents/reader").send().await.refused(403, "Forbidden");
    token.get("/agents/writer").send().await.ok(200);
    let listed = token.get("/agents").send().await.ok(200);
    assert_eq!(listed.as_array().unwrap().iter().map(|agent| &agent["name"]).collect::<Vec<_>>(), ["writer"]);
    // A session of another agent cannot be resumed either, even by a token that reads all.
    let (_, session) = admin.submit("reader").await;
    let both = limited(&server, |token| {
        (token.agents, token.reads_all) = (Some(vec!["writer".to_owned()]), true);
    })
    .await;
    let resume = json!({"session_id": session, "prompt": "Hello."});
    both.post("/runs", &resume).send().await.refused(403, "Forbidden");
    let request = TokenRequest { agents: Some(Vec::new()), ..TokenRequest::new("a test", Scope::Runner) };
    assert!(server.app.create_token(&request).await.is_err());
}

#[tokio::test]
async fn expired_token_is_refused_with_the_reason() {
    let server = guarded().await;
    let short = limited(&server, |token| token.lifetime = Some(Duration::ZERO)).await;
    let message = short.get("/runs").send().await.refused(401, "Unauthorized");
    assert!(message.starts_with("the token has expired at 20"), "{message}");
    let long = limited(&server, |token| token.lifetime = Some(Duration::from_secs(3_600))).await;
    long.get("/runs").send().await.ok(200);
}

#[tokio::test]
async fn attempt_is_bound_to_the_token_of_its_runner() {
    let server = guarded().await;
    let caller = as_token(&server, Scope::Caller).await;
    let (mine, other) = (as_token(&server, Scope::Runner).await, as_token(&server, Scope::Runner).await);
    let (run, _) = caller.submit("writer").await;
    let runner_id = mine.runner().await;
    let mut work = mine.claim(&runner_id).await;
    // The numbers are not a sequence, and exact in every JSON reader.
    assert!((2..1 << 53).contains(&work.token), "{}", work.token);
    let registration = json!({"runner_id": runner_id, "name": "other", "slots": 1});
    other.post("/runner/register", &registration).send().await.refused(403, "Forbidden");
    let claim = json!({"runner_id": runner_id, "slots": 1});
    other.post("/runner/claim", &claim).send().await.refused(403, "Forbidden");
    let beat = json!({"runner_id": runner_id, "attempts": [work.attempt()]});
    other.post("/runner/heartbeat", &beat).send().await.refused(403, "Forbidden");
    // With the right fencing token, but another API token, every write is stale.
    let events = json!([result(json!({"result_text": "forged"})), completed()]);
    for (path, body) in [
        ("/runner/append", json!({"run_id": run, "token": work.token, "number": 1, "events": [started()]})),
        ("/runner/finish", json!({"run_id": run, "token": work.token, "number": 1, "events": events})),
        ("/runner/park", work.attempt()),
        ("/runner/release", work.attempt()),
        (
            "/runner/delegate",
            json!({"run_id": run, "token": work.token, "call_id": "c", "agent_name": "reader",
                "parameters": {"prompt": "x"}, "execution_mode": "async_poll"}),
        ),
    ] {
        other.post(path, &body).send().await.refused(409, "StaleAttempt");
    }
    let own = other.runner().await;
    let beat = json!({"runner_id": own, "attempts": [work.attempt()]});
    let beats = other.post("/runner/heartbeat", &beat).send().await.ok(200);
    assert_eq!(beats["attempts"][0]["stale"], true);
    let beat = json!({"runner_id": runner_id, "attempts": [work.attempt()]});
    let beats = mine.post("/runner/heartbeat", &beat).send().await.ok(200);
    assert_eq!(
        beats["attempts"][0],
        json!({"run_id": run, "token": work.token, "stop": false, "stale": false})
    );
    mine.append(&mut work, &json!([started()])).await;
    mine.finish(&mut work, "Mine.").await;
    assert_eq!(caller.get(&format!("/runs/{run}")).send().await.ok(200)["result_text"], "Mine.");
}
