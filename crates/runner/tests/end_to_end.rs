//! Runs from the claim to the result, over real sockets, in every protocol.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod support;

use formwork_runner::{Stop, drive};
use formwork_testkit::{ScriptedServer, Step, fixtures};
use formwork_types::{
    BackendKind, Body, Event, OptionsPatch, Outcome, RunErrorType, Strategy, StructuredOutput,
};
use serde_json::{Value, json};
use support::{claim, config, failure, flawed, journal, options, run, rung, said, success};

/// Every protocol with the strategies that it can be asked by, and the strategy in the receipt.
const ROUTES: [(BackendKind, Strategy, &str); 13] = [
    (BackendKind::OpenAi, Strategy::Auto, "native"),
    (BackendKind::OpenAi, Strategy::Prompt, "prompt"),
    (BackendKind::OpenAi, Strategy::SystemPrompt, "system_prompt"),
    (BackendKind::OpenAi, Strategy::Tool, "tool"),
    (BackendKind::OpenAi, Strategy::Native, "native"),
    (BackendKind::Completions, Strategy::Auto, "prompt"),
    (BackendKind::Completions, Strategy::Prompt, "prompt"),
    (BackendKind::Completions, Strategy::SystemPrompt, "system_prompt"),
    (BackendKind::Anthropic, Strategy::Auto, "tool"),
    (BackendKind::Anthropic, Strategy::Prompt, "prompt"),
    (BackendKind::Anthropic, Strategy::SystemPrompt, "system_prompt"),
    (BackendKind::Anthropic, Strategy::Tool, "tool"),
    (BackendKind::Anthropic, Strategy::Native, "native"),
];

#[tokio::test]
async fn every_fixture_is_answered_at_the_first_try() {
    for (kind, strategy, named) in ROUTES {
        for fixture in fixtures::all() {
            let server = ScriptedServer::start([said(&fixture.reply, named == "tool")]);
            let claim = claim(&fixture, options(strategy), vec![rung("default", &config(kind, &server))]);
            let receipt = success(&run(&claim).await.unwrap(), &fixture).receipt;
            let route = format!("{kind:?} {strategy:?} {}", fixture.name);
            assert_eq!((receipt.strategy.as_deref(), receipt.calls), (Some(named), 1), "{route}");
            assert_eq!((receipt.tokens.input, receipt.tokens.output), (10, 5), "{route}");
            assert_eq!((server.requests().len(), server.unexpected()), (1, 0), "{route}");
            let heading =
                if named == "prompt" { "## Output Format (REQUIRED)" } else { "## Required Output Format" };
            assert!(server.requests()[0].prompt().contains(heading), "{route}");
        }
    }
}

#[tokio::test]
async fn every_fixture_is_answered_after_a_flawed_reply() {
    for (kind, strategy, named) in ROUTES {
        for fixture in fixtures::all() {
            let by_tool = named == "tool";
            let steps = [said(&flawed(&fixture), by_tool), said(&fixture.reply, by_tool)];
            let server = ScriptedServer::start(steps);
            let claim = claim(&fixture, options(strategy), vec![rung("default", &config(kind, &server))]);
            let success = success(&run(&claim).await.unwrap(), &fixture);
            let route = format!("{kind:?} {strategy:?} {}", fixture.name);
            assert_eq!((success.receipt.calls, success.receipt.retries), (2, 1), "{route}");
            assert_eq!(success.receipt.tokens.input, 20, "{route}");
            assert_eq!(server.requests().len(), 2, "{route}");
            let again = server.requests()[1].raw.clone();
            let again = String::from_utf8(again).unwrap();
            assert!(again.contains("<output-validation-error>"), "{route}: {again}");
            assert!(again.contains("required property is missing"), "{route}: {again}");
        }
    }
}

#[tokio::test]
async fn a_contract_that_is_never_met_fails_with_everything_kept() {
    for (kind, strategy, named) in ROUTES {
        let fixture = fixtures::pr_reviewer();
        let bad = || said(&flawed(&fixture), named == "tool");
        let server = ScriptedServer::start([bad(), bad()]);
        let claim = claim(&fixture, options(strategy), vec![rung("default", &config(kind, &server))]);
        let failure = failure(&run(&claim).await.unwrap());
        assert_eq!(failure.error.kind, RunErrorType::OutputSchemaValidationFailed, "{kind:?} {strategy:?}");
        assert_eq!(failure.error.validation_errors, ["$.summary: required property is missing"]);
        assert_eq!((failure.error.calls, failure.error.retry_count), (2, 1));
        assert_eq!(failure.salvage.replies.len(), 2);
        assert_eq!(failure.salvage.best_candidate, Some(flawed(&fixture)), "{kind:?} {strategy:?}");
        assert_eq!(server.requests().len(), 2);
    }
}

