//! What runners say of the run that they work on.

use slipform_store::{Append, Appended, Fence, Stale};
use slipform_types::RunStatus;

use crate::world::{LONG, World, message, new_run, until};

pub(crate) async fn an_append_may_be_repeated(world: &World) {
    let submitted = world.submit("writer").await;
    let fence = world.claim().await.fence;
    let first = world.append(&fence, 1, vec![message("one"), message("two")]).await.unwrap();
    assert_eq!((first.last_seq, first.stop), (3, false));
    let again = world.append(&fence, 1, vec![message("one"), message("two")]).await.unwrap();
    assert_eq!(again, Appended { is_repeated: true, ..first });
    assert_eq!(world.append(&fence, 3, vec![message("left one out")]).await, Err(Stale));
    assert_eq!(world.append(&fence, 2, vec![message("three")]).await.unwrap().last_seq, 4);
    assert_eq!(world.append(&fence, 1, vec![message("too old")]).await, Err(Stale));
    assert_eq!(world.kinds(&submitted.session_id).await, ["run_start", "message", "message", "message"]);
    assert_eq!(world.status(&submitted.run_id).await, RunStatus::Running);
}

pub(crate) async fn only_the_latest_attempt_writes(world: &World) {
    world.submit("writer").await;
    let first = world.claim().await.fence;
    world.append(&first, 1, vec![message("one")]).await.unwrap();
    world.store.release(first.clone()).await.unwrap().unwrap();
    assert_eq!(world.append(&first, 2, vec![message("released")]).await, Err(Stale));
    let second = world.claim().await.fence;
    assert_eq!((second.run_id.clone(), second.token), (first.run_id.clone(), first.token + 1));
    assert_eq!(world.append(&first, 2, vec![message("stale")]).await, Err(Stale));
    assert_eq!(world.store.park(first.clone()).await.unwrap(), Err(Stale));
    assert_eq!(world.store.release(first.clone()).await.unwrap(), Err(Stale));
    assert_eq!(world.finish(&first, 2, crate::world::success("stale")).await, Err(Stale));
    assert!(world.append(&second, 1, vec![message("latest")]).await.is_ok());
    let unknown = Fence { run_id: new_run(), token: 1 };
    assert_eq!(world.append(&unknown, 1, vec![message("nobody")]).await, Err(Stale));
}

pub(crate) async fn a_runner_that_wakes_up_too_late_writes_nothing(world: &World) {
    let submitted = world.submit("writer").await;
    let fence = world.claim_as("runner", 1, 1).await.remove(0).fence;
    until("the lease expires", || async {
        let beats = world.store.renew("runner", vec![fence.clone()], 1).await.unwrap();
        beats[0].is_stale
    })
    .await;
    assert_eq!(world.append(&fence, 1, vec![message("late")]).await, Err(Stale));
    assert_eq!(world.finish(&fence, 1, crate::world::success("late")).await, Err(Stale));
    assert_eq!(world.store.park(fence.clone()).await.unwrap(), Err(Stale));
    assert_eq!(world.kinds(&submitted.session_id).await, ["run_start"]);
}

pub(crate) async fn numbers_have_no_gaps_however_many_write(world: &World) {
    for _ in 0..5 {
        world.submit("writer").await;
    }
    let claims = world.claim_as("runner", 5, LONG).await;
    let writing: Vec<_> = (0..50)
        .map(|index: usize| {
            let (store, fence) = (world.store.clone(), claims[index % 5].fence.clone());
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
        assert_eq!(world.journal(&claim.session_id).await.len(), 21);
    }
    assert!(world.store.check().await.unwrap().is_empty());
}

pub(crate) async fn a_heartbeat_prolongs_and_tells(world: &World) {
    let submitted = world.submit("writer").await;
    let fence = world.claim().await.fence;
    let gone = Fence { run_id: fence.run_id.clone(), token: 7 };
    let beats = world.store.renew("runner", vec![fence.clone(), gone.clone()], LONG).await.unwrap();
    assert_eq!((&beats[0].fence, beats[0].stop, beats[0].is_stale), (&fence, false, false));
    assert_eq!((&beats[1].fence, beats[1].stop, beats[1].is_stale), (&gone, false, true));
    world.store.stop(&submitted.run_id).await.unwrap().unwrap();
    let beats = world.store.renew("runner", vec![fence], LONG).await.unwrap();
    assert!(beats[0].stop && !beats[0].is_stale);
}
