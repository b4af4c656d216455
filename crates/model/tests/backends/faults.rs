//! A backend that is away, overloaded, slow or somebody else.

use std::net::TcpListener;

use formwork_model::{BackendConfig, Call, Error};
use formwork_testkit::{Gate, Script, ScriptedServer, Step};
use formwork_types::BackendKind;

use crate::support::{Waits, backend, call, config, hello, once};

const OPENAI: BackendKind = BackendKind::OpenAi;
const KINDS: [BackendKind; 3] = [BackendKind::OpenAi, BackendKind::Completions, BackendKind::Anthropic];

/// Short enough not to slow a test down, long enough for a busy machine to send what does come.
const SHORT_SECONDS: f64 = 0.4;

fn setting(error: &Error) -> &str {
    match error {
        Error::Timeout { setting, .. } => setting,
        other => panic!("not a timeout: {other}"),
    }
}

#[tokio::test]
async fn a_server_that_takes_the_connection_and_says_nothing_ends_the_connect_timeout() {
    // The kernel accepts for a listener that never does, and nobody answers the handshake.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut config = BackendConfig::new("mine", OPENAI);
    config.base_url = Some(format!("https://{}/v1", silent.local_addr().unwrap()));
    config.connect_timeout_seconds = SHORT_SECONDS;
    config.retries = 0;
    let error = call(&config).await.unwrap_err();
    assert_eq!(setting(&error), "connect_timeout_seconds");
}

#[tokio::test]
async fn silence_in_the_middle_ends_the_idle_timeout_and_is_tried_again() {
    for kind in KINDS {
        let server = ScriptedServer::start([Step::text("slow").stall_after(2), Step::text("quick")]);
        let config = BackendConfig { idle_timeout_seconds: SHORT_SECONDS, ..config(kind, &server) };
        assert_eq!(call(&config).await.unwrap().text, "quick", "{kind:?}");
        server.wait_for_abandoned_async(1).await;
    }
    let server = ScriptedServer::start(Step::text("slow").stall_after(2));
    let config = BackendConfig { idle_timeout_seconds: SHORT_SECONDS, ..once(OPENAI, &server) };
    assert_eq!(setting(&call(&config).await.unwrap_err()), "idle_timeout_seconds");
}

#[tokio::test]
async fn a_model_that_reads_its_prompt_for_long_is_not_idle() {
    let server = ScriptedServer::start(Step::text("never").stall_after(0));
    let config = BackendConfig {
        idle_timeout_seconds: 0.001,
        timeout_seconds: SHORT_SECONDS,
        ..once(OPENAI, &server)
    };
    assert_eq!(setting(&call(&config).await.unwrap_err()), "timeout_seconds");
}

#[tokio::test]
async fn the_total_timeout_ends_silence_and_is_not_tried_again() {
    let server = ScriptedServer::start(Step::hang());
    let config = BackendConfig { timeout_seconds: SHORT_SECONDS, ..config(OPENAI, &server) };
    let error = call(&config).await.unwrap_err();
    assert_eq!(setting(&error), "timeout_seconds");
    assert!(error.to_string().contains("raise timeout_seconds in formwork.toml"), "{error}");
    assert_eq!(server.requests().len(), 1);
    server.wait_for_abandoned_async(1).await;
}

#[tokio::test]
async fn the_total_timeout_ends_an_answer_that_trickles_for_ever() {
    let pause = std::time::Duration::from_millis(1);
    let server = ScriptedServer::start(Step::endless().trickle(1, pause));
    let config = BackendConfig { timeout_seconds: SHORT_SECONDS, ..config(OPENAI, &server) };
    assert_eq!(setting(&call(&config).await.unwrap_err()), "timeout_seconds");
    assert_eq!(server.requests().len(), 1);
    server.wait_for_abandoned_async(1).await;
}

