//! Delegation limits.

use slipform_store::{DelegationLimits, NewRun, Parent, ParentCall, Refusal, SessionTarget, Stale};
use slipform_types::{ExecutionMode, RunType};

use crate::support::{Fixture, LIMITS, child, delegation_refusal, new_session_id, start, task};

const SYNC: ExecutionMode = ExecutionMode::Sync;
const POLL: ExecutionMode = ExecutionMode::AsyncPoll;

fn limited(mut new: NewRun, limits: DelegationLimits) -> NewRun {
    if let Some(parent) = &mut new.parent {
        parent.limits = limits;
    }
    new
}

pub(crate) async fn repeated_call_returns_same_child(test: &Fixture) {
    test.submit("writer").await;
    let parent = test.claim().await;
    let first = test.store.submit(child(&parent, "reader", "call", SYNC)).await.unwrap().unwrap();
    let again = test.store.submit(child(&parent, "reader", "call", SYNC)).await.unwrap().unwrap();
    assert_eq!((&again.run_id, again.is_repeated), (&first.run_id, true));
    let other = test.store.submit(child(&parent, "reader", "another", SYNC)).await.unwrap().unwrap();
    assert_ne!(other.run_id, first.run_id);
    assert_eq!(test.run(&first.run_id).await.parent_run_id.as_ref(), Some(&parent.fence.run_id));
    assert_eq!(test.claim().await.lineage, ["writer", "reader"]);
    let session = test.store.session(&first.session_id).await.unwrap().unwrap();
    assert_eq!(session.parent_session_id, Some(parent.session_id));
}

pub(crate) async fn child_is_found_by_call(test: &Fixture) {
    test.submit("writer").await;
    let parent = test.claim().await;
    let call = |call_id: &str| ParentCall { fence: parent.fence.clone(), call_id: call_id.to_owned() };
    assert_eq!(test.store.child_by_call(call("call")).await.unwrap(), Ok(None));
    let started = test.store.submit(child(&parent, "reader", "call", SYNC)).await.unwrap().unwrap();
    let found = test.store.child_by_call(call("call")).await.unwrap().unwrap().unwrap();
    assert_eq!((found.run_id, found.session_id), (started.run_id, started.session_id));
    assert_eq!(test.store.child_by_call(call("another")).await.unwrap(), Ok(None));
    test.store.release(parent.fence.clone()).await.unwrap().unwrap();
    assert_eq!(test.store.child_by_call(call("call")).await.unwrap(), Err(Stale));
}

pub(crate) async fn child_of_stale_attempt_is_refused(test: &Fixture) {
    test.submit("writer").await;
    let parent = test.claim().await;
    test.store.release(parent.fence.clone()).await.unwrap().unwrap();
    let refused = test.store.submit(child(&parent, "reader", "call", SYNC)).await.unwrap();
    assert_eq!(refused, Err(Refusal::Stale));
    let latest = test.claim().await;
    let refused = test.store.submit(child(&parent, "reader", "call", SYNC)).await.unwrap();
    assert_eq!(refused, Err(Refusal::Stale));
    assert!(test.store.submit(child(&latest, "reader", "call", SYNC)).await.unwrap().is_ok());
}

pub(crate) async fn delegation_to_an_ancestor_is_refused(test: &Fixture) {
    test.submit("writer").await;
    let parent = test.claim().await;
    test.delegate(&parent, "reader", SYNC).await;
    let reader = test.claim().await;
    let answer = test.store.submit(child(&reader, "writer", "call", SYNC)).await.unwrap();
    assert_eq!(
        delegation_refusal(answer),
        "the agent 'writer' is already at work above this one (writer > reader): it cannot be called"
    );
}

pub(crate) async fn delegation_beyond_depth_limit_is_refused(test: &Fixture) {
    test.submit("one").await;
    let mut parent = test.claim().await;
    for agent in ["two", "three", "four", "five"] {
        test.delegate(&parent, agent, SYNC).await;
        parent = test.claim().await;
    }
    let answer = test.store.submit(child(&parent, "six", "call", SYNC)).await.unwrap();
    assert_eq!(delegation_refusal(answer), "agents may be nested 5 deep, and 'six' would be one more");
}