#[tokio::test]
async fn a_server_that_ignores_response_format_is_asked_in_words() {
    let fixture = fixtures::code_analyzer();
    let reply = fixture.reply_text();
    let server = ScriptedServer::respond(move |request, _| {
        let formatted = request.body.get("response_format").is_some();
        Step::text(if formatted { "I looked at it; there are some issues." } else { &reply })
    });
    let config = config(BackendKind::OpenAi, &server);
    let claim = claim(&fixture, OptionsPatch::default(), vec![rung("default", &config)]);
    let receipt = success(&run(&claim).await.unwrap(), &fixture).receipt;
    assert_eq!((receipt.strategy.as_deref(), receipt.calls, receipt.retries), (Some("prompt"), 2, 1));
}

#[tokio::test]
async fn a_server_that_refuses_response_format_is_asked_in_words() {
    let fixture = fixtures::security_scan_result();
    let reply = fixture.reply_text();
    let server = ScriptedServer::respond(move |request, _| {
        if request.body.get("response_format").is_some() { Step::status(400) } else { Step::text(&reply) }
    });
    let config = config(BackendKind::OpenAi, &server);
    let claim = claim(&fixture, OptionsPatch::default(), vec![rung("default", &config)]);
    let receipt = success(&run(&claim).await.unwrap(), &fixture).receipt;
    assert_eq!((receipt.strategy.as_deref(), receipt.calls), (Some("prompt"), 2));
}

/// UNI-4: a server whose one schema is forced on every reply.
#[tokio::test]
async fn a_server_with_one_fixed_schema_carries_every_contract() {
    for fixture in fixtures::all().into_iter().filter(|fixture| fixture.name != "universal-response") {
        let (good, bad) = (fixture.reply.clone(), flawed(&fixture));
        let server = ScriptedServer::respond(move |request, number| {
            assert!(request.body.get("response_format").is_none(), "the format is the server's own");
            let fields = match (request.prompt().contains("`custom_fields` MUST"), number) {
                (false, _) => json!({}),
                (true, 0) => bad.clone(),
                (true, _) => good.clone(),
            };
            Step::json(&json!({
                "response_type": "custom", "status": "success", "message": "Done", "custom_fields": fields,
            }))
        });
        let mut config = config(BackendKind::OpenAi, &server);
        config.structured_output = StructuredOutput::Universal;
        let claim = claim(&fixture, OptionsPatch::default(), vec![rung("default", &config)]);
        let receipt = success(&run(&claim).await.unwrap(), &fixture).receipt;
        assert_eq!((receipt.calls, receipt.flags.as_slice()), (2, &["universal_response".to_owned()][..]));
    }
}

#[tokio::test]
async fn the_next_server_goes_on_where_one_does_not_meet_the_contract() {
    let fixture = fixtures::pr_reviewer();
    let small = ScriptedServer::start([Step::text("Looks good!"), Step::text("Really.")]);
    let large = ScriptedServer::start([Step::json(&fixture.reply)]);
    let ladder = vec![
        rung("small", &config(BackendKind::OpenAi, &small)),
        rung("large", &config(BackendKind::OpenAi, &large)),
    ];
    let claim = claim(&fixture, OptionsPatch::default(), ladder);
    let journal = journal();
    let outcome = drive(&claim, &journal, &Stop::default(), &()).await.unwrap();
    let receipt = success(&outcome, &fixture).receipt;
    let rungs: Vec<_> = receipt.rungs.iter().map(|rung| (rung.tier.as_str(), rung.calls)).collect();
    assert_eq!(rungs, [("small", 2), ("large", 1)]);
    assert_eq!((small.requests().len(), large.requests().len()), (2, 1));
    let escalated = journal.events().into_iter().any(|event| {
        matches!(event.body, Body::Escalated { from, to, .. } if (from.as_str(), to.as_str()) == ("small", "large"))
    });
    assert!(escalated);
}

