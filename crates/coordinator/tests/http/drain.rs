//! Graceful shutdown.

use serde_json::json;
use slipform_testkit::{TestServer, wait_until_async};
use tokio::time::{Duration, timeout};

use crate::support::Requests as _;
use crate::support::client::Connection;

/// Time limit for a shutdown in these tests.
const LIMIT: Duration = Duration::from_secs(10);

#[tokio::test]
async fn shutdown_ends_streams_and_long_polls() {
    let mut server = TestServer::open().await;
    server.agent("writer", json!({})).await;
    let (_, session) = server.submit("writer").await;
    let runner = server.runner().await;
    let work = server.claim(&runner).await;
    let mut stream = server.get(&format!("/sessions/{session}/events/stream")).follow().await;
    stream.take(1).await;
    let mut all = server.get("/events/stream").follow().await;
    all.next_block().await.unwrap();
    let mut idle = Connection::open(server.address).await;
    idle.write(&server.get("/healthz").head()).await;
    idle.answer().await.ok(200);
    let resume = json!({"type": "resume_session", "session_id": session, "prompt": "x", "queue": true});
    let waiting = tokio::spawn(server.post("/runs?wait=600", &resume).send());
    let claim = json!({"runner_id": runner, "slots": 1, "wait_ms": 30_000});
    let claim = server.post("/runner/claim", &claim).header("expect", "100-continue");
    let mut claiming = Connection::open(server.address).await;
    claiming.write(&claim.head()).await;
    assert_eq!(claiming.read_head().await.0, 100);
    claiming.write(claim.body.as_deref().unwrap()).await;
    wait_until_async("both runs are submitted", async || {
        server.get("/runs").send().await.ok(200)["runs"].as_array().unwrap().len() == 2
    })
    .await;
    server.shut_down();
    assert_eq!(stream.next().await, None);
    assert_eq!(all.next().await, None);
    assert!(idle.is_closed().await);
    assert_eq!(waiting.await.unwrap().ok(202)["status"], "pending");
    assert_eq!(claiming.answer().await.ok(200), json!({"claims": []}));
    let address = server.address;
    timeout(LIMIT, server.stopped()).await.expect("down in time");
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
    drop(work);
}

#[tokio::test]
async fn shutdown_closes_stuck_connections_after_limit() {
    let mut server = TestServer::with(|options| options.drain_limit = Duration::from_millis(50)).await;
    // A request whose body is never sent.
    let ask = server
        .request("POST", "/check")
        .header("content-type", "application/json")
        .header("content-length", "9");
    let mut stuck = Connection::open(server.address).await;
    stuck.write(&ask.header("expect", "100-continue").head()).await;
    // The server asks for the body, so it is handling the request.
    assert_eq!(stuck.read_head().await.0, 100);
    server.shut_down();
    timeout(LIMIT, server.stopped()).await.expect("down in time");
    assert!(stuck.is_closed().await);
}

#[tokio::test]
async fn shutdown_finishes_active_requests() {
    let mut server = TestServer::open().await;
    let body = json!({"text": "[1]"}).to_string();
    let ask = server.request("POST", "/check").text(&body).header("content-type", "application/json");
    let mut late = Connection::open(server.address).await;
    late.write(&ask.header("expect", "100-continue").head()).await;
    assert_eq!(late.read_head().await.0, 100);
    server.shut_down();
    // The server has stopped listening but still reads the body.
    wait_until_async("connections are refused", async || {
        tokio::net::TcpStream::connect(server.address).await.is_err()
    })
    .await;
    late.write(&body).await;
    assert_eq!(late.answer().await.ok(200)["value"], json!([1]));
    timeout(LIMIT, server.stopped()).await.expect("down in time");
}
