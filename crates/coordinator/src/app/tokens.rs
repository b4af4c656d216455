//! API tokens. A token is shown once, when it is created; the store keeps only its hash.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use slipform_api::{Code, Error};
use slipform_store::TokenRecord;
use slipform_types::{timestamp, with_hex};

use super::submit::random;
use super::{App, errors};

/// Prefix of every token, so that secret scanners recognize leaked ones.
const PREFIX: &str = "sf_";

/// The permissions of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// All operations.
    Admin,
    /// Submitting runs, and reading them.
    Caller,
    /// The runner API.
    Runner,
}

impl Scope {
    /// Parses a scope name.
    pub fn of(name: &str) -> Option<Scope> {
        match name {
            "admin" => Some(Scope::Admin),
            "caller" => Some(Scope::Caller),
            "runner" => Some(Scope::Runner),
            _ => None,
        }
    }

    /// Returns the name used in the API and the store.
    pub fn name(self) -> &'static str {
        match self {
            Scope::Admin => "admin",
            Scope::Caller => "caller",
            Scope::Runner => "runner",
        }
    }

    /// Whether this scope includes `needed`.
    pub fn covers(self, needed: Scope) -> bool {
        self == Scope::Admin || self == needed
    }
}

/// What a new token permits.
#[derive(Debug, Clone)]
pub struct TokenRequest {
    /// Description chosen by the user.
    pub name: String,
    /// The kind of operations.
    pub scope: Scope,
    /// The agents that the token may run; `None` for all.
    pub agents: Option<Vec<String>>,
    /// Whether the token may read and stop what others created.
    pub reads_all: bool,
    /// Time until the token expires; `None` for never.
    pub lifetime: Option<Duration>,
    /// The most requests per minute that the gateway accepts; `None` without a limit.
    pub requests_per_minute: Option<u32>,
    /// The tokens per minute after which the gateway refuses requests; `None` without a limit.
    pub tokens_per_minute: Option<u32>,
}

impl TokenRequest {
    /// A token without limits other than its scope.
    pub fn new(name: &str, scope: Scope) -> TokenRequest {
        TokenRequest {
            name: name.to_owned(),
            scope,
            agents: None,
            reads_all: false,
            lifetime: None,
            requests_per_minute: None,
            tokens_per_minute: None,
        }
    }
}

/// A new token. Its text cannot be retrieved again.
#[derive(Debug, Clone)]
pub struct IssuedToken {
    /// The secret text.
    pub token: String,
    /// Public id, used to revoke the token.
    pub token_id: String,
}

/// What the token of a request permits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Grant {
    /// Public id of the token.
    pub(crate) token_id: String,
    pub(crate) scope: Scope,
    /// The agents that the token may run; `None` for all.
    pub(crate) agents: Option<Vec<String>>,
    /// Whether the token may read and stop what others created.
    pub(crate) reads_all: bool,
    /// The most requests per minute that the gateway accepts; `None` without a limit.
    pub(crate) requests_per_minute: Option<u32>,
    /// The tokens per minute after which the gateway refuses requests; `None` without a limit.
    pub(crate) tokens_per_minute: Option<u32>,
}

impl Grant {
    /// The permissions of the token that a server writes for its own machine.
    pub(crate) fn of_server() -> Grant {
        Grant {
            token_id: "admin".to_owned(),
            scope: Scope::Admin,
            agents: None,
            reads_all: true,
            requests_per_minute: None,
            tokens_per_minute: None,
        }
    }
}

impl App {
    /// Creates a token.
    ///
    /// # Errors
    /// Fails if the store is unavailable, or if a token of another scope than `caller` is limited to agents.
    pub async fn create_token(&self, request: &TokenRequest) -> Result<IssuedToken, Error> {
        let TokenRequest { name, scope, agents, reads_all, lifetime, .. } = request;
        if *scope != Scope::Caller && (agents.is_some() || *reads_all) {
            let message = format!(
                "only tokens with scope `caller` can be limited to agents or extended to all runs, not `{}`",
                scope.name()
            );
            return Err(Error::new(Code::InvalidRequest, message));
        }
        let token = with_hex(PREFIX, &random::<32>()?);
        let token_id = with_hex("tok_", &random::<6>()?);
        let record = TokenRecord {
            token_id: token_id.clone(),
            name: name.clone(),
            scope: scope.name().to_owned(),
            hash: with_hex("", &Sha256::digest(token.as_bytes())),
            agents: agents.clone(),
            reads_all: *reads_all || *scope == Scope::Admin,
            created_at: 0,
            expires_at: None,
            is_expired: false,
            requests_per_minute: request.requests_per_minute,
            tokens_per_minute: request.tokens_per_minute,
        };
        let lifetime_ms = lifetime.map(|lifetime| i64::try_from(lifetime.as_millis()).unwrap_or(i64::MAX));
        self.store().add_token(record, lifetime_ms).await.map_err(errors::store)?;
        Ok(IssuedToken { token, token_id })
    }

    /// Returns all tokens, oldest first.
    ///
    /// # Errors
    /// Fails if the store is unavailable.
    pub async fn tokens(&self) -> Result<Vec<TokenRecord>, Error> {
        self.store().tokens().await.map_err(errors::store)
    }

    /// Revokes a token. Returns false for an unknown id.
    ///
    /// # Errors
    /// Fails if the store is unavailable.
    pub async fn revoke_token(&self, token_id: &str) -> Result<bool, Error> {
        self.store().revoke_token(token_id).await.map_err(errors::store)
    }

    /// Returns what a token permits, or why it permits nothing.
    ///
    /// # Errors
    /// Fails if the store is unavailable.
    pub(crate) async fn grant_of(&self, token: &str) -> Result<Result<Grant, Invalid>, Error> {
        let hash = with_hex("", &Sha256::digest(token.as_bytes()));
        let known = self.tokens().await?;
        // Compares all hashes in constant time, so that timing reveals nothing about any token.
        let found = known
            .into_iter()
            .fold(None, |found, record| if is_same(&record.hash, &hash) { Some(record) } else { found });
        Ok(match found {
            Some(TokenRecord { expires_at: Some(at), is_expired: true, .. }) => Err(Invalid::Expired(at)),
            Some(record) => grant(record).ok_or(Invalid::Unknown),
            None => Err(Invalid::Unknown),
        })
    }
}

/// Why a token is not valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Invalid {
    /// It never existed or was revoked.
    Unknown,
    /// It has expired at this time.
    Expired(i64),
}

impl From<Invalid> for Error {
    fn from(invalid: Invalid) -> Error {
        let message = match invalid {
            Invalid::Unknown => "the token is unknown or revoked".to_owned(),
            Invalid::Expired(at) => format!(
                "the token has expired at {}; create another with `slipform token create`",
                timestamp(at)
            ),
        };
        Error::new(Code::Unauthorized, message)
    }
}

fn grant(record: TokenRecord) -> Option<Grant> {
    let scope = Scope::of(&record.scope)?;
    let TokenRecord { token_id, agents, reads_all, requests_per_minute, tokens_per_minute, .. } = record;
    Some(Grant { token_id, scope, agents, reads_all, requests_per_minute, tokens_per_minute })
}

fn is_same(one: &str, other: &str) -> bool {
    let difference = one.bytes().zip(other.bytes()).fold(0, |sum, (one, other)| sum | (one ^ other));
    one.len() == other.len() && difference == 0
}
