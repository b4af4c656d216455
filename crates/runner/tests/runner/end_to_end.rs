//! Drives whole runs against a model server on a real socket.

use crate::support::contexts::{TestRun, clock, drive_to_end, journal, rung, test_run};
use serde_json::{Value, json};
use slipform_model::{BackendConfig, connect};
use slipform_runner::{LadderRung, MemoryJournal, StopSignal};
use slipform_schema::Schema;
use slipform_testkit::{Script, ScriptedServer, Step, fixtures};
use slipform_types::{
    BackendKind, Capabilities, EventBody, Failure, Outcome, RunErrorType, StructuredOutput, Success,
    TierBackend,
};

const KINDS: [BackendKind; 3] = [BackendKind::OpenAi, BackendKind::Completions, BackendKind::Anthropic];

fn completed(outcome: Outcome) -> Success {
    match outcome {
        Outcome::Completed(success) => *success,
        Outcome::Failed(failure) => panic!("the run failed: {}", failure.error.message),
        Outcome::ToolCalls(ended) => panic!("the run ended with calls: {:?}", ended.calls),
    }
}

fn failed(outcome: Outcome) -> Failure {
    match outcome {
        Outcome::Failed(failure) => *failure,
        Outcome::Completed(success) => panic!("the run completed: {:?}", success.result_data),
        Outcome::ToolCalls(ended) => panic!("the run ended with calls: {:?}", ended.calls),
    }
}

async fn run(context: &TestRun) -> Outcome {
    drive_to_end(context, &journal(), &StopSignal::default(), &()).await.unwrap()
}

/// Returns the reply to the strategy that `auto` selects for a backend of this kind.
fn says(kind: BackendKind, value: &Value) -> Step {
    match kind {
        BackendKind::Anthropic => Step::tool("submit_result", value.clone()),
        _ => Step::json(value),
    }
}

fn agent(limits: Value) -> Value {
    json!({
        "name": "ager", "system_prompt": "You guess ages.", "limits": limits,
        "output_schema": {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]},
    })
}

fn prompted(server: &ScriptedServer) -> Vec<slipform_runner::LadderRung> {
    vec![rung("default", BackendKind::OpenAi, server, StructuredOutput::Prompt)]
}

#[tokio::test]
async fn every_fixture_gets_its_result_from_every_kind_of_backend() {
    for fixture in fixtures::all() {
        for kind in KINDS {
            let server = ScriptedServer::start([says(kind, &fixture.reply)]);
            let ladder = vec![rung("default", kind, &server, StructuredOutput::Auto)];
            let success = completed(run(&test_run(&fixture.agent, fixture.input, json!({}), ladder)).await);
            let what = format!("{} on {}", fixture.name, kind.name());
            assert_eq!(success.result_data.as_ref(), Some(&fixture.reply), "{what}");
            assert_eq!((success.receipt.calls, success.receipt.retries), (1, 0), "{what}");
            assert_eq!(success.receipt.repairs, [], "{what}");
            let schema = Schema::compile(fixture.output_schema()).unwrap();
            assert_eq!(success.receipt.schema_hash.as_deref(), Some(schema.hash()), "{what}");
        }
    }
}

#[tokio::test]
async fn every_fixture_recovers_from_a_bad_reply_on_every_kind_of_backend() {
    for fixture in fixtures::all() {
        for kind in KINDS {
            let server = ScriptedServer::start([says(kind, &json!({})), says(kind, &fixture.reply)]);
            let ladder = vec![rung("default", kind, &server, StructuredOutput::Auto)];
            let success = completed(run(&test_run(&fixture.agent, fixture.input, json!({}), ladder)).await);
            let what = format!("{} on {}", fixture.name, kind.name());
            assert_eq!(success.result_data.as_ref(), Some(&fixture.reply), "{what}");
            assert_eq!((success.receipt.calls, success.receipt.retries), (2, 1), "{what}");
            let retry = server.requests()[1].raw.clone();
            assert!(String::from_utf8(retry).unwrap().contains("<output-validation-error>"), "{what}");
        }
    }
}

#[tokio::test]
async fn stalled_server_is_abandoned_at_the_deadline() {
    for stalled in [Step::hang(), Step::text("{\"age\": 1}").stall_after(1)] {
        let server = ScriptedServer::start([Step::text("no"), stalled]);
        let context =
            test_run(&agent(json!({"timeout_seconds": 1})), "How old?", json!({}), prompted(&server));
        let failure = failed(run(&context).await);
        assert_eq!(failure.error.kind, RunErrorType::Timeout);
        assert_eq!(failure.salvage.replies, ["no"]);
    }
}

