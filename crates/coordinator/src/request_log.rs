//! Stores the summaries of gateway requests after their responses, in groups.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use slipform_api::RequestLog;
use slipform_store::EndedRequest;
use slipform_types::GatewayRequest;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::app::App;

/// Time for which the first summary of a group waits for others. With a longer one, groups grow so large that storing one delays
/// requests; with a shorter one, the database commits more often.
const GROUP_DELAY: Duration = Duration::from_millis(20);

/// Pause after the database was unavailable.
const RETRY_DELAY: Duration = Duration::from_millis(200);

/// Maximum number of summaries per transaction, so that other writes do not wait for long.
const GROUP_MAX: usize = 500;

/// Maximum number of summaries in memory, about 20 MB. While the database is unavailable, later ones are dropped.
const PENDING_MAX: usize = 65_536;

/// Maximum length of an error's message in bytes.
const MESSAGE_BYTES_MAX: usize = 500;

/// The summaries that are not stored yet.
#[derive(Debug, Default)]
pub(crate) struct PendingRequests {
    pending: Mutex<Vec<(Arc<GatewayRequest>, Instant)>>,
    /// Notified when there is a first summary to store.
    arrived: Notify,
    dropped: AtomicU64,
}

impl PendingRequests {
    fn lock(&self) -> MutexGuard<'_, Vec<(Arc<GatewayRequest>, Instant)>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how many summaries were dropped.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

impl RequestLog for App {
    fn record(&self, request: GatewayRequest) {
        self.metrics().gateway_request(&request);
        let mut pending = self.pending_requests().lock();
        if pending.len() < PENDING_MAX {
            pending.push((Arc::new(storable(request)), Instant::now()));
        } else {
            self.pending_requests().dropped.fetch_add(1, Ordering::Relaxed);
        }
        if pending.len() == 1 {
            self.pending_requests().arrived.notify_one();
        }
    }

    fn joined(&self) {
        self.metrics().gateway_joined();
    }
}

impl App {
    /// Stores the summaries of gateway requests, forever. Retries if the database is unavailable.
    pub async fn write_requests(&self) {
        let mut is_failing = false;
        loop {
            if self.pending_requests().lock().is_empty() {
                self.pending_requests().arrived.notified().await;
            }
            tokio::time::sleep(GROUP_DELAY).await;
            match self.flush_requests().await {
                Ok(()) => is_failing = false,
                Err(error) => {
                    if !std::mem::replace(&mut is_failing, true) {
                        tracing::warn!(%error, "cannot store the summaries of gateway requests; retrying");
                    }
                    tokio::time::sleep(RETRY_DELAY).await;
                }
            }
        }
    }

    /// Stores the summaries that are in memory. Only one task at a time may do that.
    ///
    /// # Errors
    /// Fails if the store is unavailable; then the summaries stay in memory.
    pub async fn flush_requests(&self) -> Result<(), slipform_store::Error> {
        let pending = self.pending_requests();
        loop {
            let group = pending.lock().iter().take(GROUP_MAX).cloned().collect::<Vec<_>>();
            if group.is_empty() {
                return Ok(());
            }
            // They stay in memory until they are stored: the process may end meanwhile.
            self.store().record_requests(ended(&group)).await?;
            pending.lock().drain(..group.len());
            // Under load some have arrived meanwhile. They wait for others, so that commits stay few.
            if group.len() < GROUP_MAX {
                return Ok(());
            }
        }
    }
}

fn ended(group: &[(Arc<GatewayRequest>, Instant)]) -> Vec<EndedRequest> {
    let ended = group.iter().map(|(request, end)| EndedRequest {
        request: request.clone(),
        age_ms: end.elapsed().as_millis().try_into().unwrap_or(i64::MAX),
    });
    ended.collect()
}

/// Returns a summary whose texts both databases can store.
fn storable(mut request: GatewayRequest) -> GatewayRequest {
    if let Some(message) = &mut request.error_message {
        message.truncate(message.floor_char_boundary(MESSAGE_BYTES_MAX));
    }
    let texts = [&mut request.backend, &mut request.model, &mut request.error_message].into_iter().flatten();
    for text in texts.chain([&mut request.requested_model]) {
        if text.contains('\0') {
            *text = text.replace('\0', "\u{FFFD}");
        }
    }
    request
}
