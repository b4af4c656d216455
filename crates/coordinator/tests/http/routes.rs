//! Routes, fallbacks and origin checks.

use crate::support::Requests as _;
use slipform_testkit::TestServer;

#[tokio::test]
async fn unknown_path_returns_error_body() {
    let server = TestServer::open().await;
    for path in ["/nothing", "/runs/", "/runs/a/b/c", "/agents/a/b", "/%ff", "/stats/x"] {
        let message = server.get(path).send().await.refused(404, "NotFound");
        assert!(message.contains("/openapi.json"), "{message}");
    }
}

#[tokio::test]
async fn unsupported_method_returns_allow_header() {
    let server = TestServer::open().await;
    let cases = [
        ("DELETE", "/runs", "GET,HEAD,POST"),
        ("PUT", "/runs/run_0123456789ab", "GET,HEAD"),
        ("GET", "/runs/run_0123456789ab/stop", "POST"),
        ("POST", "/agents/x", "DELETE,GET,HEAD,PATCH"),
        ("GET", "/check", "POST"),
        ("POST", "/healthz", "GET,HEAD"),
        ("GET", "/runner/claim", "POST"),
        ("POST", "/events/stream", "GET,HEAD"),
        ("TRACE", "/metrics", "GET,HEAD"),
    ];
    for (method, path, allowed) in cases {
        let answer = server.request(method, path).send().await;
        answer.refused(405, "MethodNotAllowed");
        let mut allow: Vec<&str> = answer.header("allow").expect("Allow").split(',').collect();
        allow.sort_unstable();
        assert_eq!(allow.join(","), allowed, "{method} {path}");
    }
}

#[tokio::test]
async fn invalid_id_returns_not_found() {
    let server = TestServer::open().await;
    for id in ["x", "run_", "ses_0123456789ab", "run_0123456789ab", "%ff", "run_0123456789AB", "..%2f"] {
        server.get(&format!("/runs/{id}")).send().await.refused(404, "RunNotFound");
        server.request("POST", &format!("/runs/{id}/stop")).send().await.refused(404, "RunNotFound");
    }
    for id in ["x", "ses_", "run_0123456789ab", "ses_0123456789ab", "%ff"] {
        let session = format!("/sessions/{id}");
        server.get(&session).send().await.refused(404, "SessionNotFound");
        server.request("DELETE", &session).send().await.refused(404, "SessionNotFound");
        server.request("POST", &format!("{session}/stop")).send().await.refused(404, "SessionNotFound");
        for part in ["result", "events", "events/stream"] {
            server.get(&format!("{session}/{part}")).send().await.refused(404, "SessionNotFound");
        }
    }
    for name in ["x", "%ff", "a%20b"] {
        server.get(&format!("/agents/{name}")).send().await.refused(404, "AgentNotFound");
        server.request("DELETE", &format!("/agents/{name}")).send().await.refused(404, "AgentNotFound");
        server.get(&format!("/schemas/{name}")).send().await.refused(404, "SchemaNotFound");
        server.request("DELETE", &format!("/schemas/{name}")).send().await.refused(404, "SchemaNotFound");
    }
}

#[tokio::test]
async fn without_tokens_only_loopback_hosts_and_own_origin_are_accepted() {
    let server = TestServer::open().await;
    let port = server.address.port();
    for host in ["localhost", "127.0.0.1:1", "[::1]:9", &format!("localhost:{port}")] {
        server.get("/runs").header("host", host).send().await.ok(200);
    }
    for host in ["", "example.org", "localhost.example.org", "10.0.0.1", &format!("example.org:{port}")] {
        let answer = server.get("/runs").header("host", host).send().await;
        // Without a host, hyper itself may reject the request.
        if host.is_empty() {
            assert!(matches!(answer.status, 400 | 403), "{answer:?}");
        } else {
            answer.refused(403, "Forbidden");
        }
    }
    let own = format!("localhost:{port}");
    let ask = |path: &str, origin: &str| server.get(path).header("host", &own).header("origin", origin);
    ask("/runs", &format!("http://{own}")).send().await.ok(200);
    for origin in [
        "null",
        "http://example.org",
        "http://localhost.example.org",
        "file://",
        "http://localhost:5173",
        "http://localhost",
        &format!("https://{own}"),
        &format!("http://127.0.0.1:{port}"),
    ] {
        ask("/runs", origin).send().await.refused(403, "Forbidden");
        ask("/nothing", origin).send().await.refused(403, "Forbidden");
    }
}
