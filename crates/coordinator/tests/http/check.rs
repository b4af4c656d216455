//! Extraction and validation without a model.

use serde_json::json;
use slipform_testkit::TestServer;

use crate::support::Requests as _;

#[tokio::test]
async fn check_applies_universal_rules_to_inline_and_named_schema() {
    let server = TestServer::open().await;
    let schema = slipform_schema::universal::schema().unwrap().source();
    let bare = json!({"response_type": "planning", "status": "success", "message": "A plan."});
    let asked = json!({"response_type": "planning", "status": "needs_clarification", "message": "Which?"});
    for how in [json!({"schema": schema}), json!({"schema_name": "universal-agent-response"})] {
        let check = |text: String| {
            let mut request = how.clone();
            request["text"] = json!(text);
            server.post("/check", &request).send()
        };
        let view = check(bare.to_string()).await.ok(200);
        assert_eq!((&view["valid"], &view["found"], &view["value"]), (&json!(false), &json!(true), &bare));
        let error = view["errors"][0].as_str().unwrap();
        assert!(error.starts_with("$.planning_data: required property is missing"), "{error}");
        let view = check(asked.to_string()).await.ok(200);
        assert_eq!((&view["valid"], &view["value"], &view["errors"]), (&json!(true), &asked, &json!([])));
    }
}
