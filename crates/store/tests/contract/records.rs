//! Retention, deletion, and the registry, token and runner tables.

use serde_json::json;
use slipform_store::{
    Error, Idempotency, NewRun, Registration, RegistryKind, Retention, RunnerRecord, TokenRecord,
};
use slipform_testkit::wait_until_async;
use slipform_types::ExecutionMode;

use crate::support::{Fixture, follow_up, runner, success, task};

const CALLBACK: ExecutionMode = ExecutionMode::AsyncCallback;

pub(crate) async fn sessions_beyond_age_limit_are_deleted(test: &Fixture) {
    let ended = test.submit("writer").await;
    test.complete_next("done").await;
    let open = test.submit("writer").await;
    let long = Retention { age_ms_max: Some(600_000), sessions_max: None };
    assert_eq!(test.store.retain(long).await.unwrap(), 0);
    assert_eq!(test.store.retain(Retention::default()).await.unwrap(), 0);
    wait_until_async("the session is older than 0 ms", || async {
        let none = Retention { age_ms_max: Some(0), sessions_max: None };
        test.store.retain(none).await.unwrap() == 1
    })
    .await;
    assert!(test.store.session(&ended.session_id).await.unwrap().is_none());
    assert!(test.store.run(&ended.run_id).await.unwrap().is_none());
    assert!(test.store.session(&open.session_id).await.unwrap().is_some());
}

pub(crate) async fn oldest_sessions_beyond_count_limit_are_deleted(test: &Fixture) {
    let mut sessions = Vec::new();
    for _ in 0..5 {
        sessions.push(test.submit("writer").await.session_id);
        let now = test.complete_next("done").await.session_id;
        // Sessions that end in the same millisecond are equally old, so wait for the clock to advance.
        let at = test.store.session(&now).await.unwrap().unwrap().updated_at;
        wait_until_async("the database's clock advances", || async {
            test.store.add(RegistryKind::Schemas, "clock", "{}").await.unwrap();
            let now = test.store.entry(RegistryKind::Schemas, "clock").await.unwrap().unwrap().created_at;
            test.store.remove(RegistryKind::Schemas, "clock").await.unwrap();
            now > at
        })
        .await;
    }
    test.submit("open").await;
    let two = Retention { age_ms_max: None, sessions_max: Some(2) };
    assert_eq!(test.store.retain(two).await.unwrap(), 3);
    for (index, session) in sessions.iter().enumerate() {
        assert_eq!(test.store.session(session).await.unwrap().is_some(), index >= 3, "{index}");
    }
    assert_eq!(test.store.retain(two).await.unwrap(), 0);
}

pub(crate) async fn old_sessions_are_deleted_in_few_transactions(test: &Fixture) {
    const SESSIONS: usize = 150;
    for _ in 0..SESSIONS {
        test.submit("writer").await;
        test.complete_next("done").await;
    }
    let open = test.submit("writer").await;
    let before = test.store.commits();
    let none = Retention { age_ms_max: Some(-1), sessions_max: None };
    assert_eq!(test.store.retain(none).await.unwrap(), SESSIONS);
    let commits = test.store.commits() - before;
    assert!(commits <= SESSIONS as u64 / 10, "{commits} transactions");
    assert_eq!(test.store.retain(none).await.unwrap(), 0);
    assert!(test.store.session(&open.session_id).await.unwrap().is_some());
    assert!(test.store.check().await.unwrap().is_empty());
}

pub(crate) async fn session_tree_with_active_run_is_retained(test: &Fixture) {
    let submitted = test.submit("writer").await;
    let parent = test.claim().await;
    test.delegate(&parent, "reader", ExecutionMode::AsyncPoll).await;
    test.finish(&parent.fence, 1, success("done")).await.unwrap();
    let none = Retention { age_ms_max: Some(-1), sessions_max: Some(0) };
    assert_eq!(test.store.retain(none).await.unwrap(), 0);
    assert!(test.store.session(&submitted.session_id).await.unwrap().is_some());
    test.complete_next("read").await;
    assert_eq!(test.store.retain(none).await.unwrap(), 2);
}

