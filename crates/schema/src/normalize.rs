//! Rewrites a schema into keywords that are the same in every draft, for grammar compilers.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::error::Error;
use crate::limits::{check_depth, locate};
use crate::lower::draft::{ANNOTATIONS, Edition};
use crate::path::escape_pointer;
use crate::refs::{REFERENCE_KEYWORDS, References, identifies_itself};
use crate::walk::subschemas_mut;

/// A schema document without the differences between drafts.
///
/// Annotations, identifiers and keywords that have no meaning in the document's draft are removed. Tuples are
/// `prefixItems` followed by `items`. `dependencies` are `dependentRequired` and `dependentSchemas`.
/// Exclusive bounds are numbers. Every reference is a `$ref` whose text is a key of
/// [`NormalizedSchema::targets`], except references to the drafts' own meta-schemas.
#[derive(Debug, Clone, Default)]
pub struct NormalizedSchema {
    /// The document's root schema.
    pub root: Value,
    /// The schemas that references lead to, by the text of `$ref`.
    pub targets: HashMap<String, Value>,
    /// The keyword of references whose target depends on the path of evaluation, if the document has several
    /// possible targets. They are resolved statically, to one of those targets.
    pub dynamic: Option<&'static str>,
}

/// Normalizes a schema document.
///
/// # Errors
/// Returns an error if the document is nested too deep, or a reference leaves it or has no target.
pub fn normalize(schema: &Value) -> Result<NormalizedSchema, Error> {
    normalize_as(schema, "", Annotations::Removed)
}

/// As [`normalize`], with the annotations that readers of the schema want.
pub(crate) fn normalize_with_annotations(schema: &Value) -> Result<NormalizedSchema, Error> {
    normalize_as(schema, "", Annotations::Kept)
}

/// Normalizes several documents under one already normalized `root`, which refers to the first as `0#`, to
/// the second as `1#`, and so on.
///
/// # Errors
/// Returns an error if a document is nested too deep, or a reference leaves it or has no target.
pub fn normalize_together(root: Value, documents: &[&Value]) -> Result<NormalizedSchema, Error> {
    let mut combined = NormalizedSchema { root, targets: HashMap::new(), dynamic: None };
    for (number, document) in documents.iter().enumerate() {
        let normalized = normalize_as(document, &number.to_string(), Annotations::Removed)?;
        combined.targets.extend(normalized.targets);
        combined.dynamic = combined.dynamic.or(normalized.dynamic);
        combined.targets.insert(format!("{number}#"), normalized.root);
    }
    Ok(combined)
}

/// Whether keywords that constrain nothing stay in the schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Annotations {
    Removed,
    Kept,
}

/// Normalizes a document whose references get the prefix `name`.
fn normalize_as(schema: &Value, name: &str, annotations: Annotations) -> Result<NormalizedSchema, Error> {
    check_depth(schema)?;
    let references = References::collect(schema);
    let edition = Edition::of(schema);
    let mut normalizer =
        Normalizer { document: schema, name, references: &references, edition, annotations, pending: vec![] };
    let root = normalizer.rewrite(schema, "")?;
    let mut normalized = NormalizedSchema { root, targets: HashMap::new(), dynamic: dynamic_keyword(schema) };
    while let Some(pointer) = normalizer.pending.pop() {
        let key = format!("{name}#{pointer}");
        if normalized.targets.contains_key(&key) {
            continue;
        }
        let target = schema.pointer(&pointer).unwrap_or(&Value::Bool(true));
        let base = base_of(schema, &pointer);
        let rewritten = normalizer.rewrite(target, &base)?;
        normalized.targets.insert(key, rewritten);
    }
    Ok(normalized)
}

struct Normalizer<'s> {
    document: &'s Value,
    name: &'s str,
    references: &'s References,
    edition: Edition,
    annotations: Annotations,
    /// JSON Pointers of targets that are not rewritten yet.
    pending: Vec<String>,
}

