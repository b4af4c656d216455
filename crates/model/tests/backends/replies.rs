//! Valid replies: a streamed and a complete response give the same result in every protocol.

use expect_test::{Expect, expect};
use serde_json::json;
use slipform_testkit::Step;
use slipform_types::BackendKind;

use crate::support::{HTTP, ask_script, shown};

/// Sends the step to each backend, streamed and complete, and compares the outcomes.
async fn check(step: Step, expect: Expect) {
    let mut lines = Vec::new();
    for kind in HTTP {
        let (_, streamed) = ask_script(kind, step.clone(), |_| {}).await;
        let (_, plain) = ask_script(kind, step.clone().plain_only(), |_| {}).await;
        assert_eq!(shown(&streamed), shown(&plain), "{kind:?}: streamed and complete reply differ");
        lines.push(format!("{}: {}", kind.name(), shown(&streamed)));
    }
    expect.assert_eq(&lines.join("\n"));
}

#[tokio::test]
async fn text_reply_has_usage_and_model() {
    check(Step::text("The colour is green, surely.").usage(12, 7).model("big-1"), expect![[r#"
        openai: {"text":"The colour is green, surely.","stop":{"reason":"finished"},"usage":{"input":12,"output":7},"model":"big-1"}
        completions: {"text":"The colour is green, surely.","stop":{"reason":"finished"},"usage":{"input":12,"output":7},"model":"big-1"}
        anthropic: {"text":"The colour is green, surely.","stop":{"reason":"finished"},"usage":{"input":12,"output":7},"model":"big-1"}"#]]).await;
}

#[tokio::test]
async fn cached_tokens_count_as_input() {
    check(Step::text("green").usage(12, 7).cached(5), expect![[r#"
        openai: {"text":"green","stop":{"reason":"finished"},"usage":{"input":12,"output":7},"model":"m"}
        completions: {"text":"green","stop":{"reason":"finished"},"usage":{"input":12,"output":7},"model":"m"}
        anthropic: {"text":"green","stop":{"reason":"finished"},"usage":{"input":17,"output":7},"model":"m"}"#]]).await;
}

#[tokio::test]
async fn reasoning_is_separate_from_text() {
    check(Step::reasoning("They like plants.").and_text("green"), expect![[r#"
        openai: {"text":"green","reasoning":"They like plants.","stop":{"reason":"finished"},"usage":{"input":10,"output":5},"model":"m"}
        completions: {"text":"green","stop":{"reason":"finished"},"usage":{"input":10,"output":5},"model":"m"}
        anthropic: {"text":"green","reasoning":"They like plants.","stop":{"reason":"finished"},"usage":{"input":10,"output":5},"model":"m"}"#]]).await;
}

#[tokio::test]
async fn tool_calls_keep_their_order() {
    let step = Step::text("Let me look.")
        .and_tool("look", json!({"at": "the wall", "times": 2}))
        .and_tool("paint", json!({}));
    check(step, expect![[r#"
        openai: {"text":"Let me look.","tool_calls":[{"id":"call_0_0","name":"look","arguments":"{\"at\":\"the wall\",\"times\":2}"},{"id":"call_0_1","name":"paint","arguments":"{}"}],"stop":{"reason":"tool_calls"},"usage":{"input":10,"output":5},"model":"m"}
        completions: {"text":"Let me look.","stop":{"reason":"finished"},"usage":{"input":10,"output":5},"model":"m"}
        anthropic: {"text":"Let me look.","tool_calls":[{"id":"toolu_0_1","name":"look","arguments":"{\"at\":\"the wall\",\"times\":2}"},{"id":"toolu_0_2","name":"paint","arguments":"{}"}],"stop":{"reason":"tool_calls"},"usage":{"input":10,"output":5},"model":"m"}"#]]).await;
}

#[tokio::test]
async fn tool_arguments_that_are_not_json_are_unchanged() {
    let (_, outcome) = ask_script(BackendKind::OpenAi, Step::tool("look", "{\"at\": wall"), |_| {}).await;
    assert_eq!(outcome.unwrap().tool_calls[0].arguments, "{\"at\": wall");
}

#[tokio::test]
async fn refusal_has_stop_reason_refused() {
    check(Step::refusal("I would rather not."), expect![[r#"
        openai: {"text":"","stop":{"reason":"refused","message":"I would rather not."},"usage":{"input":10,"output":5},"model":"m"}
        completions: {"text":"I would rather not.","stop":{"reason":"finished"},"usage":{"input":10,"output":5},"model":"m"}
        anthropic: {"text":"I would rather not.","stop":{"reason":"refused","message":"I would rather not."},"usage":{"input":10,"output":5},"model":"m"}"#]]).await;
}

#[tokio::test]
async fn filtered_reply_has_stop_reason_filtered_or_refused() {
    check(Step::text("gre").finish("content_filter"), expect![[r#"
        openai: {"text":"gre","stop":{"reason":"filtered"},"usage":{"input":10,"output":5},"model":"m"}
        completions: {"text":"gre","stop":{"reason":"filtered"},"usage":{"input":10,"output":5},"model":"m"}
        anthropic: {"text":"gre","stop":{"reason":"refused","message":"gre"},"usage":{"input":10,"output":5},"model":"m"}"#]]).await;
}

#[tokio::test]
async fn stop_reason_length_precedes_tool_calls() {
    check(
        Step::text("gre").finish("length"),
        expect![[r#"
        openai: {"text":"gre","stop":{"reason":"length"},"usage":{"input":10,"output":5},"model":"m"}
        completions: {"text":"gre","stop":{"reason":"length"},"usage":{"input":10,"output":5},"model":"m"}
        anthropic: {"text":"gre","stop":{"reason":"length"},"usage":{"input":10,"output":5},"model":"m"}"#]],
    )
    .await;
    check(Step::tool("look", "{\"at\": \"the w").finish("length"), expect![[r#"
        openai: {"text":"","tool_calls":[{"id":"call_0_0","name":"look","arguments":"{\"at\": \"the w"}],"stop":{"reason":"length"},"usage":{"input":10,"output":5},"model":"m"}
        completions: {"text":"","stop":{"reason":"length"},"usage":{"input":10,"output":5},"model":"m"}
        anthropic: {"text":"","tool_calls":[{"id":"toolu_0_0","name":"look","arguments":"{\"at\": \"the w"}],"stop":{"reason":"length"},"usage":{"input":10,"output":5},"model":"m"}"#]]).await;
}

#[tokio::test]
async fn missing_usage_is_estimated_for_input_and_output() {
    check(Step::text("green, of course").without_usage(), expect![[r#"
        openai: {"text":"green, of course","stop":{"reason":"finished"},"usage":{"input":4,"output":4,"estimated":true},"model":"m"}
        completions: {"text":"green, of course","stop":{"reason":"finished"},"usage":{"input":4,"output":4,"estimated":true},"model":"m"}
        anthropic: {"text":"green, of course","stop":{"reason":"finished"},"usage":{"input":4,"output":4,"estimated":true},"model":"m"}"#]]).await;
}
