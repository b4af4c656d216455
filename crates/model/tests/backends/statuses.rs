//! Servers that answer with something else than a reply: what is asked again, and what is told at once.

use std::time::{Duration, SystemTime};

use slipform_model::{Call, Error};
use slipform_testkit::{Script, ScriptedServer, Step};
use slipform_types::BackendKind::{self, Anthropic, OpenAi};

use crate::support::{HTTP, Waits, ask, ask_script, config, kind_of, open, question, shown};

/// Asks and compares the error's kind and words and how many requests it took.
async fn check(kind: BackendKind, step: Step, expected: &str, requests: usize) {
    let script = Script::new([step]).repeat_last();
    let (server, outcome) = ask_script(kind, script, |config| config.retries = 2).await;
    assert_eq!(shown(&outcome), expected, "{kind:?}");
    assert_eq!(server.requests().len(), requests, "{kind:?} {expected}");
}

#[tokio::test]
async fn passing_troubles_are_asked_about_again() {
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
async fn lasting_troubles_end_with_the_servers_words() {
    for kind in HTTP {
        for status in [408, 429, 500, 503, 529] {
            let expected = format!("Busy: the backend answered {status}: scripted status {status}");
            check(kind, Step::status(status), &expected, 3).await;
        }
    }
}

#[tokio::test]
async fn refusals_end_at_once_with_the_servers_words() {
    for kind in HTTP {
        for status in [400, 401, 403, 404, 409, 413, 422] {
            let expected =
                format!("Rejected: the backend refused the request with {status}: scripted status {status}");
            check(kind, Step::status(status), &expected, 1).await;
        }
    }
}

#[tokio::test]
async fn words_are_found_wherever_servers_put_them() {
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
    for (body, words) in cases {
        let expected = format!("Rejected: the backend refused the request with 400: {words}");
        check(OpenAi, Step::status(400).body(body), &expected, 1).await;
    }
}

#[tokio::test]
async fn a_server_error_that_blames_the_request_is_a_refusal() {
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
async fn an_error_in_place_of_a_reply_is_told_apart_too() {
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
async fn a_page_for_people_is_not_a_reply() {
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

/// How long the backend is about to wait after this reply; the call is then given up.
async fn wait_after(step: Step) -> Duration {
    let server = ScriptedServer::start(step);
    let backend = open(&config(&server, OpenAi));
    let (request, waits) = (question(), Waits::default());
    tokio::select! {
        outcome = backend.call(Call { request: &request, invocation: None, watch: &waits }) => {
            panic!("did not wait: {outcome:?}")
        }
        () = waits.first.notified() => {}
    }
    let seen = waits.seen.lock().unwrap();
    assert!(seen[0].1.contains("scripted status"), "{seen:?}");
    seen[0].0
}

#[tokio::test]
async fn a_server_is_left_alone_for_as_long_as_it_asks() {
    for status in [429, 503] {
        let step = |wait: &str| Step::status(status).header("Retry-After", wait);
        assert_eq!(wait_after(step("17")).await, Duration::from_secs(17));
        let soon = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(50));
        let wait = wait_after(step(&soon)).await;
        assert!(wait > Duration::ZERO && wait <= Duration::from_secs(50), "{wait:?}");
    }
}

#[tokio::test]
async fn a_date_that_has_passed_and_nonsense_mean_now() {
    for wait in ["Sun, 06 Nov 1994 08:49:37 GMT", "0", "-5", "soon"] {
        let script = [Step::status(503).header("Retry-After", wait), Step::text("green")];
        let (_, outcome) = ask_script(OpenAi, script, |_| {}).await;
        assert_eq!(outcome.unwrap().text, "green", "{wait}");
    }
}

#[tokio::test]
async fn more_patience_than_we_have_is_told_at_once() {
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
async fn no_repeat_begins_when_the_calls_time_is_up() {
    let script = Script::new([Step::status(503).header("Retry-After", "30")]).repeat_last();
    let set = |config: &mut slipform_model::BackendConfig| config.timeout_seconds = 20.0;
    let (server, outcome) = ask_script(OpenAi, script, set).await;
    assert_eq!(shown(&outcome), "Busy: the backend answered 503: scripted status 503");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_backend_that_keeps_failing_is_soon_asked_once_a_call() {
    let server = ScriptedServer::start(Script::new([Step::status(503)]).repeat_last());
    let mut config = config(&server, OpenAi);
    config.retries = 5;
    let backend = open(&config);
    for _ in 0..10 {
        ask(backend.as_ref()).await.unwrap_err();
    }
    assert_eq!(server.requests().len(), 10 + 20, "each call and the budget of repeats");
}

#[tokio::test]
async fn refusals_do_not_use_up_the_repeats() {
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
async fn a_server_that_is_down_is_unreachable() {
    let server = ScriptedServer::start(Step::text("never"));
    let config = config(&server, OpenAi);
    drop(server);
    let waits = Waits::default();
    let request = question();
    let call = Call { request: &request, invocation: None, watch: &waits };
    let error = open(&config).call(call).await.unwrap_err();
    assert!(
        matches!(&error, Error::Unreachable { url, .. } if url.starts_with("http://127.0.0.1:")),
        "{error}"
    );
    assert_eq!(waits.seen.lock().unwrap().len(), 3, "it may come back: as often as the settings say");
}
