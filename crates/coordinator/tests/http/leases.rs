//! Leases, and whom runs are kept for.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use slipform_api::RunRequest;
use slipform_coordinator::{App, AppOptions, Registry, Sweeper, SweeperOptions};

use crate::test_server::{TestServer, started};

#[tokio::test]
async fn a_coordinator_that_was_away_for_long_loses_no_attempt() {
    let lease = Duration::from_millis(500);
    let server = TestServer::leasing(lease).await;
    server.agent("writer", json!({})).await;
    server.submit("writer").await;
    let sweeper = Sweeper::new(server.app.clone(), SweeperOptions::default());
    let sweeping = tokio::spawn(sweeper.run());
    let mut work = server.claim(&server.runner().await).await;
    sweeping.abort();
    let _ = sweeping.await;
    tokio::time::sleep(3 * lease).await;
    server.append(&mut work, &json!([started()])).await;
}

#[tokio::test]
async fn what_a_killed_command_left_is_taken_by_others() {
    let server = TestServer::leasing(Duration::from_millis(100)).await;
    server.agent("writer", json!({})).await;
    let options = AppOptions { pinned_to: Some("killed".to_owned()), ..AppOptions::default() };
    let registry = Arc::new(Registry::read(Path::new("/nonexistent")));
    let command = App::new(server.app.store().clone(), registry, options);
    let request: RunRequest =
        serde_json::from_value(json!({"type": "start_session", "agent_name": "writer", "prompt": "Hello."}))
            .unwrap();
    let left = command.submit(request, None).await.unwrap();
    let work = server.claim(&server.runner().await).await;
    assert_eq!(work.run_id, left.run_id.as_str());
}
