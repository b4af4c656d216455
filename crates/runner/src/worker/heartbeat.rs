//! Sends heartbeats for the attempts in progress.

use std::sync::Arc;
use std::time::Duration;

use slipform_api::{Code, Error, Heartbeat, HeartbeatAnswer};
use tokio::time::Instant;

use super::active_attempts::ActiveAttempts;
use super::registration::Registration;

/// Longest interval between two heartbeats, because a stop request arrives with the next answer.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Shortest interval, whatever the coordinator requests.
const PAUSE_MIN: Duration = Duration::from_millis(50);

/// Time limit of one heartbeat. The next one has to be sent before the leases expire.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Sends heartbeats while attempts are in progress and applies the answers.
pub(super) async fn send_heartbeats(registration: Arc<Registration>, active: Arc<ActiveAttempts>) {
    loop {
        active.wait_for_any().await;
        let registered = registration.registered().await;
        let (started, attempts) = (Instant::now(), active.list());
        // The last attempt may have ended during a registration.
        if !attempts.is_empty() {
            let heartbeat = Heartbeat { runner_id: registered.runner_id, attempts };
            match send(&registration, &heartbeat).await {
                Ok(answer) => {
                    registration.record_success();
                    answer.attempts.into_iter().for_each(|beat| active.apply(beat));
                }
                Err(error) => registration.record_failure(&error),
            }
        }
        let pause = Duration::from_millis(registered.heartbeat_ms).clamp(PAUSE_MIN, PAUSE_MAX);
        tokio::time::sleep_until(started + pause).await;
    }
}

async fn send(registration: &Registration, heartbeat: &Heartbeat) -> Result<HeartbeatAnswer, Error> {
    let timed_out = |_| Error::new(Code::Unavailable, "heartbeat timed out");
    tokio::time::timeout(ANSWER_MAX, registration.api.heartbeat(heartbeat))
        .await
        .unwrap_or_else(|error| Err(timed_out(error)))
}