#[tokio::test]
async fn a_server_that_is_gone_is_passed_over() {
    let fixture = fixtures::pr_reviewer();
    let gone = ScriptedServer::start([Step::close(), Step::close()]);
    let here = ScriptedServer::start([Step::json(&fixture.reply)]);
    let ladder = vec![
        rung("small", &config(BackendKind::OpenAi, &gone)),
        rung("large", &config(BackendKind::OpenAi, &here)),
    ];
    let outcome = run(&claim(&fixture, options(Strategy::Prompt), ladder)).await.unwrap();
    assert_eq!(success(&outcome, &fixture).receipt.rungs.len(), 2);
    let alone = vec![rung("small", &config(BackendKind::OpenAi, &gone))];
    let outcome = run(&claim(&fixture, options(Strategy::Prompt), alone)).await.unwrap();
    assert_eq!(failure(&outcome).error.kind, RunErrorType::BackendUnavailable);
}

#[tokio::test]
async fn a_cut_off_reply_is_never_a_success() {
    for kind in [BackendKind::OpenAi, BackendKind::Completions, BackendKind::Anthropic] {
        let fixture = fixtures::code_analyzer();
        let cut = || Step::json(&fixture.reply).finish("length");
        let server = ScriptedServer::start([cut(), cut()]);
        let ladder = vec![rung("default", &config(kind, &server))];
        let outcome = run(&claim(&fixture, options(Strategy::Prompt), ladder)).await.unwrap();
        let failure = failure(&outcome);
        assert_eq!(failure.error.kind, RunErrorType::OutputTruncated, "{kind:?}");
        assert_eq!(failure.salvage.best_candidate, Some(fixture.reply.clone()));
    }
}

/// The limit is the shortest that can be written down; nothing is said about when it strikes.
#[tokio::test]
async fn a_run_ends_when_its_time_is_up() {
    let fixture = fixtures::code_analyzer();
    for stuck in [Step::hang(), Step::json(&fixture.reply).stall_after(2)] {
        let server = ScriptedServer::start([stuck]);
        let ladder = vec![rung("default", &config(BackendKind::OpenAi, &server))];
        let mut claim = claim(&fixture, options(Strategy::Prompt), ladder);
        claim.blueprint.limits.timeout_seconds = Some(1);
        let journal = journal();
        let outcome = drive(&claim, &journal, &Stop::default(), &()).await.unwrap();
        let failure = failure(&outcome);
        assert_eq!(failure.error.kind, RunErrorType::Timeout);
        assert_eq!(failure.error.message, "the run's time limit of 1 s was reached");
        assert!(journal.events().iter().any(|event| event.body == Body::DeadlineReached));
    }
}

#[tokio::test]
async fn a_run_that_is_stopped_keeps_its_replies() {
    let fixture = fixtures::code_analyzer();
    let server = ScriptedServer::start([Step::json(&flawed(&fixture)), Step::hang()]);
    let ladder = vec![rung("default", &config(BackendKind::OpenAi, &server))];
    let claim = claim(&fixture, options(Strategy::Prompt), ladder);
    let (journal, stop) = (journal(), Stop::default());
    let (outcome, ()) = tokio::join!(drive(&claim, &journal, &stop, &()), async {
        server.wait_for_requests_async(2).await;
        stop.request();
    });
    let failure = failure(&outcome.unwrap());
    assert_eq!(failure.error.kind, RunErrorType::Stopped);
    assert_eq!(failure.salvage.replies, [flawed(&fixture).to_string()]);
    server.wait_for_abandoned_async(1).await;
    let last = journal.events().pop().unwrap();
    assert_eq!(serde_json::to_value(&last).unwrap()["status"], "stopped");
}

#[tokio::test]
async fn a_run_that_is_stopped_at_once_asks_nobody() {
    let fixture = fixtures::code_analyzer();
    let server = ScriptedServer::start([Step::json(&fixture.reply)]);
    let ladder = vec![rung("default", &config(BackendKind::OpenAi, &server))];
    let claim = claim(&fixture, options(Strategy::Prompt), ladder);
    let stop = Stop::default();
    stop.request();
    let outcome = drive(&claim, &journal(), &stop, &()).await.unwrap();
    assert_eq!(failure(&outcome).error.calls, 0);
    assert_eq!(server.requests().len(), 0);
}

