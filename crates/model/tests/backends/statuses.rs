//! Responses other than a reply: which errors are retried and which fail at once.

use std::time::{Duration, SystemTime};

use slipform_model::{Call, Error};
use slipform_testkit::{Script, ScriptedServer, Step};
use slipform_types::BackendKind::{self, Anthropic, OpenAi};

use crate::support::{HTTP, Waits, ask, ask_script, config, kind_of, open, question, shown};

/// Sends the sample request and compares the error and the number of requests.
async fn check(kind: BackendKind, step: Step, expected: &str, requests: usize) {
    let script = Script::new([step]).repeat_last();
    let (server, outcome) = ask_script(kind, script, |config| config.retries = 2).await;
    assert_eq!(shown(&outcome), expected, "{kind:?}");
    assert_eq!(server.requests().len(), requests, "{kind:?} {expected}");
}

#[tokio::test]
async fn transient_status_is_retried_until_success() {
    for kind in HTTP {
        for status in [408, 429, 500, 502, 503, 504, 529] {
            let script = [Step::status(status), Step::status(status), Step::text("green")];
            let (server, outcome) = ask_script(kind, script, |config| config.retries = 2).await;
            assert_eq!(outcome.unwrap().text, "green", "{kind:?} {status}");
            assert_eq!(server.requests().len(), 3);
        }
    }
}

#[tokio::test]
async fn transient_status_after_last_retry_returns_server_message() {
    for kind in HTTP {
        for status in [408, 429, 500, 503, 529] {
            let expected = format!("Busy: the backend answered {status}: scripted status {status}");
            check(kind, Step::status(status), &expected, 3).await;
        }
    }
}

#[tokio::test]
async fn rejection_is_not_retried_and_returns_server_message() {
    for kind in HTTP {
        for status in [400, 401, 403, 404, 409, 413, 415, 422, 501] {
            let expected =
                format!("Rejected: the backend refused the request with {status}: scripted status {status}");
            check(kind, Step::status(status), &expected, 1).await;
        }
    }
}

