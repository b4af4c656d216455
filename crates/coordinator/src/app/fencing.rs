//! Fencing tokens of attempts.
//!
//! A runner receives a random number with each claim. The store holds only a hash of it and of the API token that made
//! the claim, so that neither another API token nor a reader of the database can write to the attempt.

use sha2::{Digest as _, Sha256};
use slipform_api::Error;
use slipform_store::Fence;
use slipform_types::RunId;

use super::App;
use super::submit::random;

/// The bits that JSON numbers keep in every client.
const EXACT_BITS: u64 = (1 << 53) - 1;

/// Returns a fencing token for a claim.
pub(super) fn random_token() -> Result<i64, Error> {
    Ok(number(random()?))
}

impl App {
    /// Returns the fence that the store holds for an attempt of this handle's API token.
    pub(super) fn fence(&self, run_id: &RunId, token: i64) -> Fence {
        Fence { run_id: run_id.clone(), token: self.stored_token(token) }
    }

    pub(super) fn stored_token(&self, token: i64) -> i64 {
        let mut hash = Sha256::new();
        hash.update(token.to_be_bytes());
        hash.update(self.authority.token_id().unwrap_or_default());
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&hash.finalize()[..8]);
        number(bytes)
    }
}

fn number(bytes: [u8; 8]) -> i64 {
    i64::try_from(u64::from_be_bytes(bytes) & EXACT_BITS).unwrap_or_default()
}
