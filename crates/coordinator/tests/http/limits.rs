//! Limits on bodies, connections and requests.

use serde_json::json;
use slipform_testkit::{TestServer, wait_until_async};

use crate::support::Requests as _;
use crate::support::client::Connection;

#[tokio::test]
async fn oversized_body_is_refused() {
    let server = TestServer::with(|options| options.max_body_bytes = 1_000).await;
    server.post("/check", &json!({"text": "x".repeat(900)})).send().await.ok(200);
    for length in [1_000, 1_000_000] {
        let body = json!({"text": "x".repeat(length)});
        let answer = server.post("/check", &body).send().await;
        answer.refused(413, "PayloadTooLarge");
        assert_eq!(answer.json()["details"]["max_bytes"], 1_000);
    }
}

#[tokio::test]
async fn connection_beyond_limit_is_rejected() {
    let server = TestServer::with(|options| options.max_connections = 2).await;
    let mut kept = Vec::new();
    for _ in 0..2 {
        let mut connection = Connection::open(server.address).await;
        connection.write(&server.get("/healthz").head()).await;
        connection.answer().await.ok(200);
        kept.push(connection);
    }
    server.get("/healthz").send().await.refused(503, "Unavailable");
    drop(kept.pop());
    // The permit is free once the server has noticed the closed connection.
    let is_free = async || server.get("/healthz").send().await.status == 200;
    wait_until_async("the permit is free", is_free).await;
}

#[tokio::test]
async fn request_beyond_limit_is_refused_but_health_checks_pass() {
    let server = TestServer::with(|options| options.max_requests = 0).await;
    server.get("/runs").send().await.refused(429, "RateLimited");
    let run = json!({"type": "start_session", "agent_name": "x", "prompt": "y"});
    server.post("/runs", &run).send().await.refused(429, "RateLimited");
    server.get("/healthz").send().await.ok(200);
    server.get("/readyz").send().await.ok(200);
}

#[tokio::test]
async fn connection_serves_several_requests() {
    let server = TestServer::open().await;
    let mut connection = Connection::open(server.address).await;
    for path in ["/healthz", "/nothing", "/runs"] {
        connection.write(&server.get(path).head()).await;
        connection.answer().await;
    }
}

#[tokio::test]
async fn incomplete_request_head_times_out() {
    let server =
        TestServer::with(|options| options.header_timeout = std::time::Duration::from_millis(50)).await;
    let mut connection = Connection::open(server.address).await;
    connection.write("GET /healthz HTTP/1.1\r\nhost: localhost\r\n").await;
    while !connection.is_closed().await {}
}
