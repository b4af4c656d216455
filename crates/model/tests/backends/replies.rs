//! What comes back: each protocol's replies, streamed and in one piece.

use formwork_model::{BackendConfig, Call, Watch};
use formwork_testkit::{ScriptedServer, Step};
use formwork_types::{BackendKind, Reply, Stop, ToolCall, Usage};
use serde_json::json;

use crate::support::{backend, call, config, hello, reply};

const KINDS: [BackendKind; 3] = [BackendKind::OpenAi, BackendKind::Completions, BackendKind::Anthropic];
const WITH_TOOLS: [BackendKind; 2] = [BackendKind::OpenAi, BackendKind::Anthropic];

/// The same reply must come out of a stream and of a whole body.
async fn both(kind: BackendKind, step: Step) -> Reply {
    let streamed = reply(kind, step.clone()).await.unwrap();
    let whole = reply(kind, step.plain_only()).await.unwrap();
    assert_eq!(streamed, whole, "{kind:?}");
    streamed
}

#[tokio::test]
async fn text_comes_out_as_it_was_said() {
    for kind in KINDS {
        let text = "{\"name\": \"Zoë — 日本\\n\", \"n\": 1.50}\n";
        let reply = both(kind, Step::text(text).chunk_bytes(3).usage(21, 8)).await;
        let usage = Usage { input: 21, output: 8, estimated: false };
        let expected =
            Reply { text: text.to_owned(), usage, model: "model-7b".to_owned(), ..Reply::default() };
        assert_eq!(reply, expected, "{kind:?}");
    }
}

#[tokio::test]
async fn the_model_is_the_one_that_answered() {
    for kind in KINDS {
        assert_eq!(
            both(kind, Step::text("x").model("model-7b-0613")).await.model,
            "model-7b-0613",
            "{kind:?}"
        );
    }
}

#[tokio::test]
async fn reasoning_is_kept_apart_from_the_answer() {
    for kind in WITH_TOOLS {
        let reply = both(kind, Step::reasoning("Let me think: {\"a\": 0}").and_text("{\"a\":1}")).await;
        assert_eq!(
            (reply.reasoning.as_str(), reply.text.as_str()),
            ("Let me think: {\"a\": 0}", "{\"a\":1}")
        );
    }
}

#[tokio::test]
async fn tool_calls_are_joined_from_their_parts() {
    for kind in WITH_TOOLS {
        let arguments = "{\"path\":\"src/main.rs\",\"line\":12}";
        let step = Step::text("Reading.")
            .and_tool("read", arguments)
            .and_tool("submit", json!({"ok": true}))
            .chunk_bytes(5);
        let reply = both(kind, step).await;
        assert_eq!(reply.text, "Reading.");
        assert_eq!(reply.stop, Stop::ToolCalls);
        let calls: Vec<_> =
            reply.tool_calls.iter().map(|call| (call.name.as_str(), call.arguments.as_str())).collect();
        assert_eq!(calls, [("read", arguments), ("submit", "{\"ok\":true}")], "{kind:?}");
        let [first, second] = &reply.tool_calls[..] else { panic!("two calls") };
        assert!(!first.id.is_empty() && first.id != second.id, "{kind:?}");
    }
}

#[tokio::test]
async fn a_call_without_arguments_is_an_empty_object_in_messages() {
    let reply = both(BackendKind::Anthropic, Step::tool("stop", json!({}))).await;
    let expected =
        ToolCall { id: "toolu_0_0".to_owned(), name: "stop".to_owned(), arguments: "{}".to_owned() };
    assert_eq!(reply.tool_calls, [expected]);
}

#[tokio::test]
async fn a_refusal_is_told_with_its_words() {
    for kind in WITH_TOOLS {
        let reply = both(kind, Step::refusal("I can't help with that.")).await;
        assert_eq!(reply.stop, Stop::Refused { message: "I can't help with that.".to_owned() }, "{kind:?}");
    }
}

