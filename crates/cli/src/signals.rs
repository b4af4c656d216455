//! Termination signals.

use anyhow::{Context as _, Result};
use tokio::signal::unix::{SignalKind, signal};

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
