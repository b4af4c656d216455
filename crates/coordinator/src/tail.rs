//! Broadcasts committed events to subscribers of a session or of all sessions.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use slipform_store::{Position, Store, StoredEvent};
use slipform_types::SessionId;
use tokio::sync::broadcast;
use tokio::time::Instant;

/// Capacity of a subscription. A subscriber that lags further loses events and reads them from the store.
const LAG_MAX: usize = 256;

/// Maximum number of events per read.
const BATCH: usize = 500;

/// Delay before reading after a notification, which combines the reads of several commits.
const BATCH_DELAY: Duration = Duration::from_millis(5);

/// Delay before retrying when the database is unavailable.
const RETRY_DELAY: Duration = Duration::from_millis(100);

/// Interval between checks whether the followed sessions still exist.
const DELETED_CHECK_INTERVAL: Duration = Duration::from_secs(60);

/// A subscription to committed events.
pub type Subscription = broadcast::Receiver<Arc<StoredEvent>>;

/// Reads committed events once and broadcasts them to all subscribers.
#[derive(Debug)]
pub struct Tail {
    store: Store,
    subscribers: Mutex<Subscribers>,
}

#[derive(Debug, Default)]
struct Subscribers {
    sessions: HashMap<SessionId, broadcast::Sender<Arc<StoredEvent>>>,
    all: Option<broadcast::Sender<Arc<StoredEvent>>>,
}

impl Tail {
    /// Creates a tail. It broadcasts nothing until [`Tail::run`] is polled.
    pub fn new(store: Store) -> Tail {
        Tail { store, subscribers: Mutex::default() }
    }

    /// Subscribes to a session. To miss nothing, subscribe first and then read earlier events from the store.
    pub fn subscribe(&self, session: &SessionId) -> Subscription {
        let mut subscribers = self.subscribers();
        let sender =
            subscribers.sessions.entry(session.clone()).or_insert_with(|| broadcast::channel(LAG_MAX).0);
        sender.subscribe()
    }

    /// Subscribes to all sessions.
    pub fn subscribe_all(&self) -> Subscription {
        let mut subscribers = self.subscribers();
        subscribers.all.get_or_insert_with(|| broadcast::channel(LAG_MAX).0).subscribe()
    }

    /// Reads and broadcasts events, forever.
    pub async fn run(&self) {
        let mut notifications = self.store.notifications();
        let mut after = self.initial_position().await;
        let mut last_check = Instant::now();
        loop {
            let is_read = if self.has_subscribers() {
                self.broadcast(&mut after).await
            } else {
                self.skip_to_end(&mut after).await
            };
            if !is_read {
                tokio::time::sleep(RETRY_DELAY).await;
                continue;
            }
            if last_check.elapsed() >= DELETED_CHECK_INTERVAL {
                last_check = Instant::now();
                self.close_deleted().await;
            }
            // On PostgreSQL a commit can become visible some time after its notification, so poll as well.
            let _ = tokio::time::timeout(Duration::from_secs(1), notifications.changed()).await;
            tokio::time::sleep(BATCH_DELAY).await;
        }
    }

    async fn initial_position(&self) -> Position {
        loop {
            match self.store.last_position().await {
                Ok(position) => return position,
                Err(_) => tokio::time::sleep(RETRY_DELAY).await,
            }
        }
    }

    /// With no subscribers, advances the cursor without broadcasting; a new subscriber reads history from the
    /// store. The cursor stays if a subscriber arrived during the query, because it may have read the store
    /// before.
    async fn skip_to_end(&self, after: &mut Position) -> bool {
        let Ok(last) = self.store.last_position().await else { return false };
        if !self.has_subscribers() {
            *after = last.max(*after);
        }
        true
    }

    /// Closes the subscriptions of a session. Subscribers then check whether it still exists.
    pub(crate) fn close(&self, session: &SessionId) {
        self.subscribers().sessions.remove(session);
    }

    /// Closes the subscriptions of sessions deleted by retention or by another coordinator.
    async fn close_deleted(&self) {
        let sessions: Vec<SessionId> = self.subscribers().sessions.keys().cloned().collect();
        for session in sessions {
            if matches!(self.store.session(&session).await, Ok(None)) {
                self.close(&session);
            }
        }
    }

    /// Broadcasts all events after a position. Returns false if the store is unavailable.
    async fn broadcast(&self, after: &mut Position) -> bool {
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
        let mut subscribers = self.subscribers();
        for event in events {
            let event = Arc::new(event);
            if let Some(all) = &subscribers.all {
                let _ = all.send(event.clone());
            }
            if let Some(session) = subscribers.sessions.get(&event.session_id) {
                let _ = session.send(event);
            }
        }
        subscribers.sessions.retain(|_, sender| sender.receiver_count() > 0);
    }

    fn has_subscribers(&self) -> bool {
        let mut subscribers = self.subscribers();
        subscribers.sessions.retain(|_, sender| sender.receiver_count() > 0);
        subscribers.all.take_if(|sender| sender.receiver_count() == 0);
        subscribers.all.is_some() || !subscribers.sessions.is_empty()
    }

    fn subscribers(&self) -> MutexGuard<'_, Subscribers> {
        self.subscribers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