#[tokio::test]
async fn stop_during_a_call_keeps_the_earlier_replies() {
    let server = ScriptedServer::start([Step::text("{\"age\": \"old\"}"), Step::hang()]);
    let context = test_run(&agent(json!({})), "How old?", json!({}), prompted(&server));
    let (journal, stop) = (journal(), StopSignal::default());
    let stopping = async {
        server.wait_for_requests_async(2).await;
        stop.request();
    };
    let (outcome, ()) = tokio::join!(drive_to_end(&context, &journal, &stop, &()), stopping);
    let failure = failed(outcome.unwrap());
    assert_eq!(failure.error.kind, RunErrorType::Stopped);
    assert_eq!(failure.salvage.replies, ["{\"age\": \"old\"}"]);
    assert_eq!(failure.salvage.best_candidate, Some(json!({"age": "old"})));
    server.wait_for_abandoned_async(1).await;
    let ends = journal.events().into_iter().rev().map(|event| event.body).take(2).collect::<Vec<_>>();
    assert!(
        matches!(&ends[..], [EventBody::RunCompleted { .. }, EventBody::StopRequested { .. }]),
        "{ends:?}"
    );
}

#[tokio::test]
async fn run_resumed_from_every_event_repeats_no_call() {
    let replies = || [Step::text("no"), Step::text("{\"age\": \"x\"}"), Step::text("{\"age\": 7}")];
    let options = json!({"max_retries": 2});
    let server = ScriptedServer::start(replies());
    let whole = journal();
    let first = test_run(&agent(json!({})), "How old?", options.clone(), prompted(&server));
    let expected = drive_to_end(&first, &whole, &StopSignal::default(), &()).await.unwrap();
    let events = whole.events();
    let is_reply = |body: &EventBody| matches!(body, EventBody::Message { .. });
    for cut in 0..=events.len() {
        let done = events[..cut].iter().filter(|event| is_reply(&event.body)).count();
        let server = ScriptedServer::start(replies().into_iter().skip(done).collect::<Vec<_>>());
        let context = test_run(&agent(json!({})), "How old?", options.clone(), prompted(&server));
        let journal = MemoryJournal::with_events(clock(), events[..cut].to_vec());
        let outcome = drive_to_end(&context, &journal, &StopSignal::default(), &()).await.unwrap();
        assert_eq!(outcome, expected, "cut after {cut} events");
        assert_eq!(server.requests().len(), replies().len() - done, "cut after {cut} events");
        let made = journal.events();
        assert_eq!(made[..cut], events[..cut], "cut after {cut} events");
        let has_no_gaps = made.iter().zip(1..).all(|(event, seq)| event.seq == seq);
        assert!(has_no_gaps, "cut after {cut} events");
    }
}

#[tokio::test]
async fn run_that_has_ended_is_not_changed() {
    let server = ScriptedServer::start([Step::text("{\"age\": 7}")]);
    let context = test_run(&agent(json!({})), "How old?", json!({}), prompted(&server));
    let journal = journal();
    let outcome = drive_to_end(&context, &journal, &StopSignal::default(), &()).await.unwrap();
    let events = journal.events();
    assert_eq!(drive_to_end(&context, &journal, &StopSignal::default(), &()).await.unwrap(), outcome);
    assert_eq!(journal.events(), events);
}

#[tokio::test]
async fn run_escalates_to_the_next_server_when_the_first_fails() {
    let small = ScriptedServer::start([Step::text("no"), Step::text("no")]);
    let large = ScriptedServer::start([Step::tool("submit_result", json!({"age": 7}))]);
    let ladder = vec![
        rung("small", BackendKind::OpenAi, &small, StructuredOutput::Prompt),
        rung("large", BackendKind::Anthropic, &large, StructuredOutput::Auto),
    ];
    let context = test_run(&agent(json!({})), "How old?", json!({}), ladder);
    let journal = journal();
    let success = completed(drive_to_end(&context, &journal, &StopSignal::default(), &()).await.unwrap());
    assert_eq!(success.result_data, Some(json!({"age": 7})));
    let rungs: Vec<_> = success.receipt.rungs.iter().map(|rung| (rung.tier.as_str(), rung.calls)).collect();
    assert_eq!(rungs, [("small", 2), ("large", 1)]);
    assert_eq!((small.requests().len(), large.requests().len()), (2, 1));
    assert!(journal.events().iter().any(|event| matches!(event.body, EventBody::Escalated { .. })));
}