#[tokio::test]
async fn an_overloaded_server_is_asked_again_when_it_says() {
    for status in [429, 503] {
        for wait in ["0", "Sun, 06 Nov 1994 08:49:37 GMT"] {
            let busy = Step::status(status).header("Retry-After", wait);
            let server = ScriptedServer::start([busy, Step::text("now")]);
            let waits = Waits::default();
            let request = hello();
            let call = Call { request: &request, invocation: None, watch: &waits };
            assert_eq!(backend(&config(OPENAI, &server)).call(call).await.unwrap().text, "now");
            assert_eq!(waits.all(), [std::time::Duration::ZERO], "{status}");
        }
    }
}

#[tokio::test]
async fn the_wait_that_a_server_asks_for_is_kept() {
    let server = ScriptedServer::start(Step::status(429).header("Retry-After", "7"));
    let waits = Waits::default();
    let request = hello();
    let backend = backend(&config(OPENAI, &server));
    let call = backend.call(Call { request: &request, invocation: None, watch: &waits });
    // The call is dropped as soon as it has said how long it will wait.
    tokio::select! {
        outcome = call => panic!("it did not wait: {outcome:?}"),
        () = waits.first() => {}
    }
    assert_eq!(waits.all(), [std::time::Duration::from_secs(7)]);
}

#[tokio::test]
async fn a_wait_that_is_too_long_fails_at_once_in_the_servers_words() {
    let date = "Tue, 01 Jan 2999 00:00:00 GMT";
    for (wait, timeout_seconds) in [("3600", 120.0), (date, 120.0), ("30", 20.0)] {
        let body = r#"{"error":{"message":"Quota used up until tomorrow"}}"#;
        let server = ScriptedServer::start(Step::status(429).header("Retry-After", wait).body(body));
        let config = BackendConfig { timeout_seconds, ..config(OPENAI, &server) };
        let error = call(&config).await.unwrap_err();
        assert_eq!(error.to_string(), "the backend answered 429: Quota used up until tomorrow");
        assert_eq!(server.requests().len(), 1, "{wait}");
    }
}

#[tokio::test]
async fn what_passes_is_tried_again_and_then_told() {
    for status in [408, 429, 500, 502, 503, 504, 529] {
        let server = ScriptedServer::start([Step::status(status), Step::status(status), Step::text("up")]);
        assert_eq!(call(&config(OPENAI, &server)).await.unwrap().text, "up", "{status}");

        let server = ScriptedServer::start(Script::new([Step::status(status)]).repeat_last());
        let config = BackendConfig { retries: 2, ..config(OPENAI, &server) };
        let error = call(&config).await.unwrap_err();
        assert_eq!(error.to_string(), format!("the backend answered {status}: scripted status {status}"));
        assert_eq!(server.requests().len(), 3, "{status}");
    }
}

#[tokio::test]
async fn a_request_that_is_refused_is_sent_once() {
    for kind in KINDS {
        for status in [400, 401, 403, 404, 413, 422] {
            let server = ScriptedServer::start(Step::status(status));
            let error = call(&config(kind, &server)).await.unwrap_err();
            let message = format!("scripted status {status}");
            assert_eq!(error, Error::Rejected { status, message }, "{kind:?}");
            assert_eq!(server.requests().len(), 1, "{kind:?} {status}");
        }
    }
}

#[tokio::test]
async fn a_server_that_keeps_failing_is_not_asked_ever_more() {
    let server = ScriptedServer::start(Script::new([Step::status(500)]).repeat_last());
    let backend = backend(&BackendConfig { retries: 20, ..config(OPENAI, &server) });
    for _ in 0..5 {
        backend.call(Call::new(&hello())).await.unwrap_err();
    }
    // 20 repeats are in hand for all calls together.
    assert_eq!(server.requests().len(), 25);
}

#[tokio::test]
async fn refusals_do_not_use_up_the_repeats_of_outages() {
    let refusals = (0..30).map(|_| Step::status(400));
    let server = ScriptedServer::start(Script::new(refusals.chain([Step::status(503), Step::text("up")])));
    let backend = backend(&config(OPENAI, &server));
    for _ in 0..30 {
        backend.call(Call::new(&hello())).await.unwrap_err();
    }
    assert_eq!(backend.call(Call::new(&hello())).await.unwrap().text, "up");
}

