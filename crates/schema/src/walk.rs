//! Where a schema holds other schemas, and what instance each of them applies to.

use serde_json::{Map, Value};

use crate::path::escape_pointer;

/// What a subschema applies to, seen from the instance its parent applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AppliesTo {
    /// The same instance: `allOf`, `not`, `if`, …
    Here,
    /// A property, an item or a property name of the instance.
    Inside,
    /// Nothing by itself: `$defs`, `definitions`.
    Shelf,
}

enum Holds {
    One,
    List,
    Map,
    OneOrList,
}

use AppliesTo::{Here, Inside, Shelf};
use Holds::{List, Map as Named, One, OneOrList};

const KEYWORDS: &[(&str, Holds, AppliesTo)] = &[
    ("allOf", List, Here),
    ("anyOf", List, Here),
    ("oneOf", List, Here),
    ("not", One, Here),
    ("if", One, Here),
    ("then", One, Here),
    ("else", One, Here),
    ("dependentSchemas", Named, Here),
    ("dependencies", Named, Here),
    ("properties", Named, Inside),
    ("patternProperties", Named, Inside),
    ("additionalProperties", One, Inside),
    ("unevaluatedProperties", One, Inside),
    ("propertyNames", One, Inside),
    ("items", OneOrList, Inside),
    ("prefixItems", List, Inside),
    ("additionalItems", One, Inside),
    ("unevaluatedItems", One, Inside),
    ("contains", One, Inside),
    ("$defs", Named, Shelf),
    ("definitions", Named, Shelf),
];

/// Calls `visit` with the relative JSON Pointer, the value and the place of every direct subschema.
pub(crate) fn subschemas<'a>(
    schema: &'a Map<String, Value>,
    mut visit: impl FnMut(String, &'a Value, AppliesTo),
) {
    for (keyword, value) in schema {
        let Some((_, holds, place)) = KEYWORDS.iter().find(|(name, ..)| name == keyword) else { continue };
        match (holds, value) {
            (One | OneOrList, Value::Object(_) | Value::Bool(_)) => {
                visit(format!("/{keyword}"), value, *place)
            }
            (List | OneOrList, Value::Array(items)) => {
                for (index, item) in items.iter().enumerate() {
                    visit(format!("/{keyword}/{index}"), item, *place);
                }
            }
            (Named, Value::Object(members)) => {
                for (name, member) in members {
                    // `dependencies` may hold plain lists of names.
                    if !member.is_array() {
                        visit(format!("/{keyword}/{}", escape_pointer(name)), member, *place);
                    }
                }
            }
            _ => {}
        }
    }
}

/// The same walk over a schema that is to be changed in place.
pub(crate) fn subschemas_mut(schema: &mut Map<String, Value>, mut visit: impl FnMut(&mut Value)) {
    for (keyword, value) in schema {
        let Some((_, holds, _)) = KEYWORDS.iter().find(|(name, ..)| name == keyword) else { continue };
        match (holds, value) {
            (One | OneOrList, value @ Value::Object(_)) => visit(value),
            (List | OneOrList, Value::Array(items)) => items.iter_mut().for_each(&mut visit),
            (Named, Value::Object(members)) => members.values_mut().for_each(&mut visit),
            _ => {}
        }
    }
}

/// The names of the keywords that hold subschemas, for spelling suggestions.
pub(crate) fn keyword_names() -> impl Iterator<Item = &'static str> {
    KEYWORDS.iter().map(|(name, ..)| *name)
}
