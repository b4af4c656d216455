//! Statistics and milestones.

use serde_json::json;
use slipform_store::{AgentStats, Milestone, Position, RunFacts, StatsFilter, SweepLimits};
use slipform_testkit::wait_until_async;
use slipform_types::{
    EventBody, ExecutionMode, Receipt, Reply, Role, RunError, RunErrorType, RunStatus, Rung, Tokens, Usage,
};

use crate::support::{Fixture, LONG, body, message};

fn receipt(backends: &[&str], retries: u32, missing_submits: u32) -> Box<Receipt> {
    let rung = |backend: &&str| Rung {
        tier: "t".to_owned(),
        backend: (*backend).to_owned(),
        model: "m".to_owned(),
        calls: 1,
    };
    let (rungs, tokens) = (backends.iter().map(rung).collect(), Tokens { input: 10, output: 5 });
    Box::new(Receipt { retries, missing_submits, rungs, tokens, ..Receipt::default() })
}

fn completed(receipt: Box<Receipt>) -> Vec<EventBody> {
    vec![
        EventBody::Result { result_text: Some("text".to_owned()), result_data: None, receipt },
        EventBody::RunCompleted { status: RunStatus::Completed, error: None, salvage: None, receipt: None },
    ]
}

fn failed(receipt: Box<Receipt>) -> Vec<EventBody> {
    let error = RunError {
        kind: RunErrorType::ResultNotSubmitted,
        message: "no".to_owned(),
        validation_errors: Vec::new(),
        last_output: None,
        calls: 2,
        retry_count: receipt.retries,
        call_error: None,
        response: None,
    };
    let error = Some(Box::new(error));
    vec![EventBody::RunCompleted { status: RunStatus::Failed, error, salvage: None, receipt: Some(receipt) }]
}

async fn run_to_end(test: &Fixture, agent: &str, bodies: Vec<EventBody>) {
    test.submit(agent).await;
    let fence = test.claim().await.fence;
    test.finish(&fence, 1, bodies).await.unwrap();
}

async fn stats(test: &Fixture, filter: StatsFilter) -> Vec<AgentStats> {
    let without_durations = |stats: AgentStats| {
        assert!(stats.p50_ms <= stats.p95_ms && stats.p95_ms.is_some_and(|duration| duration >= 0));
        AgentStats { p50_ms: None, p95_ms: None, ..stats }
    };
    test.store.agent_stats(filter).await.unwrap().into_iter().map(without_durations).collect()
}

pub(crate) async fn stats_are_grouped_by_agent_and_backend(test: &Fixture) {
    assert!(stats(test, StatsFilter::default()).await.is_empty());
    run_to_end(test, "writer", completed(receipt(&["small"], 0, 0))).await;
    run_to_end(test, "writer", completed(receipt(&["small", "large"], 0, 1))).await;
    run_to_end(test, "writer", completed(receipt(&["small", "large"], 3, 0))).await;
    run_to_end(test, "writer", failed(receipt(&["small"], 1, 2))).await;
    run_to_end(test, "tester", completed(receipt(&["small"], 2, 0))).await;
    test.submit("unfinished").await;

    let row = |agent: &str, backend: &str, numbers: [i64; 7]| {
        let [runs, completed, first_pass, retries, missing_submits, escalations, tokens] = numbers;
        let (agent_name, backend) = (agent.to_owned(), Some(backend.to_owned()));
        let (p50_ms, p95_ms) = (None, None);
        AgentStats {
            agent_name,
            backend,
            model: Some("m".to_owned()),
            runs,
            completed,
            reported_errors: 0,
            first_pass,
            retries,
            missing_submits,
            escalations,
            tokens,
            p50_ms,
            p95_ms,
        }
    };
    let all = [
        row("tester", "small", [1, 1, 0, 2, 0, 0, 15]),
        row("writer", "large", [2, 2, 0, 3, 1, 2, 30]),
        row("writer", "small", [2, 1, 1, 1, 2, 0, 30]),
    ];
    assert_eq!(stats(test, StatsFilter::default()).await, all);
    let of = |agent: &str| StatsFilter { agent_name: Some(agent.to_owned()), ..StatsFilter::default() };
    assert_eq!(stats(test, of("writer")).await, all[1..]);
    assert!(stats(test, of("unknown")).await.is_empty());
    let since = |since| StatsFilter { since: Some(since), ..StatsFilter::default() };
    assert_eq!(stats(test, since(1)).await, all);
    assert!(stats(test, since(i64::MAX)).await.is_empty());
}

pub(crate) async fn reported_errors_are_not_counted_as_results(test: &Fixture) {
    let response = |kind: &str, status: &str| {
        let data = json!({"response_type": kind, "status": status, "message": "m"});
        let result_data = Some(data);
        let mut bodies = completed(receipt(&["small"], 0, 0));
        bodies[0] = EventBody::Result { result_text: None, result_data, receipt: receipt(&["small"], 0, 0) };
        bodies
    };
    run_to_end(test, "verification", response("verification", "FAIL")).await;
    run_to_end(test, "verification", response("error", "error")).await;
    run_to_end(test, "verification", failed(receipt(&["small"], 0, 0))).await;
    let counted = stats(test, StatsFilter::default()).await;
    let numbers = |row: &AgentStats| (row.runs, row.completed, row.reported_errors, row.first_pass);
    assert_eq!(counted.iter().map(numbers).collect::<Vec<_>>(), [(3, 1, 1, 1)]);
}

