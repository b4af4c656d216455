//! Caches the scopes of tokens.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use slipform_api::{Code, Error};
use tokio::time::Instant;

use crate::app::{App, Scope};

/// Lifetime of a cache entry. A revoked token keeps working that long.
const CACHE_LIFETIME: Duration = Duration::from_secs(1);

/// Maximum number of cached tokens. Others are looked up each time.
const CACHE_ENTRIES_MAX: usize = 1_024;

/// Maximum number of wrong tokens per address and window. Guessing a 256-bit token is hopeless, but each
/// guess costs a query.
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
}

#[derive(Debug, Default)]
struct State {
    scopes: HashMap<[u8; 32], (Option<Scope>, Instant)>,
    guesses: HashMap<IpAddr, (u32, Instant)>,
}

impl Tokens {
    pub(super) fn new(admin: Option<&str>) -> Tokens {
        Tokens { admin: admin.map(|token| Sha256::digest(token.as_bytes()).into()), state: Mutex::default() }
    }

    /// Returns the scope of a token; `None` if it is unknown or revoked.
    pub(super) async fn scope(&self, app: &App, token: &str, peer: IpAddr) -> Result<Option<Scope>, Error> {
        let hash: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        // Compares hashes, so timing reveals nothing about the token.
        if self.admin == Some(hash) {
            return Ok(Some(Scope::Admin));
        }
        let cached = self.state().scopes.get(&hash).copied();
        if let Some((scope @ Some(_), at)) = cached
            && at.elapsed() < CACHE_LIFETIME
        {
            return Ok(scope);
        }
        // A token that was valid a moment ago is not a guess, even if others guess from the same address.
        let was_valid = cached.is_some_and(|(scope, _)| scope.is_some());
        if !was_valid {
            self.state().refuse_guesses(peer)?;
        }
        let scope = match cached {
            Some((None, at)) if at.elapsed() < CACHE_LIFETIME => None,
            _ => app.scope_of(token).await?,
        };
        self.state().record(hash, scope, peer);
        Ok(scope)
    }

    /// Whether a token that was valid has been revoked. Does not count as a guess.
    pub(super) async fn is_revoked(&self, app: &App, token: &str) -> Result<bool, Error> {
        let hash: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        if self.admin == Some(hash) {
            return Ok(false);
        }
        let cached = self.state().scopes.get(&hash).copied();
        if let Some((scope, at)) = cached
            && at.elapsed() < CACHE_LIFETIME
        {
            return Ok(scope.is_none());
        }
        let scope = app.scope_of(token).await?;
        self.state().cache(hash, scope);
        Ok(scope.is_none())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn refuse_guesses(&self, peer: IpAddr) -> Result<(), Error> {
        match self.guesses.get(&peer) {
            Some((count, since)) if *count >= GUESSES_MAX && since.elapsed() < GUESS_WINDOW => {
                let message = "too many wrong tokens from this address; retry in a minute";
                Err(Error::new(Code::RateLimited, message))
            }
            _ => Ok(()),
        }
    }

    fn cache(&mut self, hash: [u8; 32], scope: Option<Scope>) {
        if self.scopes.len() >= CACHE_ENTRIES_MAX {
            self.scopes.retain(|_, (_, at)| at.elapsed() < CACHE_LIFETIME);
        }
        if self.scopes.len() < CACHE_ENTRIES_MAX {
            self.scopes.insert(hash, (scope, Instant::now()));
        }
    }

    fn record(&mut self, hash: [u8; 32], scope: Option<Scope>, peer: IpAddr) {
        self.cache(hash, scope);
        if scope.is_some() {
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
