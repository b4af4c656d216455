//! Requests that would exhaust memory or places of others.

use serde_json::{Map, Value, json};
use slipform_coordinator::Scope;
use slipform_testkit::{TestServer, TestStore, raise_file_limit, wait_until_async};

use crate::support::client::{Connection, TestRequest};
use crate::support::{Requests as _, started};

/// Returns a short schema that would compile to gigabytes.
fn hostile_schema() -> Value {
    let pattern = |number: u32| json!({"type": "string", "pattern": format!("\\p{{L}}{{40}}{number}")});
    let properties: Map<String, Value> =
        (0..1_000).map(|number| (format!("p{number}"), pattern(number))).collect();
    json!({"type": "object", "properties": properties})
}

async fn hostile_schema_is_refused_everywhere(store: TestStore) {
    let server = TestServer::with_store(store.store.clone()).await;
    let schema = hostile_schema();
    server.agent("helper", json!({})).await;
    server.agent("leader", json!({"agents": ["helper"]})).await;

    let requests = [
        ("/schemas", json!({"name": "large", "schema": schema})),
        ("/check", json!({"text": "{}", "schema": schema})),
        ("/runs", json!({"agent_name": "helper", "prompt": "Hello.", "output_schema": schema})),
    ];
    for (path, body) in requests {
        let answer = server.post(path, &body).send().await;
        let message = answer.refused(422, "InvalidSchema");
        assert!(message.contains("the patterns of the schema"), "{path}: {message}");
        assert!(message.contains("lower its repetitions"), "{path}: {message}");
        let place = answer.json()["details"]["path"].as_str().unwrap().to_owned();
        assert!(place.starts_with("$.properties.p") && place.ends_with(".pattern"), "{path}: {place}");
    }
    for key in ["output_schema", "default_output_schema", "parameters_schema"] {
        let agent = json!({"name": "large", "description": "An agent.", "system_prompt": "x", key: schema});
        let message = server.post("/agents", &agent).send().await.refused(422, "InvalidAgent");
        assert!(message.contains(&format!("$.{key}.properties.p")), "{message}");
        let change = server.request("PATCH", "/agents/helper").json(&json!({key: schema}));
        change.send().await.refused(422, "InvalidAgent");
        let verdict = server.post("/agents/validate", &agent).send().await.ok(200);
        assert_eq!(verdict["valid"], false, "{verdict}");
    }
    let verdict = server.post("/schemas/validate", &json!({"schema": schema})).send().await.ok(200);
    assert_eq!(verdict["valid"], false, "{verdict}");

    server.submit("leader").await;
    let mut work = server.claim(&server.runner().await).await;
    server.append(&mut work, &json!([started()])).await;
    let delegation = json!({"run_id": work.run_id, "token": work.token, "call_id": "c1", "agent_name": "helper",
        "parameters": {"prompt": "Help."}, "output_schema": schema, "execution_mode": "sync"});
    let answer = server.post("/runner/delegate", &delegation).send().await.ok(200);
    let reason = answer["refused"]["reason"].as_str().unwrap_or_else(|| panic!("{answer}"));
    assert!(reason.contains("the patterns of the schema"), "{reason}");
}

#[tokio::test]
async fn hostile_schema_is_refused_everywhere_on_sqlite() {
    hostile_schema_is_refused_everywhere(TestStore::sqlite().await).await;
}

#[tokio::test]
async fn hostile_schema_is_refused_everywhere_on_postgres() {
    let Some(store) = TestStore::postgres().await else { return };
    hostile_schema_is_refused_everywhere(store).await;
}

/// More than the places for requests.
const SLOW_BODIES: usize = 700;

/// The open files of the slow bodies at both ends, and of the rest of the test.
const OPEN_FILES: u64 = 2_048;

/// Sends the heads of requests and the first byte of their bodies, which never end.
async fn send_slow_bodies(request: &TestRequest, count: usize) -> Vec<Connection> {
    let mut connections = Vec::new();
    for _ in 0..count {
        let mut connection = Connection::open(request.address).await;
        connection.write(&(request.head() + "{")).await;
        connections.push(connection);
    }
    connections
}

