//! API tokens: made once, shown once, kept as a hash.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use slipform_api::{Code, Error};
use slipform_store::TokenRecord;
use slipform_types::with_hex;

use super::{App, errors};

/// What every token begins with, so that scanners find those that leaked.
const PREFIX: &str = "sf_";

/// What a token may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Everything.
    Admin,
    /// Runs, sessions, and looking at the rest.
    Caller,
    /// What runners do.
    Runner,
}

impl Scope {
    /// The scope of a name.
    pub fn of(name: &str) -> Option<Scope> {
        match name {
            "admin" => Some(Scope::Admin),
            "caller" => Some(Scope::Caller),
            "runner" => Some(Scope::Runner),
            _ => None,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Scope::Admin => "admin",
            Scope::Caller => "caller",
            Scope::Runner => "runner",
        }
    }

    /// Whether whoever has this scope may do what needs the other.
    pub fn covers(self, needed: Scope) -> bool {
        self == Scope::Admin || self == needed
    }
}

/// A token that was just made. It is never shown again.
#[derive(Debug, Clone)]
pub struct IssuedToken {
    /// The token.
    pub token: String,
    /// What is kept of it.
    pub record: TokenRecord,
}

impl App {
    /// Makes a token.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn create_token(&self, name: &str, scope: Scope) -> Result<IssuedToken, Error> {
        let mut bytes = [0_u8; 38];
        getrandom::fill(&mut bytes)
            .map_err(|error| Error::new(Code::Internal, format!("no random numbers for tokens: {error}")))?;
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

    /// All tokens.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn tokens(&self) -> Result<Vec<TokenRecord>, Error> {
        self.store().tokens().await.map_err(errors::store)
    }

    /// Revokes a token; false where there is none of the id.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn revoke_token(&self, token_id: &str) -> Result<bool, Error> {
        self.store().revoke_token(token_id).await.map_err(errors::store)
    }

    /// What whoever shows a token may do.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn scope_of(&self, token: &str) -> Result<Option<Scope>, Error> {
        let hash = with_hex("", &Sha256::digest(token.as_bytes()));
        let known = self.tokens().await?;
        // All are compared, and each in the same time: how long it takes tells nothing about any of them.
        let found = known.iter().fold(None, |found, record| match is_same(&record.hash, &hash) {
            true => Scope::of(&record.scope),
            false => found,
        });
        Ok(found)
    }
}

fn is_same(one: &str, other: &str) -> bool {
    let difference = one.bytes().zip(other.bytes()).fold(0, |sum, (one, other)| sum | (one ^ other));
    one.len() == other.len() && difference == 0
}
