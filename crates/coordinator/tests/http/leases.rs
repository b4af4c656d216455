//! Leases, pinned runs and the deletion of old sessions.

use std::time::{Duration, Instant};

use serde_json::json;
use slipform_api::RunRequest;
use slipform_coordinator::{AppOptions, Retention, Sweeper, SweeperOptions};
use slipform_store::{Page, SessionFilter};
use slipform_testkit::{TestServer, TestStore, execute, wait_until_async};

use crate::support::{Requests as _, started};

#[tokio::test]
async fn attempt_survives_coordinator_outage() {
    let lease = Duration::from_millis(500);
    let server = TestServer::with_app(|options| options.lease = lease).await;
    server.agent("writer", json!({})).await;
    server.submit("writer").await;
    let sweeper = Sweeper::new(server.app.clone(), SweeperOptions::default());
    let sweeping = tokio::spawn(sweeper.run());
    let mut work = server.claim(&server.runner().await).await;
    sweeping.abort();
    let _ = sweeping.await;
    let outage = Instant::now();
    wait_until_async("the outage is three leases long", async || outage.elapsed() > 3 * lease).await;
    server.append(&mut work, &json!([started()])).await;
}

#[tokio::test]
async fn sweeper_deletes_old_sessions_until_none_is_left() {
    let Some(store) = TestStore::postgres().await else { return };
    // More than one query returns.
    let insert = "INSERT INTO sessions (session_id, agent_name, root_session_id, lineage, last_seq, last_run_id, created_at,
            updated_at)
        SELECT id, 'writer', id, '[\"writer\"]', 0, 'run_000000000000', 0, 0
        FROM (SELECT 'ses_' || lpad(to_hex(number), 12, '0') AS id FROM generate_series(1, 10500) number) ids";
    execute(&store.address, insert).await;
    let server = TestServer::with_store(store.store.clone()).await;
    let retention = Retention { age_ms_max: Some(60_000), sessions_max: None };
    let sweeper = Sweeper::new(server.app.clone(), SweeperOptions { retention, ..SweeperOptions::default() });
    let sweeping = tokio::spawn(sweeper.run());
    wait_until_async("all old sessions are deleted", async || {
        store.store.sessions(SessionFilter::default(), Page::default()).await.unwrap().items.is_empty()
    })
    .await;
    sweeping.abort();
}

#[tokio::test]
async fn run_of_killed_command_is_adopted() {
    let server = TestServer::with_app(|options| options.lease = Duration::from_millis(100)).await;
    server.agent("writer", json!({})).await;
    let options = AppOptions { pinned_to: Some("killed".to_owned()), ..AppOptions::default() };
    let command = server.another_app(options);
    let request: RunRequest =
        serde_json::from_value(json!({"type": "start_session", "agent_name": "writer", "prompt": "Hello."}))
            .unwrap();
    let left = command.submit(request, None).await.unwrap();
    let work = server.claim(&server.runner().await).await;
    assert_eq!(work.run_id, left.run_id.as_str());
}
