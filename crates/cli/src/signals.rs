//! Termination signals.

use anyhow::{Context as _, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

/// Receives SIGINT, SIGTERM, SIGHUP and SIGQUIT from its creation on: none that arrives between two waits is lost.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
    quit: Signal,
}

impl Signals {
    pub(crate) fn listen() -> Result<Signals> {
        let listen = |kind: SignalKind| signal(kind).context("cannot listen for signals");
        Ok(Signals {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hang_up: listen(SignalKind::hangup())?,
            quit: listen(SignalKind::quit())?,
        })
    }

    /// Waits for one of the signals.
    pub(crate) async fn interrupted(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hang_up.recv() => {}
            _ = self.quit.recv() => {}
        }
    }
}

/// Waits for SIGINT, SIGTERM, SIGHUP or SIGQUIT.
pub(crate) async fn interrupted() -> Result<()> {
    Signals::listen()?.interrupted().await;
    Ok(())
}

/// Completes when a service shuts down.
pub(crate) async fn closed(mut closing: watch::Receiver<bool>) {
    let _ = closing.wait_for(|is_closing| *is_closing).await;
}