impl Normalizer<'_> {
    /// Rewrites one schema and its subschemas; `base` is the pointer of the schema against which references
    /// resolve.
    fn rewrite(&mut self, schema: &Value, base: &str) -> Result<Value, Error> {
        let Value::Object(keywords) = schema else { return Ok(schema.clone()) };
        let inner = if identifies_itself(self.document, keywords) {
            locate_pointer(self.document, schema).unwrap_or_else(|| base.to_owned())
        } else {
            base.to_owned()
        };
        let mut clean = self.edition.clean(keywords);
        if self.annotations == Annotations::Removed {
            clean.retain(|name, _| !ANNOTATIONS.contains(&name.as_str()));
        }
        if matches!(self.edition, Edition::Six | Edition::Seven) && !clean.contains_key("$ref") {
            // Only these drafts assert the content of strings.
            for name in ["contentEncoding", "contentMediaType"] {
                clean.extend(keywords.get(name).map(|value| (name.to_owned(), value.clone())));
            }
        }
        self.resolve_references(schema, &mut clean, &inner)?;
        rewrite_tuples(&mut clean, self.edition);
        split_dependencies(&mut clean);
        let mut failed = None;
        // The children are still unchanged copies of the document, so `locate_pointer` can find them.
        subschemas_mut(&mut clean, |child| {
            if !child.is_array() && failed.is_none() {
                match self.rewrite(child, &inner) {
                    Ok(rewritten) => *child = rewritten,
                    Err(error) => failed = Some(error),
                }
            }
        });
        failed.map_or(Ok(Value::Object(clean)), Err)
    }

    /// Replaces the references of one schema by the pointers of their targets.
    fn resolve_references(
        &mut self,
        schema: &Value,
        clean: &mut Map<String, Value>,
        base: &str,
    ) -> Result<(), Error> {
        let mut found = Vec::new();
        for keyword in REFERENCE_KEYWORDS {
            let Some(Value::String(reference)) = clean.shift_remove(keyword) else { continue };
            let Some(pointer) = self.pointer(&reference, base) else {
                // The validator has the meta-schemas built in.
                if reference.contains("//json-schema.org/") {
                    found.push(Value::String(reference));
                    continue;
                }
                return Err(Error::Reference {
                    path: locate(self.document, schema),
                    reference,
                    reason: "only references inside the schema are followed; copy the definition into $defs"
                        .into(),
                });
            };
            self.pending.push(pointer.clone());
            found.push(Value::String(format!("{}#{pointer}", self.name)));
        }
        let mut found = found.into_iter();
        if let Some(first) = found.next() {
            clean.shift_insert(0, "$ref".to_owned(), first);
        }
        for other in found {
            let wrapped = Value::Object(Map::from_iter([("$ref".to_owned(), other)]));
            match clean.get_mut("allOf") {
                Some(Value::Array(members)) => members.push(wrapped),
                _ => drop(clean.insert("allOf".to_owned(), Value::Array(vec![wrapped]))),
            }
        }
        Ok(())
    }

    fn pointer(&self, reference: &str, base: &str) -> Option<String> {
        let local = reference.strip_prefix('#').filter(|_| !base.is_empty());
        if let Some(fragment) = local.filter(|fragment| fragment.is_empty() || fragment.starts_with('/')) {
            let pointer = format!("{base}{fragment}");
            if self.document.pointer(&pointer).is_some() {
                return Some(pointer);
            }
        }
        self.references.pointer(self.document, reference)
    }
}

/// Returns the keyword of dynamic references, if the document marks several possible targets.
fn dynamic_keyword(document: &Value) -> Option<&'static str> {
    let (mut anchors, mut recursive) = (0, 0);
    let mut pending = vec![document];
    while let Some(value) = pending.pop() {
        match value {
            Value::Object(members) => {
                anchors += usize::from(members.contains_key("$dynamicAnchor"));
                recursive += usize::from(members.get("$recursiveAnchor") == Some(&Value::Bool(true)));
                pending.extend(members.values());
            }
            Value::Array(items) => pending.extend(items),
            _ => {}
        }
    }
    match (anchors, recursive) {
        (2.., _) => Some("$dynamicRef"),
        (_, 2..) => Some("$recursiveRef"),
        _ => None,
    }
}

