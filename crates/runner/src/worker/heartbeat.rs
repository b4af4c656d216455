//! Signs of life.

use std::sync::Arc;
use std::time::Duration;

use slipform_api::{Code, Error, Heartbeat, HeartbeatAnswer};
use tokio::time::Instant;

use super::active_attempts::ActiveAttempts;
use super::registration::Registration;

/// The longest pause between two heartbeats: whoever stops a run waits for the next one.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The shortest, whatever the coordinator asks for.
const PAUSE_MIN: Duration = Duration::from_millis(50);

/// How long an answer may take. The next heartbeat has to come before leases are lost.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Says that attempts go on for as long as there are any, and does what the answers say.
pub(super) async fn beat(link: Arc<Registration>, held: Arc<ActiveAttempts>) {
    loop {
        held.any().await;
        let registered = link.registered().await;
        let (began, attempts) = (Instant::now(), held.list());
        // The last may have ended while the worker was introduced.
        if !attempts.is_empty() {
            let heartbeat = Heartbeat { runner_id: registered.runner_id, attempts };
            match answer(&link, &heartbeat).await {
                Ok(answer) => {
                    link.well();
                    answer.attempts.into_iter().for_each(|beat| held.heard(beat));
                }
                Err(error) => link.lost(&error),
            }
        }
        let pause = Duration::from_millis(registered.heartbeat_ms).clamp(PAUSE_MIN, PAUSE_MAX);
        tokio::time::sleep_until(began + pause).await;
    }
}

async fn answer(link: &Registration, heartbeat: &Heartbeat) -> Result<HeartbeatAnswer, Error> {
    let late = |_| Error::new(Code::Unavailable, "a heartbeat was not answered in time");
    tokio::time::timeout(ANSWER_MAX, link.api.heartbeat(heartbeat))
        .await
        .unwrap_or_else(|error| Err(late(error)))
}
