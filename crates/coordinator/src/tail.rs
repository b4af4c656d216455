//! Following journals: what was committed, told to whoever waits for it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use slipform_store::{Position, Store, StoredEvent};
use slipform_types::SessionId;
use tokio::sync::broadcast;
use tokio::time::Instant;

/// How many events a follower may be behind. One that is further behind is dropped; it reads on from where it was.
const BEHIND_MAX: usize = 256;

/// The most events that are read at once.
const BATCH: usize = 500;

/// How long commits are gathered before they are read, so that a busy store is not read once for each.
const GATHER: Duration = Duration::from_millis(5);

/// How soon it is looked again where a commit is not visible yet, or the database did not answer.
const AGAIN: Duration = Duration::from_millis(100);

/// How often it is looked whether the sessions that are followed still exist, once for all that follow one.
const LOOK_FOR_DELETED_EVERY: Duration = Duration::from_secs(60);

/// What arrives while a journal is followed.
pub type Following = broadcast::Receiver<Arc<StoredEvent>>;

/// Tells what was committed. Reads the store once for all that follow.
#[derive(Debug)]
pub struct Tail {
    store: Store,
    followers: Mutex<Followers>,
}

#[derive(Debug, Default)]
struct Followers {
    sessions: HashMap<SessionId, broadcast::Sender<Arc<StoredEvent>>>,
    all: Option<broadcast::Sender<Arc<StoredEvent>>>,
}

impl Tail {
    /// A tail of a store. It tells nothing until [`Tail::run`] is polled.
    pub fn new(store: Store) -> Tail {
        Tail { store, followers: Mutex::default() }
    }

    /// Follows a session. What was committed before is read from the store: first follow, then read.
    pub fn follow(&self, session: &SessionId) -> Following {
        let mut followers = self.followers();
        let sender =
            followers.sessions.entry(session.clone()).or_insert_with(|| broadcast::channel(BEHIND_MAX).0);
        sender.subscribe()
    }

    /// Follows all sessions.
    pub fn follow_all(&self) -> Following {
        let mut followers = self.followers();
        followers.all.get_or_insert_with(|| broadcast::channel(BEHIND_MAX).0).subscribe()
    }

    /// Reads and tells, for as long as it is polled.
    pub async fn run(&self) {
        let mut news = self.store.notifications();
        let mut after = self.begin().await;
        let mut looked = Instant::now();
        loop {
            let told = match self.is_followed() {
                true => self.tell(&mut after).await,
                false => self.skip(&mut after).await,
            };
            if !told {
                tokio::time::sleep(AGAIN).await;
                continue;
            }
            if looked.elapsed() >= LOOK_FOR_DELETED_EVERY {
                looked = Instant::now();
                self.end_deleted().await;
            }
            // A transaction may become visible some time after it was told of.
            let _ = tokio::time::timeout(Duration::from_secs(1), news.changed()).await;
            tokio::time::sleep(GATHER).await;
        }
    }

    async fn begin(&self) -> Position {
        loop {
            match self.store.last_position().await {
                Ok(position) => return position,
                Err(_) => tokio::time::sleep(AGAIN).await,
            }
        }
    }

    /// Nobody listens: what happens meanwhile is found in the store by whoever comes. Whoever came while the store was
    /// asked may have read it before, and is told everything from where the last one left.
    async fn skip(&self, after: &mut Position) -> bool {
        let Ok(last) = self.store.last_position().await else { return false };
        if !self.is_followed() {
            *after = last.max(*after);
        }
        true
    }

    /// Lets go of those who follow a session: they look whether it still exists.
    pub(crate) fn end(&self, session: &SessionId) {
        self.followers().sessions.remove(session);
    }

    /// Lets go of those whose session was deleted by somebody else: an older age, or another coordinator.
    async fn end_deleted(&self) {
        let followed: Vec<SessionId> = self.followers().sessions.keys().cloned().collect();
        for session in followed {
            if matches!(self.store.session(&session).await, Ok(None)) {
                self.end(&session);
            }
        }
    }

    /// Tells everything after a position; whether the store answered.
    async fn tell(&self, after: &mut Position) -> bool {
        loop {
            let Ok(events) = self.store.all_events(*after, BATCH).await else { return false };
            let Some(last) = events.last() else { return true };
            *after = last.position;
            let is_last = events.len() < BATCH;
            self.send(events);
            if is_last {
                return true;
            }
        }
    }

    fn send(&self, events: Vec<StoredEvent>) {
        let mut followers = self.followers();
        for event in events {
            let event = Arc::new(event);
            if let Some(all) = &followers.all {
                let _ = all.send(event.clone());
            }
            if let Some(session) = followers.sessions.get(&event.session_id) {
                let _ = session.send(event);
            }
        }
        followers.sessions.retain(|_, sender| sender.receiver_count() > 0);
    }

    fn is_followed(&self) -> bool {
        let mut followers = self.followers();
        followers.sessions.retain(|_, sender| sender.receiver_count() > 0);
        followers.all.take_if(|sender| sender.receiver_count() == 0);
        followers.all.is_some() || !followers.sessions.is_empty()
    }

    fn followers(&self) -> MutexGuard<'_, Followers> {
        self.followers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
