//! Reads across all sessions, and commit notifications.

use std::collections::HashSet;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use slipform_store::{Append, Claimed, Fence, Position, Store, StoredEvent};
use slipform_testkit::wait_until_async;
use slipform_types::{ExecutionMode, SessionId};

use crate::support::{Fixture, LONG, child, connect, fresh_token, message, success, task};

async fn read_on(store: &Store, after: &mut Position, seen: &mut Vec<StoredEvent>) {
    let events = store.all_events(*after, 7).await.unwrap();
    if let Some(last) = events.last() {
        *after = last.position;
    }
    seen.extend(events);
}

/// Reads until at least `count` events are visible.
async fn read_all(test: &Fixture, count: usize) -> (Vec<StoredEvent>, Position) {
    let (mut after, mut seen) = (Position::default(), Vec::new());
    // PostgreSQL shows an event after all older transactions of the server have ended, including those of
    // other tests.
    wait_until_async(&format!("{count} events are visible"), async || {
        read_on(&test.store, &mut after, &mut seen).await;
        seen.len() >= count
    })
    .await;
    read_on(&test.store, &mut after, &mut seen).await;
    (seen, after)
}

pub(crate) async fn all_events_are_read_in_order_and_once(test: &Fixture) {
    assert_eq!(test.store.last_position().await.unwrap(), Position::default());
    for _ in 0..3 {
        test.submit("writer").await;
        test.complete_next("done").await;
    }
    let (seen, after) = read_all(test, 9).await;
    assert_eq!(seen.len(), 9);
    assert!(seen.is_sorted_by(|one, next| one.position < next.position));
    assert_eq!(test.store.last_position().await.unwrap(), after);
    let session = &seen[0].session_id;
    assert_eq!(test.store.events(session, 1, 1).await.unwrap().events[0].seq, 2);
    assert_eq!(test.store.events(session, 1, 100).await.unwrap().events.len(), 2);
}

pub(crate) async fn concurrent_writers_lose_no_event(test: &Fixture) {
    let is_done = Arc::new(AtomicBool::new(false));
    let (store, done) = (test.store.clone(), is_done.clone());
    let reading = tokio::spawn(async move {
        let (mut after, mut seen) = (Position::default(), Vec::new());
        while !done.load(Ordering::SeqCst) {
            read_on(&store, &mut after, &mut seen).await;
        }
        (after, seen)
    });
    let writing: Vec<_> = (0..8)
        .map(|_| {
            let store = test.store.clone();
            tokio::spawn(async move {
                let submitted = store.submit(task("writer")).await.unwrap().unwrap();
                let claimed = claim_one(&store).await;
                for number in 1..=20 {
                    let fence = claimed.fence.clone();
                    let append =
                        Append { fence, number, bodies: vec![message("x")], progress: None, lease_ms: LONG };
                    store.append(append).await.unwrap().unwrap();
                }
                submitted
            })
        })
        .collect();
    for written in writing {
        written.await.unwrap();
    }
    is_done.store(true, Ordering::SeqCst);
    let (mut after, mut seen) = reading.await.unwrap();
    // On PostgreSQL the last events stay hidden until older transactions of the server have ended.
    wait_until_async("all events are visible", async || {
        read_on(&test.store, &mut after, &mut seen).await;
        seen.len() >= 8 * 21
    })
    .await;
    let distinct: HashSet<_> = seen.iter().map(|event| (event.session_id.clone(), event.seq)).collect();
    assert_eq!((seen.len(), distinct.len()), (8 * 21, 8 * 21));
}

/// Claims a run. A claim passes over the runs that concurrent claims have locked, and does not see those that were
/// submitted after it began, so it can return none although each writer has submitted one.
async fn claim_one(store: &Store) -> Claimed {
    for _ in 0..1_000 {
        let request = slipform_store::ClaimRequest {
            runner_id: "runner".to_owned(),
            slots: 1,
            lease_ms: LONG,
            only_pinned: false,
            token: fresh_token(),
        };
        if let Some(claimed) = store.claim(request).await.unwrap().pop() {
            return claimed;
        }
        tokio::task::yield_now().await;
    }
    panic!("no run was claimed");
}

pub(crate) async fn session_events_stay_in_order_across_transactions(test: &Fixture) {
    let submitted = test.submit("writer").await;
    let parent = test.claim().await;
    let mut children = Vec::new();
    for call in ["one", "two"] {
        let child = child(&parent, "reader", call, ExecutionMode::AsyncCallback);
        children.push(test.store.submit(child).await.unwrap().unwrap().session_id);
    }
    let fences: Vec<Fence> =
        test.claim_as("runner", 2, LONG).await.into_iter().map(|run| run.fence).collect();
    test.finish(&parent.fence, 1, success("started")).await.unwrap();
    test.finish(&fences[0], 1, success("one")).await.unwrap();
    let callback = test.claim().await;
    let append = Append {
        fence: fences[1].clone(),
        number: 1,
        bodies: success("two"),
        progress: None,
        lease_ms: LONG,
    };
    let finish = finish_late(test, &children[1], append).await;
    test.append(&callback.fence, 1, vec![message("meanwhile")]).await.unwrap();
    test.finish(&callback.fence, 2, success("callback handled")).await.unwrap();
    finish.await;
    let kinds = test.event_types(&submitted.session_id).await;
    assert_eq!(kinds[3..], ["run_start", "message", "result", "run_completed", "run_start"]);
    let (events, _) = read_all(test, kinds.len() + 6).await;
    let of_parent = events.iter().filter(|event| event.session_id == submitted.session_id);
    assert_eq!(of_parent.map(|event| event.seq).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6, 7, 8]);
}

/// Ends a run. On PostgreSQL its transaction has already started and waits for the locked session until the
/// returned future is awaited.
async fn finish_late<'a>(test: &'a Fixture, session: &SessionId, append: Append) -> BoxFuture<'a> {
    let store = test.store.clone();
    let finish = async move { store.finish(append).await.unwrap().unwrap() };
    if !test.address.starts_with("postgres") {
        return Box::pin(async {
            finish.await;
        });
    }
    let (client, _) = connect(&test.address).await;
    let hold = format!("BEGIN; SELECT 1 FROM sessions WHERE session_id = '{session}' FOR UPDATE");
    client.batch_execute(&hold).await.unwrap();
    let finishing = tokio::spawn(finish);
    let waiting = "SELECT 1 FROM pg_locks JOIN pg_stat_activity USING (pid)
        WHERE NOT granted AND datname = current_database()";
    let is_waiting = || async { !client.query(waiting, &[]).await.unwrap().is_empty() };
    wait_until_async("the finish waits for the session's lock", is_waiting).await;
    Box::pin(async move {
        client.batch_execute("COMMIT").await.unwrap();
        finishing.await.unwrap();
    })
}

type BoxFuture<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

pub(crate) async fn commit_notifies_subscribers(test: &Fixture) {
    let mut notifications = test.store.notifications();
    notifications.mark_unchanged();
    test.submit("writer").await;
    wait_until_async("the commit is notified", || {
        let has_changed = notifications.has_changed().unwrap();
        async move { has_changed }
    })
    .await;
    test.store.ping().await.unwrap();
}

pub(crate) async fn check_of_intact_database_finds_nothing(test: &Fixture) {
    test.submit("writer").await;
    test.complete_next("done").await;
    assert_eq!(test.store.check().await.unwrap(), Vec::<String>::new());
}