#[tokio::test]
async fn whatever_form_an_error_has_its_words_are_found() {
    let long = "x".repeat(5_000);
    for (body, words) in [
        (r#"{"error":{"message":"a"}}"#, "a"),
        (r#"{"error":{"message":"a","param":"seed"}}"#, "a (seed)"),
        (r#"{"error":"b"}"#, "b"),
        (r#"{"message":"c"}"#, "c"),
        (r#"{"detail":[{"loc":["body","n"]}]}"#, r#"[{"loc":["body","n"]}]"#),
        ("plain\n words", "plain words"),
        ("", "(no message)"),
        (&long, &format!("{}…", &long[..1_000])),
    ] {
        let server = ScriptedServer::start(Step::status(400).body(body));
        let error = call(&config(OPENAI, &server)).await.unwrap_err();
        assert_eq!(error, Error::Rejected { status: 400, message: words.to_owned() });
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named() {
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut config = BackendConfig::new("mine", OPENAI);
    config.base_url = Some(format!("http://{gone}/v1"));
    config.retry_base_seconds = 0.0;
    let error = call(&config).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    let start = format!("cannot reach http://{gone}/v1/chat/completions: ");
    assert!(error.to_string().starts_with(&start), "{error}");
}

#[tokio::test]
async fn a_connection_that_closes_without_a_word_is_tried_again() {
    for lost in [Step::close(), Step::close().reset()] {
        let server = ScriptedServer::start([lost, Step::text("up")]);
        assert_eq!(call(&config(OPENAI, &server)).await.unwrap().text, "up");
    }
}

#[tokio::test]
async fn a_page_for_people_is_no_reply() {
    for kind in KINDS {
        let server = ScriptedServer::start(Step::html());
        let error = call(&config(kind, &server)).await.unwrap_err();
        let expected = Error::ContentType {
            content_type: "text/html; charset=utf-8".to_owned(),
            start: "<!doctype html><title>Welcome</title>".to_owned(),
        };
        assert_eq!(error, expected, "{kind:?}");
        assert_eq!(server.requests().len(), 1, "{kind:?}");
    }
}

#[tokio::test]
async fn a_redirection_is_told_and_not_followed() {
    let elsewhere = ScriptedServer::start(Step::text("stranger"));
    for kind in KINDS {
        let server = ScriptedServer::start(Step::redirect(&elsewhere.base_url()));
        let error = call(&config(kind, &server)).await.unwrap_err();
        let expected = Error::Redirected { status: 307, location: elsewhere.base_url() };
        assert_eq!(error, expected, "{kind:?}");
        assert_eq!(server.requests().len(), 1, "{kind:?}");
    }
    assert_eq!(elsewhere.connections(), 0);
}

#[tokio::test]
async fn no_more_calls_run_than_are_allowed() {
    let gate = Gate::new();
    let step = Step::text("x").gate(&gate);
    let server = ScriptedServer::start(Script::new([step]).repeat_last());
    let backend = backend(&BackendConfig { max_concurrency: 2, ..config(OPENAI, &server) });
    let request = hello();
    let say = || async { backend.call(Call::new(&request)).await.unwrap() };
    let calls = async { tokio::join!(say(), say(), say(), say(), say()) };
    let opening = async {
        server.wait_for_requests_async(2).await;
        gate.open();
    };
    tokio::join!(calls, opening);
    assert_eq!((server.requests().len(), server.max_in_flight()), (5, 2));
}

#[tokio::test]
async fn a_call_that_is_dropped_closes_its_connection_and_frees_its_place() {
    for held in [Step::hang(), Step::text("slow").stall_after(1)] {
        let server = ScriptedServer::start([held, Step::text("next")]);
        let backend = backend(&BackendConfig { max_concurrency: 1, ..config(OPENAI, &server) });
        let request = hello();
        tokio::select! {
            outcome = backend.call(Call::new(&request)) => panic!("nobody answered, yet: {outcome:?}"),
            () = server.wait_for_requests_async(1) => {}
        }
        server.wait_for_abandoned_async(1).await;
        assert_eq!(backend.call(Call::new(&request)).await.unwrap().text, "next");
    }
}
