//! Caches `run_start` data of claimed runs. Claims and finishes both need it, and reading it again costs as
//! much as the finish itself.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Deserialize;
use slipform_schema::{CACHE_BYTES_MAX, Schema};
use slipform_store::Millis;
use slipform_types::{Blueprint, Contract, ResponseType, RunId};

/// Maximum number of cached runs. When it is reached, the cache is cleared; missing data is read from the
/// store.
const ENTRIES_MAX: usize = 1_024;

/// Maximum memory of the compiled schemas of cached runs, in bytes. Runs with equal contracts share one. When it is
/// reached, the cache is cleared.
const SCHEMA_BYTES_MAX: u64 = CACHE_BYTES_MAX;

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
    entries: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    by_run: HashMap<RunId, Start>,
    /// The number of runs per schema, by the schema's hash.
    schemas: HashMap<String, usize>,
    /// Memory of all distinct schemas.
    schema_bytes: u64,
}

impl RunStartCache {
    pub(super) fn get(&self, run: &RunId) -> Option<Start> {
        self.entries().by_run.get(run).cloned()
    }

    pub(super) fn insert(&self, run: RunId, start: Start) {
        self.entries().insert(run, start);
    }

    pub(super) fn remove(&self, run: &RunId) {
        self.entries().remove(run);
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entries {
    fn insert(&mut self, run: RunId, start: Start) {
        self.remove(&run);
        let new_bytes = start.schema.as_ref().map_or(0, |schema| {
            if self.schemas.contains_key(schema.hash()) { 0 } else { schema.memory_bytes() }
        });
        if self.by_run.len() >= ENTRIES_MAX || self.schema_bytes + new_bytes > SCHEMA_BYTES_MAX {
            *self = Entries::default();
        }
        if let Some(schema) = &start.schema {
            let runs = self.schemas.entry(schema.hash().to_owned()).or_default();
            if *runs == 0 {
                self.schema_bytes += schema.memory_bytes();
            }
            *runs += 1;
        }
        self.by_run.insert(run, start);
    }

    fn remove(&mut self, run: &RunId) {
        let Some(Start { schema: Some(schema), .. }) = self.by_run.remove(run) else { return };
        let Some(runs) = self.schemas.get_mut(schema.hash()) else { return };
        *runs -= 1;
        if *runs == 0 {
            self.schemas.remove(schema.hash());
            self.schema_bytes -= schema.memory_bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn start(number: u64) -> Start {
        let source = json!({"title": number.to_string(), "enum": (0..20_000).collect::<Vec<_>>()});
        Start { at: 0, schema: Some(Schema::compile(&source).unwrap()), response_type: None }
    }

    #[test]
    fn cached_schemas_are_bounded_in_bytes_and_counted_once() {
        let cache = RunStartCache::default();
        let run = |number: u8| RunId::from_random([number; 6]);
        let shared = start(0);
        let bytes = shared.schema.as_ref().unwrap().memory_bytes();
        for number in 0..100 {
            cache.insert(run(number), shared.clone());
        }
        assert_eq!(cache.entries().schema_bytes, bytes);
        for number in 0..100 {
            cache.remove(&run(number));
        }
        assert_eq!(cache.entries().schema_bytes, 0);
        for number in 0..20 {
            cache.insert(run(number), start(u64::from(number)));
            assert!(cache.entries().schema_bytes <= SCHEMA_BYTES_MAX);
            assert!(cache.get(&run(number)).is_some());
        }
    }
}
