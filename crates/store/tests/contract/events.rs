//! Streams over all sessions, and the hint that there is more.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use formwork_store::{Append, Position, Store, StoredEvent};

use crate::world::{LONG, World, message, task, until};

async fn read_on(store: &Store, after: &mut Position, seen: &mut Vec<StoredEvent>) {
    let events = store.all_events(*after, 7).await.unwrap();
    if let Some(last) = events.last() {
        *after = last.position;
    }
    seen.extend(events);
}

pub(crate) async fn all_events_are_read_in_order_and_once(world: &World) {
    assert_eq!(world.store.last_position().await.unwrap(), Position::default());
    for _ in 0..3 {
        world.submit("writer").await;
        world.complete_next("done").await;
    }
    let (mut after, mut seen) = (Position::default(), Vec::new());
    // PostgreSQL shows an event when all older transactions of the server have ended, those of other tests too.
    for _ in 0..4000 {
        read_on(&world.store, &mut after, &mut seen).await;
        if seen.len() >= 9 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    read_on(&world.store, &mut after, &mut seen).await;
    assert_eq!(seen.len(), 9);
    assert!(seen.is_sorted_by(|one, next| one.position < next.position));
    assert_eq!(world.store.last_position().await.unwrap(), after);
    let session = &seen[0].session_id;
    assert_eq!(world.store.events(session, 1, 1).await.unwrap()[0].seq, 2);
    assert_eq!(world.store.events(session, 1, 100).await.unwrap().len(), 2);
}

pub(crate) async fn concurrent_writers_lose_no_event(world: &World) {
    let is_done = Arc::new(AtomicBool::new(false));
    let (store, done) = (world.store.clone(), is_done.clone());
    let reading = tokio::spawn(async move {
        let (mut after, mut seen) = (Position::default(), Vec::new());
        for _ in 0..20_000 {
            let (was_done, before) = (done.load(Ordering::SeqCst), seen.len());
            read_on(&store, &mut after, &mut seen).await;
            if was_done && seen.len() == before {
                // Where transactions are shown in their order, the last ones wait for others of the server to end.
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            if seen.len() == 8 * 21 {
                break;
            }
        }
        seen
    });
    let writing: Vec<_> = (0..8)
        .map(|_| {
            let store = world.store.clone();
            tokio::spawn(async move {
                let submitted = store.submit(task("writer")).await.unwrap().unwrap();
                let request = formwork_store::ClaimRequest {
                    runner_id: "runner".to_owned(),
                    slots: 1,
                    lease_ms: LONG,
                    only_pinned: false,
                };
                let claimed = store.claim(request).await.unwrap().remove(0);
                for number in 1..=20 {
                    let fence = claimed.fence.clone();
                    let append = Append { fence, number, bodies: vec![message("x")], lease_ms: LONG };
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
    let seen = reading.await.unwrap();
    let distinct: HashSet<_> = seen.iter().map(|event| (event.session_id.clone(), event.seq)).collect();
    assert_eq!((seen.len(), distinct.len()), (8 * 21, 8 * 21));
}

pub(crate) async fn news_comes_with_every_commit(world: &World) {
    let mut news = world.store.news();
    news.mark_unchanged();
    world.submit("writer").await;
    until("there is news", || {
        let changed = news.has_changed().unwrap();
        async move { changed }
    })
    .await;
    world.store.ping().await.unwrap();
}

pub(crate) async fn a_sound_database_has_no_findings(world: &World) {
    world.submit("writer").await;
    world.complete_next("done").await;
    assert_eq!(world.store.check().await.unwrap(), Vec::<String>::new());
}
