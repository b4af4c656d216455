//! Notices that the list of agents has changed.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use slipform_api::CallerApi;
use tokio::sync::watch;

/// The polling interval.
const INTERVAL: Duration = Duration::from_secs(1);

/// Counts the changes of the list of agents. The list is polled only while a client is subscribed.
pub(crate) struct Changes {
    api: Arc<dyn CallerApi>,
    count: watch::Sender<u64>,
    is_watching: Mutex<bool>,
    /// Whether the list to compare with is known.
    is_ready: watch::Sender<bool>,
}

impl Changes {
    pub(crate) fn new(api: Arc<dyn CallerApi>) -> Changes {
        let (count, is_ready) = (watch::Sender::new(0), watch::Sender::new(false));
        Changes { api, count, is_watching: Mutex::new(false), is_ready }
    }

    /// Subscribes to the changes that follow the return of this function.
    pub(crate) async fn subscribe(self: &Arc<Changes>) -> Subscription {
        let subscription = Subscription(self.count.subscribe());
        self.start_watching();
        // Fails only if the sender is gone, and `self` owns it.
        let _ = self.is_ready.subscribe().wait_for(|is_ready| *is_ready).await;
        subscription
    }

    fn start_watching(self: &Arc<Changes>) {
        let mut is_watching = self.is_watching.lock().unwrap_or_else(PoisonError::into_inner);
        if !std::mem::replace(&mut *is_watching, true) {
            self.is_ready.send_replace(false);
            tokio::spawn(watch_list(Arc::downgrade(self)));
        }
    }

    /// Records whether a subscription is left, and returns it.
    fn is_still_used(&self) -> bool {
        let mut is_watching = self.is_watching.lock().unwrap_or_else(PoisonError::into_inner);
        *is_watching = self.count.receiver_count() > 0;
        *is_watching
    }
}

/// Receives changes until it is dropped.
pub(crate) struct Subscription(watch::Receiver<u64>);

impl Subscription {
    /// Waits for the next change.
    pub(crate) async fn next(&mut self) {
        if self.0.changed().await.is_err() {
            // The server is gone.
            std::future::pending().await
        }
    }
}

/// Compares the list with the one before, until the last subscription is dropped.
async fn watch_list(changes: Weak<Changes>) {
    let mut known = None;
    loop {
        let Some(changes) = changes.upgrade() else { return };
        if !changes.is_still_used() {
            return;
        }
        if let Some(current) = fingerprint(&*changes.api).await {
            if known.is_some_and(|known| known != current) {
                changes.count.send_modify(|count| *count += 1);
            }
            known = Some(current);
        }
        changes.is_ready.send_replace(true);
        drop(changes);
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Returns a hash of all agents and the names of all schemas, or `None` if the coordinator cannot be asked.
async fn fingerprint(api: &dyn CallerApi) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    for agent in api.agents().await.ok()? {
        agent.name.hash(&mut hasher);
        serde_json::to_string(&agent.definition).ok()?.hash(&mut hasher);
    }
    for schema in api.schemas().await.ok()? {
        (schema.name, schema.hash).hash(&mut hasher);
    }
    Some(hasher.finish())
}
