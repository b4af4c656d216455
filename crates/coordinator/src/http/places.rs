//! Places for concurrent requests, shared fairly between peers.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sha2::{Digest as _, Sha256};
use slipform_api::{Code, Error};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The part of all places that one peer may hold: a half.
const PEER_DIVISOR: usize = 2;

/// The sender of requests, for limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Peer {
    /// This machine, on a server without tokens. Its users cannot be told apart, so it may hold all places.
    Local,
    /// The holder of a token, by the token's hash.
    Token([u8; 32]),
    /// The sender of a request without a valid token.
    Address(IpAddr),
}

impl Peer {
    /// Returns the peer with a valid token.
    pub(super) fn of_token(token: &str) -> Peer {
        Peer::Token(Sha256::digest(token.as_bytes()).into())
    }

    /// Returns the peer at an address. One host usually has 2^64 addresses of version 6, so they count as one.
    pub(super) fn of_address(address: IpAddr) -> Peer {
        Peer::Address(match address.to_canonical() {
            IpAddr::V6(address) => {
                let network = u128::from(address) >> 64 << 64;
                IpAddr::V6(Ipv6Addr::from(network))
            }
            address => address,
        })
    }
}

/// Places for concurrent requests or connections.
#[derive(Debug, Clone)]
pub(super) struct Places {
    free: Arc<Semaphore>,
    held: Arc<Mutex<HashMap<Peer, usize>>>,
    per_peer_max: usize,
}

/// A place, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    _permit: OwnedSemaphorePermit,
    peer: Peer,
    held: Arc<Mutex<HashMap<Peer, usize>>>,
}

impl Places {
    pub(super) fn new(count: usize) -> Places {
        Places {
            free: Arc::new(Semaphore::new(count)),
            held: Arc::default(),
            per_peer_max: count.div_ceil(PEER_DIVISOR),
        }
    }

    /// Takes a place for a peer.
    ///
    /// # Errors
    /// Returns `RateLimited` if no place is free, or the peer holds its share.
    pub(super) fn take(&self, peer: Peer) -> Result<Place, Error> {
        let limited = |message: &str| Error::new(Code::RateLimited, message);
        let mut held = lock(&self.held);
        if peer != Peer::Local && held.get(&peer).is_some_and(|count| *count >= self.per_peer_max) {
            return Err(limited("too many concurrent requests from you; retry in a moment"));
        }
        let permit = self.free.clone().try_acquire_owned();
        let permit = permit.map_err(|_| limited("too many concurrent requests; retry in a moment"))?;
        *held.entry(peer).or_default() += 1;
        Ok(Place { _permit: permit, peer, held: self.held.clone() })
    }

    /// Waits for a free place, beyond any peer's share.
    pub(super) async fn wait(&self) -> Option<OwnedSemaphorePermit> {
        // The semaphore is never closed.
        self.free.clone().acquire_owned().await.ok()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut held = lock(&self.held);
        if let Some(count) = held.get_mut(&self.peer) {
            *count -= 1;
            if *count == 0 {
                held.remove(&self.peer);
            }
        }
    }
}

fn lock(held: &Mutex<HashMap<Peer, usize>>) -> MutexGuard<'_, HashMap<Peer, usize>> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peer_cannot_use_up_places_of_others() {
        let places = Places::new(4);
        let (greedy, other) = (Peer::of_token("a"), Peer::of_address("192.0.2.1".parse().unwrap()));
        let mut taken: Vec<Place> = (0..2).map(|_| places.take(greedy).unwrap()).collect();
        assert!(places.take(greedy).unwrap_err().message.contains("from you"));
        taken.extend((0..2).map(|_| places.take(other).unwrap()));
        assert!(!places.take(Peer::of_token("b")).unwrap_err().message.contains("from you"));
        taken.clear();
        assert!(lock(&places.held).is_empty());
        let all: Vec<Place> = (0..4).map(|_| places.take(Peer::Local).unwrap()).collect();
        assert!(places.take(Peer::Local).is_err());
        drop(all);
    }

    #[test]
    fn addresses_of_one_network_are_one_peer() {
        let peer = |address: &str| Peer::of_address(address.parse().unwrap());
        assert_eq!(peer("2001:db8::1"), peer("2001:db8::ffff:2"));
        assert_ne!(peer("2001:db8::1"), peer("2001:db8:0:1::1"));
        assert_eq!(peer("::ffff:192.0.2.1"), peer("192.0.2.1"));
        assert_ne!(peer("192.0.2.1"), peer("192.0.2.2"));
    }
}
