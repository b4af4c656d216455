//! Makes a schema stricter, so that a model's reply fits its budget.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use crate::limits::check_depth;
use crate::refs::{REFERENCE_KEYWORDS, References, is_rebased};
use crate::walk::{AppliesTo, subschemas};

/// The most items and characters where the schema sets no limit, from generous to tight. The first pair that
/// fits the budget is used, else the last.
const STEPS: [(u64, u64); 6] = [(8, 400), (6, 240), (4, 160), (3, 120), (2, 80), (1, 60)];

/// The estimated length of a value of any type or of a free object, in characters.
const FREE_CHARACTERS: f64 = 200.0;

/// The estimated length of a string with a pattern or format and without a length, in characters.
const SHAPED_CHARACTERS: f64 = 60.0;

/// The estimated length of a number, in characters.
const NUMBER_CHARACTERS: f64 = 12.0;

/// The most nested references followed. Measuring recurses; deeper schemas count as infinite.
const REFERENCE_DEPTH_MAX: usize = 32;

/// Returns a schema that accepts a subset of the values that `schema` accepts. It bounds strings and arrays,
/// and closes objects that list their properties, so that the longest document roughly fits
/// `budget_characters`.
pub fn narrow(schema: &Value, budget_characters: usize) -> Value {
    // If references resolve against an inner identifier, the effect of a change is unknown.
    if check_depth(schema).is_err() || is_rebased(schema) {
        return schema.clone();
    }
    let references = References::collect(schema);
    let roles = Roles::find(schema, &references);
    let mut narrowed = schema.clone();
    for (items, characters) in STEPS {
        narrowed = schema.clone();
        tighten(&mut narrowed, String::new(), &roles, items, characters);
        let mut measure =
            Measure { root: &narrowed, references: &references, known: HashMap::new(), depth: 0 };
        if measure.longest(&narrowed) <= budget_characters as f64 {
            break;
        }
    }
    narrowed
}