#[tokio::test]
async fn an_answer_that_was_cut_is_told_from_one_that_ended() {
    for kind in KINDS {
        let cut = both(kind, Step::text("{\"a\":").finish("length")).await;
        assert_eq!((cut.stop, cut.text.as_str()), (Stop::Length, "{\"a\":"), "{kind:?}");
        assert_eq!(both(kind, Step::text("x")).await.stop, Stop::Finished, "{kind:?}");
    }
    for kind in WITH_TOOLS {
        let cut = both(kind, Step::tool("submit", "{\"a\":1}").finish("length")).await;
        assert_eq!(cut.stop, Stop::Length, "{kind:?}: half a call is no call");
    }
    let full = both(BackendKind::Anthropic, Step::text("x").finish("model_context_window_exceeded")).await;
    assert_eq!(full.stop, Stop::Length);
}

#[tokio::test]
async fn a_filter_is_told_from_an_end() {
    for kind in [BackendKind::OpenAi, BackendKind::Completions] {
        let reply = both(kind, Step::text("Once upon").finish("content_filter")).await;
        assert_eq!((reply.stop, reply.text.as_str()), (Stop::Filtered, "Once upon"));
    }
    let reply = both(BackendKind::Anthropic, Step::text("Once upon").finish("content_filter")).await;
    assert_eq!(reply.stop, Stop::Refused { message: "Once upon".to_owned() });
}

#[tokio::test]
async fn cached_tokens_count_as_read() {
    for (kind, input) in [(BackendKind::OpenAi, 30), (BackendKind::Anthropic, 50)] {
        let reply = both(kind, Step::text("x").usage(30, 2).cached(20)).await;
        assert_eq!(reply.usage, Usage { input, output: 2, estimated: false }, "{kind:?}");
    }
}

#[tokio::test]
async fn a_server_that_says_nothing_of_the_type_is_understood() {
    let body = r#"{"choices":[{"message":{"content":"whole"},"finish_reason":"stop"}]}"#;
    let stream = "data: {\"choices\":[{\"delta\":{\"content\":\"streamed\"}}]}\n\ndata: [DONE]\n\n";
    for (body, text) in [(body, "whole"), (stream, "streamed")] {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        let reply = reply(BackendKind::OpenAi, Step::raw(format!("{head}{body}"))).await.unwrap();
        assert_eq!(reply.text, text);
    }
}

#[tokio::test]
async fn whoever_watches_sees_the_tokens_come() {
    #[derive(Default)]
    struct Last(std::sync::atomic::AtomicU64);
    impl Watch for Last {
        fn tokens(&self, total: u64) {
            self.0.store(total, std::sync::atomic::Ordering::Relaxed);
        }
    }
    for kind in KINDS {
        let server = ScriptedServer::start(Step::text("abcdefgh").chunk_bytes(1));
        let last = Last::default();
        let request = hello();
        let call = Call { request: &request, invocation: None, watch: &last };
        backend(&config(kind, &server)).call(call).await.unwrap();
        let seen = last.0.into_inner();
        assert!((8..=10).contains(&seen), "{kind:?}: {seen}");
    }
}

#[tokio::test]
async fn a_connection_is_used_again() {
    for kind in KINDS {
        let server = ScriptedServer::start([Step::text("a"), Step::text("b"), Step::text("c")]);
        let backend = backend(&config(kind, &server));
        for _ in 0..3 {
            backend.call(Call::new(&hello())).await.unwrap();
        }
        assert_eq!(server.connections(), 1, "{kind:?}");
    }
}

#[tokio::test]
async fn a_connection_that_died_in_the_pool_does_no_harm() {
    let server = ScriptedServer::start([Step::text("a").hang_up(), Step::text("b")]);
    let config = BackendConfig { retries: 1, ..config(BackendKind::OpenAi, &server) };
    let backend = backend(&config);
    backend.call(Call::new(&hello())).await.unwrap();
    assert_eq!(backend.call(Call::new(&hello())).await.unwrap().text, "b");
}

#[tokio::test]
async fn a_body_without_an_answer_is_no_reply() {
    for (kind, body) in
        [(BackendKind::OpenAi, "{\"choices\":[]}"), (BackendKind::Anthropic, "{\"id\":\"x\"}")]
    {
        let server = ScriptedServer::start(Step::status(200).body(body));
        let config = BackendConfig { retries: 0, ..config(kind, &server) };
        let error = call(&config).await.unwrap_err();
        assert!(matches!(error, formwork_model::Error::Incomplete { .. }), "{kind:?}: {error}");
    }
}
