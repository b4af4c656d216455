//! Bounds.

use serde_json::json;

use crate::client::Connection;
use crate::test_server::TestServer;

#[tokio::test]
async fn bodies_that_are_too_long_are_refused() {
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
async fn connections_beyond_the_bound_are_told_so() {
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
    // The place is free once the server has noticed.
    while server.get("/healthz").send().await.status != 200 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn requests_beyond_the_bound_are_told_so_and_probes_are_not() {
    let server = TestServer::with(|options| options.max_requests = 0).await;
    server.get("/runs").send().await.refused(429, "RateLimited");
    let run = json!({"type": "start_session", "agent_name": "x", "prompt": "y"});
    server.post("/runs", &run).send().await.refused(429, "RateLimited");
    server.get("/healthz").send().await.ok(200);
    server.get("/readyz").send().await.ok(200);
}

#[tokio::test]
async fn connections_are_kept_for_more_than_one_request() {
    let server = TestServer::open().await;
    let mut connection = Connection::open(server.address).await;
    for path in ["/healthz", "/nothing", "/runs"] {
        connection.write(&server.get(path).head()).await;
        connection.answer().await;
    }
}

#[tokio::test]
async fn heads_that_never_end_are_not_waited_for() {
    let server =
        TestServer::with(|options| options.header_timeout = std::time::Duration::from_millis(50)).await;
    let mut connection = Connection::open(server.address).await;
    connection.write("GET /healthz HTTP/1.1\r\nhost: localhost\r\n").await;
    while !connection.is_closed().await {}
}