async fn runner_is_served_beside_slow_bodies(store: TestStore) {
    let server = TestServer::with_store(store.store.clone()).await;
    server.agent("writer", json!({})).await;
    server.submit("writer").await;
    let runner = server.runner().await;
    let check = server.post("/check", &json!({"text": "{}"}));
    let slow = send_slow_bodies(&check, SLOW_BODIES).await;
    let is_full = async || check.clone().send().await.status == 429;
    wait_until_async("the places of callers are taken", is_full).await;

    let mut work = server.claim(&runner).await;
    let attempts = json!([{"run_id": work.run_id, "token": work.token}]);
    let heartbeat = json!({"runner_id": runner, "attempts": attempts});
    server.post("/runner/heartbeat", &heartbeat).send().await.ok(200);
    server.append(&mut work, &json!([started()])).await;
    server.finish(&mut work, "Done.").await;
    server.get("/healthz").send().await.ok(200);
    check.send().await.refused(429, "RateLimited");
    drop(slow);
}

#[tokio::test]
async fn runner_is_served_beside_slow_bodies_on_sqlite() {
    if raise_file_limit(OPEN_FILES) {
        runner_is_served_beside_slow_bodies(TestStore::sqlite().await).await;
    }
}

#[tokio::test]
async fn runner_is_served_beside_slow_bodies_on_postgres() {
    if raise_file_limit(OPEN_FILES)
        && let Some(store) = TestStore::postgres().await
    {
        runner_is_served_beside_slow_bodies(store).await;
    }
}

async fn token_cannot_use_up_places_of_others(store: TestStore) {
    let server = TestServer::with_store_and(store.store.clone(), |options| {
        options.needs_token = true;
        options.max_requests = 8;
    })
    .await;
    for (scope, request) in [
        (Scope::Caller, server.post("/check", &json!({"text": "{}"}))),
        (Scope::Runner, server.post("/runner/heartbeat", &json!({"runner_id": "r", "attempts": []}))),
    ] {
        let (greedy, other) = (server.token(scope).await, server.token(scope).await);
        let slow = send_slow_bodies(&request.clone().token(&greedy), 20).await;
        let is_full = async || request.clone().token(&greedy).send().await.status == 429;
        wait_until_async("the token holds its share of the places", is_full).await;
        let message = request.clone().token(&greedy).send().await.refused(429, "RateLimited");
        assert!(message.contains("from you"), "{message}");
        assert_ne!(request.clone().token(&other).send().await.status, 429, "{}", request.path);
        drop(slow);
    }
}

#[tokio::test]
async fn token_cannot_use_up_places_of_others_on_sqlite() {
    token_cannot_use_up_places_of_others(TestStore::sqlite().await).await;
}

#[tokio::test]
async fn token_cannot_use_up_places_of_others_on_postgres() {
    let Some(store) = TestStore::postgres().await else { return };
    token_cannot_use_up_places_of_others(store).await;
}

#[tokio::test]
async fn bodies_in_memory_are_bounded_in_bytes() {
    let server = TestServer::with(|options| options.max_body_bytes_in_flight = 64 * 1_024).await;
    let large = server.post("/check", &json!({"text": "x".repeat(100_000)}));
    let message = large.send().await.refused(429, "RateLimited");
    assert!(message.contains("memory"), "{message}");
    let announced = server.post("/check", &json!({"text": "x".repeat(30_000)}));
    let slow = send_slow_bodies(&announced, 20).await;
    // Announced bytes take no memory before they arrive.
    announced.send().await.ok(200);
    drop(slow);
}

#[tokio::test]
async fn runner_connects_when_connections_of_callers_are_used_up() {
    let server = TestServer::with(|options| options.max_connections = 32).await;
    let mut kept = Vec::new();
    for _ in 0..30 {
        let mut connection = Connection::open(server.address).await;
        connection.write(&server.get("/healthz").head()).await;
        connection.answer().await.ok(200);
        kept.push(connection);
    }
    server.get("/runs").send().await.refused(503, "Unavailable");
    server.runner().await;
    server.get("/readyz").send().await.ok(200);
}
