//! Event streams: complete, in order, without duplicates.

use std::time::Duration;

use serde_json::json;
use slipform_api::{AppendRequest, ClaimRequest, EventsQuery, RunnerApi as _};
use slipform_store::{Options, Store};
use slipform_testkit::{TestServer, TestStore, wait_until_async};
use slipform_types::EventBody;

use crate::support::client::SseEvent;
use crate::support::{Requests as _, started};

fn ids(events: &[SseEvent]) -> Vec<String> {
    events.iter().map(|event| event.id.clone()).collect()
}

fn types(events: &[SseEvent]) -> Vec<&str> {
    events.iter().map(|event| event.event.as_str()).collect()
}

#[tokio::test]
async fn session_stream_follows_several_runs_until_deletion() {
    let server = TestServer::open().await;
    server.agent("writer", json!({})).await;
    let (_, session) = server.submit("writer").await;
    let path = format!("/sessions/{session}/events/stream");
    let mut stream = server.get(&path).follow().await;
    assert_eq!(stream.take(1).await[0].event, "run_start");
    server.complete_next("One.").await;
    let events = stream.take(3).await;
    assert_eq!(types(&events), ["attempt_started", "result", "run_completed"]);
    assert_eq!(ids(&events), ["2", "3", "4"]);
    assert_eq!((&events[1].data["seq"], &events[1].data["result_text"]), (&json!(3), &json!("One.")));
    let resume = json!({"type": "resume_session", "session_id": session, "prompt": "And?"});
    server.post("/runs", &resume).send().await.ok(201);
    assert_eq!(stream.take(1).await[0].id, "5");
    server.complete_next("Two.").await;
    assert_eq!(ids(&stream.take(3).await), ["6", "7", "8"]);
    server.request("DELETE", &format!("/sessions/{session}")).send().await;
    assert_eq!(stream.next().await, None);
}

#[tokio::test]
async fn reconnected_stream_continues_after_last_event_id() {
    let server = TestServer::open().await;
    server.agent("writer", json!({})).await;
    let (_, session) = server.submit("writer").await;
    server.complete_next("Done.").await;
    let path = format!("/sessions/{session}/events/stream");
    let resume = |id: &str| server.get(&path).header("last-event-id", id);
    assert_eq!(ids(&resume("2").follow().await.take(2).await), ["3", "4"]);
    assert_eq!(ids(&server.get(&format!("{path}?after=3")).follow().await.take(1).await), ["4"]);
    let both = server.get(&format!("{path}?after=1")).header("last-event-id", "3");
    assert_eq!(ids(&both.follow().await.take(1).await), ["4"]);
    for id in ["x", "-1", "5", "1-1", "99999999999999999999"] {
        resume(id).send().await.refused(400, "InvalidRequest");
    }
    server.get(&format!("{path}?after=-1")).send().await.refused(400, "InvalidRequest");
}

async fn expect_position_beyond_end_is_refused(store: TestStore) {
    let server = TestServer::with_store(store.store.clone()).await;
    server.agent("writer", json!({})).await;
    let (_, session) = server.submit("writer").await;
    server.complete_next("Done.").await;
    let id = server.get("/events/stream?after=0").follow().await.take(4).await.pop().unwrap().id;
    let (transaction, event) = id.split_once('-').unwrap();
    let beyond = format!("{transaction}-{}", event.parse::<i64>().unwrap() + 1);
    let resume = |id: &str| server.get("/events/stream").header("last-event-id", id);
    let refused = resume(&beyond).send().await.refused(400, "InvalidRequest");
    assert!(refused.contains("was ever stored"), "{refused}");
    // Deleting the last events does not make their ids unknown.
    server.request("DELETE", &format!("/sessions/{session}")).send().await;
    let mut stream = resume(&id).follow().await;
    server.submit("writer").await;
    assert_eq!(stream.take(1).await[0].event, "run_start");
}

#[tokio::test]
async fn stream_position_beyond_end_is_refused() {
    expect_position_beyond_end_is_refused(TestStore::sqlite().await).await;
    if let Some(store) = TestStore::postgres().await {
        expect_position_beyond_end_is_refused(store).await;
    }
}

