//! Sessions that are resumed because children have ended.

use std::sync::Arc;

use slipform_store::NewRun;
use slipform_types::{EventBody, ExecutionMode, RunId, RunType};

use crate::world::{LONG, World, body, child, follow_up, success};

const CALLBACK: ExecutionMode = ExecutionMode::AsyncCallback;

pub(crate) async fn a_child_calls_back(world: &World) {
    let submitted = world.submit("writer").await;
    let parent = world.claim().await;
    let started = world.delegate(&parent, "reader", CALLBACK).await;
    world.finish(&parent.fence, 1, success("started")).await.unwrap();
    assert_eq!(world.kinds(&submitted.session_id).await.len(), 3);
    world.complete_next("read").await;
    let resumed = world.claim().await;
    assert_eq!(resumed.session_id, submitted.session_id);
    assert_ne!(resumed.fence.run_id, submitted.run_id);
    let run = world.run(&resumed.fence.run_id).await;
    assert_eq!((run.run_type, run.agent_name.as_str()), (RunType::ResumeSession, "writer"));
    assert_eq!(run.contract.unwrap()["hash"], "sha256:0");
    let start = body(resumed.journal.last().unwrap());
    let input = start["input"].as_str().unwrap();
    assert_eq!(start["type"], "resume_session");
    assert_eq!(start["blueprint"]["name"], "writer");
    assert_eq!(start["parameters"]["prompt"], input);
    let opening = format!(
        "<agent-callback session=\"{}\" status=\"completed\">\n## Child Result\n\nread",
        started.session_id
    );
    assert!(input.starts_with(&opening), "{input}");
    world.finish(&resumed.fence, 1, success("done")).await.unwrap();
    assert!(world.claim_as("runner", 10, LONG).await.is_empty(), "it is told once");
}

pub(crate) async fn children_call_back_together(world: &World) {
    let submitted = world.submit("writer").await;
    let parent = world.claim().await;
    for call in ["one", "two", "three"] {
        world.store.submit(child(&parent, "reader", call, CALLBACK)).await.unwrap().unwrap();
        world.complete_next(call).await;
    }
    assert_eq!(world.kinds(&submitted.session_id).await, ["run_start"], "the session is busy");
    world.finish(&parent.fence, 1, success("started")).await.unwrap();
    let resumed = world.claim_as("runner", 10, LONG).await;
    assert_eq!(resumed.len(), 1);
    let start = body(resumed[0].journal.last().unwrap());
    let input = start["input"].as_str().unwrap();
    assert!(input.starts_with("<agent-callback type=\"aggregated\" count=\"3\">"), "{input}");
    let places: Vec<_> = ["one", "two", "three"].iter().map(|text| input.find(text).unwrap()).collect();
    assert!(places.is_sorted());
}

pub(crate) async fn a_queued_run_goes_before_a_callback(world: &World) {
    let submitted = world.submit("writer").await;
    let parent = world.claim().await;
    world.delegate(&parent, "reader", CALLBACK).await;
    let queued = world.store.submit(follow_up("writer", &submitted.session_id, true)).await.unwrap().unwrap();
    world.complete_next("read").await;
    world.finish(&parent.fence, 1, success("started")).await.unwrap();
    let next = world.claim_as("runner", 10, LONG).await;
    assert_eq!((next.len(), &next[0].fence.run_id), (1, &queued.run_id));
    world.finish(&next[0].fence, 1, success("queued")).await.unwrap();
    let last = world.claim().await;
    let start = body(last.journal.last().unwrap());
    assert!(start["input"].as_str().unwrap().starts_with("<agent-callback session="));
}

pub(crate) async fn a_callback_goes_to_the_childs_runner(world: &World) {
    world.submit("writer").await;
    let parent = world.claim().await;
    let pinned = NewRun { pinned_to: Some("mine".to_owned()), ..child(&parent, "reader", "call", CALLBACK) };
    world.store.submit(pinned).await.unwrap().unwrap();
    world.finish(&parent.fence, 1, success("started")).await.unwrap();
    let reader = world.claim_as("mine", 1, LONG).await.remove(0);
    world.finish(&reader.fence, 1, success("read")).await.unwrap();
    assert!(world.claim_as("theirs", 10, LONG).await.is_empty());
    assert_eq!(world.claim_as("mine", 10, LONG).await.len(), 1);
}

/// Another caller resumes the session under another contract before the child ends: the callback is held to the contract
/// of the run that started the child.
pub(crate) async fn a_callback_continues_the_run_that_started_the_child(world: &World) {
    let submitted = world.submit("writer").await;
    let first = world.claim().await;
    let reader = world.delegate(&first, "reader", CALLBACK).await;
    let other = with_hash("sha256:other", follow_up("writer", &submitted.session_id, true));
    let other = world.store.submit(other).await.unwrap().unwrap();
    world.finish(&first.fence, 1, success("started")).await.unwrap();
    let waiting = world.store.finished_run(&submitted.run_id).await.unwrap().unwrap();
    assert!(waiting.awaits_callback && waiting.continued_by.is_empty());
    // The child can be claimed, and the run of the other caller, which starts a child of its own.
    let claimed = world.claim_as("runner", 10, LONG).await;
    let of = |run: &RunId| claimed.iter().find(|claimed| claimed.fence.run_id == *run).unwrap();
    let (second, reader) = (of(&other.run_id), of(&reader.run_id));
    world.store.submit(child(second, "lister", "call", CALLBACK)).await.unwrap().unwrap();
    let lister = world.claim().await;
    world.finish(&reader.fence, 1, success("read")).await.unwrap();
    world.finish(&lister.fence, 1, success("listed")).await.unwrap();
    assert!(world.store.finished_run(&submitted.run_id).await.unwrap().unwrap().awaits_callback);
    world.finish(&second.fence, 1, success("other")).await.unwrap();
    for (run, hash, said) in
        [(&submitted.run_id, "sha256:0", "read"), (&other.run_id, "sha256:other", "listed")]
    {
        let resumed = world.claim().await;
        let start = body(resumed.journal.last().unwrap());
        assert_eq!(start["contract"]["hash"], hash);
        assert!(start["input"].as_str().unwrap().contains(said), "{start}");
        let continued = world.store.finished_run(run).await.unwrap().unwrap();
        assert_eq!(continued.continued_by, std::slice::from_ref(&resumed.fence.run_id));
        assert!(!continued.awaits_callback);
        world.finish(&resumed.fence, 1, success("done")).await.unwrap();
    }
}

fn with_hash(hash: &str, mut new: NewRun) -> NewRun {
    if let EventBody::RunStart { contract: Some(contract), .. } = &mut new.start {
        Arc::make_mut(contract).hash = hash.to_owned();
    }
    new
}
