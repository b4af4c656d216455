//! Readers of streams that are cut off at random, and read on somewhere else.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::http::Stream;
use crate::random::Random;
use crate::wait::PATIENCE;

/// How long a reader listens to silence before it is cut off.
const SILENCE_MAX: Duration = Duration::from_millis(400);

/// The most events of one connection.
const EVENTS_MAX: usize = 12;

/// Reads a stream from its beginning until it is said to be enough, on many short connections.
pub(crate) fn read(
    addresses: &[SocketAddr],
    path: &str,
    mut random: Random,
    is_enough: impl Fn(&[Value]) -> bool,
) -> Vec<Value> {
    let (mut events, mut last): (Vec<Value>, String) = (Vec::new(), "0".to_owned());
    let mut progress = Instant::now();
    while !is_enough(&events) {
        assert!(
            progress.elapsed() < PATIENCE,
            "{path} tells nothing after {last}, which is {:?}",
            events.last()
        );
        let address = addresses[random.below(addresses.len())];
        let Ok(mut stream) = Stream::open(address, path, Some(&last), SILENCE_MAX) else {
            std::thread::sleep(random.millis(10, 100));
            continue;
        };
        for _ in 0..=random.below(EVENTS_MAX) {
            let Some(told) = stream.next() else { break };
            (last, progress) = (told.id, Instant::now());
            events.push(told.data);
        }
    }
    events
}
