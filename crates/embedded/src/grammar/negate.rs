//! The opposite of a schema, as schemas that say something positive.

use serde_json::{Map, Value, json};
use slipform_schema::NormalizedSchema;

use super::pattern;
use super::rx::Rx;
use super::schema_part::{EXCEPT, INDIVISIBLE, TYPES, UNLIKE};

/// How many references in a row are followed.
const REFERENCES_MAX: usize = 8;

/// The most opposites of one schema that are told.
const OPPOSITES_MAX: usize = 16;

/// What does not satisfy a schema.
#[derive(Debug, Default)]
pub(super) struct Opposites {
    /// Schemas of which each admits only values that do not satisfy the schema. What costs an answer least
    /// comes first.
    pub(super) ways: Vec<Value>,
    /// Whether there are values beside these that do not satisfy it either.
    pub(super) more: bool,
}

/// The opposites of `schema`.
pub(super) fn opposites(plain: &NormalizedSchema, schema: &Value) -> Opposites {
    let mut schema = schema;
    for _ in 0..REFERENCES_MAX {
        let Some(target) = schema.get("$ref").and_then(Value::as_str) else { break };
        if schema.as_object().is_some_and(|keywords| keywords.len() > 1) {
            break;
        }
        match plain.targets.get(target) {
            Some(found) => schema = found,
            None => return Opposites { ways: Vec::new(), more: true },
        }
    }
    match schema {
        Value::Bool(false) => Opposites { ways: vec![Value::Bool(true)], more: false },
        Value::Object(keywords) => {
            let mut found = Found { keywords, ranked: Vec::new(), more: false };
            for (keyword, stated) in keywords {
                found.keyword(keyword, stated);
            }
            found.finish()
        }
        _ => Opposites::default(),
    }
}

struct Found<'s> {
    keywords: &'s Map<String, Value>,
    ranked: Vec<(u8, Value)>,
    more: bool,
}

