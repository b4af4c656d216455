//! Going down.

use serde_json::json;
use tokio::time::{Duration, timeout};

use crate::client::Connection;
use crate::house::House;

/// Longer than going down may take.
const LIMIT: Duration = Duration::from_secs(10);

#[tokio::test]
async fn open_streams_and_long_polls_end_and_the_server_goes_down() {
    let mut house = House::open().await;
    house.agent("writer", json!({})).await;
    let (_, session) = house.submit("writer").await;
    let runner = house.runner().await;
    let work = house.claim(&runner).await;
    let mut stream = house.get(&format!("/sessions/{session}/events/stream")).follow().await;
    stream.take(1).await;
    let mut all = house.get("/events/stream").follow().await;
    all.piece().await.unwrap();
    let mut idle = Connection::open(house.address).await;
    idle.write(&house.get("/healthz").head()).await;
    idle.answer().await.ok(200);
    let resume = json!({"type": "resume_session", "session_id": session, "prompt": "x", "queue": true});
    let waiting = tokio::spawn(house.post("/runs?wait=600", &resume).send());
    let claim = json!({"runner_id": runner, "slots": 1, "wait_ms": 30_000});
    let claim = house.post("/runner/claim", &claim).header("expect", "100-continue");
    let mut claiming = Connection::open(house.address).await;
    claiming.write(&claim.head()).await;
    assert_eq!(claiming.read_head().await.0, 100);
    claiming.write(claim.body.as_deref().unwrap()).await;
    while house.get("/runs").send().await.ok(200)["runs"].as_array().unwrap().len() < 2 {}
    house.shut_down();
    assert_eq!(stream.next().await, None);
    assert_eq!(all.next().await, None);
    assert!(idle.is_closed().await);
    assert_eq!(waiting.await.unwrap().ok(202)["status"], "pending");
    assert_eq!(claiming.answer().await.ok(200), json!({"claims": []}));
    let address = house.address;
    timeout(LIMIT, house.down()).await.expect("down in time");
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
    drop(work);
}

#[tokio::test]
async fn what_does_not_end_is_ended() {
    let mut house = House::with(|options| options.drain_limit = Duration::from_millis(50)).await;
    // A request whose body never comes.
    let ask =
        house.ask("POST", "/check").header("content-type", "application/json").header("content-length", "9");
    let mut stuck = Connection::open(house.address).await;
    stuck.write(&ask.header("expect", "100-continue").head()).await;
    // The server asks for the body: the request is being worked on.
    assert_eq!(stuck.read_head().await.0, 100);
    house.shut_down();
    timeout(LIMIT, house.down()).await.expect("down in time");
    assert!(stuck.is_closed().await);
}

#[tokio::test]
async fn requests_that_are_being_answered_are_answered() {
    let mut house = House::open().await;
    let body = json!({"text": "[1]"}).to_string();
    let ask = house.ask("POST", "/check").text(&body).header("content-type", "application/json");
    let mut late = Connection::open(house.address).await;
    late.write(&ask.header("expect", "100-continue").head()).await;
    assert_eq!(late.read_head().await.0, 100);
    house.shut_down();
    // The server has stopped listening, and takes the body nevertheless.
    while tokio::net::TcpStream::connect(house.address).await.is_ok() {}
    late.write(&body).await;
    assert_eq!(late.answer().await.ok(200)["value"], json!([1]));
    timeout(LIMIT, house.down()).await.expect("down in time");
}
