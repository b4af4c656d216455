//! Joins schemas that apply to the same value: `allOf`, and references beside other keywords.

use serde_json::{Map, Value};

use super::conjunction::{Conjunction, join};
use super::draft::{ANNOTATIONS, is_unconstrained};
use super::lowering::{Flat, INLINE_LEVELS_MAX, Lowering};

impl Lowering<'_> {
    /// Joins everything that applies beside a schema into it. Parts that cannot be joined are recorded as
    /// lost.
    pub(super) fn flatten(&mut self, keywords: &Map<String, Value>) -> Flat {
        let mut base = self.edition.clean(keywords);
        for dynamic in ["$dynamicRef", "$recursiveRef"] {
            if base.shift_remove(dynamic).is_some() {
                self.unenforceable |= self.rules.closed;
                self.record_lost(dynamic);
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
                        Value::Bool(false) => return Flat { is_impossible: true, ..Flat::default() },
                        _ => {}
                    }
                }
            }
        }
        self.join_all(base, parts)
    }

    /// Joins `parts` into `base` one by one. A part that cannot be joined is recorded as lost under its
    /// keyword.
    pub(super) fn join_all(
        &mut self,
        base: Map<String, Value>,
        parts: Vec<(&'static str, Map<String, Value>)>,
    ) -> Flat {
        let mut joined = Flat { keywords: base, ..Flat::default() };
        let mut lone_reference = None;
        let parts: Vec<_> =
            parts.into_iter().filter(|(_, part)| !is_unconstrained(&self.edition.clean(part))).collect();
        let alone = parts.len() == 1 && is_unconstrained(&joined.keywords);
        for (name, part) in parts {
            let part = self.edition.clean(&part);
            // A reference with nothing beside it needs no joining and stays a reference.
            if alone && is_lone_reference(&part) {
                joined.keywords.extend(part);
                return joined;
            }
            let Some(expanded) = self.expand(&part) else {
                lone_reference = lone_reference.or_else(|| part.get("$ref").cloned());
                self.record_lost(name);
                continue;
            };
            let before = joined.keywords.clone();
            if !self.add_work(&before) || !self.add_work(&expanded.keywords) {
                return joined;
            }
            match join(before, expanded.keywords) {
                Conjunction::Both(both) => joined.keywords = both,
                Conjunction::Never => return Flat { is_impossible: true, ..joined },
                Conjunction::Unclear => {
                    self.record_lost(name);
                    continue;
                }
            }
            joined.is_impossible |= expanded.is_impossible;
            joined.inlined.extend(expanded.inlined);
        }
        if let Some(reference) = lone_reference.filter(|_| is_unconstrained(&joined.keywords)) {
            joined.keywords.insert("$ref".to_owned(), reference);
        }
        replace_unevaluated(&mut joined.keywords);
        joined
    }

    /// Returns a part without references and `allOf` at its top level; `None` if a reference is recursive,
    /// unresolved or beyond a limit.
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

    /// Returns the flattened definition that a reference leads to, with its pointer in `inlined`.
    pub(super) fn inline(&mut self, reference: &str) -> Option<Flat> {
        let pointer = self.resolve(reference)?;
        if self.inlining.contains(&pointer) || self.inlining.len() >= INLINE_LEVELS_MAX {
            return None;
        }
        let keywords = match self.root.pointer(&pointer)? {
            Value::Object(keywords) => keywords.clone(),
            Value::Bool(true) => return Some(Flat::default()),
            _ => return Some(Flat { is_impossible: true, ..Flat::default() }),
        };
        if !self.add_work(&keywords) {
            return None;
        }
        self.inlining.push(pointer.clone());
        let flat = self.expand(&keywords);
        self.inlining.pop();
        let mut flat = flat?;
        flat.inlined.push(pointer);
        Some(flat)
    }
}

/// Returns whether a schema consists of a reference and annotations.
fn is_lone_reference(keywords: &Map<String, Value>) -> bool {
    let others = keywords.keys().filter(|name| !ANNOTATIONS.contains(&name.as_str()));
    keywords.contains_key("$ref") && others.count() == 1
}

/// Replaces `unevaluatedProperties` by `additionalProperties` if no other keyword in the schema evaluates
/// properties.
fn replace_unevaluated(keywords: &mut Map<String, Value>) {
    const EVALUATING: [&str; 7] = ["anyOf", "oneOf", "if", "then", "else", "dependentSchemas", "$ref"];
    if keywords.contains_key("unevaluatedProperties")
        && !EVALUATING.iter().any(|name| keywords.contains_key(*name))
        && let Some(rule) = keywords.shift_remove("unevaluatedProperties")
        && !keywords.contains_key("additionalProperties")
    {
        keywords.insert("additionalProperties".to_owned(), rule);
    }
}