pub(crate) async fn deleting_a_session_deletes_its_children(test: &Fixture) {
    let key = Some(Idempotency { key: "key".to_owned(), body_hash: "hash".to_owned() });
    let keyed = NewRun { idempotency: key, ..task("writer") };
    let submitted = test.store.submit(keyed.clone()).await.unwrap().unwrap();
    let session = &submitted.session_id;
    let parent = test.claim().await;
    let started = test.delegate(&parent, "reader", CALLBACK).await;
    test.finish(&parent.fence, 1, success("done")).await.unwrap();
    assert_eq!(test.store.delete_session(session).await.unwrap(), Some(Err(started.run_id.clone())));
    test.complete_next("read").await;
    let resumed = test.complete_next("called back").await;
    assert_eq!(resumed.session_id, *session);
    let bystander = test.submit("bystander").await;
    assert_eq!(test.store.delete_session(session).await.unwrap(), Some(Ok(())));
    assert_eq!(test.store.delete_session(session).await.unwrap(), None);
    for gone in [session, &started.session_id] {
        assert!(test.store.session(gone).await.unwrap().is_none());
        assert!(test.store.events(gone, 0, 100).await.unwrap().events.is_empty());
    }
    assert!(test.store.session(&bystander.session_id).await.unwrap().is_some());
    let again = test.store.submit(keyed).await.unwrap().unwrap();
    assert!(!again.is_repeated, "its idempotency key is free again");
    assert!(test.store.submit(follow_up("reader", &started.session_id, true)).await.unwrap().is_err());
}

pub(crate) async fn session_with_undelivered_result_is_not_deleted(test: &Fixture) {
    let submitted = test.submit("writer").await;
    let parent = test.claim().await;
    let mut ended = Vec::new();
    for (agent, mode) in [("reader", ExecutionMode::Sync), ("caller", CALLBACK)] {
        ended.push(test.delegate(&parent, agent, mode).await.session_id);
        test.complete_next("done").await;
    }
    for session in &ended {
        let refused = test.store.delete_session(session).await.unwrap();
        assert_eq!(refused, Some(Err(submitted.run_id.clone())), "{session}");
    }
    test.store.park(parent.fence).await.unwrap().unwrap();
    assert_eq!(test.store.delete_session(&ended[0]).await.unwrap(), Some(Ok(())), "its result was delivered");
    test.complete_next("all done").await;
    assert_eq!(
        test.store.delete_session(&ended[1]).await.unwrap(),
        Some(Ok(())),
        "its callback has started a run"
    );
    assert_eq!(test.complete_next("called back").await.session_id, submitted.session_id);
}

