//! Finds the draft that a schema without `$schema` is written in.
//!
//! A draft ignores the keywords that it does not have, so a schema that is read in the wrong one enforces less than it
//! says.

use serde_json::{Map, Value};

use crate::Error;
use crate::limits::{check_depth, locate};
use crate::walk::subschemas;

/// The drafts that have a keyword, as a set of bits.
type Drafts = u8;

const DRAFT_7: Drafts = 1;
const DRAFT_2019: Drafts = 2;
const DRAFT_2020: Drafts = 4;

/// The keywords that not all drafts have.
const KEYWORDS: [(&str, Drafts); 14] = [
    ("prefixItems", DRAFT_2020),
    ("$dynamicRef", DRAFT_2020),
    ("$dynamicAnchor", DRAFT_2020),
    ("$recursiveRef", DRAFT_2019),
    ("$recursiveAnchor", DRAFT_2019),
    ("$anchor", DRAFT_2019 | DRAFT_2020),
    ("dependentRequired", DRAFT_2019 | DRAFT_2020),
    ("dependentSchemas", DRAFT_2019 | DRAFT_2020),
    ("unevaluatedProperties", DRAFT_2019 | DRAFT_2020),
    ("unevaluatedItems", DRAFT_2019 | DRAFT_2020),
    ("minContains", DRAFT_2019 | DRAFT_2020),
    ("maxContains", DRAFT_2019 | DRAFT_2020),
    ("additionalItems", DRAFT_7 | DRAFT_2019),
    ("dependencies", DRAFT_7),
];

/// Keywords that constrain nothing. Draft 7 ignores all others beside a `$ref`.
const ANNOTATIONS: [&str; 12] = [
    "$ref",
    "$id",
    "$comment",
    "$defs",
    "definitions",
    "title",
    "description",
    "default",
    "examples",
    "readOnly",
    "writeOnly",
    "deprecated",
];

/// Declares the draft of a schema that names none and that draft 7 would not enforce in full: draft 2020-12 or, for its older
/// forms, 2019-09. Other schemas are unchanged.
///
/// ```
/// use slipform_schema::declare_draft;
/// use serde_json::json;
///
/// let mut pair = json!({"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}]});
/// declare_draft(&mut pair)?;
/// assert_eq!(pair["$schema"], "https://json-schema.org/draft/2020-12/schema");
/// # Ok::<(), slipform_schema::Error>(())
/// ```
///
/// # Errors
/// Names two keywords that no draft has together.
pub fn declare_draft(schema: &mut Value) -> Result<(), Error> {
    check_depth(schema)?;
    if !schema.is_object() || schema.get("$schema").is_some() {
        return Ok(());
    }
    let drafts = drafts_of(schema)?;
    let uri = if drafts & DRAFT_7 != 0 {
        return Ok(());
    } else if drafts & DRAFT_2020 != 0 {
        "https://json-schema.org/draft/2020-12/schema"
    } else {
        "https://json-schema.org/draft/2019-09/schema"
    };
    schema["$schema"] = Value::from(uri);
    Ok(())
}

/// Returns the drafts that enforce every keyword of a document.
fn drafts_of(root: &Value) -> Result<Drafts, Error> {
    let (mut drafts, mut narrowed_by) = (DRAFT_7 | DRAFT_2019 | DRAFT_2020, "");
    let mut pending = vec![root];
    while let Some(schema) = pending.pop() {
        let Some(keywords) = schema.as_object() else { continue };
        for keyword in keywords.keys() {
            let of_keyword = drafts_of_keyword(keywords, keyword);
            if drafts & of_keyword == 0 {
                let message = format!(
                    "no draft of JSON Schema has both '{keyword}' and '{narrowed_by}'; use one draft and name it in \"$schema\""
                );
                return Err(Error::Invalid { path: locate(root, schema), message });
            }
            if drafts & of_keyword != drafts {
                narrowed_by = keyword;
                drafts &= of_keyword;
            }
        }
        subschemas(keywords, |_, child, _| pending.push(child));
    }
    Ok(drafts)
}

fn drafts_of_keyword(schema: &Map<String, Value>, keyword: &str) -> Drafts {
    match keyword {
        "items" if schema["items"].is_array() => DRAFT_7 | DRAFT_2019,
        "$id" if schema["$id"].as_str().is_some_and(|id| id.starts_with('#')) => DRAFT_7,
        "$ref" if schema.keys().any(|name| !ANNOTATIONS.contains(&name.as_str())) => DRAFT_2019 | DRAFT_2020,
        _ => KEYWORDS
            .iter()
            .find(|(name, _)| *name == keyword)
            .map_or(DRAFT_7 | DRAFT_2019 | DRAFT_2020, |(_, drafts)| *drafts),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn declared(mut schema: Value) -> Value {
        declare_draft(&mut schema).unwrap();
        schema["$schema"].take()
    }

    #[test]
    fn schema_that_all_drafts_read_alike_is_unchanged() {
        for schema in [
            json!({"type": "object", "properties": {"prefixItems": {"type": "string"}}}),
            json!({"$ref": "#/$defs/a", "description": "A.", "$defs": {"a": {"type": "string"}}}),
            json!({"items": [{"type": "string"}], "additionalItems": false}),
            json!({"dependencies": {"a": ["b"]}}),
        ] {
            assert_eq!(declared(schema.clone()), Value::Null, "{schema}");
        }
        let named = "http://json-schema.org/draft-07/schema#";
        assert_eq!(declared(json!({"$schema": named, "prefixItems": []})), named);
    }

    #[test]
    fn newer_keywords_declare_their_draft() {
        for (schema, draft) in [
            (json!({"properties": {"pair": {"prefixItems": [{}]}}}), "2020-12"),
            (json!({"dependentRequired": {"a": ["b"]}}), "2020-12"),
            (json!({"allOf": [{"$ref": "#/$defs/a", "minLength": 1}], "$defs": {"a": {}}}), "2020-12"),
            (json!({"items": [{}], "minContains": 2, "contains": {}}), "2019-09"),
        ] {
            let uri = format!("https://json-schema.org/draft/{draft}/schema");
            assert_eq!(declared(schema.clone()), Value::from(uri), "{schema}");
        }
    }

    #[test]
    fn keywords_of_different_drafts_are_refused_with_their_place() {
        let mut schema = json!({"properties": {"a": {"prefixItems": [{}]}, "b": {"dependencies": {}}}});
        let error = declare_draft(&mut schema).unwrap_err().to_string();
        assert!(error.starts_with("$.properties.") && error.contains("'dependencies'"), "{error}");
        assert!(error.contains("'prefixItems'") && error.contains("$schema"), "{error}");
    }
}
