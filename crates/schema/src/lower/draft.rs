//! The keywords that constrain values in each draft.

use std::collections::{BTreeSet, HashSet};

use serde_json::{Map, Value};

use crate::refs::References;
use crate::walk::subschemas;

/// The drafts of JSON Schema, oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Edition {
    Four,
    Six,
    Seven,
    Nineteen,
    Twenty,
}

impl Edition {
    /// Returns the draft of a document; draft 7 without a known `$schema`, as everywhere in this crate.
    pub(crate) fn of(root: &Value) -> Edition {
        let name = root.get("$schema").and_then(Value::as_str).unwrap_or_default();
        if name.contains("draft-04") {
            Edition::Four
        } else if name.contains("draft-06") {
            Edition::Six
        } else if name.contains("2019-09") {
            Edition::Nineteen
        } else if name.contains("2020-12") {
            Edition::Twenty
        } else {
            Edition::Seven
        }
    }

    /// Returns whether a keyword constrains values in this draft.
    fn asserts(self, keyword: &str) -> bool {
        match keyword {
            "const" | "contains" | "propertyNames" => self >= Edition::Six,
            "if" | "then" | "else" => self >= Edition::Seven,
            "dependentSchemas"
            | "dependentRequired"
            | "minContains"
            | "maxContains"
            | "unevaluatedProperties"
            | "unevaluatedItems" => self >= Edition::Nineteen,
            "$recursiveRef" => self == Edition::Nineteen,
            "prefixItems" | "$dynamicRef" => self == Edition::Twenty,
            _ => ASSERTIONS.contains(&keyword),
        }
    }

    /// Returns the annotations, and the keywords that constrain values in this draft, without the differences
    /// between drafts.
    pub(crate) fn clean(self, keywords: &Map<String, Value>) -> Map<String, Value> {
        let only_reference = self <= Edition::Seven && keywords.get("$ref").is_some_and(Value::is_string);
        let mut clean = Map::new();
        for (name, value) in keywords {
            let ignored = only_reference && name != "$ref" && self.asserts(name);
            if (self.asserts(name) && !ignored) || ANNOTATIONS.contains(&name.as_str()) {
                clean.insert(name.clone(), value.clone());
            }
        }
        for (flag, bound) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
            let Some(&Value::Bool(exclusive)) = clean.get(flag) else { continue };
            clean.shift_remove(flag);
            if exclusive && let Some(limit) = clean.shift_remove(bound) {
                clean.insert(flag.to_owned(), limit);
            }
        }
        clean.retain(|name, value| !is_trivial(name, value));
        clean
    }
}

/// Keywords that constrain values in every draft.
const ASSERTIONS: [&str; 28] = [
    "type",
    "enum",
    "$ref",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "properties",
    "patternProperties",
    "additionalProperties",
    "required",
    "minProperties",
    "maxProperties",
    "dependencies",
    "items",
    "additionalItems",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minLength",
    "maxLength",
    "pattern",
    "format",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
];

/// Keywords that describe a value and constrain nothing.
pub(crate) const ANNOTATIONS: [&str; 8] =
    ["title", "description", "default", "examples", "$comment", "deprecated", "readOnly", "writeOnly"];

/// The formats that some draft asserts; other formats constrain nothing.
const FORMATS: [&str; 19] = [
    "date",
    "time",
    "date-time",
    "duration",
    "email",
    "idn-email",
    "hostname",
    "idn-hostname",
    "ipv4",
    "ipv6",
    "uri",
    "uri-reference",
    "uri-template",
    "iri",
    "iri-reference",
    "uuid",
    "json-pointer",
    "relative-json-pointer",
    "regex",
];

/// Returns whether a keyword with this value accepts everything.
fn is_trivial(keyword: &str, value: &Value) -> bool {
    match keyword {
        "uniqueItems" => value == &Value::Bool(false),
        "minLength" | "minItems" | "minProperties" => value.as_f64() == Some(0.0),
        "format" => value.as_str().is_none_or(|format| !FORMATS.contains(&format)),
        "required" => value.as_array().is_none_or(Vec::is_empty),
        "patternProperties" | "dependencies" | "dependentSchemas" | "dependentRequired" => {
            value.as_object().is_none_or(Map::is_empty)
        }
        "allOf" => value.as_array().is_none_or(|members| members.iter().all(is_any)),
        "propertyNames" => is_any(value) || value == &serde_json::json!({"type": "string"}),
        "unevaluatedProperties" | "unevaluatedItems" => is_any(value),
        _ => false,
    }
}

/// Returns whether a schema obviously accepts everything.
pub(super) fn is_any(schema: &Value) -> bool {
    match schema {
        Value::Bool(allowed) => *allowed,
        Value::Object(keywords) => keywords.keys().all(|name| ANNOTATIONS.contains(&name.as_str())),
        _ => false,
    }
}

/// Returns whether a cleaned schema consists of annotations only.
pub(super) fn is_unconstrained(keywords: &Map<String, Value>) -> bool {
    keywords.keys().all(|name| ANNOTATIONS.contains(&name.as_str()))
}

/// Returns all keywords that constrain values in the parts of a document that validation can reach.
pub(super) fn constraining_keywords(root: &Value) -> BTreeSet<String> {
    let edition = Edition::of(root);
    let references = References::collect(root);
    let mut found = BTreeSet::new();
    let mut seen = HashSet::new();
    let mut pending = vec![root];
    while let Some(schema) = pending.pop() {
        if let Value::Bool(false) = schema {
            found.insert("false".to_owned());
        }
        let Some(keywords) = schema.as_object().filter(|_| seen.insert(std::ptr::from_ref(schema))) else {
            continue;
        };
        let in_force = |name: &str, value: &Value| edition.asserts(name) && !is_trivial(name, value);
        let names = keywords.iter().filter(|(name, value)| in_force(name, value));
        found.extend(names.map(|(name, _)| name.clone()));
        subschemas(keywords, |relative, child, applies_to| {
            let keyword = relative.split('/').nth(1).unwrap_or_default();
            if applies_to != crate::walk::AppliesTo::Nothing && edition.asserts(keyword) {
                pending.push(child);
            }
        });
        pending.extend(references.targets(root, keywords));
    }
    found
}
