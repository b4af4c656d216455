//! Checks quickly whether a listed value satisfies a schema. Undecided cases count as satisfied.

use std::cell::Cell;

use serde_json::{Value, json};
use slipform_schema::{NormalizedSchema, Schema};

use super::pattern;
use super::schema_part::{EXCEPT, INDIVISIBLE, UNLIKE, count, is_whole, same, type_name};

/// The deepest nesting of schemas that is checked. Deeper ones count as satisfied; validation decides later.
const DEPTH_MAX: usize = 24;

/// The most schemas that are checked for one value. Beyond it, the rest count as satisfied.
const WORK_MAX: usize = 10_000;

/// Returns whether `value` satisfies a normalized schema.
pub(super) fn satisfies(normalized: &NormalizedSchema, schema: &Value, value: &Value) -> bool {
    WORK.set(0);
    check(normalized, schema, value, 0)
}

thread_local! {
    /// The number of schemas checked for the current value.
    static WORK: Cell<usize> = const { Cell::new(0) };
}

fn check(normalized: &NormalizedSchema, schema: &Value, value: &Value, depth: usize) -> bool {
    WORK.set(WORK.get() + 1);
    if depth > DEPTH_MAX || WORK.get() > WORK_MAX {
        return true;
    }
    let Value::Object(keywords) = schema else { return schema != &Value::Bool(false) };
    keywords.iter().all(|(keyword, stated)| {
        let inner = |schema: &Value| check(normalized, schema, value, depth + 1);
        let list = |count: &dyn Fn(usize, usize) -> bool| {
            stated
                .as_array()
                .is_none_or(|list| count(list.iter().filter(|schema| inner(schema)).count(), list.len()))
        };
        match keyword.as_str() {
            "$ref" => stated.as_str().and_then(|target| normalized.targets.get(target)).is_none_or(inner),
            "allOf" => list(&|passed, all| passed == all),
            "anyOf" => list(&|passed, _| passed > 0),
            "oneOf" => list(&|passed, _| passed == 1),
            "not" => !inner(stated),
            "if" => {
                let branch = if inner(stated) { "then" } else { "else" };
                keywords.get(branch).is_none_or(inner)
            }
            "const" => same(stated, value),
            "enum" => stated.as_array().is_none_or(|list| list.iter().any(|listed| same(listed, value))),
            EXCEPT => stated.as_array().is_none_or(|list| !list.iter().any(|listed| same(listed, value))),
            "type" => has_type(stated, value),
            _ => match value {
                Value::String(text) => string_satisfies(keyword, stated, text),
                Value::Number(number) => {
                    number.as_f64().is_none_or(|number| number_satisfies(keyword, stated, number))
                }
                Value::Array(items) => array_satisfies(normalized, keywords, keyword, stated, items, depth),
                Value::Object(members) => {
                    object_satisfies(normalized, keywords, keyword, stated, members, depth)
                }
                _ => true,
            },
        }
    })
}

/// Returns whether a value has one of the types in `type`.
pub(super) fn has_type(stated: &Value, value: &Value) -> bool {
    let is = |name: &Value| match name.as_str() {
        Some("integer") => value.is_number() && is_whole(value),
        Some(name) => name == type_name(value),
        None => true,
    };
    stated.as_array().map_or_else(|| is(stated), |names| names.iter().any(is))
}

fn string_satisfies(keyword: &str, stated: &Value, text: &str) -> bool {
    let length = || text.chars().count();
    let quoted = || Value::from(text).to_string();
    let matches = |pattern: &str| pattern::compile_exact(pattern).is_none_or(|rx| rx.matches(&quoted()));
    match keyword {
        "minLength" => count(stated).is_none_or(|least| length() >= least),
        "maxLength" => count(stated).is_none_or(|most| length() <= most),
        "pattern" => stated.as_str().is_none_or(matches),
        UNLIKE => stated.as_str().is_none_or(|pattern| !matches(pattern)),
        "format" => {
            let format = Schema::compile(&json!({"format": stated}));
            format.is_ok_and(|format| format.is_valid(&Value::from(text)))
        }
        _ => true,
    }
}

