//! Reading and listing runs and sessions.

use slipform_store::{
    Error, NewRun, Page, RegistryKind, RunFilter, SessionFilter, SessionTarget, StatsFilter,
};
use slipform_types::{EventBody, ExecutionMode, RunError, RunErrorType, RunStatus};

use crate::support::{
    Fixture, body, child, event_type, follow_up, message, new_run_id, new_session_id, success, task,
};

fn page(after: Option<String>, limit: usize) -> Page {
    Page { after, limit }
}

pub(crate) async fn runs_are_listed_newest_first(test: &Fixture) {
    let mut expected = Vec::new();
    for agent in ["a", "b", "a", "b", "a"] {
        expected.push(test.submit(agent).await.run_id);
    }
    expected.reverse();
    let (mut found, mut after, mut pages) = (Vec::new(), None, 0);
    loop {
        let listed = test.store.runs(RunFilter::default(), page(after, 2)).await.unwrap();
        pages += 1;
        found.extend(listed.items.into_iter().map(|run| run.run_id));
        after = listed.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!((found, pages), (expected.clone(), 3));
    test.complete_next("done").await;
    let count = async |filter: RunFilter| test.store.runs(filter, page(None, 500)).await.unwrap().items.len();
    let agent = |name: &str| RunFilter { agent_name: Some(name.to_owned()), ..RunFilter::default() };
    assert_eq!(count(agent("a")).await, 3);
    assert_eq!(count(agent("c")).await, 0);
    let status = RunFilter { status: Some(RunStatus::Completed), ..RunFilter::default() };
    assert_eq!(count(status.clone()).await, 1);
    assert_eq!(count(RunFilter { agent_name: Some("b".to_owned()), ..status }).await, 0);
    let session_id = Some(test.run(&expected[0]).await.session_id);
    assert_eq!(count(RunFilter { session_id, ..RunFilter::default() }).await, 1);
    let one = test.store.runs(RunFilter::default(), page(None, 0)).await.unwrap();
    assert_eq!(one.items.len(), 1, "a page has at least one item");
}

pub(crate) async fn sessions_are_listed_with_their_children(test: &Fixture) {
    let first = test.submit("writer").await;
    let parent = test.claim().await;
    let mut children = Vec::new();
    for agent in ["reader", "counter"] {
        children.push(test.delegate(&parent, agent, ExecutionMode::Sync).await.session_id);
    }
    let listed = test.store.sessions(SessionFilter::default(), page(None, 2)).await.unwrap();
    let ids: Vec<_> = listed.items.iter().map(|session| &session.session_id).collect();
    assert_eq!(ids, [&children[1], &children[0]]);
    let rest = test.store.sessions(SessionFilter::default(), page(listed.next, 2)).await.unwrap();
    assert_eq!((rest.items.len(), rest.next), (1, None));
    assert_eq!((&rest.items[0].session_id, &rest.items[0].children), (&first.session_id, &children));
    assert_eq!(rest.items[0].status, RunStatus::Claimed);
}

pub(crate) async fn runs_are_counted(test: &Fixture) {
    assert_eq!(test.store.counts().await.unwrap().oldest_wait_ms, None);
    for _ in 0..3 {
        test.submit("writer").await;
    }
    test.complete_next("done").await;
    let counts = test.store.counts().await.unwrap();
    assert_eq!(counts.by_status, [(RunStatus::Completed, 1), (RunStatus::Pending, 2)]);
    assert_eq!(counts.queue_depth, 2);
    assert!(counts.oldest_wait_ms.is_some_and(|wait| wait >= 0));
}

pub(crate) async fn run_start_is_found_for_active_and_queued_runs(test: &Fixture) {
    let first = test.submit("writer").await;
    test.claim().await;
    let queued = test.store.submit(follow_up("writer", &first.session_id, true)).await.unwrap().unwrap();
    let opening = test.store.run_start(&first.run_id).await.unwrap().unwrap();
    assert_eq!(
        (event_type(&opening), opening.seq, &opening.run_id),
        ("run_start".to_owned(), 1, &first.run_id)
    );
    let start = test.store.run_start(&queued.run_id).await.unwrap().unwrap();
    assert_eq!((event_type(&start), start.seq), ("run_start".to_owned(), 0));
    let listed = RunFilter { session_id: Some(first.session_id), ..RunFilter::default() };
    assert_eq!(test.store.runs(listed, page(None, 10)).await.unwrap().items.len(), 2);
}

pub(crate) async fn text_with_nul_is_refused(test: &Fixture) {
    let refused = |answer: Result<(), Error>| assert!(matches!(answer, Err(Error::Invalid(_))), "{answer:?}");
    let nul = || "a\0b".to_owned();
    let filter = RunFilter { agent_name: Some(nul()), ..RunFilter::default() };
    refused(test.store.runs(filter, Page { after: None, limit: 10 }).await.map(drop));
    let session = SessionTarget::New { session_id: new_session_id(), project_dir: Some(nul()) };
    refused(test.store.submit(NewRun { session, ..task("writer") }).await.map(drop));
    refused(test.store.submit(task(&nul())).await.map(drop));
    refused(test.store.add(RegistryKind::Agents, &nul(), "{}").await.map(drop));
    let submitted = test.submit("writer").await;
    let parent = test.claim().await;
    let call = child(&parent, "reader", &nul(), ExecutionMode::Sync);
    refused(test.store.submit(call).await.map(drop));
    // A journal stores NUL as a JSON escape, so it survives.
    test.append(&parent.fence, 1, vec![message("a\0b")]).await.unwrap();
    let journal = test.journal(&submitted.session_id).await;
    assert_eq!(body(&journal[1])["content"], "a\0b");
}

pub(crate) async fn unknown_ids_return_nothing(test: &Fixture) {
    assert!(test.store.run(&new_run_id()).await.unwrap().is_none());
    assert!(test.store.run_start(&new_run_id()).await.unwrap().is_none());
    assert!(test.store.session(&new_session_id()).await.unwrap().is_none());
    assert!(test.store.latest_run_details(&new_session_id()).await.unwrap().is_none());
    assert!(test.store.events(&new_session_id(), 0, 10).await.unwrap().events.is_empty());
    let listed = test.store.runs(RunFilter::default(), page(Some("no cursor".to_owned()), 10)).await.unwrap();
    assert!(listed.items.is_empty() && listed.next.is_none());
}

fn owned(owner: &str) -> SessionFilter {
    SessionFilter { owner: Some(owner.to_owned()), ..SessionFilter::default() }
}

pub(crate) async fn lists_can_be_limited_to_sessions_of_one_token(test: &Fixture) {
    let by = |creator: &str| NewRun { created_by: Some(creator.to_owned()), ..task("writer") };
    let mine = test.store.submit(by("tok_mine")).await.unwrap().unwrap();
    let others = test.store.submit(by("tok_other")).await.unwrap().unwrap();
    test.submit("writer").await;
    // Another token resumes the session, which still belongs to the first.
    let claimed = test.claim().await;
    test.finish(&claimed.fence, 1, success("done")).await.unwrap();
    let resumed =
        NewRun { created_by: Some("tok_other".to_owned()), ..follow_up("writer", &mine.session_id, false) };
    let resumed = test.store.submit(resumed).await.unwrap().unwrap();
    let listed = async |owner: &str| {
        let filter = RunFilter { owner: Some(owner.to_owned()), ..RunFilter::default() };
        let runs = test.store.runs(filter, page(None, 10)).await.unwrap().items;
        let sessions = test.store.sessions(owned(owner), page(None, 10)).await.unwrap().items;
        let runs: Vec<_> = runs.into_iter().map(|run| (run.run_id, run.created_by, run.owner)).collect();
        (runs, sessions.into_iter().map(|session| session.session_id).collect::<Vec<_>>())
    };
    let token = |name: &str| Some(name.to_owned());
    let (runs, sessions) = listed("tok_mine").await;
    let expected = [
        (resumed.run_id, token("tok_other"), token("tok_mine")),
        (mine.run_id, token("tok_mine"), token("tok_mine")),
    ];
    assert_eq!(runs, expected);
    assert_eq!(sessions, [mine.session_id]);
    let (runs, sessions) = listed("tok_other").await;
    assert_eq!((runs.len(), sessions), (1, vec![others.session_id]));
    let stats = async |owner: Option<String>| {
        let filter = StatsFilter { owner, ..StatsFilter::default() };
        test.store.agent_stats(filter).await.unwrap().iter().map(|row| row.runs).sum::<i64>()
    };
    assert_eq!(stats(token("tok_mine")).await, 1);
    assert_eq!(stats(token("tok_other")).await, 0);
    assert_eq!(stats(None).await, 1);
}

pub(crate) async fn list_has_shortened_errors(test: &Fixture) {
    let submitted = test.submit("writer").await;
    let claimed = test.claim().await;
    let long = "ü".repeat(1 << 20);
    let error = Some(Box::new(RunError {
        kind: RunErrorType::ToolFailed,
        message: long.clone(),
        validation_errors: Vec::new(),
        last_output: Some(long.clone()),
        calls: 1,
        retry_count: 0,
        call_error: None,
        response: None,
    }));
    let end = EventBody::RunCompleted { status: RunStatus::Failed, error, salvage: None, receipt: None };
    test.finish(&claimed.fence, 1, vec![end]).await.unwrap();
    let listed = test.store.runs(RunFilter::default(), page(None, 10)).await.unwrap().items;
    let shown = listed[0].error.clone().unwrap();
    assert_eq!(shown["type"], "tool_failed");
    assert_eq!(shown["message"], format!("{}…", "ü".repeat(500)));
    assert!(shown.to_string().len() < 2_000);
    let whole = test.run(&submitted.run_id).await.error.unwrap();
    assert_eq!((&whole["message"], &whole["last_output"]), (&long.clone().into(), &long.into()));
}
