//! Finds the subschemas of a schema, and the instance that each of them applies to.

use serde_json::{Map, Value};

use crate::path::escape_pointer;

/// The instance that a subschema applies to, relative to its parent's instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AppliesTo {
    /// The same instance: `allOf`, `not`, `if`, …
    Same,
    /// A property, an item or a property name of that instance.
    Child,
    /// No instance, unless a reference leads to it: `$defs`, `definitions`.
    Nothing,
}

/// The form of the subschemas under a keyword.
enum Form {
    One,
    List,
    Map,
    OneOrList,
}

use AppliesTo::{Child, Nothing, Same};
use Form::{List, Map as Named, One, OneOrList};

const KEYWORDS: &[(&str, Form, AppliesTo)] = &[
    ("allOf", List, Same),
    ("anyOf", List, Same),
    ("oneOf", List, Same),
    ("not", One, Same),
    ("if", One, Same),
    ("then", One, Same),
    ("else", One, Same),
    ("dependentSchemas", Named, Same),
    ("dependencies", Named, Same),
    ("properties", Named, Child),
    ("patternProperties", Named, Child),
    ("additionalProperties", One, Child),
    ("unevaluatedProperties", One, Child),
    ("propertyNames", One, Child),
    ("items", OneOrList, Child),
    ("prefixItems", List, Child),
    ("additionalItems", One, Child),
    ("unevaluatedItems", One, Child),
    ("contains", One, Child),
    ("$defs", Named, Nothing),
    ("definitions", Named, Nothing),
];

/// Calls `visit` with the relative JSON Pointer, the schema and the instance of every direct subschema.
pub(crate) fn subschemas<'a>(
    schema: &'a Map<String, Value>,
    mut visit: impl FnMut(String, &'a Value, AppliesTo),
) {
    for (keyword, value) in schema {
        let Some((_, form, applies_to)) = KEYWORDS.iter().find(|(name, ..)| name == keyword) else {
            continue;
        };
        match (form, value) {
            (One | OneOrList, Value::Object(_) | Value::Bool(_)) => {
                visit(format!("/{keyword}"), value, *applies_to)
            }
            (List | OneOrList, Value::Array(items)) => {
                for (index, item) in items.iter().enumerate() {
                    visit(format!("/{keyword}/{index}"), item, *applies_to);
                }
            }
            (Named, Value::Object(members)) => {
                for (name, member) in members {
                    // `dependencies` may also map to lists of names.
                    if !member.is_array() {
                        visit(format!("/{keyword}/{}", escape_pointer(name)), member, *applies_to);
                    }
                }
            }
            _ => {}
        }
    }
}

/// Calls `visit` with every direct subschema, to change it in place.
pub(crate) fn subschemas_mut(schema: &mut Map<String, Value>, mut visit: impl FnMut(&mut Value)) {
    for (keyword, value) in schema {
        let Some((_, form, _)) = KEYWORDS.iter().find(|(name, ..)| name == keyword) else { continue };
        match (form, value) {
            (One | OneOrList, value @ Value::Object(_)) => visit(value),
            (List | OneOrList, Value::Array(items)) => items.iter_mut().for_each(&mut visit),
            (Named, Value::Object(members)) => members.values_mut().for_each(&mut visit),
            _ => {}
        }
    }
}

/// Returns the keywords that contain subschemas, for spelling suggestions.
pub(crate) fn keyword_names() -> impl Iterator<Item = &'static str> {
    KEYWORDS.iter().map(|(name, ..)| *name)
}