pub(crate) async fn registry_adds_replaces_and_removes_entries(test: &Fixture) {
    let store = &test.store;
    assert!(store.add(RegistryKind::Agents, "b", r#"{"z": 1, "a": 2}"#).await.unwrap());
    assert!(store.add(RegistryKind::Agents, "a", "{}").await.unwrap());
    assert!(store.add(RegistryKind::Schemas, "b", "true").await.unwrap());
    assert!(!store.add(RegistryKind::Agents, "b", "{}").await.unwrap(), "the name is taken");
    let named = store.entries(RegistryKind::Agents).await.unwrap();
    assert_eq!(named.iter().map(|named| named.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(named[1].text, r#"{"z": 1, "a": 2}"#);
    assert!(store.replace(RegistryKind::Agents, "b", &named[1].text, "[]").await.unwrap());
    assert!(!store.replace(RegistryKind::Agents, "b", &named[1].text, "{}").await.unwrap(), "it has changed");
    assert!(!store.replace(RegistryKind::Agents, "c", "", "[]").await.unwrap());
    let one = store.entry(RegistryKind::Agents, "b").await.unwrap().unwrap();
    assert_eq!((one.text.as_str(), one.created_at), ("[]", named[1].created_at));
    assert!(one.updated_at >= one.created_at);
    assert!(store.remove(RegistryKind::Agents, "b").await.unwrap());
    assert!(!store.remove(RegistryKind::Agents, "b").await.unwrap());
    assert!(store.entry(RegistryKind::Agents, "b").await.unwrap().is_none());
    assert_eq!(store.entries(RegistryKind::Schemas).await.unwrap().len(), 1);
}

pub(crate) async fn tokens_are_stored_and_revoked(test: &Fixture) {
    let token = |id: &str| TokenRecord {
        token_id: id.to_owned(),
        name: "laptop".to_owned(),
        scope: "caller".to_owned(),
        hash: format!("hash of {id}"),
        agents: (id == "a").then(|| vec!["writer".to_owned(), "a, \"b\"".to_owned()]),
        reads_all: id == "z",
        created_at: 0,
        expires_at: None,
        is_expired: false,
        requests_per_minute: (id == "a").then_some(60),
        tokens_per_minute: (id == "z").then_some(u32::MAX),
    };
    let lifetime = |id: &str| match id {
        "z" => None,
        "a" => Some(60_000),
        _ => Some(-1),
    };
    for id in ["z", "a", "past"] {
        test.store.add_token(token(id), lifetime(id)).await.unwrap();
    }
    let again = test.store.add_token(token("z"), None).await;
    assert!(matches!(again, Err(Error::Invalid(_))), "a duplicate id is refused: {again:?}");
    let tokens = test.store.tokens().await.unwrap();
    assert_eq!(tokens.iter().map(|token| token.token_id.as_str()).collect::<Vec<_>>(), ["z", "a", "past"]);
    assert_eq!((tokens[0].hash.as_str(), tokens[0].scope.as_str()), ("hash of z", "caller"));
    assert!(tokens[0].created_at > 0, "the database sets the time");
    assert_eq!((tokens[0].agents.as_deref(), tokens[0].reads_all, tokens[0].expires_at), (None, true, None));
    assert_eq!(tokens[1].agents.as_deref().map(<[String]>::len), Some(2));
    assert_eq!(tokens[1].expires_at, Some(tokens[1].created_at + 60_000));
    let states: Vec<_> = tokens.iter().map(|token| (token.reads_all, token.is_expired)).collect();
    assert_eq!(states, [(true, false), (false, false), (false, true)]);
    assert!(test.store.revoke_token("z").await.unwrap());
    assert!(!test.store.revoke_token("z").await.unwrap());
    assert_eq!(test.store.tokens().await.unwrap().len(), 2);
}

pub(crate) async fn runners_are_registered_and_seen(test: &Fixture) {
    let runner = RunnerRecord { slots: 4, details: json!({"version": "1"}), ..runner("runner") };
    assert_eq!(test.store.register(runner.clone()).await.unwrap(), Registration::Done);
    assert_eq!(
        test.store.register(RunnerRecord { slots: 5, ..runner.clone() }).await.unwrap(),
        Registration::Done
    );
    // The id belongs to the API token that registered it.
    let foreign = RunnerRecord { slots: 9, created_by: Some("tok_1".to_owned()), ..runner.clone() };
    assert_eq!(test.store.register(foreign.clone()).await.unwrap(), Registration::Foreign);
    let other = RunnerRecord { runner_id: "other".to_owned(), ..foreign };
    assert_eq!(test.store.register(other.clone()).await.unwrap(), Registration::Done);
    assert_eq!(
        test.store.register(RunnerRecord { created_by: None, ..other }).await.unwrap(),
        Registration::Foreign
    );
    assert_eq!(test.store.runner_creator("other").await.unwrap(), Some(Some("tok_1".to_owned())));
    assert_eq!(test.store.runner_creator("runner").await.unwrap(), Some(None));
    assert_eq!(test.store.runner_creator("unknown").await.unwrap(), None);
    test.submit("writer").await;
    test.claim().await;
    let runners = test.store.runners(60_000).await.unwrap();
    assert_eq!(runners.len(), 2);
    let seen = runners.iter().find(|listed| listed.runner_id == "runner").unwrap();
    assert_eq!((seen.slots, seen.working_on), (5, 1));
    assert_eq!(seen.details["version"], "1");
    assert!(seen.seen_at > 0);
    assert!(test.store.runners(-1).await.unwrap().is_empty());
    test.store.remove_runner("runner").await.unwrap();
    test.store.remove_runner("unknown").await.unwrap();
    let left = test.store.runners(60_000).await.unwrap();
    assert_eq!(left.iter().map(|runner| runner.runner_id.as_str()).collect::<Vec<_>>(), ["other"]);
}
