//! Tokens and their scopes.

use serde_json::json;
use slipform_coordinator::{Scope, TokenRequest};
use slipform_testkit::TestServer;

use crate::support::Requests as _;

async fn guarded() -> TestServer {
    TestServer::with(|options| options.needs_token = true).await
}

#[tokio::test]
async fn request_without_valid_token_is_refused() {
    let server = guarded().await;
    for (method, path) in [
        ("GET", "/runs"),
        ("POST", "/runs"),
        ("GET", "/metrics"),
        ("GET", "/openapi.json"),
        ("POST", "/runner/claim"),
        ("GET", "/events/stream"),
        ("GET", "/nothing"),
        ("DELETE", "/agents/x"),
        ("POST", "/healthz"),
    ] {
        let answer = server.request(method, path).send().await;
        answer.refused(401, "Unauthorized");
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
    }
    for value in ["Bearer", "Bearer ", "Basic YTpi", "sf_x", "Bearer sf_0123456789"] {
        let answer = server.get("/runs").header("authorization", value).send().await;
        let message = answer.refused(401, "Unauthorized");
        assert!(!message.contains("sf_0123456789"), "{message}");
    }
}

#[tokio::test]
async fn token_scope_limits_operations() {
    let server = guarded().await;
    let admin = server.token(Scope::Admin).await;
    let caller = server.token(Scope::Caller).await;
    let runner = server.token(Scope::Runner).await;
    let agent = json!({"name": "writer", "system_prompt": "x"});
    let claim = json!({"runner_id": "r", "slots": 1});
    let schema = json!({"schema": {}});
    // Whether admin, caller and runner are allowed.
    let cases = [
        (server.post("/agents", &agent), [true, false, false]),
        (server.request("DELETE", "/schemas/none"), [true, false, false]),
        (server.post("/schemas/validate", &schema), [true, true, false]),
        (server.get("/agents"), [true, true, false]),
        (server.get("/runners"), [true, true, false]),
        (server.get("/metrics"), [true, true, false]),
        (server.get("/nothing"), [true, true, false]),
        (server.post("/runner/claim", &claim), [true, false, true]),
    ];
    for (ask, allowed) in cases {
        for (token, is_allowed) in [&admin, &caller, &runner].into_iter().zip(allowed) {
            let answer = ask.clone().token(token).send().await;
            if is_allowed {
                assert!(!matches!(answer.status, 401 | 403), "{ask:?} {answer:?}");
            } else {
                answer.refused(403, "Forbidden");
            }
        }
    }
    // With tokens, any host name is accepted.
    server.get("/runs").header("host", "coordinator.example.org").token(&caller).send().await.ok(200);
}

#[tokio::test]
async fn sent_token_is_checked_even_without_requirement() {
    let server = TestServer::open().await;
    server.get("/runs").token("sf_wrong").send().await.refused(401, "Unauthorized");
    let runner = server.token(Scope::Runner).await;
    server.get("/runs").token(&runner).send().await.refused(403, "Forbidden");
    let caller = server.token(Scope::Caller).await;
    server.get("/runs").token(&caller).send().await.ok(200);
}

#[tokio::test]
async fn token_guessing_is_limited_but_valid_token_works() {
    let server = guarded().await;
    let token = server.token(Scope::Caller).await;
    server.get("/runs").token(&token).send().await.ok(200);
    let mut statuses = Vec::new();
    for guess in 0..70 {
        statuses.push(server.get("/runs").token(&format!("sf_{guess}")).send().await.status);
    }
    assert_eq!((statuses[0], statuses[69]), (401, 429));
    server.get("/runs").token("sf_x").send().await.refused(429, "RateLimited");
    server.get("/runs").token(&token).send().await.ok(200);
}

#[tokio::test]
async fn valid_token_that_was_never_used_works_from_an_address_that_guesses() {
    let server = guarded().await;
    for guess in 0..70 {
        server.get("/runs").token(&format!("sf_{guess}")).send().await;
    }
    server.get("/runs").token("sf_x").send().await.refused(429, "RateLimited");
    let token = server.token(Scope::Caller).await;
    server.get("/runs").token(&token).send().await.ok(200);
    server.get("/runs").token("sf_x").send().await.refused(429, "RateLimited");
}

#[tokio::test]
async fn revoking_token_closes_its_streams() {
    let server = TestServer::with(|options| {
        options.needs_token = true;
        options.heartbeat = std::time::Duration::from_millis(50);
    })
    .await;
    let issued = server.app.create_token(&TokenRequest::new("a test", Scope::Caller)).await.unwrap();
    let other = server.token(Scope::Caller).await;
    let mut stream = server.get("/events/stream").token(&issued.token).follow().await;
    let mut kept = server.get("/events/stream").token(&other).follow().await;
    assert!(server.app.revoke_token(&issued.token_id).await.unwrap());
    while stream.next_block().await.is_some() {}
    server.get("/runs").token(&issued.token).send().await.refused(401, "Unauthorized");
    for _ in 0..3 {
        assert!(kept.next_block().await.is_some());
    }
}
