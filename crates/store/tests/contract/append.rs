//! Appends, fencing and heartbeats.

use slipform_store::{Append, Appended, Fence, Stale};
use slipform_testkit::wait_until_async;
use slipform_types::{RunProgress, RunStatus};

use crate::support::{Fixture, LONG, message, new_run_id};

pub(crate) async fn repeated_append_has_no_effect(test: &Fixture) {
    let submitted = test.submit("writer").await;
    let fence = test.claim().await.fence;
    let first = test.append(&fence, 1, vec![message("one"), message("two")]).await.unwrap();
    assert_eq!((first.last_seq, first.is_stopping), (3, false));
    let again = test.append(&fence, 1, vec![message("one"), message("two")]).await.unwrap();
    assert_eq!(again, Appended { is_repeated: true, ..first });
    assert_eq!(test.append(&fence, 3, vec![message("left one out")]).await, Err(Stale));
    assert_eq!(test.append(&fence, 2, vec![message("three")]).await.unwrap().last_seq, 4);
    assert_eq!(test.append(&fence, 1, vec![message("too old")]).await, Err(Stale));
    assert_eq!(test.event_types(&submitted.session_id).await, ["run_start", "message", "message", "message"]);
    assert_eq!(test.status(&submitted.run_id).await, RunStatus::Running);
}

pub(crate) async fn progress_of_run_is_shown_and_survives_its_runner(test: &Fixture) {
    let submitted = test.submit("writer").await;
    let fence = test.claim().await.fence;
    let progress = |retry_count, backend: &str| RunProgress {
        retry_count,
        backend: Some(backend.to_owned()),
        model: Some(format!("{backend}-1")),
    };
    let append = |number, progress| Append {
        fence: fence.clone(),
        number,
        bodies: vec![message("x")],
        progress,
        lease_ms: LONG,
    };
    let shown = || async {
        let run = test.store.run(&submitted.run_id).await.unwrap().unwrap();
        (run.retry_count, run.backend, run.model)
    };
    assert_eq!(shown().await, (0, None, None));
    test.store.append(append(1, Some(progress(1, "small")))).await.unwrap().unwrap();
    assert_eq!(shown().await, (1, Some("small".to_owned()), Some("small-1".to_owned())));
    test.store.append(append(2, Some(progress(2, "large")))).await.unwrap().unwrap();
    test.store.append(append(3, None)).await.unwrap().unwrap();
    let latest = (2, Some("large".to_owned()), Some("large-1".to_owned()));
    assert_eq!(shown().await, latest);

    test.store.release(fence).await.unwrap().unwrap();
    test.store.stop(&submitted.run_id).await.unwrap();
    assert_eq!(shown().await, latest);
}

pub(crate) async fn write_of_stale_attempt_is_refused(test: &Fixture) {
    test.submit("writer").await;
    let first = test.claim().await.fence;
    test.append(&first, 1, vec![message("one")]).await.unwrap();
    test.store.release(first.clone()).await.unwrap().unwrap();
    assert_eq!(test.append(&first, 2, vec![message("released")]).await, Err(Stale));
    let second = test.claim().await.fence;
    assert_eq!(second.run_id, first.run_id);
    assert_ne!(second.token, first.token);
    assert_eq!(test.append(&first, 2, vec![message("stale")]).await, Err(Stale));
    assert_eq!(test.store.park(first.clone()).await.unwrap(), Err(Stale));
    assert_eq!(test.store.release(first.clone()).await.unwrap(), Err(Stale));
    assert_eq!(test.finish(&first, 2, crate::support::success("stale")).await, Err(Stale));
    assert!(test.append(&second, 1, vec![message("latest")]).await.is_ok());
    let unknown = Fence { run_id: new_run_id(), token: 1 };
    assert_eq!(test.append(&unknown, 1, vec![message("unknown run")]).await, Err(Stale));
}

pub(crate) async fn write_after_lease_expiry_is_refused(test: &Fixture) {
    let submitted = test.submit("writer").await;
    let fence = test.claim_as("runner", 1, 1).await.remove(0).fence;
    wait_until_async("the lease expires", || async {
        let beats = test.store.renew("runner", vec![fence.clone()], 1).await.unwrap();
        beats[0].is_stale
    })
    .await;
    assert_eq!(test.append(&fence, 1, vec![message("late")]).await, Err(Stale));
    assert_eq!(test.finish(&fence, 1, crate::support::success("late")).await, Err(Stale));
    assert_eq!(test.store.park(fence.clone()).await.unwrap(), Err(Stale));
    assert_eq!(test.event_types(&submitted.session_id).await, ["run_start"]);
}

pub(crate) async fn concurrent_appends_leave_no_gaps(test: &Fixture) {
    for _ in 0..5 {
        test.submit("writer").await;
    }
    let claims = test.claim_as("runner", 5, LONG).await;
    let writing: Vec<_> = (0..50)
        .map(|index: usize| {
            let (store, fence) = (test.store.clone(), claims[index % 5].fence.clone());
            let number = (index / 5 + 1) as i64;
            tokio::spawn(async move {
                // Each append waits for its predecessor, while other runs are written concurrently.
                let append = Append {
                    fence,
                    number,
                    bodies: vec![message("x"), message("y")],
                    progress: None,
                    lease_ms: LONG,
                };
                while store.append(append.clone()).await.unwrap().is_err() {
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    for written in writing {
        written.await.unwrap();
    }
    for claim in &claims {
        assert_eq!(test.journal(&claim.session_id).await.len(), 21);
    }
    assert!(test.store.check().await.unwrap().is_empty());
}

pub(crate) async fn heartbeat_renews_lease_and_reports_stop(test: &Fixture) {
    let submitted = test.submit("writer").await;
    let fence = test.claim().await.fence;
    let gone = Fence { run_id: fence.run_id.clone(), token: 7 };
    let beats = test.store.renew("runner", vec![fence.clone(), gone.clone()], LONG).await.unwrap();
    assert_eq!((&beats[0].fence, beats[0].is_stopping, beats[0].is_stale), (&fence, false, false));
    assert_eq!((&beats[1].fence, beats[1].is_stopping, beats[1].is_stale), (&gone, false, true));
    test.store.stop(&submitted.run_id).await.unwrap().unwrap();
    let beats = test.store.renew("runner", vec![fence], LONG).await.unwrap();
    assert!(beats[0].is_stopping && !beats[0].is_stale);
}
