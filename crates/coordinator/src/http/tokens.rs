//! Whose token it is: asked of the store now and then, remembered in between.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use slipform_api::{Code, Error};
use tokio::time::Instant;

use crate::app::{App, Scope};

/// How long an answer is believed. A revoked token works that much longer.
const BELIEVED: Duration = Duration::from_secs(1);

/// The most tokens that are remembered. More are asked for every time.
const REMEMBERED_MAX: usize = 1_024;

/// The most wrong tokens from one address in a while; then it has to wait. Nobody finds one of 2^256 by trying, but
/// trying costs the database a question each.
const WRONG_MAX: u32 = 60;

/// That while.
const WRONG_WITHIN: Duration = Duration::from_secs(60);

/// The most addresses whose mistakes are counted. When there are more, counting begins again.
const ADDRESSES_MAX: usize = 4_096;

/// What is known about tokens. The tokens themselves are not kept.
#[derive(Debug)]
pub(super) struct Tokens {
    /// The hash of the token that is an administrator's for as long as this server runs.
    admin: Option<[u8; 32]>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    known: HashMap<[u8; 32], (Option<Scope>, Instant)>,
    wrong: HashMap<IpAddr, (u32, Instant)>,
}

impl Tokens {
    pub(super) fn new(admin: Option<&str>) -> Tokens {
        Tokens { admin: admin.map(|token| Sha256::digest(token.as_bytes()).into()), state: Mutex::default() }
    }

    /// What whoever shows a token may do; none where nobody knows it.
    pub(super) async fn scope(&self, app: &App, token: &str, peer: IpAddr) -> Result<Option<Scope>, Error> {
        let hash: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        // Hashes are compared: how long that takes tells nothing of the token.
        if self.admin == Some(hash) {
            return Ok(Some(Scope::Admin));
        }
        let remembered = self.state().known.get(&hash).copied();
        if let Some((scope @ Some(_), at)) = remembered
            && at.elapsed() < BELIEVED
        {
            return Ok(scope);
        }
        // One that was right a moment ago is no guess, whatever others at the same address do.
        let was_right = remembered.is_some_and(|(scope, _)| scope.is_some());
        if !was_right {
            self.state().refuse_guesses(peer)?;
        }
        let scope = match remembered {
            Some((None, at)) if at.elapsed() < BELIEVED => None,
            _ => app.scope_of(token).await?,
        };
        self.state().note(hash, scope, peer);
        Ok(scope)
    }

    /// Whether a token that was right is worth nothing any more. Asking is no guess, so nothing is counted.
    pub(super) async fn is_revoked(&self, app: &App, token: &str) -> Result<bool, Error> {
        let hash: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        if self.admin == Some(hash) {
            return Ok(false);
        }
        let remembered = self.state().known.get(&hash).copied();
        if let Some((scope, at)) = remembered
            && at.elapsed() < BELIEVED
        {
            return Ok(scope.is_none());
        }
        let scope = app.scope_of(token).await?;
        self.state().remember(hash, scope);
        Ok(scope.is_none())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn refuse_guesses(&self, peer: IpAddr) -> Result<(), Error> {
        match self.wrong.get(&peer) {
            Some((count, since)) if *count >= WRONG_MAX && since.elapsed() < WRONG_WITHIN => {
                let message = "too many wrong tokens came from this address; try again in a minute";
                Err(Error::new(Code::RateLimited, message))
            }
            _ => Ok(()),
        }
    }

    fn remember(&mut self, hash: [u8; 32], scope: Option<Scope>) {
        if self.known.len() >= REMEMBERED_MAX {
            self.known.retain(|_, (_, at)| at.elapsed() < BELIEVED);
        }
        if self.known.len() < REMEMBERED_MAX {
            self.known.insert(hash, (scope, Instant::now()));
        }
    }

    fn note(&mut self, hash: [u8; 32], scope: Option<Scope>, peer: IpAddr) {
        self.remember(hash, scope);
        if scope.is_some() {
            return;
        }
        if self.wrong.len() >= ADDRESSES_MAX {
            self.wrong.clear();
        }
        let (count, since) = self.wrong.entry(peer).or_insert((0, Instant::now()));
        if since.elapsed() >= WRONG_WITHIN {
            (*count, *since) = (0, Instant::now());
        }
        *count += 1;
    }
}
