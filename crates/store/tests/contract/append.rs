//! What runners say of the run that they work on.

use slipform_store::{Append, Appended, Fence, Stale};
use slipform_types::RunStatus;

use crate::test_store::{LONG, TestStore, message, new_run, until};

pub(crate) async fn an_append_may_be_repeated(test: &TestStore) {
    let submitted = test.submit("writer").await;
    let fence = test.claim().await.fence;
    let first = test.append(&fence, 1, vec![message("one"), message("two")]).await.unwrap();
    assert_eq!((first.last_seq, first.stop), (3, false));
    let again = test.append(&fence, 1, vec![message("one"), message("two")]).await.unwrap();
    assert_eq!(again, Appended { is_repeated: true, ..first });
    assert_eq!(test.append(&fence, 3, vec![message("left one out")]).await, Err(Stale));
    assert_eq!(test.append(&fence, 2, vec![message("three")]).await.unwrap().last_seq, 4);
    assert_eq!(test.append(&fence, 1, vec![message("too old")]).await, Err(Stale));
    assert_eq!(test.kinds(&submitted.session_id).await, ["run_start", "message", "message", "message"]);
    assert_eq!(test.status(&submitted.run_id).await, RunStatus::Running);
}

pub(crate) async fn only_the_latest_attempt_writes(test: &TestStore) {
    test.submit("writer").await;
    let first = test.claim().await.fence;
    test.append(&first, 1, vec![message("one")]).await.unwrap();
    test.store.release(first.clone()).await.unwrap().unwrap();
    assert_eq!(test.append(&first, 2, vec![message("released")]).await, Err(Stale));
    let second = test.claim().await.fence;
    assert_eq!((second.run_id.clone(), second.token), (first.run_id.clone(), first.token + 1));
    assert_eq!(test.append(&first, 2, vec![message("stale")]).await, Err(Stale));
    assert_eq!(test.store.park(first.clone()).await.unwrap(), Err(Stale));
    assert_eq!(test.store.release(first.clone()).await.unwrap(), Err(Stale));
    assert_eq!(test.finish(&first, 2, crate::test_store::success("stale")).await, Err(Stale));
    assert!(test.append(&second, 1, vec![message("latest")]).await.is_ok());
    let unknown = Fence { run_id: new_run(), token: 1 };
    assert_eq!(test.append(&unknown, 1, vec![message("nobody")]).await, Err(Stale));
}

pub(crate) async fn a_runner_that_wakes_up_too_late_writes_nothing(test: &TestStore) {
    let submitted = test.submit("writer").await;
    let fence = test.claim_as("runner", 1, 1).await.remove(0).fence;
    until("the lease expires", || async {
        let beats = test.store.renew("runner", vec![fence.clone()], 1).await.unwrap();
        beats[0].is_stale
    })
    .await;
    assert_eq!(test.append(&fence, 1, vec![message("late")]).await, Err(Stale));
    assert_eq!(test.finish(&fence, 1, crate::test_store::success("late")).await, Err(Stale));
    assert_eq!(test.store.park(fence.clone()).await.unwrap(), Err(Stale));
    assert_eq!(test.kinds(&submitted.session_id).await, ["run_start"]);
}

pub(crate) async fn numbers_have_no_gaps_however_many_write(test: &TestStore) {
    for _ in 0..5 {
        test.submit("writer").await;
    }
    let claims = test.claim_as("runner", 5, LONG).await;
    let writing: Vec<_> = (0..50)
        .map(|index: usize| {
            let (store, fence) = (test.store.clone(), claims[index % 5].fence.clone());
            let number = (index / 5 + 1) as i64;
            tokio::spawn(async move {
                // Each waits for the one before it; those of other runs are written meanwhile.
                let append =
                    Append { fence, number, bodies: vec![message("x"), message("y")], lease_ms: LONG };
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

pub(crate) async fn a_heartbeat_prolongs_and_tells(test: &TestStore) {
    let submitted = test.submit("writer").await;
    let fence = test.claim().await.fence;
    let gone = Fence { run_id: fence.run_id.clone(), token: 7 };
    let beats = test.store.renew("runner", vec![fence.clone(), gone.clone()], LONG).await.unwrap();
    assert_eq!((&beats[0].fence, beats[0].stop, beats[0].is_stale), (&fence, false, false));
    assert_eq!((&beats[1].fence, beats[1].stop, beats[1].is_stale), (&gone, false, true));
    test.store.stop(&submitted.run_id).await.unwrap().unwrap();
    let beats = test.store.renew("runner", vec![fence], LONG).await.unwrap();
    assert!(beats[0].stop && !beats[0].is_stale);
}