/// The role of each subschema, which decides whether it may become stricter.
struct Roles {
    /// The role by JSON Pointer of the subschema.
    roles: HashMap<String, Role>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Role {
    /// A stricter subschema would make the whole schema looser, or change which branch applies.
    is_fixed: bool,
    /// Other schemas apply to the same value, so a bound here could contradict them.
    is_shared: bool,
    /// Other schemas may describe the same object, so closing it could forbid what they require.
    is_open: bool,
}

impl Role {
    fn and(self, other: Role) -> Role {
        Role {
            is_fixed: self.is_fixed || other.is_fixed,
            is_shared: self.is_shared || other.is_shared,
            is_open: self.is_open || other.is_open,
        }
    }
}

/// Keywords under which a stricter subschema can make the schema accept more values. With `oneOf`, a value
/// that matched two branches could then match one.
const INVERTING: [&str; 5] = ["not", "if", "oneOf", "contains", "propertyNames"];

/// Keywords beside which a union or reference is not the only description of a value.
const DESCRIBING: [&str; 11] = [
    "properties",
    "required",
    "additionalProperties",
    "unevaluatedProperties",
    "items",
    "minLength",
    "minItems",
    "enum",
    "const",
    "allOf",
    "if",
];

impl Roles {
    /// Follows every path to every subschema until no role changes.
    fn find(root: &Value, references: &References) -> Roles {
        let mut roles: HashMap<String, Role> = HashMap::new();
        let mut pending = vec![(String::new(), Role::default())];
        while let Some((pointer, role)) = pending.pop() {
            let known = roles.get(&pointer).copied();
            let merged = known.unwrap_or_default().and(role);
            if known == Some(merged) {
                continue;
            }
            let Some(keywords) = root.pointer(&pointer).and_then(Value::as_object) else { continue };
            let is_described = DESCRIBING.iter().any(|name| keywords.contains_key(*name));
            let here = |keyword: &str| Role {
                is_fixed: merged.is_fixed || INVERTING.contains(&keyword),
                is_shared: merged.is_shared || is_described || !matches!(keyword, "anyOf" | "oneOf" | "$ref"),
                is_open: merged.is_open,
            };
            for keyword in REFERENCE_KEYWORDS {
                let Some(reference) = keywords.get(keyword).and_then(Value::as_str) else { continue };
                let union = keywords.contains_key("anyOf") || keywords.contains_key("oneOf");
                let role =
                    here(keyword).and(Role { is_fixed: keyword != "$ref", is_shared: union, is_open: false });
                pending.extend(references.pointer(root, reference).map(|target| (target, role)));
            }
            subschemas(keywords, |relative, _, applies_to| {
                let keyword = relative.split('/').nth(1).unwrap_or_default();
                let role = match applies_to {
                    AppliesTo::Same => here(keyword),
                    AppliesTo::Child => Role {
                        is_fixed: merged.is_fixed || INVERTING.contains(&keyword),
                        is_shared: false,
                        is_open: merged.is_open || merged.is_shared,
                    },
                    AppliesTo::Nothing => return,
                };
                pending.push((format!("{pointer}{relative}"), role));
            });
            roles.insert(pointer, merged);
        }
        Roles { roles }
    }
}

/// Keywords with which a schema is not the only description of its value.
const COMPOSING: [&str; 10] = [
    "$ref",
    "$dynamicRef",
    "$recursiveRef",
    "allOf",
    "anyOf",
    "oneOf",
    "if",
    "dependentSchemas",
    "dependencies",
    "not",
];

/// Makes a schema and its subschemas stricter where that cannot contradict other schemas.
fn tighten(schema: &mut Value, pointer: String, roles: &Roles, items: u64, characters: u64) {
    let Value::Object(keywords) = schema else { return };
    let role = roles.roles.get(&pointer).copied().filter(|role| !role.is_fixed && !role.is_shared);
    if let Some(role) = role.filter(|_| !COMPOSING.iter().any(|name| keywords.contains_key(*name))) {
        bound_string(keywords, characters);
        bound_array(keywords, items);
        if !role.is_open {
            close_object(keywords);
        }
    }
    let mut places = Vec::new();
    subschemas(keywords, |relative, _, _| places.push(relative));
    for relative in places {
        if let Some(child) = schema.pointer_mut(&relative) {
            tighten(child, format!("{pointer}{relative}"), roles, items, characters);
        }
    }
}

fn has_type(keywords: &Map<String, Value>, name: &str) -> bool {
    match keywords.get("type") {
        Some(Value::String(stated)) => stated == name,
        Some(Value::Array(stated)) => stated.iter().any(|stated| stated == name),
        _ => false,
    }
}

fn bound_string(keywords: &mut Map<String, Value>, characters: u64) {
    let is_shaped = ["enum", "const", "format", "pattern"].iter().any(|name| keywords.contains_key(*name));
    if has_type(keywords, "string") && !is_shaped {
        bound(keywords, "minLength", "maxLength", characters);
    }
}

fn bound_array(keywords: &mut Map<String, Value>, items: u64) {
    let is_tuple = keywords.contains_key("prefixItems") || keywords.get("items").is_some_and(Value::is_array);
    let is_listed = ["enum", "const", "contains"].iter().any(|name| keywords.contains_key(*name));
    if has_type(keywords, "array") && !is_tuple && !is_listed {
        bound(keywords, "minItems", "maxItems", items);
    }
}

/// Sets an upper bound, never below the lower bound and never above an existing upper bound.
fn bound(keywords: &mut Map<String, Value>, least: &str, most: &str, limit: u64) {
    let number = |name: &str| keywords.get(name).and_then(Value::as_f64);
    let wanted = (limit as f64).max(number(least).unwrap_or(0.0));
    if number(most).is_none_or(|stated| stated > wanted) {
        keywords.insert(most.to_owned(), json!(wanted as u64));
    }
}

fn close_object(keywords: &mut Map<String, Value>) {
    let is_ruled = ["additionalProperties", "patternProperties", "unevaluatedProperties", "enum", "const"];
    let Some(Value::Object(properties)) = keywords.get("properties") else { return };
    let required = keywords.get("required").and_then(Value::as_array).into_iter().flatten();
    let is_complete = required.filter_map(Value::as_str).all(|name| properties.contains_key(name));
    let least = keywords.get("minProperties").and_then(Value::as_f64).unwrap_or(0.0);
    if is_complete
        && least <= properties.len() as f64
        && !properties.is_empty()
        && !is_ruled.iter().any(|name| keywords.contains_key(*name))
    {
        keywords.insert("additionalProperties".to_owned(), json!(false));
    }
}

/// Estimates the length of the longest document, in characters.
struct Measure<'a> {
    root: &'a Value,
    references: &'a References,
    /// The estimate by JSON Pointer; infinite during measurement, because the schema then contains itself.
    known: HashMap<String, f64>,
    depth: usize,
}

