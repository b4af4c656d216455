//! Termination signals.

use anyhow::{Context as _, Result};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// Waits for SIGINT, SIGTERM, SIGHUP or SIGQUIT.
pub(crate) async fn interrupted() -> Result<()> {
    let listen = |kind: SignalKind| signal(kind).context("cannot listen for signals");
    let (mut terminated, mut hung_up, mut quit) =
        (listen(SignalKind::terminate())?, listen(SignalKind::hangup())?, listen(SignalKind::quit())?);
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminated.recv() => {}
        _ = hung_up.recv() => {}
        _ = quit.recv() => {}
    }
    Ok(())
}

/// Completes when a service shuts down.
pub(crate) async fn closed(mut closing: watch::Receiver<bool>) {
    let _ = closing.wait_for(|is_closing| *is_closing).await;
}