/// A runner dies in the middle of a call; another goes on from the journal.
#[tokio::test]
async fn another_runner_repeats_no_finished_call() {
    let fixture = fixtures::pr_reviewer();
    let steps = [Step::json(&flawed(&fixture)), Step::hang(), Step::json(&fixture.reply)];
    let server = ScriptedServer::start(steps);
    let ladder = vec![rung("default", &config(BackendKind::OpenAi, &server))];
    let claim = claim(&fixture, OptionsPatch::default(), ladder);
    let (journal, stop) = (journal(), Stop::default());
    tokio::select! {
        outcome = drive(&claim, &journal, &stop, &()) => panic!("it ended: {outcome:?}"),
        () = server.wait_for_requests_async(2) => {}
    }
    let outcome = drive(&claim, &journal, &Stop::default(), &()).await.unwrap();
    let receipt = success(&outcome, &fixture).receipt;
    // The call that was broken off left no trace: it cost the run nothing but time.
    assert_eq!((receipt.calls, receipt.retries), (2, 1));
    let bodies: Vec<Value> = server.requests().iter().map(|request| request.body.clone()).collect();
    assert_eq!(bodies.len(), 3);
    assert_eq!(bodies[2], bodies[1]);
    assert_ne!(bodies[1], bodies[0]);
    let sequence: Vec<u64> = journal.events().iter().map(|event| event.seq).collect();
    assert_eq!(sequence, (1..=sequence.len() as u64).collect::<Vec<_>>());
}

/// Wherever a runner dies, the next one comes to the same end with the calls that are still to be made.
#[tokio::test]
async fn a_journal_is_continued_from_every_event() {
    let fixture = fixtures::code_analyzer();
    let steps = || [Step::json(&flawed(&fixture)), Step::json(&fixture.reply)];
    let server = ScriptedServer::start(steps());
    let ladder = vec![rung("default", &config(BackendKind::OpenAi, &server))];
    let whole = journal();
    let first = claim(&fixture, OptionsPatch::default(), ladder);
    let outcome = drive(&first, &whole, &Stop::default(), &()).await.unwrap();
    let events = whole.events();
    let is_reply = |event: &&Event| matches!(event.body, Body::Message { .. });
    // The result and the end are appended together: there is no journal with one and without the other.
    for cut in 0..events.len() - 2 {
        let kept = &events[..cut];
        let replies = kept.iter().filter(is_reply).count();
        let server = ScriptedServer::start(steps().into_iter().skip(replies).collect::<Vec<_>>());
        let ladder = vec![rung("default", &config(BackendKind::OpenAi, &server))];
        let next = claim(&fixture, OptionsPatch::default(), ladder);
        let journal = journal();
        let bodies = kept.iter().map(|event| event.body.clone()).collect();
        formwork_runner::Coordinator::append(&journal, &next.session_id, &next.run_id, bodies).await.unwrap();
        let again = drive(&next, &journal, &Stop::default(), &()).await.unwrap();
        assert_eq!(again, outcome, "cut after {cut}");
        assert_eq!((server.requests().len(), server.unexpected()), (2 - replies, 0), "cut after {cut}");
    }
}

#[tokio::test]
async fn an_agent_without_a_contract_gives_text() {
    for kind in [BackendKind::OpenAi, BackendKind::Completions, BackendKind::Anthropic] {
        let fixture = fixtures::code_analyzer();
        let server = ScriptedServer::start([Step::text("  "), Step::text("All is well.")]);
        let mut claim =
            claim(&fixture, OptionsPatch::default(), vec![rung("default", &config(kind, &server))]);
        claim.contract = None;
        let Outcome::Completed(success) = run(&claim).await.unwrap() else { panic!("{kind:?}") };
        assert_eq!(success.result_text.as_deref(), Some("All is well."));
        assert_eq!((success.result_data, success.receipt.calls), (None, 2));
    }
}

#[tokio::test]
async fn refusals_and_filters_end_the_run() {
    for kind in [BackendKind::OpenAi, BackendKind::Anthropic] {
        for step in [Step::refusal("I cannot do that."), Step::text("half").finish("content_filter")] {
            let fixture = fixtures::code_analyzer();
            let server = ScriptedServer::start([step]);
            let ladder = vec![rung("default", &config(kind, &server))];
            let outcome = run(&claim(&fixture, options(Strategy::Prompt), ladder)).await.unwrap();
            assert_eq!(failure(&outcome).error.kind, RunErrorType::Refused, "{kind:?}");
        }
    }
}
