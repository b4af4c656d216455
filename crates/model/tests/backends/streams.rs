//! Streams with unusual framing, interrupted streams and endless streams.

use slipform_testkit::{Script, Step};
use slipform_types::BackendKind::{self, Anthropic, OpenAi};

use crate::support::{HTTP, ask_script, kind_of, shown};

/// Characters of one to four bytes, so that chunk boundaries split some of them.
const TEXT: &str = "grün, 緑 and 🦀: {\"a\": \"b\\n\"}";

/// Asserts that the reply is complete after one request.
async fn check_complete(name: &str, step: Step) {
    for kind in HTTP {
        // Short, because one case waits for the timeout, but long enough for a busy machine.
        let set = |config: &mut slipform_model::BackendConfig| config.idle_timeout_seconds = 2.0;
        let (server, outcome) = ask_script(kind, step.clone(), set).await;
        assert!(
            outcome.as_ref().is_ok_and(|reply| reply.text == TEXT),
            "{kind:?} {name}: {}",
            shown(&outcome)
        );
        assert_eq!(server.requests().len(), 1, "{kind:?} {name}");
    }
}

/// Asserts that the response is retried, and reported as this variant of error if every attempt fails.
async fn check_interrupted(kind: BackendKind, name: &str, step: Step, expected: &str) {
    let script = [step.clone(), Step::text("complete")];
    let (server, outcome) = ask_script(kind, script, |_| {}).await;
    assert!(
        outcome.as_ref().is_ok_and(|reply| reply.text == "complete"),
        "{kind:?} {name}: {}",
        shown(&outcome)
    );
    assert_eq!(server.requests().len(), 2, "{kind:?} {name}");

    let script = Script::new([step]).repeat_last();
    let (server, outcome) = ask_script(kind, script, |config| config.retries = 1).await;
    assert_eq!(
        outcome.as_ref().map_err(kind_of),
        Err(expected.to_owned()),
        "{kind:?} {name}: {}",
        shown(&outcome)
    );
    assert_eq!(server.requests().len(), 2, "{kind:?} {name}");
}

#[tokio::test]
async fn stream_with_unusual_framing_is_read() {
    let text = || Step::text(TEXT).chunk_bytes(3);
    check_complete("CR LF", text().crlf()).await;
    check_complete("pings", text().pings()).await;
    check_complete("pings and CR LF", text().pings().crlf()).await;
    check_complete("no space after the colon", text().without_space()).await;
    check_complete("byte by byte", text().crlf().split_writes(1)).await;
    check_complete("pieces of 7 bytes", text().split_writes(7)).await;
    check_complete("a plain reply byte by byte", text().plain_only().split_writes(1)).await;
    check_complete("framed by the connection's end", text().until_close()).await;
    check_complete("hung up afterwards", text().hang_up()).await;
    check_complete("content type with parameters", text().content_type("Text/Event-Stream; charset=utf-8"))
        .await;
}

#[tokio::test]
async fn reply_with_finish_reason_or_end_marker_is_complete() {
    let text = || Step::text(TEXT);
    check_complete("a reason, no [DONE]", text().without_done()).await;
    check_complete("a reason, no [DONE], cut", text().without_done().cut_after(99)).await;
    check_complete("a reason, no [DONE], silence", text().without_done().stall_after(99)).await;
    check_complete("[DONE], no reason", text().without_finish()).await;
    check_complete("[DONE], then a cut", text().cut_after(99)).await;
    check_complete("[DONE], then silence", text().stall_after(99)).await;
}

#[tokio::test]
async fn interrupted_or_malformed_response_is_retried_and_reported() {
    for kind in HTTP {
        let text = || Step::text("green as the grass in the month of May");
        let cases = [
            ("cut between events", text().cut_after(2)),
            ("cut in the middle of an event", text().cut_body(230)),
            ("cut as if it were the end", text().cut_after(2).until_close()),
            ("reset", text().cut_after(2).reset()),
            ("neither a reason nor [DONE]", text().without_finish().without_done()),
            ("a plain reply cut short", text().plain_only().cut_body(50)),
            ("a plain reply cut as if it were the end", text().plain_only().cut_body(50).until_close()),
            ("not JSON", text().malformed_chunk(1, "data: {not json")),
            ("half of an object", text().malformed_chunk(1, "data: {\"choices\": [")),
            ("a number", text().malformed_chunk(1, "data: 5")),
            ("a list", text().malformed_chunk(1, "data: [1, 2]")),
            ("an empty stream", Step::status(200).content_type("text/event-stream").body("")),
            ("an empty reply", Step::status(200).body("")),
            ("a reply without an answer", Step::status(200).body("{}")),
        ];
        for (name, step) in cases {
            check_interrupted(kind, name, step, "Incomplete").await;
        }
        check_interrupted(kind, "closed without a word", Step::close(), "Unreachable").await;
        check_interrupted(kind, "not HTTP", Step::raw("hello\r\n\r\n"), "Unreachable").await;
    }
    let done = Step::status(200).content_type("text/event-stream").body("data: [DONE]\n\n");
    check_interrupted(OpenAi, "nothing but [DONE]", done, "Incomplete").await;
}

#[tokio::test]
async fn oversized_response_fails_at_its_limit() {
    let event = [b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: ", &[b'x'; 9 << 20][..]];
    let cases = [
        ("an endless stream", Step::endless(), 16 << 20),
        ("an endless body", Step::endless().plain_only(), 16 << 20),
        ("a body of a terabyte", Step::oversized(1 << 40).plain_only(), 16 << 20),
        ("an endless page", Step::endless().plain_only().content_type("text/html"), 16 << 20),
        ("an endless event", Step::raw(event.concat()), 8 << 20),
    ];
    for (name, step, limit) in cases {
        for kind in [OpenAi, Anthropic] {
            let (server, outcome) = ask_script(kind, step.clone(), |_| {}).await;
            let expected = format!("TooLarge: the reply is larger than {limit} bytes");
            assert_eq!(shown(&outcome), expected, "{kind:?} {name}");
            assert_eq!(server.requests().len(), 1, "{kind:?} {name}");
        }
    }
}

#[tokio::test]
async fn long_error_body_is_shortened() {
    let head = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\n\r\n";
    let body = "x".repeat(1 << 20);
    let (_, outcome) = ask_script(OpenAi, Step::raw(format!("{head}{body}")), |_| {}).await;
    let expected = format!("Rejected: the backend refused the request with 400: {}…", "x".repeat(1_000));
    assert_eq!(shown(&outcome), expected);
}
