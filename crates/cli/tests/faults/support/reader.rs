//! Reads an event stream over short connections to random coordinators.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::Value;
use slipform_testkit::{WAIT_MAX, wait_for};

use crate::support::http::Stream;
use crate::support::random::Random;

/// The longest wait for the next event of a connection.
const IDLE_TIMEOUT: Duration = Duration::from_millis(400);

/// The most events that one connection reads.
const EVENTS_MAX: usize = 12;

/// Reads a stream from its beginning until `is_complete`. Each connection continues after the last event received.
pub(crate) fn read(
    addresses: &[SocketAddr],
    path: &str,
    mut random: Random,
    is_complete: impl Fn(&[Value]) -> bool,
) -> Vec<Value> {
    let (mut events, mut last): (Vec<Value>, String) = (Vec::new(), "0".to_owned());
    let mut progress = Instant::now();
    while !is_complete(&events) {
        assert!(progress.elapsed() < WAIT_MAX, "{path} sends no event after {last}: {:?}", events.last());
        let mut stream = wait_for(&format!("a coordinator accepts {path} after {last}"), || {
            let address = addresses[random.below(addresses.len())];
            Stream::open(address, path, Some(&last), IDLE_TIMEOUT).ok()
        });
        for _ in 0..=random.below(EVENTS_MAX) {
            let Some(event) = stream.next() else { break };
            (last, progress) = (event.id, Instant::now());
            events.push(event.data);
        }
    }
    events
}