impl Measure<'_> {
    fn longest(&mut self, schema: &Value) -> f64 {
        let Some(keywords) = schema.as_object() else { return FREE_CHARACTERS };
        if let Some(reference) = keywords.get("$ref").and_then(Value::as_str) {
            return self.referred(reference);
        }
        let listed = keywords.get("enum").and_then(Value::as_array).map(Vec::as_slice);
        if let Some(values) = keywords.get("const").map(std::slice::from_ref).or(listed) {
            return values.iter().map(|value| value.to_string().len() as f64).fold(0.0, f64::max);
        }
        let own = self.own(keywords);
        let mut branches: f64 = 0.0;
        for name in ["anyOf", "oneOf"] {
            for branch in keywords.get(name).and_then(Value::as_array).into_iter().flatten() {
                branches = branches.max(self.longest(branch));
            }
        }
        let parts = keywords.get("allOf").and_then(Value::as_array).into_iter().flatten();
        let parts: f64 = parts.map(|part| self.longest(part)).sum();
        match own {
            Some(own) => own + branches + parts,
            None if branches + parts > 0.0 => branches + parts,
            None => FREE_CHARACTERS,
        }
    }

    fn referred(&mut self, reference: &str) -> f64 {
        let Some(pointer) = self.references.pointer(self.root, reference) else { return FREE_CHARACTERS };
        if let Some(&known) = self.known.get(&pointer) {
            return known;
        }
        if self.depth >= REFERENCE_DEPTH_MAX {
            return f64::INFINITY;
        }
        self.known.insert(pointer.clone(), f64::INFINITY);
        self.depth += 1;
        let longest = self.root.pointer(&pointer).map_or(FREE_CHARACTERS, |target| self.longest(target));
        self.depth -= 1;
        self.known.insert(pointer, longest);
        longest
    }

    /// Returns the estimate from the schema's own keywords; `None` if they determine nothing.
    fn own(&mut self, keywords: &Map<String, Value>) -> Option<f64> {
        let number = |name: &str| keywords.get(name).and_then(Value::as_f64);
        let mut longest: Option<f64> = None;
        let mut add = |length: f64| longest = Some(longest.unwrap_or(0.0).max(length));
        if has_type(keywords, "string") {
            add(number("maxLength").unwrap_or(SHAPED_CHARACTERS) + 2.0);
        }
        if ["integer", "number", "boolean", "null"].iter().any(|name| has_type(keywords, name)) {
            add(NUMBER_CHARACTERS);
        }
        if has_type(keywords, "array") || keywords.contains_key("items") {
            let tuple =
                keywords.get("prefixItems").or_else(|| keywords.get("items")).and_then(Value::as_array);
            add(match (tuple, keywords.get("items")) {
                (Some(tuple), _) => tuple.iter().map(|item| self.longest(item) + 2.0).sum(),
                (None, items) => {
                    let item = items.map_or(FREE_CHARACTERS, |items| self.longest(items));
                    2.0 + number("maxItems").unwrap_or(f64::INFINITY) * (item + 2.0)
                }
            });
        }
        if has_type(keywords, "object") || keywords.contains_key("properties") {
            let properties = keywords.get("properties").and_then(Value::as_object).into_iter().flatten();
            let mut total = 2.0;
            for (name, schema) in properties {
                total += name.len() as f64 + 6.0 + self.longest(schema);
            }
            let is_closed = keywords.get("additionalProperties") == Some(&Value::Bool(false));
            add(if is_closed { total } else { total + FREE_CHARACTERS });
        }
        longest
    }
}