pub(crate) async fn children_beyond_limit_are_refused(test: &Fixture) {
    test.submit("writer").await;
    let parent = test.claim().await;
    let limits = DelegationLimits { children_max: 2, ..LIMITS };
    for call in ["one", "two"] {
        let new = limited(child(&parent, "reader", call, POLL), limits);
        assert!(test.store.submit(new).await.unwrap().is_ok());
    }
    let answer = test.store.submit(limited(child(&parent, "reader", "three", POLL), limits)).await.unwrap();
    assert_eq!(delegation_refusal(answer), "one run may start no more than 2 agents, and this one has");
    let again = test.store.submit(limited(child(&parent, "reader", "two", POLL), limits)).await.unwrap();
    assert!(again.unwrap().is_repeated, "a started child is returned again");
}

pub(crate) async fn runs_of_a_tree_beyond_limit_are_refused(test: &Fixture) {
    test.submit("writer").await;
    let parent = test.claim().await;
    let limits = DelegationLimits { runs_max: 2, ..LIMITS };
    let new = limited(child(&parent, "reader", "one", POLL), limits);
    assert!(test.store.submit(new).await.unwrap().is_ok());
    let reader = test.claim().await;
    let answer = test.store.submit(limited(child(&reader, "third", "one", POLL), limits)).await.unwrap();
    assert_eq!(
        delegation_refusal(answer),
        "no more than 2 runs may come of one task, and there have been as many"
    );
}

pub(crate) async fn resuming_another_agents_session_is_refused(test: &Fixture) {
    test.submit("writer").await;
    let parent = test.claim().await;
    let started = test.delegate(&parent, "reader", POLL).await;
    let resumed = |session: &slipform_types::SessionId, call: &str| NewRun {
        session: SessionTarget::Resume { session_id: session.clone(), queues: false },
        start: start("reader", RunType::ResumeSession),
        ..child(&parent, "reader", call, POLL)
    };
    let session = &started.session_id;
    let answer = test.store.submit(resumed(session, "early")).await.unwrap();
    assert_eq!(
        delegation_refusal(answer),
        format!("the session {session} is still busy; wait for its result first")
    );
    let mut outside = resumed(session, "");
    outside.parent.as_mut().unwrap().call = None;
    let busy = Refusal::SessionBusy { session_id: session.clone(), run_id: started.run_id.clone() };
    assert_eq!(
        test.store.submit(outside).await.unwrap(),
        Err(busy),
        "an outside caller gets the typed refusal"
    );
    test.complete_next("read").await;
    assert!(test.store.submit(resumed(session, "later")).await.unwrap().is_ok());
    let stranger = test.submit("stranger").await.session_id;
    let answer = test.store.submit(resumed(&stranger, "other")).await.unwrap();
    assert_eq!(delegation_refusal(answer), format!("there is no session {stranger} of this agent"));
}

pub(crate) async fn child_of_unknown_session_is_refused(test: &Fixture) {
    let nowhere = new_session_id();
    let parent = |session_id| Some(Parent { session_id, call: None, limits: LIMITS });
    let orphan = NewRun { parent: parent(nowhere.clone()), ..task("reader") };
    assert_eq!(test.store.submit(orphan).await.unwrap(), Err(Refusal::SessionNotFound(nowhere)));
    let submitted = test.submit("writer").await;
    let adopted = NewRun { parent: parent(submitted.session_id.clone()), ..task("reader") };
    let adopted = test.store.submit(adopted).await.unwrap().unwrap();
    assert_eq!(test.run(&adopted.run_id).await.parent_run_id, None);
    let session = test.store.session(&submitted.session_id).await.unwrap().unwrap();
    assert_eq!(session.children, [adopted.session_id]);
}
