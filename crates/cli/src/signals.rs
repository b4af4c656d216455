//! Being told to end.

use anyhow::{Context as _, Result};
use tokio::signal::unix::{SignalKind, signal};

/// Waits until somebody wants the command to end.
pub(crate) async fn interrupted() -> Result<()> {
    let listen = |kind: SignalKind| signal(kind).context("listening for signals");
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
