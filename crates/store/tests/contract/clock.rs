//! Jumps of the machine's clock, which is the clock of a SQLite database.

use std::path::Path;

use slipform_store::{
    Append, ClaimRequest, Claimed, Clock, Error, NewRun, Options, RegistryKind, Store, SweepLimits, Swept,
};
use slipform_testkit::{TestFolder, wait_until_async};

use crate::support::{LONG, message, task};

const HOUR: i64 = 3_600_000;

const LIMITS: SweepLimits = SweepLimits { losses_max: 3, stop_wait_ms: LONG, batch: 100 };

async fn open(path: &Path, clock: &Clock) -> Result<Store, Error> {
    Store::open_with_clock(&format!("sqlite:{}", path.display()), &Options::default(), clock.clone()).await
}

async fn claim(store: &Store, lease_ms: i64) -> Vec<Claimed> {
    let request = ClaimRequest {
        runner_id: "runner".to_owned(),
        slots: 1,
        lease_ms,
        only_pinned: false,
        token: crate::support::fresh_token(),
    };
    store.claim(request).await.unwrap()
}

async fn append(store: &Store, claimed: &Claimed, number: i64) -> bool {
    let bodies = vec![message("going on")];
    let append = Append { fence: claimed.fence.clone(), number, bodies, progress: None, lease_ms: LONG };
    store.append(append).await.unwrap().is_ok()
}

#[tokio::test]
async fn attempts_and_deadlines_survive_clock_jumps() {
    for jump in [HOUR, 24 * HOUR, -4 * HOUR] {
        let folder = TestFolder::new("clock");
        let clock = Clock::default();
        let store = open(&folder.join("slipform.db"), &clock).await.unwrap();
        let limited = NewRun { timeout_ms: Some(HOUR / 2), ..task("writer") };
        store.submit(limited).await.unwrap().unwrap();
        let claimed = claim(&store, HOUR / 2).await.remove(0);
        clock.jump(jump);
        assert_eq!(store.sweep(LIMITS).await.unwrap(), Swept::default(), "{jump}");
        let renewed = store.renew("runner", vec![claimed.fence.clone()], HOUR / 2).await.unwrap();
        assert!(!renewed[0].is_stale, "{jump}");
        clock.jump(jump);
        assert!(append(&store, &claimed, 1).await, "{jump}");
        store.release(claimed.fence).await.unwrap().unwrap();
        clock.jump(jump);
        let again = claim(&store, LONG).await.remove(0);
        let left = again.time_left_ms.unwrap();
        assert!(0 < left && left <= HOUR / 2, "{left} ms are left after a jump of {jump}");
    }
}

#[tokio::test]
async fn queue_and_leases_go_on_after_clock_was_set_back() {
    let folder = TestFolder::new("clock");
    let clock = Clock::default();
    let store = open(&folder.join("slipform.db"), &clock).await.unwrap();
    store.submit(task("writer")).await.unwrap().unwrap();
    clock.jump(-4 * HOUR);
    let lost = claim(&store, 1).await;
    assert_eq!(lost.len(), 1, "the queued run is claimed");
    clock.jump(-4 * HOUR);
    wait_until_async("the lease ends", || async { store.sweep(LIMITS).await.unwrap().returned == 1 }).await;
    clock.jump(-4 * HOUR);
    assert_eq!(claim(&store, LONG).await[0].fence.run_id, lost[0].fence.run_id);
}

#[tokio::test]
async fn stores_that_share_a_file_move_its_times_once() {
    let folder = TestFolder::new("clock");
    let (path, clock) = (folder.join("slipform.db"), Clock::default());
    let (one, other) = (open(&path, &clock).await.unwrap(), open(&path, &clock).await.unwrap());
    one.submit(task("writer")).await.unwrap().unwrap();
    let claimed = claim(&one, LONG).await.remove(0);
    let connection = rusqlite::Connection::open(&path).unwrap();
    let lease =
        || connection.query_row("SELECT lease_until FROM runs", [], |row| row.get::<_, i64>(0)).unwrap();
    let before = lease();
    for (round, jump) in [HOUR, -3 * HOUR, HOUR].into_iter().enumerate() {
        clock.jump(jump);
        for (store, name) in [(&one, "one"), (&other, "other")] {
            assert!(store.add(RegistryKind::Agents, &format!("{name}-{round}"), "{}").await.unwrap());
        }
    }
    // The time between two readings of the clocks makes a small difference.
    let moved = lease() - before;
    assert!((moved + HOUR).abs() < HOUR / 10, "moved by {moved} ms");
    assert!(append(&other, &claimed, 1).await && append(&one, &claimed, 2).await);
}

#[tokio::test]
async fn clock_set_back_between_two_servers_keeps_the_queue() {
    for is_same_boot in [true, false] {
        let folder = TestFolder::new("clock");
        let (path, clock) = (folder.join("slipform.db"), Clock::default());
        let store = open(&path, &clock).await.unwrap();
        store.submit(task("writer")).await.unwrap().unwrap();
        drop(store);
        if !is_same_boot {
            let connection = rusqlite::Connection::open(&path).unwrap();
            assert_eq!(connection.execute("UPDATE clock SET boot_id = 'earlier'", []).unwrap(), 1);
        }
        clock.jump(-4 * HOUR);
        let store = open(&path, &clock).await.unwrap();
        assert_eq!(claim(&store, LONG).await.len(), 1, "same start of the machine: {is_same_boot}");
    }
}
