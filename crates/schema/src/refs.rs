//! Following references inside one schema document, without ever leaving it.

use std::collections::HashMap;

use serde_json::Value;

use crate::path::unescape_pointer;
use crate::walk::subschemas;

/// The anchors and ids of a schema document, so that its own references can be followed.
#[derive(Debug, Default, Clone)]
pub(crate) struct References {
    /// From `#anchor`, `$id` or the last path part of an `$id` to a JSON Pointer into the document.
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

    /// The schema that `reference` names, if it is in this document.
    pub(crate) fn resolve<'a>(&self, root: &'a Value, reference: &str) -> Option<&'a Value> {
        if reference == "#" {
            return Some(root);
        }
        if let Some(pointer) = reference.strip_prefix("#/") {
            return lookup(root, pointer);
        }
        if let Some(pointer) = self.names.get(reference.trim_end_matches('#')) {
            return root.pointer(pointer);
        }
        let (base, pointer) = reference.split_once("#/")?;
        lookup(root.pointer(self.names.get(base)?)?, pointer)
    }
}

fn lookup<'a>(from: &'a Value, pointer: &str) -> Option<&'a Value> {
    let decoded = percent_decode(pointer);
    decoded.split('/').try_fold(from, |value, token| {
        let token = unescape_pointer(token);
        match value {
            Value::Object(object) => object.get(&token),
            Value::Array(items) => items.get(token.parse::<usize>().ok()?),
            _ => None,
        }
    })
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

/// The keywords that point to another schema, in the order in which they are followed.
pub(crate) const REFERENCE_KEYWORDS: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];
