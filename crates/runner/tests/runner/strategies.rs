//! Every strategy on every protocol that supports it, and every way in which a protocol reports that it has
//! no answer.

use crate::support::contexts::{TestRun, drive_to_end, journal, rung, test_run};
use serde_json::{Value, json};
use slipform_runner::{LadderRung, StopSignal};
use slipform_testkit::fixtures::{self, Fixture};
use slipform_testkit::{ScriptedServer, Step};
use slipform_types::{BackendKind, Outcome, RunErrorType, StructuredOutput};

/// Every kind of backend with the strategies that it supports.
const ROUTES: [(BackendKind, &str); 10] = [
    (BackendKind::OpenAi, "prompt"),
    (BackendKind::OpenAi, "system_prompt"),
    (BackendKind::OpenAi, "tool"),
    (BackendKind::OpenAi, "native"),
    (BackendKind::Completions, "prompt"),
    (BackendKind::Completions, "system_prompt"),
    (BackendKind::Anthropic, "prompt"),
    (BackendKind::Anthropic, "system_prompt"),
    (BackendKind::Anthropic, "tool"),
    (BackendKind::Anthropic, "native"),
];

fn ladder(kind: BackendKind, server: &ScriptedServer) -> Vec<LadderRung> {
    vec![rung("default", kind, server, StructuredOutput::Auto)]
}

async fn run(context: &TestRun) -> Outcome {
    drive_to_end(context, &journal(), &StopSignal::default(), &()).await.unwrap()
}

async fn failure(context: &TestRun) -> slipform_types::Failure {
    match run(context).await {
        Outcome::Failed(failure) => *failure,
        Outcome::Completed(success) => panic!("the run completed: {:?}", success.result_data),
        Outcome::ToolCalls(ended) => panic!("the run ended with calls: {:?}", ended.calls),
    }
}

/// Returns the reply in the form that the strategy expects.
fn says(strategy: &str, value: &Value) -> Step {
    if strategy == "tool" { Step::tool("submit_result", value.clone()) } else { Step::json(value) }
}

/// Returns the fixture's reply without the first of its required members.
fn flawed(fixture: &Fixture) -> Value {
    let mut reply = fixture.reply.clone();
    let required = fixture.output_schema()["required"][0].as_str().unwrap();
    reply.as_object_mut().unwrap().shift_remove(required).unwrap();
    reply
}

fn with_strategy(fixture: &Fixture, strategy: &str, ladder: Vec<LadderRung>) -> TestRun {
    test_run(&fixture.agent, fixture.input, json!({"strategy": strategy}), ladder)
}

#[tokio::test]
async fn every_fixture_is_corrected_under_every_strategy() {
    for (kind, strategy) in ROUTES {
        for fixture in fixtures::all() {
            let what = format!("{} on {} by {strategy}", fixture.name, kind.name());
            let steps = [says(strategy, &flawed(&fixture)), says(strategy, &fixture.reply)];
            let server = ScriptedServer::start(steps);
            let outcome = run(&with_strategy(&fixture, strategy, ladder(kind, &server))).await;
            let Outcome::Completed(success) = outcome else { panic!("{what}: {outcome:?}") };
            assert_eq!(success.result_data.as_ref(), Some(&fixture.reply), "{what}");
            let receipt = &success.receipt;
            assert_eq!((receipt.strategy.as_deref(), receipt.calls), (Some(strategy), 2), "{what}");
            let requests = server.requests();
            let (first, second) = (requests[0].prompt(), String::from_utf8_lossy(&requests[1].raw));
            let by_prompt = strategy == "prompt";
            assert_eq!(first.contains("## Output Format (REQUIRED)"), by_prompt, "{what}");
            assert_eq!(first.contains("## Required Output Format"), !by_prompt, "{what}");
            assert!(second.contains("required property is missing"), "{what}");
            let is_forced = requests[0].body.get("tool_choice").is_some();
            assert_eq!(is_forced, strategy == "tool", "{what}");
            let formatted = ["response_format", "output_config"];
            let formatted = formatted.iter().any(|member| requests[0].body.get(member).is_some());
            assert_eq!(formatted, strategy == "native", "{what}");
        }
    }
}

#[tokio::test]
async fn unmet_contract_keeps_all_replies_under_every_strategy() {
    for (kind, strategy) in ROUTES {
        let fixture = fixtures::pr_reviewer();
        let bad = || says(strategy, &flawed(&fixture));
        let server = ScriptedServer::start([bad(), bad()]);
        let failure = failure(&with_strategy(&fixture, strategy, ladder(kind, &server))).await;
        let what = format!("{} by {strategy}", kind.name());
        assert_eq!(failure.error.kind, RunErrorType::OutputSchemaValidationFailed, "{what}");
        assert_eq!(failure.error.validation_errors, ["$.summary: required property is missing"], "{what}");
        assert_eq!((failure.error.calls, failure.salvage.replies.len()), (2, 2), "{what}");
        assert_eq!(failure.salvage.best_candidate, Some(flawed(&fixture)), "{what}");
        assert_eq!(server.requests().len(), 2, "{what}");
    }
}

#[tokio::test]
async fn truncated_reply_is_never_a_success() {
    for (kind, strategy) in ROUTES {
        let fixture = fixtures::code_analyzer();
        let cut = || says(strategy, &fixture.reply).finish("length");
        let server = ScriptedServer::start([cut(), cut()]);
        let failure = failure(&with_strategy(&fixture, strategy, ladder(kind, &server))).await;
        let what = format!("{} by {strategy}", kind.name());
        assert_eq!(failure.error.kind, RunErrorType::OutputTruncated, "{what}");
        assert_eq!(failure.salvage.best_candidate.as_ref(), Some(&fixture.reply), "{what}");
    }
}

#[tokio::test]
async fn refusals_and_content_filters_end_the_run() {
    for kind in [BackendKind::OpenAi, BackendKind::Anthropic] {
        for step in [Step::refusal("I cannot do that."), Step::text("half").finish("content_filter")] {
            let server = ScriptedServer::start([step]);
            let context = with_strategy(&fixtures::code_analyzer(), "prompt", ladder(kind, &server));
            assert_eq!(failure(&context).await.error.kind, RunErrorType::Refused, "{}", kind.name());
        }
    }
}

#[tokio::test]
async fn agent_without_a_contract_returns_text() {
    for kind in [BackendKind::OpenAi, BackendKind::Completions, BackendKind::Anthropic] {
        let server = ScriptedServer::start([Step::text("  "), Step::text("All is well.")]);
        let agent = json!({"name": "talker"});
        let outcome = run(&test_run(&agent, "How is it?", json!({}), ladder(kind, &server))).await;
        let Outcome::Completed(success) = outcome else { panic!("{}: {outcome:?}", kind.name()) };
        assert_eq!(success.result_text.as_deref(), Some("All is well."), "{}", kind.name());
        assert_eq!((success.result_data, success.receipt.calls), (None, 2), "{}", kind.name());
    }
}

#[tokio::test]
async fn run_stopped_before_the_first_call_makes_none() {
    let fixture = fixtures::code_analyzer();
    let server = ScriptedServer::start([Step::json(&fixture.reply)]);
    let context = with_strategy(&fixture, "prompt", ladder(BackendKind::OpenAi, &server));
    let stop = StopSignal::default();
    stop.request();
    let outcome = drive_to_end(&context, &journal(), &stop, &()).await.unwrap();
    let Outcome::Failed(failure) = outcome else { panic!("{outcome:?}") };
    assert_eq!((failure.error.kind, failure.error.calls), (RunErrorType::Stopped, 0));
    assert_eq!(server.requests().len(), 0);
}
