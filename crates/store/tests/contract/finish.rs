//! The end of a run.

use slipform_store::{Append, Appended, Error, Stale};
use slipform_types::{EventBody, RunError, RunErrorType, RunStatus, Salvage};

use crate::world::{LONG, World, body, kind, message, success};

fn failure() -> Vec<EventBody> {
    let error = RunError {
        kind: RunErrorType::Timeout,
        message: "too slow".to_owned(),
        validation_errors: Vec::new(),
        last_output: None,
        calls: 5,
        retry_count: 4,
        response: None,
    };
    vec![EventBody::RunCompleted {
        status: RunStatus::Failed,
        error: Some(Box::new(error)),
        salvage: Some(Box::new(Salvage::default())),
        receipt: None,
    }]
}

pub(crate) async fn an_end_is_kept_with_its_result(world: &World) {
    let submitted = world.submit("writer").await;
    let open = world.store.finished(&submitted.session_id).await.unwrap().unwrap();
    assert!(open.result.is_none() && open.end.is_none());
    let fence = world.claim().await.fence;
    world.append(&fence, 1, vec![message("draft")]).await.unwrap();
    assert_eq!(world.finish(&fence, 2, success("text")).await.unwrap().last_seq, 4);
    let finished = world.store.finished(&submitted.session_id).await.unwrap().unwrap();
    assert_eq!((finished.run.status, finished.run.retry_count), (RunStatus::Completed, 2));
    assert!(finished.run.finished_at.is_some() && finished.run.error.is_none());
    assert_eq!(kind(&finished.start), "run_start");
    assert_eq!(body(&finished.result.unwrap())["result_text"], "text");
    assert_eq!(finished.end.map(|end| (kind(&end), end.seq)), Some(("run_completed".to_owned(), 4)));

    let submitted = world.submit("writer").await;
    let fence = world.claim().await.fence;
    world.finish(&fence, 1, failure()).await.unwrap();
    let finished = world.store.finished(&submitted.session_id).await.unwrap().unwrap();
    assert_eq!((finished.run.status, finished.run.retry_count), (RunStatus::Failed, 4));
    assert_eq!(finished.run.error.unwrap()["type"], "timeout");
    assert!(finished.result.is_none());
}

pub(crate) async fn an_end_may_be_repeated(world: &World) {
    let submitted = world.submit("writer").await;
    let fence = world.claim().await.fence;
    let first = world.finish(&fence, 1, success("text")).await.unwrap();
    assert!(!first.is_repeated);
    let again = world.finish(&fence, 1, success("text")).await;
    assert_eq!(again, Ok(Appended { is_repeated: true, ..first }));
    assert_eq!(world.finish(&fence, 2, success("text")).await, Err(Stale));
    assert_eq!(world.kinds(&submitted.session_id).await.len(), 3);
}

pub(crate) async fn an_end_says_that_it_is_one(world: &World) {
    let submitted = world.submit("writer").await;
    let fence = world.claim().await.fence;
    let append = Append { fence, number: 1, bodies: vec![message("no end")], lease_ms: LONG };
    assert!(matches!(world.store.finish(append).await, Err(Error::Unsuitable(_))));
    assert_eq!(world.status(&submitted.run_id).await, RunStatus::Claimed);
    assert_eq!(world.kinds(&submitted.session_id).await, ["run_start"]);
}

pub(crate) async fn an_ended_run_is_written_to_no_more(world: &World) {
    world.submit("writer").await;
    let fence = world.complete_next("text").await.fence;
    assert_eq!(world.append(&fence, 2, vec![message("after")]).await, Err(Stale));
    assert_eq!(world.append(&fence, 1, vec![message("after")]).await, Err(Stale));
    assert_eq!(world.store.release(fence.clone()).await.unwrap(), Err(Stale));
    let beats = world.store.renew("runner", vec![fence], LONG).await.unwrap();
    assert!(beats[0].is_stale);
    assert!(world.claim_as("runner", 10, LONG).await.is_empty());
}