#[tokio::test]
async fn unreachable_server_is_skipped_for_the_next() {
    let closed = ScriptedServer::start([Step::close()]);
    let large = ScriptedServer::start([Step::text("{\"age\": 7}")]);
    let ladder = vec![
        rung("small", BackendKind::OpenAi, &closed, StructuredOutput::Prompt),
        rung("large", BackendKind::OpenAi, &large, StructuredOutput::Prompt),
    ];
    let success = completed(run(&test_run(&agent(json!({})), "How old?", json!({}), ladder)).await);
    assert_eq!(success.result_data, Some(json!({"age": 7})));
}

#[tokio::test]
async fn forced_universal_response_is_understood() {
    for kind in [BackendKind::OpenAi, BackendKind::Completions] {
        for fixture in fixtures::all().into_iter().filter(|fixture| fixture.name != "universal-response") {
            let result = fixture.reply.clone();
            // The first reply satisfies the forced schema but not the contract.
            let server = ScriptedServer::respond(move |_, index| {
                let fields = if index == 0 { json!({}) } else { result.clone() };
                Step::json(&json!({
                    "response_type": "custom", "status": "success", "message": "Done.", "custom_fields": fields,
                }))
            });
            let ladder = vec![rung("default", kind, &server, StructuredOutput::Universal)];
            let success = completed(run(&test_run(&fixture.agent, fixture.input, json!({}), ladder)).await);
            assert_eq!(success.result_data, Some(fixture.reply), "{}", fixture.name);
            assert_eq!(success.receipt.flags, ["universal_response"], "{}", fixture.name);
            assert_eq!(success.receipt.calls, 2, "{}", fixture.name);
        }
    }
}

#[tokio::test]
async fn server_that_ignores_the_format_is_asked_by_prompt() {
    let server = ScriptedServer::respond(|request, _| {
        let has_schema_in_prompt = request.prompt().contains("## Required Schema");
        Step::text(if has_schema_in_prompt { "Sure: {\"age\": 7}" } else { "About seven, I think." })
    });
    let ladder = vec![rung("default", BackendKind::OpenAi, &server, StructuredOutput::Auto)];
    let success = completed(run(&test_run(&agent(json!({})), "How old?", json!({}), ladder)).await);
    assert_eq!(success.result_data, Some(json!({"age": 7})));
    assert_eq!(success.receipt.strategy.as_deref(), Some("prompt"));
    let requests = server.requests();
    assert_eq!(requests[0].body["response_format"]["type"], "json_schema");
    assert_eq!(requests[1].body["response_format"], Value::Null);
}

#[tokio::test]
async fn server_that_refuses_the_format_is_asked_by_prompt() {
    let server = ScriptedServer::respond(|request, _| match request.body.get("response_format") {
        Some(_) => Step::status(400),
        None => Step::text("{\"age\": 7}"),
    });
    let ladder = vec![rung("default", BackendKind::OpenAi, &server, StructuredOutput::Auto)];
    let success = completed(run(&test_run(&agent(json!({})), "How old?", json!({}), ladder)).await);
    assert_eq!(success.receipt.calls, 2);
}

/// Runs an agent under `auto` on a server that always answers with this step, with two retries of the
/// backend. Returns the error and the number of requests.
async fn run_on_failing_server(step: Step) -> (slipform_types::RunError, usize) {
    let server = ScriptedServer::start(Script::new([step]).repeat_last());
    let mut config = BackendConfig::new("default", BackendKind::OpenAi);
    config.base_url = Some(server.base_url());
    config.model = Some("m".to_owned());
    (config.retries, config.retry_base_seconds, config.timeout_seconds) = (2, 0.0, 0.2);
    let backend = connect(&config, &|_| None).unwrap();
    let tier = TierBackend::new("default", config.info(Capabilities::default(), None));
    let ladder = vec![LadderRung { tier, backend }];
    let failure = failed(run(&test_run(&agent(json!({})), "How old?", json!({}), ladder)).await);
    (failure.error, server.requests().len())
}

#[tokio::test]
async fn transport_fault_consumes_no_contract_retry() {
    let unavailable = RunErrorType::BackendUnavailable;
    let rejected = RunErrorType::BackendRejected;
    for (what, step, kind, requests) in [
        ("closed", Step::close(), unavailable, 3),
        ("503", Step::status(503), unavailable, 3),
        ("timeout", Step::hang(), unavailable, 1),
        ("401", Step::status(401), rejected, 1),
        ("403", Step::status(403), rejected, 1),
        ("404", Step::status(404), rejected, 1),
    ] {
        let (error, seen) = run_on_failing_server(step).await;
        assert_eq!((error.kind, error.calls, error.retry_count), (kind, 1, 0), "{what}: {error:?}");
        assert_eq!(seen, requests, "{what}");
    }
}
