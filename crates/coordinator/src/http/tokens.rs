//! Caches what tokens permit.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use slipform_api::{Code, Error};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::app::{App, Grant, Invalid};

/// Lifetime of a cache entry. A revoked token keeps working that long.
const CACHE_LIFETIME: Duration = Duration::from_secs(1);

/// Maximum number of cached tokens. Others are looked up each time.
const CACHE_ENTRIES_MAX: usize = 1_024;

/// Maximum number of wrong tokens per address and window. Guessing a 256-bit token is hopeless, but each
/// guess costs a query. Beyond it, tokens from this address are looked up one after the other: valid ones still work.
const GUESSES_MAX: u32 = 60;

/// Length of that window.
const GUESS_WINDOW: Duration = Duration::from_secs(60);

/// Maximum number of addresses with counters. When it is reached, all counters are cleared.
const ADDRESSES_MAX: usize = 4_096;

/// The token cache. It contains hashes, not tokens.
#[derive(Debug)]
pub(super) struct Tokens {
    /// Hash of the administrator token that is valid while this server runs.
    admin: Option<[u8; 32]>,
    state: Mutex<State>,
    /// The permit to look up tokens from addresses that guess.
    guessing: Semaphore,
}

#[derive(Debug, Default)]
struct State {
    grants: HashMap<[u8; 32], (Cached, Instant)>,
    guesses: HashMap<IpAddr, (u32, Instant)>,
}

/// What a token permits, or why it permits nothing.
type Cached = Result<Arc<Grant>, Invalid>;

impl Tokens {
    pub(super) fn new(admin: Option<&str>) -> Tokens {
        Tokens {
            admin: admin.map(|token| Sha256::digest(token.as_bytes()).into()),
            state: Mutex::default(),
            guessing: Semaphore::new(1),
        }
    }

    /// Returns what a token permits.
    pub(super) async fn grant(&self, app: &App, token: &str, peer: IpAddr) -> Result<Arc<Grant>, Error> {
        let hash: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        // Compares hashes, so timing reveals nothing about the token.
        if self.admin == Some(hash) {
            return Ok(Arc::new(Grant::of_server()));
        }
        let cached = self.state().grants.get(&hash).cloned();
        if let Some((Ok(grant), at)) = &cached
            && at.elapsed() < CACHE_LIFETIME
        {
            return Ok(grant.clone());
        }
        // A token that was valid a moment ago is not a guess, even if others guess from the same address.
        let was_valid = cached.as_ref().is_some_and(|(grant, _)| grant.is_ok());
        let is_throttled = !was_valid && self.state().has_guessed(peer);
        let _permit = if is_throttled { self.guessing.acquire().await.ok() } else { None };
        let grant = match cached {
            Some((Err(invalid), at)) if at.elapsed() < CACHE_LIFETIME => Err(invalid),
            _ => app.grant_of(token).await?.map(Arc::new),
        };
        if is_throttled && grant.is_err() {
            let message = "too many wrong tokens from this address; retry in a minute";
            return Err(Error::new(Code::RateLimited, message));
        }
        self.state().record(hash, grant.clone(), peer);
        Ok(grant?)
    }

    /// Returns what a token permits where none is needed; `None` for an unknown one. It does not count as a guess.
    pub(super) async fn known(&self, app: &App, token: &str) -> Option<Arc<Grant>> {
        let hash: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        if self.admin == Some(hash) {
            return Some(Arc::new(Grant::of_server()));
        }
        let cached = self.state().grants.get(&hash).cloned();
        if let Some((grant, at)) = cached
            && at.elapsed() < CACHE_LIFETIME
        {
            return grant.ok();
        }
        let grant = app.grant_of(token).await.ok()?.map(Arc::new);
        self.state().cache(hash, grant.clone());
        grant.ok()
    }

    /// Whether a token that was valid has been revoked or has expired. Does not count as a guess.
    pub(super) async fn is_revoked(&self, app: &App, token: &str) -> Result<bool, Error> {
        let hash: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        if self.admin == Some(hash) {
            return Ok(false);
        }
        let cached = self.state().grants.get(&hash).cloned();
        if let Some((grant, at)) = cached
            && at.elapsed() < CACHE_LIFETIME
        {
            return Ok(grant.is_err());
        }
        let grant = app.grant_of(token).await?.map(Arc::new);
        let is_revoked = grant.is_err();
        self.state().cache(hash, grant);
        Ok(is_revoked)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whether an address has sent too many wrong tokens.
    fn has_guessed(&self, peer: IpAddr) -> bool {
        let guesses = self.guesses.get(&peer);
        guesses.is_some_and(|(count, since)| *count >= GUESSES_MAX && since.elapsed() < GUESS_WINDOW)
    }

    fn cache(&mut self, hash: [u8; 32], grant: Cached) {
        if self.grants.len() >= CACHE_ENTRIES_MAX {
            self.grants.retain(|_, (_, at)| at.elapsed() < CACHE_LIFETIME);
        }
        if self.grants.len() < CACHE_ENTRIES_MAX {
            self.grants.insert(hash, (grant, Instant::now()));
        }
    }

    fn record(&mut self, hash: [u8; 32], grant: Cached, peer: IpAddr) {
        let is_valid = grant.is_ok();
        self.cache(hash, grant);
        if is_valid {
            return;
        }
        if self.guesses.len() >= ADDRESSES_MAX {
            self.guesses.clear();
        }
        let (count, since) = self.guesses.entry(peer).or_insert((0, Instant::now()));
        if since.elapsed() >= GUESS_WINDOW {
            (*count, *since) = (0, Instant::now());
        }
        *count += 1;
    }
}
