//! How runs did.

use slipform_store::{Figures, FiguresFilter, Milestone, Position, RunFacts, SweepLimits};
use slipform_types::{
    EventBody, ExecutionMode, Receipt, Reply, Role, RunError, RunErrorType, RunStatus, Rung, Tokens, Usage,
};

use crate::test_store::{LONG, TestStore, body, message, until};

fn receipt(backends: &[&str], retries: u32, missing_submits: u32) -> Box<Receipt> {
    let rung = |backend: &&str| Rung { tier: "t".to_owned(), backend: (*backend).to_owned(), calls: 1 };
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
        response: None,
    };
    let error = Some(Box::new(error));
    vec![EventBody::RunCompleted { status: RunStatus::Failed, error, salvage: None, receipt: Some(receipt) }]
}

async fn ended(test: &TestStore, agent: &str, bodies: Vec<EventBody>) {
    test.submit(agent).await;
    let fence = test.claim().await.fence;
    test.finish(&fence, 1, bodies).await.unwrap();
}

async fn figures(test: &TestStore, filter: FiguresFilter) -> Vec<Figures> {
    let timeless = |figures: Figures| {
        assert!(figures.p50_ms <= figures.p95_ms && figures.p95_ms.is_some_and(|duration| duration >= 0));
        Figures { p50_ms: None, p95_ms: None, ..figures }
    };
    test.store.figures(filter).await.unwrap().into_iter().map(timeless).collect()
}

pub(crate) async fn figures_are_kept_for_each_agent_and_backend(test: &TestStore) {
    assert!(figures(test, FiguresFilter::default()).await.is_empty());
    ended(test, "writer", completed(receipt(&["small"], 0, 0))).await;
    ended(test, "writer", completed(receipt(&["small", "large"], 0, 1))).await;
    ended(test, "writer", completed(receipt(&["small", "large"], 3, 0))).await;
    ended(test, "writer", failed(receipt(&["small"], 1, 2))).await;
    ended(test, "tester", completed(receipt(&["small"], 2, 0))).await;
    test.submit("unfinished").await;

    let row = |agent: &str, backend: &str, numbers: [i64; 7]| {
        let [runs, completed, first_pass, retries, missing_submits, escalations, tokens] = numbers;
        let (agent_name, backend) = (agent.to_owned(), Some(backend.to_owned()));
        let (p50_ms, p95_ms) = (None, None);
        Figures {
            agent_name,
            backend,
            runs,
            completed,
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
    assert_eq!(figures(test, FiguresFilter::default()).await, all);
    let of = |agent: &str| FiguresFilter { agent_name: Some(agent.to_owned()), since: None };
    assert_eq!(figures(test, of("writer")).await, all[1..]);
    assert!(figures(test, of("nobody")).await.is_empty());
    let since = |since| FiguresFilter { agent_name: None, since: Some(since) };
    assert_eq!(figures(test, since(1)).await, all);
    assert!(figures(test, since(i64::MAX)).await.is_empty());
}

pub(crate) async fn runs_that_nobody_accounts_for_are_counted(test: &TestStore) {
    let stopped = test.submit("writer").await;
    test.store.stop(&stopped.run_id).await.unwrap();
    let figures = test.store.figures(FiguresFilter::default()).await.unwrap();
    let agent_name = "writer".to_owned();
    assert_eq!(figures, [Figures { agent_name, runs: 1, ..Figures::default() }]);
}

pub(crate) async fn what_a_lost_run_has_used_is_counted(test: &TestStore) {
    let submitted = test.submit("writer").await;
    let fence = test.claim().await.fence;
    for number in 1..=2 {
        let usage = Usage { input: 30, output: 10, estimated: false };
        let reply = Box::new(Reply { usage, ..Reply::default() });
        let said =
            EventBody::Message { role: Role::Assistant, content: "so far".to_owned(), reply, asked: None };
        test.append(&fence, number, vec![said]).await.unwrap();
    }
    test.store.release(fence).await.unwrap().unwrap();
    test.claim_as("runner", 1, 1).await;
    let limits = SweepLimits { losses_max: 1, stop_wait_ms: LONG, batch: 100 };
    until("it is lost", || async { test.store.sweep(limits).await.unwrap().lost == 1 }).await;
    let end = test.journal(&submitted.session_id).await.pop().unwrap();
    assert_eq!(body(&end)["receipt"]["calls"], 2);
    let counted = figures(test, FiguresFilter::default()).await;
    let agent_name = "writer".to_owned();
    assert_eq!(counted, [Figures { agent_name, runs: 1, tokens: 80, ..Figures::default() }]);
}

pub(crate) async fn counts_that_nobody_believes_spoil_no_sum(test: &TestStore) {
    for _ in 0..2 {
        let tokens = Tokens { input: u64::MAX, output: u64::MAX };
        ended(test, "writer", completed(Box::new(Receipt { tokens, ..Receipt::default() }))).await;
    }
    assert_eq!(figures(test, FiguresFilter::default()).await[0].tokens, 4_000_000_000_000);
}

pub(crate) async fn milestones_have_places_and_few_bodies(test: &TestStore) {
    test.submit("parent").await;
    let parent = test.claim().await;
    test.delegate(&parent, "writer", ExecutionMode::AsyncPoll).await;
    let fence = test.claim().await.fence;
    let (errors, consequence) = (vec!["$: no".to_owned()], "retry 1 of 3".to_owned());
    let noted = EventBody::ValidationFailed { errors, consequence, cause: None };
    test.append(&fence, 1, vec![message("draft"), noted]).await.unwrap();
    test.finish(&fence, 2, completed(receipt(&["small"], 1, 0))).await.unwrap();

    // PostgreSQL shows it when nobody's older transaction can add anything before it.
    let is_ended = || async {
        let told = test.store.milestones(Position::default(), 100).await.unwrap();
        told.last().is_some_and(|last| last.event.body.contains("run_completed"))
    };
    until("the end is told", is_ended).await;
    let all = test.store.all_events(Position::default(), 100).await.unwrap();
    let told = test.store.milestones(Position::default(), 100).await.unwrap();
    let place = |milestone: &Milestone| (milestone.event.position, milestone.event.seq);
    let places: Vec<_> = told.iter().map(place).collect();
    assert_eq!(places, all.iter().map(|event| (event.position, event.seq)).collect::<Vec<_>>());
    let wanted: Vec<_> = told.iter().filter(|milestone| milestone.run.is_some()).collect();
    let begins = |kind: &str| format!("{{\"event_type\":\"{kind}\"");
    assert!(wanted[0].event.body.starts_with(&begins("validation_failed")), "{wanted:?}");
    assert!(wanted[1].event.body.starts_with(&begins("run_completed")), "{wanted:?}");
    assert_eq!(wanted.len(), 2);
    assert!(told.iter().all(|milestone| milestone.run.is_some() || milestone.event.body.is_empty()));
    let facts = wanted[1].run.clone().unwrap();
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
    let rest = test.store.milestones(told[2].event.position, 2).await.unwrap();
    assert_eq!(rest, told[3..5]);
}