/// Events are written while a client disconnects and reconnects repeatedly.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reconnecting_streams_miss_and_repeat_nothing() {
    const MESSAGES: usize = 60;
    const EACH: usize = 10;
    let server = TestServer::open().await;
    server.agent("writer", json!({})).await;
    let (_, session) = server.submit("writer").await;
    let mut work = server.claim(&server.runner().await).await;
    let path = format!("/sessions/{session}/events/stream");
    let total = 1 + MESSAGES * EACH;
    let (first, all) = (server.get(&path), server.get("/events/stream?after=0"));
    let follower = tokio::spawn(async move {
        let mut seen: Vec<String> = Vec::new();
        while seen.len() < total {
            // Reconnects after every hundred events.
            let mut stream = match seen.last() {
                None => first.clone().follow().await,
                Some(last) => first.clone().header("last-event-id", last).follow().await,
            };
            let count = 100.min(total - seen.len());
            seen.extend(ids(&stream.take(count).await));
        }
        seen
    });
    let watcher = tokio::spawn(async move {
        let mut seen: Vec<SseEvent> = Vec::new();
        while seen.len() < total {
            let mut stream = match seen.last() {
                None => all.clone().follow().await,
                Some(last) => all.clone().header("last-event-id", &last.id).follow().await,
            };
            let count = 130.min(total - seen.len());
            seen.extend(stream.take(count).await);
        }
        seen
    });
    for _ in 0..MESSAGES {
        let event = json!({"event_type": "escalated", "from": "a", "to": "b", "reason": "x".repeat(500)});
        let events: Vec<_> = (0..EACH).map(|_| event.clone()).collect();
        server.append(&mut work, &json!(events)).await;
    }
    let expected: Vec<String> = (1..=total).map(|number| number.to_string()).collect();
    assert_eq!(follower.await.unwrap(), expected);
    let watched = watcher.await.unwrap();
    let numbers: Vec<String> = watched.iter().map(|event| event.data["seq"].to_string()).collect();
    assert_eq!(numbers, expected);
}

#[tokio::test]
async fn stream_of_all_sessions_starts_at_now_or_beginning() {
    let server = TestServer::open().await;
    server.agent("writer", json!({})).await;
    let (_, first) = server.submit("writer").await;
    let mut now = server.get("/events/stream").follow().await;
    now.next_block().await.unwrap();
    let (_, second) = server.submit("writer").await;
    let events = now.take(1).await;
    assert_eq!(events[0].data["session_id"], *second);
    let mut all = server.get("/events/stream?after=0").follow().await;
    let events = all.take(2).await;
    assert_eq!(
        (&events[0].data["session_id"], &events[1].data["session_id"]),
        (&json!(first), &json!(second))
    );
    let mut rest = server.get("/events/stream").header("last-event-id", &events[0].id).follow().await;
    assert_eq!(rest.take(1).await[0], events[1]);
    for id in ["x", "1", "-1-1", "1-", "a-b", "1-99999999999999999999"] {
        let answer = server.get("/events/stream").header("last-event-id", id).send().await;
        answer.refused(400, "InvalidRequest");
    }
    server.get("/events/stream?after=x").send().await.refused(400, "InvalidRequest");
}

