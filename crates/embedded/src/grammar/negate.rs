//! Negates a schema without `not`: as a list of schemas that a grammar can express.

use serde_json::{Map, Value, json};
use slipform_schema::NormalizedSchema;

use super::pattern;
use super::rx::Rx;
use super::schema_part::{EXCEPT, INDIVISIBLE, TYPES, UNLIKE};

/// The longest chain of references that is followed.
const REFERENCES_MAX: usize = 8;

/// The most alternatives of one negation.
const ALTERNATIVES_MAX: usize = 16;

/// The negation of a schema.
#[derive(Debug, Default)]
pub(super) struct Negation {
    /// Schemas whose values all violate the negated schema. Those that restrict an answer least come first.
    pub(super) alternatives: Vec<Value>,
    /// Whether other values violate the negated schema too.
    pub(super) is_partial: bool,
}

/// Negates `schema`.
pub(super) fn negate(normalized: &NormalizedSchema, schema: &Value) -> Negation {
    let mut schema = schema;
    for _ in 0..REFERENCES_MAX {
        let Some(target) = schema.get("$ref").and_then(Value::as_str) else { break };
        if schema.as_object().is_some_and(|keywords| keywords.len() > 1) {
            break;
        }
        match normalized.targets.get(target) {
            Some(found) => schema = found,
            None => return Negation { alternatives: Vec::new(), is_partial: true },
        }
    }
    match schema {
        Value::Bool(false) => Negation { alternatives: vec![Value::Bool(true)], is_partial: false },
        Value::Object(keywords) => {
            let mut found = NegationBuilder { keywords, ranked: Vec::new(), is_partial: false };
            for (keyword, stated) in keywords {
                found.keyword(keyword, stated);
            }
            found.finish()
        }
        _ => Negation::default(),
    }
}

/// Collects the alternatives of a negation, keyword by keyword.
struct NegationBuilder<'s> {
    keywords: &'s Map<String, Value>,
    /// The alternatives with their rank; 0 restricts an answer least.
    ranked: Vec<(u8, Value)>,
    is_partial: bool,
}

impl NegationBuilder<'_> {
    fn finish(mut self) -> Negation {
        self.ranked.sort_by_key(|(rank, _)| *rank);
        let is_partial = self.is_partial || self.ranked.len() > ALTERNATIVES_MAX;
        self.ranked.truncate(ALTERNATIVES_MAX);
        Negation { alternatives: self.ranked.into_iter().map(|(_, schema)| schema).collect(), is_partial }
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
                self.is_partial |= stated == "integer";
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
            _ => self.is_partial = true,
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
                self.is_partial = true;
                for (text, schema) in stated.as_object().into_iter().flatten() {
                    let name = pattern::compile_exact(text)
                        .and_then(|rx| rx.example())
                        .and_then(|text| unquoted(&text));
                    if let Some(name) = name {
                        self.add(4, present(&name, json!({"not": schema})));
                    }
                }
            }
            "additionalProperties" => {
                self.is_partial = true;
                if let Some(name) = self.unlisted_name() {
                    self.add(4, present(&name, json!({"not": stated})));
                }
            }
            "propertyNames" => {
                self.is_partial = true;
                let names = match stated.pointer("/not/pattern").or_else(|| stated.pointer("/not/const")) {
                    Some(wanted) if stated.pointer("/not/const").is_some() => {
                        wanted.as_str().map(str::to_owned)
                    }
                    Some(wanted) => wanted
                        .as_str()
                        .and_then(pattern::compile_exact)
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

    /// Returns a name that neither `properties` nor `patternProperties` covers.
    fn unlisted_name(&self) -> Option<String> {
        let listed =
            |name: &str| self.keywords.get("properties").and_then(|listed| listed.get(name)).is_some();
        let patterns = self.keywords.get("patternProperties").and_then(Value::as_object);
        let matched = |name: &str| {
            let quoted = Value::from(name).to_string();
            patterns.is_some_and(|patterns| {
                patterns.keys().any(|text| pattern::compile_exact(text).is_none_or(|rx| rx.matches(&quoted)))
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
            "items" => self.is_partial = true,
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
                    self.is_partial |= branches.len() > 2;
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

/// Returns a name that violates a `propertyNames` schema.
fn excluded_name(names: &Value) -> Option<String> {
    if names == &Value::Bool(false) {
        return Some("x".to_owned());
    }
    let rx = pattern::compile_exact(names.get("pattern")?.as_str()?)?;
    let other = Rx::Regex("\"[A-Za-z0-9_]{1,12}\"".to_owned()).without(rx).example()?;
    unquoted(&other)
}

fn unquoted(text: &str) -> Option<String> {
    serde_json::from_str(text).ok()
}

/// Returns the types that are not in `type`.
fn other_types(stated: &Value) -> Vec<&'static str> {
    let names: Vec<&str> = match stated {
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        single => single.as_str().into_iter().collect(),
    };
    // The grammar cannot express numbers that are not integers, so `integer` excludes `number`.
    let states = |name: &&str| names.contains(name) || (*name == "number" && names.contains(&"integer"));
    TYPES.into_iter().filter(|name| !states(name)).collect()
}