/// Returns the pointer of the innermost schema around `pointer` that has its own identifier, else of the
/// root.
fn base_of(document: &Value, pointer: &str) -> String {
    let mut base = String::new();
    let mut at = String::new();
    for token in pointer.split('/').skip(1) {
        at = format!("{at}/{token}");
        let keywords = document.pointer(&at).and_then(Value::as_object);
        if keywords.is_some_and(|keywords| identifies_itself(document, keywords)) {
            base.clone_from(&at);
        }
    }
    base
}

/// Returns the pointer of the part of the document that equals `part`.
fn locate_pointer(document: &Value, part: &Value) -> Option<String> {
    let mut pending = vec![(String::new(), document)];
    while let Some((pointer, value)) = pending.pop() {
        if value == part {
            return Some(pointer);
        }
        match value {
            Value::Object(members) => pending.extend(
                members.iter().map(|(name, member)| (format!("{pointer}/{}", escape_pointer(name)), member)),
            ),
            Value::Array(items) => {
                pending.extend(
                    items.iter().enumerate().map(|(index, item)| (format!("{pointer}/{index}"), item)),
                );
            }
            _ => {}
        }
    }
    None
}

/// Rewrites tuples to the latest draft's keywords.
fn rewrite_tuples(keywords: &mut Map<String, Value>, edition: Edition) {
    if edition == Edition::Twenty && !keywords.get("items").is_some_and(Value::is_array) {
        keywords.shift_remove("additionalItems");
        return;
    }
    let rest = keywords.shift_remove("additionalItems");
    if keywords.get("items").is_some_and(Value::is_array) {
        if let Some(tuple) = keywords.shift_remove("items") {
            keywords.insert("prefixItems".to_owned(), tuple);
        }
        keywords.extend(rest.map(|rest| ("items".to_owned(), rest)));
    }
}

/// Rewrites `dependencies` to the later drafts' keywords.
fn split_dependencies(keywords: &mut Map<String, Value>) {
    let Some(Value::Object(dependencies)) = keywords.shift_remove("dependencies") else { return };
    for (name, dependency) in dependencies {
        let (keyword, dependency) = match dependency {
            Value::String(single) => ("dependentRequired", Value::Array(vec![Value::String(single)])),
            list @ Value::Array(_) => ("dependentRequired", list),
            schema => ("dependentSchemas", schema),
        };
        let members = keywords.entry(keyword).or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(members) = members {
            members.insert(name, dependency);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn normalize_of_older_draft_uses_latest_keywords() {
        let normalized = normalize(&json!({
            "$schema": "http://json-schema.org/draft-04/schema#",
            "title": "gone",
            "items": [{"type": "string"}],
            "additionalItems": false,
            "minimum": 1,
            "exclusiveMinimum": true,
            "dependencies": {"a": ["b"], "c": {"type": "object"}},
            "properties": {"node": {"$ref": "#"}, "leaf": {"$ref": "#/definitions/leaf", "type": "string"}},
            "definitions": {"leaf": {"type": "number"}},
        }))
        .unwrap();
        assert_eq!(
            normalized.root,
            json!({
                "prefixItems": [{"type": "string"}],
                "items": false,
                "exclusiveMinimum": 1,
                "dependentRequired": {"a": ["b"]},
                "dependentSchemas": {"c": {"type": "object"}},
                "properties": {"node": {"$ref": "#"}, "leaf": {"$ref": "#/definitions/leaf"}},
            })
        );
        assert_eq!(normalized.targets["#/definitions/leaf"], json!({"type": "number"}));
        assert_eq!(normalized.targets["#"], normalized.root);
    }

    #[test]
    fn normalize_with_external_reference_is_refused() {
        assert!(normalize(&json!({"$ref": "https://example.com/other.json"})).is_err());
    }
}