#[tokio::test]
async fn idle_stream_sends_heartbeats() {
    let server = TestServer::with(|options| options.heartbeat = Duration::from_millis(20)).await;
    let mut stream = server.get("/events/stream").follow().await;
    assert_eq!(stream.next_block().await.unwrap(), "retry: 1000");
    for _ in 0..3 {
        assert_eq!(stream.next_block().await.unwrap(), ": ");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_streams_receive_all_events() {
    const READERS: usize = 200;
    let server = TestServer::open().await;
    server.agent("writer", json!({})).await;
    let (_, session) = server.submit("writer").await;
    let path = format!("/sessions/{session}/events/stream");
    let mut readers = Vec::new();
    for _ in 0..READERS {
        let mut stream = server.get(&path).follow().await;
        stream.take(1).await;
        readers.push(stream);
    }
    let mut work = server.claim(&server.runner().await).await;
    server.append(&mut work, &json!([started()])).await;
    server.finish(&mut work, "Done.").await;
    for mut reader in readers {
        assert_eq!(ids(&reader.take(3).await), ["2", "3", "4"]);
    }
}

#[tokio::test]
async fn stream_of_client_that_does_not_read_is_closed() {
    let server = TestServer::with(|options| {
        options.write_timeout = Duration::from_millis(100);
        options.max_connections = 1;
    })
    .await;
    server.agent("writer", json!({})).await;
    // Only one connection is allowed, so the test calls the app directly.
    let request = json!({"type": "start_session", "agent_name": "writer", "prompt": "Hello."});
    let created = server.app.submit(serde_json::from_value(request).unwrap(), None).await.unwrap();
    let claim = ClaimRequest { runner_id: "tester".to_owned(), slots: 1, wait_ms: 5_000 };
    let work = server.app.claim(&claim).await.unwrap().claims.remove(0);
    let path = format!("/sessions/{}/events/stream", created.session_id);
    let mut unread = server.get(&path).follow().await;
    let mut last = unread.next().await.unwrap();
    // More than the socket buffers hold.
    let event = json!({"event_type": "escalated", "from": "a", "to": "b", "reason": "x".repeat(1_000_000)});
    let event: EventBody = serde_json::from_value(event).unwrap();
    for number in 1..=16 {
        let events = vec![event.clone()];
        let append =
            AppendRequest { run_id: work.run_id.clone(), token: work.token, number, events, progress: None };
        server.app.append(&append).await.unwrap();
    }
    // The server drops the connection, which frees the permit.
    let is_free = async || server.get("/healthz").send().await.status == 200;
    wait_until_async("the permit is free", is_free).await;
    while let Some(event) = unread.next().await {
        last = event;
    }
    let seen: usize = last.id.parse().unwrap();
    assert!(seen < 17, "{seen}");
    let (mut after, mut rest) = (last.data["seq"].as_i64(), 0);
    while after.is_some() {
        // A page is limited in bytes.
        let page = server.app.events(&created.session_id, EventsQuery { after, limit: None }).await.unwrap();
        assert!((1..=4).contains(&page.events.len()), "{}", page.events.len());
        (after, rest) = (page.next, rest + page.events.len());
    }
    assert_eq!(rest, 17 - seen);
}

#[tokio::test]
async fn stream_continues_after_server_restart() {
    let database = TestStore::sqlite().await;
    let mut first = TestServer::with_store(database.store.clone()).await;
    first.agent("writer", json!({})).await;
    let (_, session) = first.submit("writer").await;
    first.complete_next("Done.").await;
    let path = format!("/sessions/{session}/events/stream");
    let seen = first.get(&path).follow().await.take(2).await;
    let seen_of_all = first.get("/events/stream?after=0").follow().await.take(2).await;
    first.shut_down();
    first.stopped().await;
    let reopened = Store::open(&database.address, &Options::default()).await.unwrap();
    let second = TestServer::with_store(reopened).await;
    let mut rest = second.get(&path).header("last-event-id", &seen[1].id).follow().await;
    assert_eq!(ids(&rest.take(2).await), ["3", "4"]);
    let mut rest = second.get("/events/stream").header("last-event-id", &seen_of_all[1].id).follow().await;
    assert_eq!(types(&rest.take(2).await), ["result", "run_completed"]);
}

#[tokio::test]
async fn stream_receives_events_of_another_coordinator() {
    let test = TestStore::memory().await;
    let one = TestServer::with_store(test.store.clone()).await;
    let other = TestServer::with_store(test.store).await;
    one.agent("writer", json!({})).await;
    let (_, session) = one.submit("writer").await;
    let mut stream = other.get(&format!("/sessions/{session}/events/stream")).follow().await;
    stream.take(1).await;
    one.complete_next("Done.").await;
    assert_eq!(ids(&stream.take(3).await), ["2", "3", "4"]);
}
