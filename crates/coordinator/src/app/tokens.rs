//! API tokens. A token is shown once, when it is created; the store keeps only its hash.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use slipform_api::{Code, Error};
use slipform_store::TokenRecord;
use slipform_types::with_hex;

use super::{App, errors};

/// Prefix of every token, so that secret scanners recognize leaked ones.
const PREFIX: &str = "sf_";

/// The permissions of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// All operations.
    Admin,
    /// Submitting runs, and reading everything else.
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

/// A new token. Its text cannot be retrieved again.
#[derive(Debug, Clone)]
pub struct IssuedToken {
    /// The secret text.
    pub token: String,
    /// The stored record.
    pub record: TokenRecord,
}

impl App {
    /// Creates a token.
    ///
    /// # Errors
    /// Fails if the store is unavailable.
    pub async fn create_token(&self, name: &str, scope: Scope) -> Result<IssuedToken, Error> {
        let mut bytes = [0_u8; 38];
        getrandom::fill(&mut bytes).map_err(|error| {
            Error::new(Code::Internal, format!("the system's random number generator failed: {error}"))
        })?;
        let (secret, id) = bytes.split_at(32);
        let token = with_hex(PREFIX, secret);
        let record = TokenRecord {
            token_id: with_hex("tok_", id),
            name: name.to_owned(),
            scope: scope.name().to_owned(),
            hash: with_hex("", &Sha256::digest(token.as_bytes())),
            created_at: 0,
        };
        self.store().add_token(record.clone()).await.map_err(errors::store)?;
        Ok(IssuedToken { token, record })
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

    /// Returns the scope of a token, or `None` if it is unknown or revoked.
    ///
    /// # Errors
    /// Fails if the store is unavailable.
    pub async fn scope_of(&self, token: &str) -> Result<Option<Scope>, Error> {
        let hash = with_hex("", &Sha256::digest(token.as_bytes()));
        let known = self.tokens().await?;
        // Compares all hashes in constant time, so that timing reveals nothing about any token.
        let found = known.iter().fold(None, |found, record| {
            if is_same(&record.hash, &hash) { Scope::of(&record.scope) } else { found }
        });
        Ok(found)
    }
}

fn is_same(one: &str, other: &str) -> bool {
    let difference = one.bytes().zip(other.bytes()).fold(0, |sum, (one, other)| sum | (one ^ other));
    one.len() == other.len() && difference == 0
}
