//! Caches which API token has registered a runner.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Maximum number of entries. When it is reached, the cache is cleared.
const ENTRIES_MAX: usize = 1_024;

/// Pairs of API token and runner id.
#[derive(Debug, Default)]
pub(super) struct RunnerIds(Mutex<HashSet<(String, String)>>);

impl RunnerIds {
    pub(super) fn is_known(&self, token_id: &str, runner_id: &str) -> bool {
        self.entries().contains(&(token_id.to_owned(), runner_id.to_owned()))
    }

    pub(super) fn add(&self, token_id: &str, runner_id: &str) {
        let mut entries = self.entries();
        if entries.len() >= ENTRIES_MAX {
            entries.clear();
        }
        entries.insert((token_id.to_owned(), runner_id.to_owned()));
    }

    fn entries(&self) -> MutexGuard<'_, HashSet<(String, String)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
