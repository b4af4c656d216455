//! Holds replies back until the test releases them, instead of sleeping.

use std::sync::Arc;

use tokio::sync::Semaphore;

/// A closed gate in front of replies. Clones share the same gate.
///
/// ```
/// use slipform_testkit::{Gate, ScriptedServer, Step};
///
/// let gate = Gate::new();
/// let server = ScriptedServer::start([Step::text("x").gate(&gate)]);
/// // A client sends a request here; then call `server.wait_for_requests(1)`, inspect the state, and:
/// gate.open();
/// # drop(server);
/// ```
#[derive(Clone, Debug)]
pub struct Gate {
    // Closing the semaphore opens the gate: it releases all waiters and lets later ones pass.
    passes: Arc<Semaphore>,
}

impl Gate {
    /// Creates a closed gate.
    pub fn new() -> Self {
        Self { passes: Arc::new(Semaphore::new(0)) }
    }

    /// Lets all replies pass, now and later.
    pub fn open(&self) {
        self.passes.close();
    }

    /// Lets this many replies pass, in the order in which they arrived.
    pub fn admit(&self, replies: usize) {
        self.passes.add_permits(replies);
    }

    pub(crate) async fn pass(&self) {
        if let Ok(permit) = self.passes.acquire().await {
            permit.forget();
        }
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}