#[tokio::test]
async fn server_message_is_found_in_known_error_formats() {
    let long = "x".repeat(2_000);
    let cut = format!("{}…", "x".repeat(1_000));
    let cases = [
        (r#"{"error": {"message": "no\n  such model"}}"#, "no such model"),
        (r#"{"error": "no such model"}"#, "no such model"),
        (r#"{"message": "no such model"}"#, "no such model"),
        (r#"{"detail": [{"loc": ["body"]}]}"#, r#"[{"loc":["body"]}]"#),
        ("no such model", "no such model"),
        ("", "(no message)"),
        (long.as_str(), cut.as_str()),
    ];
    for (body, message) in cases {
        let expected = format!("Rejected: the backend refused the request with 400: {message}");
        check(OpenAi, Step::status(400).body(body), &expected, 1).await;
    }
}

#[tokio::test]
async fn status_500_that_blames_the_request_is_a_rejection() {
    let bodies = [
        r#"{"error": {"code": 400, "message": "bad grammar", "type": "server_error"}}"#,
        r#"{"error": {"message": "bad grammar", "type": "invalid_request_error"}}"#,
        r#"{"error": {"message": "bad grammar", "type": "BadRequestError"}}"#,
    ];
    for body in bodies {
        let expected = "Rejected: the backend refused the request with 500: bad grammar";
        check(OpenAi, Step::status(500).body(body), expected, 1).await;
    }
    let busy = r#"{"error": {"code": 429, "message": "later"}}"#;
    check(OpenAi, Step::status(500).body(busy), "Busy: the backend answered 500: later", 3).await;
}

#[tokio::test]
async fn error_object_in_a_successful_response_is_classified() {
    let inside = |error: &str| Step::status(200).body(format!("{{\"error\": {error}}}"));
    let refused = "Rejected: the backend refused the request with 400: bad grammar";
    check(OpenAi, inside(r#"{"message": "bad grammar", "type": "invalid_request_error"}"#), refused, 1).await;
    check(OpenAi, inside(r#"{"message": "bad grammar", "code": 400}"#), refused, 1).await;
    check(OpenAi, inside(r#""out of memory""#), "Busy: the backend answered 500: out of memory", 3).await;
    let late = |message: &str| Step::text("green as the grass in May").error_after(3, message);
    check(OpenAi, late("tired"), "Busy: the backend answered 500: tired", 3).await;
    check(Anthropic, late("tired"), "Busy: the backend answered 529: tired", 3).await;
    check(Anthropic, late("tired").plain_only(), "Busy: the backend answered 529: tired", 3).await;
}

#[tokio::test]
async fn html_page_is_refused_as_content_type() {
    for kind in HTTP {
        let expected = "ContentType: the backend answered with 'text/html; charset=utf-8' instead of JSON or an \
                        event stream: <!doctype html><title>Welcome</title>";
        check(kind, Step::html(), expected, 1).await;
    }
}

#[tokio::test]
async fn redirects_are_not_followed() {
    for kind in HTTP {
        let elsewhere = ScriptedServer::start(Step::text("stolen"));
        let location = format!("{}/chat/completions", elsewhere.base_url());
        let expected = format!(
            "Redirected: the backend redirects (307) to {location}; put the final address into base_url"
        );
        check(kind, Step::redirect(&location), &expected, 1).await;
        assert_eq!(elsewhere.connections(), 0, "{kind:?}");
    }
}

/// Returns the wait that the backend announces after this response, and cancels the call.
async fn wait_after(step: Step) -> Duration {
    let server = ScriptedServer::start(step);
    let backend = open(&config(&server, OpenAi));
    let (request, waits) = (question(), Waits::default());
    tokio::select! {
        outcome = backend.call(Call { watch: &waits, ..Call::new(&request) }) => {
            panic!("did not wait: {outcome:?}")
        }
        () = waits.first.notified() => {}
    }
    let seen = waits.seen.lock().unwrap();
    assert!(seen[0].1.contains("scripted status"), "{seen:?}");
    seen[0].0
}

#[tokio::test]
async fn retry_after_determines_the_wait() {
    for status in [429, 503] {
        let step = |wait: &str| Step::status(status).header("Retry-After", wait);
        assert_eq!(wait_after(step("17")).await, Duration::from_secs(17));
        let soon = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(50));
        let wait = wait_after(step(&soon)).await;
        assert!(wait > Duration::ZERO && wait <= Duration::from_secs(50), "{wait:?}");
    }
}

#[tokio::test]
async fn past_or_invalid_retry_after_means_no_wait() {
    for wait in ["Sun, 06 Nov 1994 08:49:37 GMT", "0", "-5", "soon"] {
        let script = [Step::status(503).header("Retry-After", wait), Step::text("green")];
        let (_, outcome) = ask_script(OpenAi, script, |_| {}).await;
        assert_eq!(outcome.unwrap().text, "green", "{wait}");
    }
}

#[tokio::test]
async fn retry_after_beyond_the_maximum_fails_at_once() {
    let later = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(3_600));
    for wait in ["61", "3600", "1e30", later.as_str()] {
        for status in [429, 503] {
            let step = Step::status(status).header("Retry-After", wait);
            let expected = format!("Busy: the backend answered {status}: scripted status {status}");
            check(OpenAi, step, &expected, 1).await;
        }
    }
}

#[tokio::test]
async fn retry_after_beyond_the_call_timeout_fails_at_once() {
    let script = Script::new([Step::status(503).header("Retry-After", "30")]).repeat_last();
    let set = |config: &mut slipform_model::BackendConfig| config.timeout_seconds = 20.0;
    let (server, outcome) = ask_script(OpenAi, script, set).await;
    assert_eq!(shown(&outcome), "Busy: the backend answered 503: scripted status 503");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn failing_backend_uses_up_the_retry_budget() {
    let server = ScriptedServer::start(Script::new([Step::status(503)]).repeat_last());
    let mut config = config(&server, OpenAi);
    config.retries = 5;
    let backend = open(&config);
    for _ in 0..10 {
        ask(backend.as_ref()).await.unwrap_err();
    }
    assert_eq!(server.requests().len(), 10 + 20, "one request per call and 20 retries");
}

#[tokio::test]
async fn rejections_do_not_use_the_retry_budget() {
    let mut steps = vec![Step::status(400); 25];
    steps.extend([Step::status(503), Step::text("green")]);
    let server = ScriptedServer::start(steps);
    let backend = open(&config(&server, OpenAi));
    for _ in 0..25 {
        assert_eq!(kind_of(&ask(backend.as_ref()).await.unwrap_err()), "Rejected");
    }
    assert_eq!(ask(backend.as_ref()).await.unwrap().text, "green");
}

#[tokio::test]
async fn stopped_server_is_retried_and_unreachable() {
    let server = ScriptedServer::start(Step::text("never"));
    let config = config(&server, OpenAi);
    drop(server);
    let waits = Waits::default();
    let request = question();
    let call = Call { watch: &waits, ..Call::new(&request) };
    let error = open(&config).call(call).await.unwrap_err();
    assert!(
        matches!(&error, Error::Unreachable { url, .. } if url.starts_with("http://127.0.0.1:")),
        "{error}"
    );
    assert_eq!(waits.seen.lock().unwrap().len(), 3, "retried as often as the settings allow");
}
