//! The opposite of a schema, as schemas that say something positive.

use formwork_schema::Plain;
use serde_json::{Map, Value, json};

use super::part::{EXCEPT, TYPES, UNLIKE};

/// How many references in a row are followed.
const REFERENCES_MAX: usize = 8;

/// Schemas of which each admits only values that do not satisfy `schema`. What costs an answer least comes
/// first. There may be values that satisfy neither; where the list is empty, nothing could be said.
pub(super) fn opposites(plain: &Plain, schema: &Value) -> Vec<Value> {
    let mut schema = schema;
    for _ in 0..REFERENCES_MAX {
        let Some(target) = schema.get("$ref").and_then(Value::as_str) else { break };
        if schema.as_object().is_some_and(|keywords| keywords.len() > 1) {
            break;
        }
        match plain.targets.get(target) {
            Some(found) => schema = found,
            None => return Vec::new(),
        }
    }
    match schema {
        Value::Bool(false) => vec![Value::Bool(true)],
        Value::Object(keywords) => {
            let mut ranked: Vec<(u8, Value)> = Vec::new();
            for (keyword, stated) in keywords {
                opposites_of(keywords, keyword, stated, &mut ranked);
            }
            ranked.sort_by_key(|(rank, _)| *rank);
            ranked.into_iter().map(|(_, schema)| schema).collect()
        }
        _ => Vec::new(),
    }
}

fn opposites_of(keywords: &Map<String, Value>, keyword: &str, stated: &Value, ranked: &mut Vec<(u8, Value)>) {
    let mut add = |rank: u8, schema: Value| ranked.push((rank, schema));
    let members = || stated.as_object().into_iter().flatten();
    let list = || stated.as_array().into_iter().flatten();
    let number = stated.as_f64();
    match keyword {
        "type" => {
            let others = other_types(stated);
            if !others.is_empty() {
                add(2, json!({"type": others}));
            }
        }
        "const" => add(0, json!({EXCEPT: [stated]})),
        "enum" => add(0, json!({EXCEPT: stated})),
        "properties" => {
            for (name, schema) in members() {
                let opposite = json!({"type": "object", "required": [name], "properties": {name: {"not": schema}}});
                let discriminates = schema.get("const").is_some() || schema.get("enum").is_some();
                add(if discriminates { 0 } else { 4 }, opposite);
            }
        }
        "required" => {
            for name in list().filter_map(Value::as_str) {
                add(3, json!({"type": "object", "properties": {name: false}}));
            }
        }
        "pattern" => add(1, json!({"type": "string", UNLIKE: stated})),
        "minimum" => add(1, json!({"type": "number", "exclusiveMaximum": stated})),
        "maximum" => add(1, json!({"type": "number", "exclusiveMinimum": stated})),
        "exclusiveMinimum" => add(1, json!({"type": "number", "maximum": stated})),
        "exclusiveMaximum" => add(1, json!({"type": "number", "minimum": stated})),
        "minLength" | "minItems" | "minProperties" => {
            let (kind, most) = counted(keyword);
            add(1, json!({"type": kind, most: number.map_or(0, |number| (number - 1.0).max(0.0) as u64)}));
        }
        "maxLength" | "maxItems" | "maxProperties" => {
            let (kind, least) = counted(keyword);
            add(1, json!({"type": kind, least: number.map_or(0, |number| number as u64 + 1)}));
        }
        "items" if !keywords.contains_key("prefixItems") => {
            add(4, json!({"type": "array", "contains": {"not": stated}}));
        }
        "contains" => add(4, json!({"type": "array", "items": {"not": stated}})),
        "not" => add(1, stated.clone()),
        "anyOf" | "oneOf" => {
            let none: Vec<Value> = list().map(|branch| json!({"not": branch})).collect();
            add(3, json!({"allOf": none}));
        }
        "allOf" => {
            for branch in list() {
                add(3, json!({"not": branch}));
            }
        }
        "$ref" => add(3, json!({"not": {"$ref": stated}})),
        _ => {}
    }
}

/// The type that a counting keyword is about, and the keyword for the other end.
fn counted(keyword: &str) -> (&'static str, &'static str) {
    match keyword {
        "minLength" => ("string", "maxLength"),
        "maxLength" => ("string", "minLength"),
        "minItems" => ("array", "maxItems"),
        "maxItems" => ("array", "minItems"),
        "minProperties" => ("object", "maxProperties"),
        _ => ("object", "minProperties"),
    }
}

/// The types that `type` does not state.
fn other_types(stated: &Value) -> Vec<&'static str> {
    let names: Vec<&str> = match stated {
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        single => single.as_str().into_iter().collect(),
    };
    // A number that is not an integer could not be told from one in the grammar.
    let states = |name: &&str| names.contains(name) || (*name == "number" && names.contains(&"integer"));
    TYPES.into_iter().filter(|name| !states(name)).collect()
}
