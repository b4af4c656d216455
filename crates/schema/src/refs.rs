//! Resolves references inside one schema document. It never leaves the document.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::walk::subschemas;

/// The anchors and identifiers of a schema document.
#[derive(Debug, Default, Clone)]
pub(crate) struct References {
    /// Maps `#anchor`, `$id` or the last path part of an `$id` to a JSON Pointer into the document.
    names: HashMap<String, String>,
}

impl References {
    pub(crate) fn collect(root: &Value) -> References {
        let mut names = HashMap::new();
        let mut pending = vec![(String::new(), root)];
        while let Some((pointer, schema)) = pending.pop() {
            let Some(object) = schema.as_object() else { continue };
            for keyword in ["$anchor", "$dynamicAnchor"] {
                if let Some(Value::String(anchor)) = object.get(keyword) {
                    names.entry(format!("#{anchor}")).or_insert_with(|| pointer.clone());
                }
            }
            if let Some(Value::String(id)) = object.get("$id").or_else(|| object.get("id")) {
                let id = id.trim_end_matches('#');
                names.entry(id.to_owned()).or_insert_with(|| pointer.clone());
                if let Some(last) = id.rsplit('/').next().filter(|last| !last.is_empty()) {
                    names.entry(last.to_owned()).or_insert_with(|| pointer.clone());
                }
            }
            subschemas(object, |relative, child, _| pending.push((format!("{pointer}{relative}"), child)));
        }
        References { names }
    }

    /// Returns the schemas of this document that the references of one schema lead to.
    pub(crate) fn targets<'a>(&self, root: &'a Value, schema: &Map<String, Value>) -> Vec<&'a Value> {
        let references = REFERENCE_KEYWORDS.iter().filter_map(|keyword| schema.get(*keyword)?.as_str());
        references.filter_map(|reference| self.resolve(root, reference)).collect()
    }

    /// Returns the schema that `reference` names, if this document has it.
    pub(crate) fn resolve<'a>(&self, root: &'a Value, reference: &str) -> Option<&'a Value> {
        root.pointer(&self.pointer(root, reference)?)
    }

    /// Returns the JSON Pointer of the schema that `reference` names, if this document has it.
    pub(crate) fn pointer(&self, root: &Value, reference: &str) -> Option<String> {
        let (base, fragment) = match reference.split_once('#') {
            Some((base, fragment)) => (base, fragment),
            None => (reference, ""),
        };
        if !fragment.is_empty() && !fragment.starts_with('/') {
            return self.names.get(&format!("#{fragment}")).cloned();
        }
        let start = if base.is_empty() { "" } else { self.names.get(base)?.as_str() };
        let pointer = format!("{start}{}", percent_decode(fragment));
        root.pointer(&pointer).map(|_| pointer)
    }
}

/// Returns whether a reference occurs inside a subschema with its own identifier, against which it resolves.
pub(crate) fn is_rebased(root: &Value) -> bool {
    let mut pending = vec![(root, false)];
    while let Some((schema, inside)) = pending.pop() {
        let Some(keywords) = schema.as_object() else { continue };
        let inside = inside || (identifies_itself(root, keywords) && !std::ptr::eq(schema, root));
        if inside && keywords.contains_key("$ref") {
            return true;
        }
        subschemas(keywords, |_, child, _| pending.push((child, inside)));
    }
    false
}

/// Returns the keyword for identifiers in this document's draft.
pub(crate) fn identifier_keyword(root: &Value) -> &'static str {
    let draft = root.get("$schema").and_then(Value::as_str).unwrap_or_default();
    if draft.contains("draft-04") { "id" } else { "$id" }
}

/// Returns whether a schema has an identifier, so that references inside resolve against it.
pub(crate) fn identifies_itself(root: &Value, keywords: &Map<String, Value>) -> bool {
    let identifier = keywords.get(identifier_keyword(root)).and_then(Value::as_str);
    identifier.is_some_and(|identifier| !identifier.is_empty() && !identifier.starts_with('#'))
}

fn percent_decode(text: &str) -> String {
    if !text.contains('%') {
        return text.to_owned();
    }
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let escape = text.get(at + 1..at + 3).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match escape {
            Some(code) if byte == b'%' => {
                decoded.push(code);
                at += 3;
            }
            _ => {
                decoded.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

/// The keywords that refer to another schema, in the order in which they are followed.
pub(crate) const REFERENCE_KEYWORDS: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];
