//! What was heard from a server beside its messages.

use std::sync::{Mutex, PoisonError};

use tokio::sync::watch;

/// What was heard from a server beside its messages: what was too long to be one, and what was none.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    oversized: watch::Sender<u64>,
    noise: Mutex<Option<String>>,
}

impl Heard {
    /// A message was too long and is lost. To whom it was addressed is not known.
    pub(crate) fn oversized(&self) {
        self.oversized.send_modify(|count| *count += 1);
    }

    /// Waits until the next message is lost. What was lost before this is made does not count.
    pub(crate) fn until_oversized(&self) -> impl Future<Output = ()> + use<> {
        let mut oversized = self.oversized.subscribe();
        async move {
            // The sender lives as long as the server's connection does, and so does whoever waits here.
            if oversized.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Something else than MCP was heard. The first of it is kept, for the message if all goes wrong.
    pub(crate) fn noise(&self, start: &[u8]) {
        let mut noise = self.noise.lock().unwrap_or_else(PoisonError::into_inner);
        noise.get_or_insert_with(|| String::from_utf8_lossy(start).trim().to_owned());
    }

    pub(crate) fn first_noise(&self) -> Option<String> {
        self.noise.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
