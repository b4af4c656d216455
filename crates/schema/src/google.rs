//! Rewrites schemas in the form of Google's APIs, which write types in upper case, into JSON Schema.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use crate::walk::{subschemas, subschemas_mut};

/// Google's names of types, and those of JSON Schema.
const TYPES: [(&str, &str); 7] = [
    ("OBJECT", "object"),
    ("ARRAY", "array"),
    ("STRING", "string"),
    ("NUMBER", "number"),
    ("INTEGER", "integer"),
    ("BOOLEAN", "boolean"),
    ("NULL", "null"),
];

/// The name of a type that is not stated.
const UNSPECIFIED: &str = "TYPE_UNSPECIFIED";

/// Bounds that Google's JSON writes as strings, because they are 64-bit integers.
const BOUNDS: [&str; 6] =
    ["minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"];

/// Returns the schema in JSON Schema's form: unchanged, unless a type is in upper case.
///
/// In such a document, `nullable` allows null and bounds may be strings, as Google defines them. The caller
/// has checked the depth of the document.
pub(crate) fn standard_form(schema: &Value) -> Cow<'_, Value> {
    if upper_case_type(schema).is_none() {
        return Cow::Borrowed(schema);
    }
    let mut standard = schema.clone();
    rewrite(&mut standard);
    Cow::Owned(standard)
}

/// Returns the first `type` in upper case, in document order.
pub(crate) fn upper_case_type(schema: &Value) -> Option<&Value> {
    let mut pending = vec![schema];
    while let Some(schema) = pending.pop() {
        let Some(keywords) = schema.as_object() else { continue };
        if let Some(stated) = keywords.get("type")
            && stated.as_str().is_some_and(|name| name == UNSPECIFIED || json_type(name).is_some())
        {
            return Some(stated);
        }
        let known = pending.len();
        subschemas(keywords, |_, child, _| pending.push(child));
        pending[known..].reverse();
    }
    None
}

/// Returns JSON Schema's name of one of Google's types.
pub(crate) fn json_type(name: &str) -> Option<&'static str> {
    TYPES.iter().find(|(google, _)| *google == name).map(|(_, known)| *known)
}

fn rewrite(schema: &mut Value) {
    let Value::Object(keywords) = schema else { return };
    match keywords.get("type").and_then(Value::as_str) {
        Some(UNSPECIFIED) => {
            keywords.shift_remove("type");
        }
        Some(name) => {
            if let Some(known) = json_type(name) {
                keywords.insert("type".to_owned(), Value::from(known));
            }
        }
        None => {}
    }
    keywords.shift_remove("propertyOrdering");
    if keywords.shift_remove("nullable") == Some(Value::Bool(true)) {
        allow_null(keywords);
    }
    for name in BOUNDS {
        if let Some(bound) = keywords.get_mut(name)
            && let Some(number) = bound.as_str().and_then(|text| text.parse::<u64>().ok())
        {
            *bound = Value::from(number);
        }
    }
    subschemas_mut(keywords, rewrite);
}

/// Allows null in every keyword that would refuse it.
fn allow_null(keywords: &mut Map<String, Value>) {
    if let Some(stated) = keywords.get_mut("type")
        && stated.is_string()
        && stated != "null"
    {
        *stated = json!([stated.clone(), "null"]);
    }
    if let Some(Value::Array(values)) = keywords.get_mut("enum")
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
    if let Some(Value::Array(branches)) = keywords.get_mut("anyOf") {
        branches.push(json!({"type": "null"}));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upper_case_types_become_json_schema() {
        let google = json!({
            "type": "OBJECT",
            "properties": {
                "type": {"type": "STRING", "enum": ["A", "B"], "nullable": true},
                "sizes": {"type": "ARRAY", "minItems": "1", "items": {"type": "INTEGER", "format": "int32"}},
                "any": {"type": "TYPE_UNSPECIFIED"},
            },
            "propertyOrdering": ["type", "sizes"],
        });
        let standard = json!({
            "type": "object",
            "properties": {
                "type": {"type": ["string", "null"], "enum": ["A", "B", null]},
                "sizes": {"type": "array", "minItems": 1, "items": {"type": "integer", "format": "int32"}},
                "any": {},
            },
        });
        assert_eq!(*standard_form(&google), standard);
    }

    #[test]
    fn standard_schema_is_not_copied() {
        let schema =
            json!({"type": "object", "properties": {"OBJECT": {"const": "OBJECT"}}, "nullable": true});
        assert!(matches!(standard_form(&schema), Cow::Borrowed(_)));
    }
}
