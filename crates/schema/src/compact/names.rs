//! Selects the definitions that get a name in a skeleton.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use crate::path::unescape_pointer;
use crate::refs::{REFERENCE_KEYWORDS, References};
use crate::walk::subschemas;

/// The largest definition, in JSON values, that is repeated wherever it is used.
const SMALL_VALUES_MAX: usize = 12;

/// The names of definitions that are used more than once, which includes all recursive ones.
#[derive(Debug, Default)]
pub(super) struct Names {
    names: HashMap<String, String>,
    taken: HashSet<String>,
    mentioned: Vec<String>,
}

impl Names {
    pub(super) fn choose(root: &Value, references: &References) -> Names {
        let mut uses: HashMap<String, usize> = HashMap::from([(String::new(), 1)]);
        let mut order = Vec::new();
        let mut seen = HashSet::new();
        let mut pending = vec![root];
        while let Some(schema) = pending.pop() {
            let Some(keywords) = schema.as_object().filter(|_| seen.insert(std::ptr::from_ref(schema)))
            else {
                continue;
            };
            for keyword in REFERENCE_KEYWORDS {
                let Some(reference) = keywords.get(keyword).and_then(Value::as_str) else { continue };
                let Some(pointer) = references.pointer(root, reference) else { continue };
                pending.extend(root.pointer(&pointer));
                // A target outside `$defs` is also used at its own location.
                let own_use = usize::from(!is_definition(&pointer));
                let count = uses.entry(pointer.clone()).or_insert(own_use);
                *count += 1;
                order.push(pointer);
            }
            subschemas(keywords, |_, child, applies_to| {
                if applies_to != crate::walk::AppliesTo::Nothing {
                    pending.push(child);
                }
            });
        }
        let mut names = Names::default();
        for pointer in order {
            let is_repeated = uses.get(&pointer).is_some_and(|count| *count > 1);
            if is_repeated && root.pointer(&pointer).is_some_and(|target| !is_small(target)) {
                names.add(pointer);
            }
        }
        names
    }

    fn add(&mut self, pointer: String) {
        if self.names.contains_key(&pointer) {
            return;
        }
        let last = unescape_pointer(pointer.rsplit('/').next().unwrap_or_default());
        let plain: String =
            last.chars().map(|letter| if letter.is_alphanumeric() { letter } else { '_' }).collect();
        let base = if plain.is_empty() { "Root".to_owned() } else { plain };
        let mut name = base.clone();
        let mut count = 1;
        while !self.taken.insert(name.clone()) {
            count += 1;
            name = format!("{base}_{count}");
        }
        self.names.insert(pointer, name);
    }

    pub(super) fn of(&self, pointer: &str) -> Option<&str> {
        self.names.get(pointer).map(String::as_str)
    }

    /// Returns the name of a definition, and schedules the definition to be written.
    pub(super) fn mention(&mut self, pointer: &str) -> Option<String> {
        let name = self.names.get(pointer)?.clone();
        if !self.mentioned.iter().any(|known| known == pointer) {
            self.mentioned.push(pointer.to_owned());
        }
        Some(name)
    }

    /// Returns the next mentioned definition that is not written yet.
    pub(super) fn next_mentioned(&self, done: &[String]) -> Option<String> {
        self.mentioned.get(done.len()).cloned()
    }
}

fn is_definition(pointer: &str) -> bool {
    let mut tokens = pointer.split('/').skip(1);
    matches!(tokens.next(), Some("$defs" | "definitions")) && tokens.count() == 1
}

/// Returns whether a definition is small and has no references, so that repeating it costs little.
fn is_small(schema: &Value) -> bool {
    let mut count = 0;
    let mut pending = vec![schema];
    while let Some(value) = pending.pop() {
        count += 1;
        match value {
            Value::Object(members) => {
                if REFERENCE_KEYWORDS.iter().any(|keyword| members.contains_key(*keyword)) {
                    return false;
                }
                let counted = members.iter().filter(|(name, _)| *name != "description");
                pending.extend(counted.map(|(_, member)| member));
            }
            Value::Array(items) => pending.extend(items),
            _ => {}
        }
        if count > SMALL_VALUES_MAX {
            return false;
        }
    }
    true
}
