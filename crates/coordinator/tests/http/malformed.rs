//! Malformed bodies and queries.

use serde_json::json;
use slipform_testkit::TestServer;

use crate::support::Requests as _;

#[tokio::test]
async fn malformed_body_is_refused_with_line_and_column() {
    let server = TestServer::open().await;
    let cases = [
        ("/runs", "", "line 1 column 0"),
        ("/runs", "{", "line 1 column 1"),
        ("/runs", "{\"type\": \"start_session\",\n \"agent\": 1}", "line 2 column 8"),
        ("/runs", "{\"type\": \"start\"}", "expected `start_session` or `resume_session`"),
        ("/runs", "[1]", "line 1"),
        ("/runs", " [\"start_session\"]", "line 1"),
        ("/check", "[\"1\"]", "expected an object"),
        ("/agents/validate", "7", "expected an object"),
        ("/runs", "{\"type\": \"resume_session\", \"session_id\": \"x\"}", "'x' is not a session id"),
        ("/check", "{}", "missing field `text`"),
        ("/check", "\u{fffd}", "line 1"),
        ("/runner/append", "{\"run_id\": \"run_0123456789ab\"}", "missing field `token`"),
        (
            "/runner/claim",
            "{\"runner_id\": \"a\", \"slots\": -1}",
            "expected a whole number from 0 to 4294967295",
        ),
        (
            "/runs",
            "{\"type\": \"start_session\", \"output_schema_options\": 7}",
            "expected an object at line 1",
        ),
        ("/runs", "[\"start_session\", 7]", "expected an object at line 1"),
        ("/schemas", "{\"name\": \"x\"}", "missing field `schema`"),
    ];
    for (path, body, part) in cases {
        let answer =
            server.request("POST", path).text(body).header("content-type", "application/json").send().await;
        let message = answer.refused(400, "InvalidRequest");
        assert!(message.contains(part), "{path} {body}: {message}");
        assert!(answer.json()["details"]["line"].is_number());
    }
}

#[tokio::test]
async fn body_without_json_content_type_is_refused() {
    let server = TestServer::open().await;
    for path in
        ["/runs", "/agents", "/agents/validate", "/schemas", "/check", "/runner/register", "/runner/claim"]
    {
        for kind in ["", "text/plain", "application/x-www-form-urlencoded", "application/jsonx"] {
            let answer = server.request("POST", path).text("{}").header("content-type", kind).send().await;
            answer.refused(415, "UnsupportedMediaType");
        }
    }
    let text = json!({"text": "1"}).to_string();
    for kind in ["application/json", "Application/JSON; charset=utf-8"] {
        server.request("POST", "/check").text(&text).header("content-type", kind).send().await.ok(200);
    }
}

#[tokio::test]
async fn malformed_query_is_refused() {
    let server = TestServer::open().await;
    let huge = "99999999999999999999";
    for query in [
        "limit=0",
        "limit=-1",
        "limit=1001",
        "limit=x",
        "limit=",
        &format!("limit={huge}"),
        "limit=1&limit=2",
        "after=x",
        "after=",
        &format!("after={huge}"),
        "status=gone",
        "status=",
        "session_id=x",
        "agent=writer",
    ] {
        server.get(&format!("/runs?{query}")).send().await.refused(400, "InvalidRequest");
    }
    let unknown = server.get("/runs?agent=writer").send().await.refused(400, "InvalidRequest");
    assert!(unknown.contains("unknown field `agent`"), "{unknown}");
    for path in ["/sessions?x=1", "/events/stream?x=1", "/stats?x=1", "/stats?agent_name=writer"] {
        server.get(path).send().await.refused(400, "InvalidRequest");
    }
    server.get("/sessions?limit=0").send().await.refused(400, "InvalidRequest");
    server.get("/sessions?after=-1").send().await.refused(400, "InvalidRequest");
    server.agent("writer", json!({})).await;
    let (_, session) = server.submit("writer").await;
    for query in ["after=-1", "after=x", "limit=0", &format!("after={huge}"), &format!("limit={huge}")] {
        server
            .get(&format!("/sessions/{session}/events?{query}"))
            .send()
            .await
            .refused(400, "InvalidRequest");
    }
    server.get("/runs?agent_name=a%00b").send().await.refused(400, "InvalidRequest");
    server.get("/stats?agent=a%00b").send().await.refused(400, "InvalidRequest");
    let body =
        json!({"type": "start_session", "agent_name": "writer", "prompt": "x", "project_dir": "a\u{0}b"});
    server.post("/runs", &body).send().await.refused(400, "InvalidRequest");
    let body = json!({"type": "start_session", "agent_name": "writer", "prompt": "x"});
    for wait in ["-1", "601", "NaN", "inf", "x", "1e999"] {
        server.post(&format!("/runs?wait={wait}"), &body).send().await.refused(400, "InvalidRequest");
    }
}
