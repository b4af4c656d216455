//! Callback runs after children have ended.

use std::sync::Arc;

use slipform_store::NewRun;
use slipform_types::{EventBody, ExecutionMode, RunId, RunType};

use crate::support::{Fixture, LONG, body, child, follow_up, success};

const CALLBACK: ExecutionMode = ExecutionMode::AsyncCallback;

pub(crate) async fn ended_child_starts_callback_run(test: &Fixture) {
    let submitted = test.submit("writer").await;
    let parent = test.claim().await;
    let started = test.delegate(&parent, "reader", CALLBACK).await;
    test.finish(&parent.fence, 1, success("started")).await.unwrap();
    assert_eq!(test.event_types(&submitted.session_id).await.len(), 3);
    test.complete_next("read").await;
    let resumed = test.claim().await;
    assert_eq!(resumed.session_id, submitted.session_id);
    assert_ne!(resumed.fence.run_id, submitted.run_id);
    let run = test.run(&resumed.fence.run_id).await;
    assert_eq!((run.run_type, run.agent_name.as_str()), (RunType::ResumeSession, "writer"));
    assert_eq!(run.contract.unwrap()["hash"], "sha256:0");
    let start = body(resumed.journal.events.last().unwrap());
    let input = start["input"].as_str().unwrap();
    assert_eq!(start["type"], "resume_session");
    assert_eq!(start["blueprint"]["name"], "writer");
    assert_eq!(start["parameters"]["prompt"], input);
    let opening = format!(
        "<agent-callback session=\"{}\" status=\"completed\">\n## Child Result\n\nread",
        started.session_id
    );
    assert!(input.starts_with(&opening), "{input}");
    test.finish(&resumed.fence, 1, success("done")).await.unwrap();
    assert!(test.claim_as("runner", 10, LONG).await.is_empty(), "the callback is delivered once");
}

pub(crate) async fn ended_children_share_one_callback_run(test: &Fixture) {
    let submitted = test.submit("writer").await;
    let parent = test.claim().await;
    for call in ["one", "two", "three"] {
        test.store.submit(child(&parent, "reader", call, CALLBACK)).await.unwrap().unwrap();
        test.complete_next(call).await;
    }
    assert_eq!(test.event_types(&submitted.session_id).await, ["run_start"], "the session is busy");
    test.finish(&parent.fence, 1, success("started")).await.unwrap();
    let resumed = test.claim_as("runner", 10, LONG).await;
    assert_eq!(resumed.len(), 1);
    let start = body(resumed[0].journal.events.last().unwrap());
    let input = start["input"].as_str().unwrap();
    assert!(input.starts_with("<agent-callback type=\"aggregated\" count=\"3\">"), "{input}");
    let offsets: Vec<_> = ["one", "two", "three"].iter().map(|text| input.find(text).unwrap()).collect();
    assert!(offsets.is_sorted());
}

pub(crate) async fn queued_run_precedes_callback_run(test: &Fixture) {
    let submitted = test.submit("writer").await;
    let parent = test.claim().await;
    test.delegate(&parent, "reader", CALLBACK).await;
    let queued = test.store.submit(follow_up("writer", &submitted.session_id, true)).await.unwrap().unwrap();
    test.complete_next("read").await;
    test.finish(&parent.fence, 1, success("started")).await.unwrap();
    let next = test.claim_as("runner", 10, LONG).await;
    assert_eq!((next.len(), &next[0].fence.run_id), (1, &queued.run_id));
    test.finish(&next[0].fence, 1, success("queued")).await.unwrap();
    let last = test.claim().await;
    let start = body(last.journal.events.last().unwrap());
    assert!(start["input"].as_str().unwrap().starts_with("<agent-callback session="));
}

pub(crate) async fn callback_run_is_pinned_to_the_childs_runner(test: &Fixture) {
    test.submit("writer").await;
    let parent = test.claim().await;
    let pinned = NewRun { pinned_to: Some("mine".to_owned()), ..child(&parent, "reader", "call", CALLBACK) };
    test.store.submit(pinned).await.unwrap().unwrap();
    test.finish(&parent.fence, 1, success("started")).await.unwrap();
    let reader = test.claim_as("mine", 1, LONG).await.remove(0);
    test.finish(&reader.fence, 1, success("read")).await.unwrap();
    assert!(test.claim_as("theirs", 10, LONG).await.is_empty());
    assert_eq!(test.claim_as("mine", 10, LONG).await.len(), 1);
}

/// Another caller resumes the session with a different contract before the child ends. The callback run uses
/// the contract of the run that started the child.
pub(crate) async fn callback_run_uses_contract_of_run_that_started_child(test: &Fixture) {
    let submitted = test.submit("writer").await;
    let first = test.claim().await;
    let reader = test.delegate(&first, "reader", CALLBACK).await;
    let other = with_hash("sha256:other", follow_up("writer", &submitted.session_id, true));
    let other = test.store.submit(other).await.unwrap().unwrap();
    test.finish(&first.fence, 1, success("started")).await.unwrap();
    let waiting = test.store.run_details(&submitted.run_id).await.unwrap().unwrap();
    assert!(waiting.awaits_callback && waiting.continued_by.is_empty());
    // Claims the child and the other caller's run, which starts a child of its own.
    let claimed = test.claim_as("runner", 10, LONG).await;
    let of = |run: &RunId| claimed.iter().find(|claimed| claimed.fence.run_id == *run).unwrap();
    let (second, reader) = (of(&other.run_id), of(&reader.run_id));
    test.store.submit(child(second, "lister", "call", CALLBACK)).await.unwrap().unwrap();
    let lister = test.claim().await;
    test.finish(&reader.fence, 1, success("read")).await.unwrap();
    test.finish(&lister.fence, 1, success("listed")).await.unwrap();
    assert!(test.store.run_details(&submitted.run_id).await.unwrap().unwrap().awaits_callback);
    test.finish(&second.fence, 1, success("other")).await.unwrap();
    for (run, hash, result) in
        [(&submitted.run_id, "sha256:0", "read"), (&other.run_id, "sha256:other", "listed")]
    {
        let resumed = test.claim().await;
        let start = body(resumed.journal.events.last().unwrap());
        assert_eq!(start["contract"]["hash"], hash);
        assert!(start["input"].as_str().unwrap().contains(result), "{start}");
        let continued = test.store.run_details(run).await.unwrap().unwrap();
        assert_eq!(continued.continued_by, std::slice::from_ref(&resumed.fence.run_id));
        assert!(!continued.awaits_callback);
        test.finish(&resumed.fence, 1, success("done")).await.unwrap();
    }
}

fn with_hash(hash: &str, mut new: NewRun) -> NewRun {
    if let EventBody::RunStart { contract: Some(contract), .. } = &mut new.start {
        Arc::make_mut(contract).hash = hash.to_owned();
    }
    new
}
