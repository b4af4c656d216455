//! Leases and pinned runs.

use std::time::{Duration, Instant};

use serde_json::json;
use slipform_api::RunRequest;
use slipform_coordinator::{AppOptions, Sweeper, SweeperOptions};
use slipform_testkit::{TestServer, wait_until_async};

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