fn number_satisfies(keyword: &str, stated: &Value, number: f64) -> bool {
    let Some(stated) = stated.as_f64() else { return true };
    match keyword {
        "minimum" => number >= stated,
        "maximum" => number <= stated,
        "exclusiveMinimum" => number > stated,
        "exclusiveMaximum" => number < stated,
        "multipleOf" => (number / stated - (number / stated).round()).abs() < 1e-9,
        INDIVISIBLE => (number / stated - (number / stated).round()).abs() >= 1e-9,
        _ => true,
    }
}

type Keywords = serde_json::Map<String, Value>;

fn array_satisfies(
    normalized: &NormalizedSchema,
    keywords: &Keywords,
    keyword: &str,
    stated: &Value,
    items: &[Value],
    depth: usize,
) -> bool {
    let prefix = keywords.get("prefixItems").and_then(Value::as_array);
    match keyword {
        "minItems" => count(stated).is_none_or(|least| items.len() >= least),
        "maxItems" => count(stated).is_none_or(|most| items.len() <= most),
        "items" => items
            .iter()
            .skip(prefix.map_or(0, Vec::len))
            .all(|item| check(normalized, stated, item, depth + 1)),
        "prefixItems" => prefix.is_none_or(|prefix| {
            prefix.iter().zip(items).all(|(schema, item)| check(normalized, schema, item, depth + 1))
        }),
        "contains" => items.iter().any(|item| check(normalized, stated, item, depth + 1)),
        _ => true,
    }
}

fn object_satisfies(
    normalized: &NormalizedSchema,
    keywords: &Keywords,
    keyword: &str,
    stated: &Value,
    members: &Keywords,
    depth: usize,
) -> bool {
    let listed = |name: &str| keywords.get("properties").and_then(|listed| listed.get(name)).is_some();
    match keyword {
        "minProperties" => count(stated).is_none_or(|least| members.len() >= least),
        "maxProperties" => count(stated).is_none_or(|most| members.len() <= most),
        "required" => stated.as_array().is_none_or(|names| {
            names.iter().filter_map(Value::as_str).all(|name| members.contains_key(name))
        }),
        "properties" => stated.as_object().is_none_or(|properties| {
            properties.iter().all(|(name, schema)| {
                members.get(name).is_none_or(|member| check(normalized, schema, member, depth + 1))
            })
        }),
        "additionalProperties" => members
            .iter()
            .filter(|(name, _)| !listed(name) && !covers(keywords, name))
            .all(|(_, member)| check(normalized, stated, member, depth + 1)),
        "patternProperties" => stated.as_object().is_none_or(|patterns| {
            patterns.iter().all(|(text, schema)| {
                let mut matched = members
                    .iter()
                    .filter(|(name, _)| string_satisfies("pattern", &Value::from(text.as_str()), name));
                matched.all(|(_, member)| check(normalized, schema, member, depth + 1))
            })
        }),
        "propertyNames" => {
            members.keys().all(|name| check(normalized, stated, &Value::from(name.as_str()), depth + 1))
        }
        "dependentRequired" => stated.as_object().is_none_or(|dependencies| {
            let met = |names: &Value| {
                names.as_array().is_none_or(|names| {
                    names.iter().filter_map(Value::as_str).all(|name| members.contains_key(name))
                })
            };
            dependencies.iter().all(|(name, names)| !members.contains_key(name) || met(names))
        }),
        "dependentSchemas" => stated.as_object().is_none_or(|dependencies| {
            let whole = Value::Object(members.clone());
            dependencies.iter().all(|(name, schema)| {
                !members.contains_key(name) || check(normalized, schema, &whole, depth + 1)
            })
        }),
        _ => true,
    }
}

/// Returns whether a pattern of `patternProperties` matches a name.
fn covers(keywords: &Keywords, name: &str) -> bool {
    let patterns = keywords.get("patternProperties").and_then(Value::as_object);
    patterns.is_some_and(|patterns| {
        patterns.keys().any(|text| string_satisfies("pattern", &Value::from(text.as_str()), name))
    })
}
