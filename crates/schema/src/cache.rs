//! The cache of compiled schemas.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use crate::limits;
use crate::schema::hash;
use crate::{Compiler, Error, Schema};

/// The most memory of all cached schemas, in bytes. Beyond it, the cache drops those that were used least recently,
/// because recompiling a usual schema takes less than 1 ms.
pub const CACHE_BYTES_MAX: u64 = 128 * 1024 * 1024;

/// What the cache keeps when it drops schemas. Dropping a quarter at once keeps the search for them rare.
const CACHE_BYTES_KEPT: u64 = CACHE_BYTES_MAX / 4 * 3;

/// A cache of compiled schemas by hash, so that each contract is compiled once.
#[derive(Debug, Default)]
pub struct Cache {
    compiler: Compiler,
    entries: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    by_hash: HashMap<String, Entry>,
    bytes: u64,
    /// The number of lookups, as the time of an entry's last use.
    lookups: u64,
}

#[derive(Debug)]
struct Entry {
    schema: Schema,
    used_at: u64,
}

impl Cache {
    /// Returns the cache that all parts of a process may share.
    pub fn shared() -> &'static Cache {
        static SHARED: LazyLock<Cache> = LazyLock::new(Cache::default);
        &SHARED
    }

    /// Compiles `source`, or returns the cached schema for `hash` if its source is equal. A wrong hash costs
    /// only the lookup.
    ///
    /// # Errors
    /// Returns the errors of [`Compiler::compile`].
    pub fn compile_known(&self, hash: &str, source: &Value) -> Result<Schema, Error> {
        match self.known(hash, source) {
            Some(schema) => Ok(schema),
            None => self.compile(source),
        }
    }

    /// Returns the cached schema for `hash` if its source is equal to `source`. Does not compile.
    pub fn known(&self, hash: &str, source: &Value) -> Option<Schema> {
        let is_equal = |schema: &Schema| std::ptr::eq(schema.source(), source) || schema.source() == source;
        self.entries().get(hash).filter(is_equal)
    }

    /// Returns the compiled schema for `source`, from the cache if possible.
    ///
    /// # Errors
    /// Returns the errors of [`Compiler::compile`].
    pub fn compile(&self, source: &Value) -> Result<Schema, Error> {
        limits::check_depth(source)?;
        let key = hash(&source.to_string());
        if let Some(schema) = self.entries().get(&key) {
            return Ok(schema);
        }
        let schema = self.compiler.compile(source)?;
        self.entries().insert(key, schema.clone());
        Ok(schema)
    }

    /// Returns the cached schema for `source`. Does not compile.
    pub fn cached(&self, source: &Value) -> Option<Schema> {
        limits::check_depth(source).ok()?;
        self.entries().get(&hash(&source.to_string()))
    }

    /// Returns an upper bound of the memory of all cached schemas, in bytes. At most [`CACHE_BYTES_MAX`].
    pub fn memory_bytes(&self) -> u64 {
        self.entries().bytes
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entries {
    fn get(&mut self, hash: &str) -> Option<Schema> {
        self.lookups += 1;
        let entry = self.by_hash.get_mut(hash)?;
        entry.used_at = self.lookups;
        Some(entry.schema.clone())
    }

    fn insert(&mut self, hash: String, schema: Schema) {
        let bytes = schema.memory_bytes();
        let entry = Entry { schema, used_at: self.lookups };
        if self.bytes + bytes > CACHE_BYTES_MAX {
            self.shrink_to(CACHE_BYTES_KEPT.min(CACHE_BYTES_MAX.saturating_sub(bytes)));
        }
        self.bytes += bytes;
        if let Some(replaced) = self.by_hash.insert(hash, entry) {
            self.bytes -= replaced.schema.memory_bytes();
        }
    }

    /// Drops the schemas that were used least recently.
    fn shrink_to(&mut self, limit: u64) {
        let mut by_use: Vec<(u64, String)> =
            self.by_hash.iter().map(|(hash, entry)| (entry.used_at, hash.clone())).collect();
        by_use.sort_unstable();
        for (_, hash) in by_use {
            if self.bytes <= limit {
                break;
            }
            if let Some(dropped) = self.by_hash.remove(&hash) {
                self.bytes -= dropped.schema.memory_bytes();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn cache_is_bounded_in_bytes_and_keeps_recently_used_schemas() {
        let cache = Cache::default();
        let schema =
            |number: u64| json!({"title": number.to_string(), "enum": (0..20_000).collect::<Vec<_>>()});
        cache.compile(&schema(0)).unwrap();
        for number in 1..20 {
            cache.compile(&schema(number)).unwrap();
            assert!(cache.memory_bytes() <= CACHE_BYTES_MAX, "{}", cache.memory_bytes());
            assert!(cache.cached(&schema(0)).is_some(), "the schema in use was dropped");
        }
        assert!(cache.cached(&schema(1)).is_none());
        assert!(cache.cached(&schema(19)).is_some());
    }
}
