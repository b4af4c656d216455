//! Streams that break off, never end, or are written in an unusual way.

use formwork_model::{BackendConfig, Error};
use formwork_testkit::{Script, ScriptedServer, Step};
use formwork_types::BackendKind;

use crate::support::{call, config, once, reply};

const OPENAI: BackendKind = BackendKind::OpenAi;
const KINDS: [BackendKind; 3] = [BackendKind::OpenAi, BackendKind::Completions, BackendKind::Anthropic];

/// A text that needs more than one byte for most of its characters.
const TEXT: &str = "{\"grüße\": \"日本語 🦀\", \"n\": [1, 2]}";

/// Tried again where that helps, and told as incomplete where it does not.
async fn check_incomplete(kind: BackendKind, broken: Step) {
    let server = ScriptedServer::start([broken.clone(), broken.clone(), Step::text("whole")]);
    assert_eq!(call(&config(kind, &server)).await.unwrap().text, "whole", "{kind:?}: {broken:?}");

    let server = ScriptedServer::start(Script::new([broken.clone()]).repeat_last());
    let error = call(&BackendConfig { retries: 1, ..config(kind, &server) }).await.unwrap_err();
    assert!(matches!(error, Error::Incomplete { .. }), "{kind:?}: {broken:?}: {error}");
    assert_eq!(server.requests().len(), 2, "{kind:?}: {broken:?}");
}

#[tokio::test]
async fn a_stream_that_breaks_off_is_no_answer() {
    for kind in KINDS {
        check_incomplete(kind, Step::text(TEXT).cut_after(2)).await;
        // To HTTP this is a proper end.
        check_incomplete(kind, Step::text(TEXT).until_close().cut_after(2)).await;
    }
}

#[tokio::test]
async fn a_body_that_breaks_off_is_no_answer() {
    for kind in KINDS {
        check_incomplete(kind, Step::text(TEXT).plain_only().cut_body(40)).await;
    }
}

#[tokio::test]
async fn what_is_not_json_is_no_answer() {
    for kind in KINDS {
        check_incomplete(kind, Step::text(TEXT).malformed_chunk(2, "data: {\"choices\":[{")).await;
        check_incomplete(kind, Step::text(TEXT).malformed_chunk(2, "data: {\"choices\":7,\"type\":}")).await;
        check_incomplete(kind, Step::text(TEXT).malformed_chunk(2, "data: \"words\"")).await;
        check_incomplete(kind, Step::text(TEXT).malformed_chunk(2, "data: [[[]]]")).await;
        check_incomplete(kind, Step::status(200).body("{\"choices\": [")).await;
    }
}

#[tokio::test]
async fn either_sign_of_the_end_is_enough() {
    for kind in KINDS {
        for step in [Step::text(TEXT).without_done(), Step::text(TEXT).without_finish()] {
            assert_eq!(reply(kind, step).await.unwrap().text, TEXT, "{kind:?}");
        }
        check_incomplete(kind, Step::text(TEXT).without_done().without_finish()).await;
    }
}

#[tokio::test]
async fn an_error_inside_a_stream_is_the_servers_word() {
    for kind in KINDS {
        let broken = Step::text(TEXT).error_after(1, "the engine stopped");
        let server = ScriptedServer::start([broken.clone(), Step::text("whole")]);
        assert_eq!(call(&config(kind, &server)).await.unwrap().text, "whole", "{kind:?}");
        for step in [broken.clone(), broken.plain_only()] {
            let error = reply(kind, step).await.unwrap_err();
            assert!(matches!(error, Error::Busy { .. }), "{kind:?}: {error:?}");
            assert!(error.to_string().ends_with("the engine stopped"), "{kind:?}: {error}");
        }
    }
}

#[tokio::test]
async fn an_error_inside_a_stream_that_cannot_pass_is_not_tried_again() {
    let openai = r#"data: {"error":{"message":"no such model","code":404}}"#;
    let anthropic = r#"data: {"type":"error","error":{"type":"not_found_error","message":"no such model"}}"#;
    for (kind, line) in [(OPENAI, openai), (BackendKind::Anthropic, anthropic)] {
        let server = ScriptedServer::start(Step::text(TEXT).malformed_chunk(1, line));
        let error = call(&config(kind, &server)).await.unwrap_err();
        assert!(matches!(error, Error::Rejected { .. }), "{kind:?}: {error:?}");
        assert!(error.to_string().ends_with("no such model"), "{kind:?}: {error}");
        assert_eq!(server.requests().len(), 1, "{kind:?}");
    }
}

#[tokio::test]
async fn an_answer_that_is_too_large_is_not_read() {
    const LIMIT: usize = 16 * 1024 * 1024;
    for step in
        [Step::oversized(5 * LIMIT as u64), Step::endless(), Step::oversized(5 * LIMIT as u64).plain_only()]
    {
        let server = ScriptedServer::start(step);
        let error = call(&config(OPENAI, &server)).await.unwrap_err();
        assert_eq!(error, Error::TooLarge { limit: LIMIT });
        assert_eq!(server.requests().len(), 1);
        // Were it not left, the sockets' buffers would have to take in all the rest.
        server.wait_for_abandoned_async(1).await;
    }
}

#[tokio::test]
async fn an_event_that_never_ends_is_not_read() {
    let line = format!("data: {}", "x".repeat(9 * 1024 * 1024));
    let server = ScriptedServer::start(Step::text(TEXT).malformed_chunk(1, &line));
    let error = call(&once(OPENAI, &server)).await.unwrap_err();
    assert!(matches!(error, Error::TooLarge { .. } | Error::Incomplete { .. }), "{error}");
}

#[tokio::test]
async fn unusual_writing_makes_no_difference() {
    for kind in KINDS {
        for step in [
            Step::text(TEXT).crlf(),
            Step::text(TEXT).pings(),
            Step::text(TEXT).without_space(),
            Step::text(TEXT).until_close(),
            Step::text(TEXT).chunk_bytes(1).split_writes(1),
            Step::text(TEXT).crlf().pings().split_writes(3),
            Step::text(TEXT).content_type("Text/Event-Stream; charset=UTF-8"),
            Step::text(TEXT).plain_only().split_writes(1),
            Step::text(TEXT).malformed_chunk(1, "retry: 10\nid: 5\nunknown"),
        ] {
            let shown = format!("{kind:?}: {step:?}");
            assert_eq!(reply(kind, step).await.unwrap().text, TEXT, "{shown}");
        }
    }
}

#[tokio::test]
async fn a_stream_that_said_all_and_stays_open_is_not_waited_for() {
    for kind in KINDS {
        let server = ScriptedServer::start(Step::text(TEXT).stall_after(usize::MAX));
        assert_eq!(call(&once(kind, &server)).await.unwrap().text, TEXT, "{kind:?}");
        server.wait_for_abandoned_async(1).await;
    }
}