impl Found<'_> {
    fn finish(mut self) -> Opposites {
        self.ranked.sort_by_key(|(rank, _)| *rank);
        let more = self.more || self.ranked.len() > OPPOSITES_MAX;
        self.ranked.truncate(OPPOSITES_MAX);
        Opposites { ways: self.ranked.into_iter().map(|(_, schema)| schema).collect(), more }
    }

    fn add(&mut self, rank: u8, schema: Value) {
        self.ranked.push((rank, schema));
    }

    fn keyword(&mut self, keyword: &str, stated: &Value) {
        match keyword {
            "type" => {
                let others = other_types(stated);
                if !others.is_empty() {
                    self.add(2, json!({"type": others}));
                }
                self.more |= stated == "integer";
            }
            "const" => self.add(0, json!({EXCEPT: [stated]})),
            "enum" => self.add(0, json!({EXCEPT: stated})),
            "properties"
            | "required"
            | "patternProperties"
            | "propertyNames"
            | "additionalProperties"
            | "dependentRequired"
            | "dependentSchemas"
            | "minProperties"
            | "maxProperties" => {
                self.object(keyword, stated);
            }
            "items" | "prefixItems" | "contains" | "minItems" | "maxItems" => self.array(keyword, stated),
            "not" | "anyOf" | "oneOf" | "allOf" | "$ref" | "if" => self.composed(keyword, stated),
            "then" | "else" => {}
            _ => self.scalar(keyword, stated),
        }
    }

    fn scalar(&mut self, keyword: &str, stated: &Value) {
        match keyword {
            "pattern" => self.add(1, json!({"type": "string", UNLIKE: stated})),
            "minLength" | "maxLength" => self.counted(keyword, stated),
            "minimum" => self.add(1, json!({"type": "number", "exclusiveMaximum": stated})),
            "maximum" => self.add(1, json!({"type": "number", "exclusiveMinimum": stated})),
            "exclusiveMinimum" => self.add(1, json!({"type": "number", "maximum": stated})),
            "exclusiveMaximum" => self.add(1, json!({"type": "number", "minimum": stated})),
            "multipleOf" => self.add(1, json!({"type": "number", INDIVISIBLE: stated})),
            EXCEPT => self.add(0, json!({"enum": stated})),
            UNLIKE => self.add(1, json!({"pattern": stated})),
            INDIVISIBLE => self.add(1, json!({"multipleOf": stated})),
            _ => self.more = true,
        }
    }

    fn object(&mut self, keyword: &str, stated: &Value) {
        let present = |name: &str, schema: Value| json!({"type": "object", "required": [name], "properties": {name: schema}});
        match keyword {
            "properties" => {
                for (name, schema) in stated.as_object().into_iter().flatten() {
                    let discriminates = schema.get("const").is_some() || schema.get("enum").is_some();
                    self.add(if discriminates { 0 } else { 4 }, present(name, json!({"not": schema})));
                }
            }
            "required" => {
                for name in stated.as_array().into_iter().flatten().filter_map(Value::as_str) {
                    self.add(3, json!({"type": "object", "properties": {name: false}}));
                }
            }
            "patternProperties" => {
                self.more = true;
                for (text, schema) in stated.as_object().into_iter().flatten() {
                    let name =
                        pattern::searched(text).and_then(|rx| rx.example()).and_then(|text| unquoted(&text));
                    if let Some(name) = name {
                        self.add(4, present(&name, json!({"not": schema})));
                    }
                }
            }
            "additionalProperties" => {
                self.more = true;
                if let Some(name) = self.unlisted_name() {
                    self.add(4, present(&name, json!({"not": stated})));
                }
            }
            "propertyNames" => {
                self.more = true;
                let names = match stated.pointer("/not/pattern").or_else(|| stated.pointer("/not/const")) {
                    Some(wanted) if stated.pointer("/not/const").is_some() => {
                        wanted.as_str().map(str::to_owned)
                    }
                    Some(wanted) => wanted
                        .as_str()
                        .and_then(pattern::searched)
                        .and_then(|rx| rx.example())
                        .and_then(|text| unquoted(&text)),
                    None => stated
                        .pointer("/not/enum/0")
                        .and_then(Value::as_str)
                        .map(str::to_owned)
                        .or_else(|| excluded_name(stated)),
                };
                if let Some(name) = names {
                    self.add(4, json!({"type": "object", "required": [name]}));
                }
            }
            "dependentRequired" => {
                for (name, demanded) in stated.as_object().into_iter().flatten() {
                    for other in demanded.as_array().into_iter().flatten().filter_map(Value::as_str) {
                        self.add(
                            3,
                            json!({"type": "object", "required": [name], "properties": {other: false}}),
                        );
                    }
                }
            }
            "dependentSchemas" => {
                for (name, schema) in stated.as_object().into_iter().flatten() {
                    self.add(3, json!({"type": "object", "required": [name], "not": schema}));
                }
            }
            _ => self.counted(keyword, stated),
        }
    }

    /// A name that neither `properties` nor `patternProperties` of the schema covers.
    fn unlisted_name(&self) -> Option<String> {
        let listed =
            |name: &str| self.keywords.get("properties").and_then(|listed| listed.get(name)).is_some();
        let patterns = self.keywords.get("patternProperties").and_then(Value::as_object);
        let matched = |name: &str| {
            let quoted = Value::from(name).to_string();
            patterns.is_some_and(|patterns| {
                patterns.keys().any(|text| pattern::searched(text).is_none_or(|rx| rx.matches(&quoted)))
            })
        };
        let names = ["extra", "other", "more", "x", "note", "Z", "0", "_"];
        names.iter().find(|name| !listed(name) && !matched(name)).map(|name| (*name).to_owned())
    }

    fn array(&mut self, keyword: &str, stated: &Value) {
        match keyword {
            "items" if !self.keywords.contains_key("prefixItems") => {
                self.add(4, json!({"type": "array", "contains": {"not": stated}}));
            }
            "items" => self.more = true,
            "prefixItems" => {
                for (index, schema) in stated.as_array().into_iter().flatten().enumerate() {
                    let mut prefix = vec![json!({}); index];
                    prefix.push(json!({"not": schema}));
                    self.add(4, json!({"type": "array", "minItems": index + 1, "prefixItems": prefix}));
                }
            }
            "contains" => self.add(4, json!({"type": "array", "items": {"not": stated}})),
            _ => self.counted(keyword, stated),
        }
    }

    fn composed(&mut self, keyword: &str, stated: &Value) {
        let branches = stated.as_array().cloned().unwrap_or_default();
        match keyword {
            "not" => self.add(1, stated.clone()),
            "anyOf" | "oneOf" => {
                let none: Vec<Value> = branches.iter().map(|branch| json!({"not": branch})).collect();
                self.add(3, json!({"allOf": none}));
                if keyword == "oneOf" {
                    self.more |= branches.len() > 2;
                    for pair in branches.windows(2) {
                        self.add(4, json!({"allOf": pair}));
                    }
                }
            }
            "allOf" => {
                for branch in branches {
                    self.add(3, json!({"not": branch}));
                }
            }
            "if" => {
                for (branch, condition) in [("then", stated.clone()), ("else", json!({"not": stated}))] {
                    if let Some(schema) = self.keywords.get(branch).cloned() {
                        self.add(4, json!({"allOf": [condition, {"not": schema}]}));
                    }
                }
            }
            _ => self.add(3, json!({"not": {"$ref": stated}})),
        }
    }

    fn counted(&mut self, keyword: &str, stated: &Value) {
        let number = stated.as_f64().unwrap_or(0.0);
        let (kind, other) = match keyword {
            "minLength" => ("string", "maxLength"),
            "maxLength" => ("string", "minLength"),
            "minItems" => ("array", "maxItems"),
            "maxItems" => ("array", "minItems"),
            "minProperties" => ("object", "maxProperties"),
            _ => ("object", "minProperties"),
        };
        if keyword.starts_with("max") {
            self.add(1, json!({"type": kind, other: (number as u64).saturating_add(1)}));
        } else if number >= 1.0 {
            self.add(1, json!({"type": kind, other: number as u64 - 1}));
        }
    }
}

/// A name that a schema of names refuses.
fn excluded_name(names: &Value) -> Option<String> {
    if names == &Value::Bool(false) {
        return Some("x".to_owned());
    }
    let rx = pattern::searched(names.get("pattern")?.as_str()?)?;
    let other = Rx::Regex("\"[A-Za-z0-9_]{1,12}\"".to_owned()).without(rx).example()?;
    unquoted(&other)
}

fn unquoted(text: &str) -> Option<String> {
    serde_json::from_str(text).ok()
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
