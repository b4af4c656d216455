//! What holds a reply back until the test says so, in place of sleeping.

use std::sync::Arc;

use tokio::sync::Semaphore;

/// A closed door in front of replies. Clones are the same door.
///
/// ```
/// use slipform_testkit::{Gate, ScriptedServer, Step};
///
/// let gate = Gate::new();
/// let server = ScriptedServer::start([Step::text("x").gate(&gate)]);
/// // A client sends a request here; then `server.wait_for_requests(1)`, look around, and:
/// gate.open();
/// # drop(server);
/// ```
#[derive(Clone, Debug)]
pub struct Gate {
    // A closed semaphore is an open gate: everybody who waits is let go, and nobody has to wait any more.
    passes: Arc<Semaphore>,
}

impl Gate {
    /// A gate that is shut.
    pub fn new() -> Self {
        Self { passes: Arc::new(Semaphore::new(0)) }
    }

    /// Lets everything through, now and later.
    pub fn open(&self) {
        self.passes.close();
    }

    /// Lets this many replies through, those first that waited first.
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
