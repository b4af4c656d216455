//! Caches `run_start` data of claimed runs. Claims and finishes both need it, and reading it again costs as
//! much as the finish itself.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Deserialize;
use slipform_schema::Schema;
use slipform_store::Millis;
use slipform_types::{Blueprint, Contract, ResponseType, RunId};

/// Maximum number of cached runs. When it is reached, the cache is cleared; missing data is read from the
/// store.
const ENTRIES_MAX: usize = 1_024;

/// The parts of a `run_start` event that the coordinator needs.
#[derive(Debug, Deserialize)]
pub(super) struct RunStartParts {
    pub(super) blueprint: Blueprint,
    #[serde(default)]
    pub(super) contract: Option<Contract>,
}

/// Cached data of a run.
#[derive(Debug, Clone)]
pub(super) struct Start {
    /// When the run became active.
    pub(super) at: Millis,
    /// The compiled schema that the result must satisfy.
    pub(super) schema: Option<Schema>,
    /// The response type of the agent, if it answers with universal responses.
    pub(super) response_type: Option<ResponseType>,
}

/// The cache, keyed by run.
#[derive(Debug, Default)]
pub(super) struct RunStartCache {
    entries: Mutex<HashMap<RunId, Start>>,
}

impl RunStartCache {
    pub(super) fn get(&self, run: &RunId) -> Option<Start> {
        self.entries().get(run).cloned()
    }

    pub(super) fn insert(&self, run: RunId, start: Start) {
        let mut entries = self.entries();
        if entries.len() >= ENTRIES_MAX {
            entries.clear();
        }
        entries.insert(run, start);
    }

    pub(super) fn remove(&self, run: &RunId) {
        self.entries().remove(run);
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<RunId, Start>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
