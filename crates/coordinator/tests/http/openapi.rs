//! The OpenAPI document.

use expect_test::expect_file;
use serde_json::Value;
use slipform_testkit::TestServer;

use crate::support::Requests as _;

#[tokio::test]
async fn openapi_document_matches_snapshot_and_is_served() {
    let description = slipform_coordinator::http::openapi();
    let mut text = description.to_pretty_json().unwrap();
    text.push('\n');
    let server = TestServer::open().await;
    let served = server.get("/openapi.json").send().await.ok(200);
    assert_eq!(served, serde_json::from_str::<Value>(&text).unwrap());
    expect_file!["../../openapi.json"].assert_eq(&text);
}
