//! Finishing runs.

use slipform_store::{Append, Appended, Error, Stale};
use slipform_types::{EventBody, RunError, RunErrorType, RunStatus, Salvage};

use crate::support::{Fixture, LONG, body, event_type, message, success};

fn failure() -> Vec<EventBody> {
    let error = RunError {
        kind: RunErrorType::Timeout,
        message: "too slow".to_owned(),
        validation_errors: Vec::new(),
        last_output: None,
        calls: 5,
        retry_count: 4,
        call_error: None,
        response: None,
    };
    vec![EventBody::RunCompleted {
        status: RunStatus::Failed,
        error: Some(Box::new(error)),
        salvage: Some(Box::new(Salvage::default())),
        receipt: None,
    }]
}

pub(crate) async fn finished_run_has_result_and_end(test: &Fixture) {
    let submitted = test.submit("writer").await;
    let open = test.store.latest_run_details(&submitted.session_id).await.unwrap().unwrap();
    assert!(open.result.is_none() && open.end.is_none());
    let fence = test.claim().await.fence;
    test.append(&fence, 1, vec![message("draft")]).await.unwrap();
    assert_eq!(test.finish(&fence, 2, success("text")).await.unwrap().last_seq, 4);
    let finished = test.store.latest_run_details(&submitted.session_id).await.unwrap().unwrap();
    assert_eq!((finished.run.status, finished.run.retry_count), (RunStatus::Completed, 2));
    assert!(finished.run.finished_at.is_some() && finished.run.error.is_none());
    assert_eq!(event_type(&finished.start), "run_start");
    assert_eq!(body(&finished.result.unwrap())["result_text"], "text");
    assert_eq!(finished.end.map(|end| (event_type(&end), end.seq)), Some(("run_completed".to_owned(), 4)));

    let submitted = test.submit("writer").await;
    let fence = test.claim().await.fence;
    test.finish(&fence, 1, failure()).await.unwrap();
    let finished = test.store.latest_run_details(&submitted.session_id).await.unwrap().unwrap();
    assert_eq!((finished.run.status, finished.run.retry_count), (RunStatus::Failed, 4));
    assert_eq!(finished.run.error.unwrap()["type"], "timeout");
    assert!(finished.result.is_none());
}

pub(crate) async fn repeated_finish_has_no_effect(test: &Fixture) {
    let submitted = test.submit("writer").await;
    let fence = test.claim().await.fence;
    let first = test.finish(&fence, 1, success("text")).await.unwrap();
    assert!(!first.is_repeated);
    let again = test.finish(&fence, 1, success("text")).await;
    assert_eq!(again, Ok(Appended { is_repeated: true, ..first }));
    assert_eq!(test.finish(&fence, 2, success("text")).await, Err(Stale));
    assert_eq!(test.event_types(&submitted.session_id).await.len(), 3);
}

pub(crate) async fn finish_without_run_completed_is_refused(test: &Fixture) {
    let submitted = test.submit("writer").await;
    let fence = test.claim().await.fence;
    let append = Append { fence, number: 1, bodies: vec![message("no end")], progress: None, lease_ms: LONG };
    assert!(matches!(test.store.finish(append).await, Err(Error::Unsuitable(_))));
    assert_eq!(test.status(&submitted.run_id).await, RunStatus::Claimed);
    assert_eq!(test.event_types(&submitted.session_id).await, ["run_start"]);
}

pub(crate) async fn write_to_ended_run_is_refused(test: &Fixture) {
    test.submit("writer").await;
    let fence = test.complete_next("text").await.fence;
    assert_eq!(test.append(&fence, 2, vec![message("after")]).await, Err(Stale));
    assert_eq!(test.append(&fence, 1, vec![message("after")]).await, Err(Stale));
    assert_eq!(test.store.release(fence.clone()).await.unwrap(), Err(Stale));
    let beats = test.store.renew("runner", vec![fence], LONG).await.unwrap();
    assert!(beats[0].is_stale);
    assert!(test.claim_as("runner", 10, LONG).await.is_empty());
}
