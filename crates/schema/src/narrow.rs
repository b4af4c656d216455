//! A schema made stricter so that a model cannot ramble past its budget.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use crate::limits::check_depth;
use crate::refs::{REFERENCE_KEYWORDS, References, is_rebased};
use crate::walk::{AppliesTo, subschemas};

/// The most items and characters where the schema does not say, from generous to tight. The first pair
/// that fits the budget is taken, else the last.
const STEPS: [(u64, u64); 6] = [(8, 400), (6, 240), (4, 160), (3, 120), (2, 80), (1, 60)];

/// What a value of any type, or a free object, is taken to need, in characters.
const FREE_CHARACTERS: f64 = 200.0;

/// What a string with a pattern or a format and no length is taken to need, in characters.
const SHAPED_CHARACTERS: f64 = 60.0;

/// What a number is taken to need, in characters.
const NUMBER_CHARACTERS: f64 = 12.0;

/// How many references are followed inside one another. Measuring recurses; what is deeper counts as endless.
const REFERENCES_DEEP_MAX: usize = 32;

/// A schema that admits only what `schema` admits, in which strings and arrays are bounded and objects that
/// list their properties are closed, so that the longest document roughly fits `budget_characters`.
pub fn narrow(schema: &Value, budget_characters: usize) -> Value {
    // Where references resolve against an inner identifier, it cannot be told what they make of a part.
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

/// Where each subschema stands, as far as that decides whether it may be made stricter.
struct Roles {
    /// By JSON Pointer.
    roles: HashMap<String, Role>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Role {
    /// Making it stricter would make the whole schema looser, or change which branch applies.
    fixed: bool,
    /// Other schemas apply to the same value, so that a bound here could contradict them.
    shared: bool,
    /// Other schemas may describe the same object, so that closing it could forbid what they require.
    open: bool,
}

impl Role {
    fn and(self, other: Role) -> Role {
        Role {
            fixed: self.fixed || other.fixed,
            shared: self.shared || other.shared,
            open: self.open || other.open,
        }
    }
}

/// Keywords under which a stricter schema can admit more. With `oneOf`, a value that matched two branches
/// could come to match one.
const TURNING: [&str; 5] = ["not", "if", "oneOf", "contains", "propertyNames"];

/// Keywords beside which a union or reference is not alone in describing a value.
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
    /// Follows every way by which a subschema is reached, until nothing new is learned.
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
                fixed: merged.fixed || TURNING.contains(&keyword),
                shared: merged.shared || is_described || !matches!(keyword, "anyOf" | "oneOf" | "$ref"),
                open: merged.open,
            };
            for keyword in REFERENCE_KEYWORDS {
                let Some(reference) = keywords.get(keyword).and_then(Value::as_str) else { continue };
                let union = keywords.contains_key("anyOf") || keywords.contains_key("oneOf");
                let role = here(keyword).and(Role { fixed: keyword != "$ref", shared: union, open: false });
                pending.extend(references.pointer(root, reference).map(|target| (target, role)));
            }
            subschemas(keywords, |relative, _, place| {
                let keyword = relative.split('/').nth(1).unwrap_or_default();
                let role = match place {
                    AppliesTo::Here => here(keyword),
                    AppliesTo::Inside => Role {
                        fixed: merged.fixed || TURNING.contains(&keyword),
                        shared: false,
                        open: merged.open || merged.shared,
                    },
                    AppliesTo::Shelf => return,
                };
                pending.push((format!("{pointer}{relative}"), role));
            });
            roles.insert(pointer, merged);
        }
        Roles { roles }
    }
}

/// Keywords with which a schema is not described by itself alone.
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

/// Makes a schema and everything below it stricter, where that cannot contradict anything.
fn tighten(schema: &mut Value, pointer: String, roles: &Roles, items: u64, characters: u64) {
    let Value::Object(keywords) = schema else { return };
    let role = roles.roles.get(&pointer).copied().filter(|role| !role.fixed && !role.shared);
    if let Some(role) = role.filter(|_| !COMPOSING.iter().any(|name| keywords.contains_key(*name))) {
        bound_string(keywords, characters);
        bound_array(keywords, items);
        if !role.open {
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

/// Sets an upper bound, never below the lower one and never above the one that is there.
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

/// How long the longest document can be, roughly, in characters.
struct Measure<'a> {
    root: &'a Value,
    references: &'a References,
    /// By JSON Pointer; infinite while it is being measured, because it then contains itself.
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
        if self.depth >= REFERENCES_DEEP_MAX {
            return f64::INFINITY;
        }
        self.known.insert(pointer.clone(), f64::INFINITY);
        self.depth += 1;
        let longest = self.root.pointer(&pointer).map_or(FREE_CHARACTERS, |target| self.longest(target));
        self.depth -= 1;
        self.known.insert(pointer, longest);
        longest
    }

    /// What the keywords of a schema itself say, if they say anything.
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
