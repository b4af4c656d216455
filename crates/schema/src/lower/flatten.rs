//! Joining what applies to the same value: `allOf`, and references with other keywords beside them.

use serde_json::{Map, Value};

use super::conjunction::{Conjunction, join};
use super::draft::{ANNOTATIONS, says_nothing};
use super::engine::{Engine, Flat, INLINE_LEVELS_MAX};

impl Engine<'_> {
    /// One schema with everything that applies beside it joined in; what cannot be is lost.
    pub(super) fn flatten(&mut self, keywords: &Map<String, Value>) -> Flat {
        let mut base = self.edition.clean(keywords);
        for dynamic in ["$dynamicRef", "$recursiveRef"] {
            if base.shift_remove(dynamic).is_some() {
                self.hopeless |= self.rules.closed;
                self.lose(dynamic);
            }
        }
        let mut parts: Vec<(&'static str, Map<String, Value>)> = Vec::new();
        if base.contains_key("allOf") || (base.contains_key("$ref") && !is_lone_reference(&base)) {
            if let Some(reference) = base.shift_remove("$ref") {
                parts.push(("$ref", Map::from_iter([("$ref".to_owned(), reference)])));
            }
            if let Some(Value::Array(members)) = base.shift_remove("allOf") {
                for member in members {
                    match member {
                        Value::Object(member) => parts.push(("allOf", member)),
                        Value::Bool(false) => return Flat { impossible: true, ..Flat::default() },
                        _ => {}
                    }
                }
            }
        }
        self.join_all(base, parts)
    }

    /// Joins `parts` into `base` one by one. A part that cannot be joined is lost by the name that it has
    /// with it.
    pub(super) fn join_all(
        &mut self,
        base: Map<String, Value>,
        parts: Vec<(&'static str, Map<String, Value>)>,
    ) -> Flat {
        let mut joined = Flat { keywords: base, ..Flat::default() };
        let mut lone_reference = None;
        let parts: Vec<_> =
            parts.into_iter().filter(|(_, part)| !says_nothing(&self.edition.clean(part))).collect();
        let alone = parts.len() == 1 && says_nothing(&joined.keywords);
        for (name, part) in parts {
            let part = self.edition.clean(&part);
            // A reference with nothing beside it needs no joining, and stays one.
            if alone && is_lone_reference(&part) {
                joined.keywords.extend(part);
                return joined;
            }
            let Some(expanded) = self.expand(&part) else {
                lone_reference = lone_reference.or_else(|| part.get("$ref").cloned());
                self.lose(name);
                continue;
            };
            let before = joined.keywords.clone();
            if !self.spend(&before) || !self.spend(&expanded.keywords) {
                return joined;
            }
            match join(before, expanded.keywords) {
                Conjunction::Both(both) => joined.keywords = both,
                Conjunction::Never => return Flat { impossible: true, ..joined },
                Conjunction::Unclear => {
                    self.lose(name);
                    continue;
                }
            }
            joined.impossible |= expanded.impossible;
            joined.opened.extend(expanded.opened);
        }
        if let Some(reference) = lone_reference.filter(|_| says_nothing(&joined.keywords)) {
            joined.keywords.insert("$ref".to_owned(), reference);
        }
        settle_unevaluated(&mut joined.keywords);
        joined
    }

    /// A part without references and `allOf` at its top; nothing when a definition contains itself.
    fn expand(&mut self, part: &Map<String, Value>) -> Option<Flat> {
        if !self.descend() {
            return None;
        }
        let flat = self.flatten(part);
        let expanded = match flat.keywords.get("$ref").cloned() {
            Some(Value::String(reference)) => self.inline(&reference),
            _ => Some(flat),
        };
        self.ascend();
        expanded
    }

    /// The definition that a reference leads to, flattened, and marked as open.
    pub(super) fn inline(&mut self, reference: &str) -> Option<Flat> {
        let pointer = self.resolve(reference)?;
        if self.open.contains(&pointer) || self.open.len() >= INLINE_LEVELS_MAX {
            return None;
        }
        let keywords = match self.root.pointer(&pointer)? {
            Value::Object(keywords) => keywords.clone(),
            Value::Bool(true) => return Some(Flat::default()),
            _ => return Some(Flat { impossible: true, ..Flat::default() }),
        };
        if !self.spend(&keywords) {
            return None;
        }
        self.open.push(pointer.clone());
        let flat = self.expand(&keywords);
        self.open.pop();
        let mut flat = flat?;
        flat.opened.push(pointer);
        Some(flat)
    }
}

/// Whether a reference is all that a schema says.
fn is_lone_reference(keywords: &Map<String, Value>) -> bool {
    let others = keywords.keys().filter(|name| !ANNOTATIONS.contains(&name.as_str()));
    keywords.contains_key("$ref") && others.count() == 1
}

/// Says `additionalProperties: false` for `unevaluatedProperties: false` once nothing else in the schema
/// could evaluate properties.
fn settle_unevaluated(keywords: &mut Map<String, Value>) {
    const EVALUATING: [&str; 7] = ["anyOf", "oneOf", "if", "then", "else", "dependentSchemas", "$ref"];
    if keywords.contains_key("unevaluatedProperties")
        && !EVALUATING.iter().any(|name| keywords.contains_key(*name))
        && let Some(rule) = keywords.shift_remove("unevaluatedProperties")
        && !keywords.contains_key("additionalProperties")
    {
        keywords.insert("additionalProperties".to_owned(), rule);
    }
}