pub(crate) async fn runs_without_receipt_are_counted(test: &Fixture) {
    let stopped = test.submit("writer").await;
    test.store.stop(&stopped.run_id).await.unwrap();
    let stats = test.store.agent_stats(StatsFilter::default()).await.unwrap();
    let agent_name = "writer".to_owned();
    assert_eq!(stats, [AgentStats { agent_name, runs: 1, ..AgentStats::default() }]);
}

pub(crate) async fn tokens_of_lost_run_are_counted(test: &Fixture) {
    let submitted = test.submit("writer").await;
    let fence = test.claim().await.fence;
    for number in 1..=2 {
        let usage = Usage { input: 30, output: 10, estimated: false };
        let reply = Box::new(Reply { usage, ..Reply::default() });
        let message =
            EventBody::Message { role: Role::Assistant, content: "so far".to_owned(), reply, asked: None };
        test.append(&fence, number, vec![message]).await.unwrap();
    }
    test.store.release(fence).await.unwrap().unwrap();
    test.claim_as("runner", 1, 1).await;
    let limits = SweepLimits { losses_max: 1, stop_wait_ms: LONG, batch: 100 };
    wait_until_async("the run is lost", || async { test.store.sweep(limits).await.unwrap().lost == 1 }).await;
    let end = test.journal(&submitted.session_id).await.pop().unwrap();
    assert_eq!(body(&end)["receipt"]["calls"], 2);
    let counted = stats(test, StatsFilter::default()).await;
    let agent_name = "writer".to_owned();
    assert_eq!(counted, [AgentStats { agent_name, runs: 1, tokens: 80, ..AgentStats::default() }]);
}

pub(crate) async fn implausible_token_counts_are_capped(test: &Fixture) {
    for _ in 0..2 {
        let tokens = Tokens { input: u64::MAX, output: u64::MAX };
        run_to_end(test, "writer", completed(Box::new(Receipt { tokens, ..Receipt::default() }))).await;
    }
    assert_eq!(stats(test, StatsFilter::default()).await[0].tokens, 4_000_000_000_000);
}

pub(crate) async fn milestones_have_positions_and_selected_bodies(test: &Fixture) {
    test.submit("parent").await;
    let parent = test.claim().await;
    test.delegate(&parent, "writer", ExecutionMode::AsyncPoll).await;
    let fence = test.claim().await.fence;
    let (errors, consequence) = (vec!["$: no".to_owned()], "retry 1 of 3".to_owned());
    let failed_validation =
        EventBody::ValidationFailed { errors, consequence, cause: None, correction: None };
    test.append(&fence, 1, vec![message("draft"), failed_validation]).await.unwrap();
    test.finish(&fence, 2, completed(receipt(&["small"], 1, 0))).await.unwrap();

    // PostgreSQL shows the event when no older transaction can add events before it.
    let is_ended = || async {
        let milestones = test.store.milestones(Position::default(), 100).await.unwrap();
        milestones.last().is_some_and(|last| last.event.body.contains("run_completed"))
    };
    wait_until_async("the end is visible", is_ended).await;
    let all = test.store.all_events(Position::default(), 100).await.unwrap();
    let milestones = test.store.milestones(Position::default(), 100).await.unwrap();
    let position = |milestone: &Milestone| (milestone.event.position, milestone.event.seq);
    let positions: Vec<_> = milestones.iter().map(position).collect();
    assert_eq!(positions, all.iter().map(|event| (event.position, event.seq)).collect::<Vec<_>>());
    let with_body: Vec<_> = milestones.iter().filter(|milestone| milestone.run.is_some()).collect();
    let begins = |kind: &str| format!("{{\"event_type\":\"{kind}\"");
    assert!(with_body[0].event.body.starts_with(&begins("validation_failed")), "{with_body:?}");
    assert!(with_body[1].event.body.starts_with(&begins("run_completed")), "{with_body:?}");
    assert_eq!(with_body.len(), 2);
    assert!(milestones.iter().all(|milestone| milestone.run.is_some() || milestone.event.body.is_empty()));
    let facts = with_body[1].run.clone().unwrap();
    assert!(facts.duration_ms.is_some());
    let expected = RunFacts {
        agent_name: "writer".to_owned(),
        parent_session_id: Some(parent.session_id),
        backend: Some("small".to_owned()),
        retries: 1,
        tokens: 15,
        duration_ms: facts.duration_ms,
        ..RunFacts::default()
    };
    assert_eq!(facts, expected);
    let rest = test.store.milestones(milestones[2].event.position, 2).await.unwrap();
    assert_eq!(rest, milestones[3..5]);
}
