//! Records irregular output of a server for error messages.

use std::sync::{Mutex, PoisonError};

use tokio::sync::watch;

/// Irregular output of one server: messages that exceeded the size limit, and output that is not MCP.
#[derive(Debug, Default)]
pub(crate) struct Diagnostics {
    oversized: watch::Sender<u64>,
    stray_output: Mutex<Option<String>>,
}

impl Diagnostics {
    /// Records that an oversized message was discarded. The call it belonged to is unknown.
    pub(crate) fn record_oversized(&self) {
        self.oversized.send_modify(|count| *count += 1);
    }

    /// Returns a future that completes when the next oversized message is discarded. Earlier ones do not
    /// count.
    pub(crate) fn next_oversized(&self) -> impl Future<Output = ()> + use<> {
        let mut oversized = self.oversized.subscribe();
        async move {
            // The connection owns the sender and outlives its callers; without a sender, wait forever.
            if oversized.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Records output that is not MCP. Keeps only the first, for error messages.
    pub(crate) fn record_stray_output(&self, start: &[u8]) {
        let mut stray_output = self.stray_output.lock().unwrap_or_else(PoisonError::into_inner);
        stray_output.get_or_insert_with(|| String::from_utf8_lossy(start).trim().to_owned());
    }

    pub(crate) fn first_stray_output(&self) -> Option<String> {
        self.stray_output.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
