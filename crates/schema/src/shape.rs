//! A view of a schema that describes the values it expects.
//!
//! A [`Shape`] collects every subschema that applies to one location: it follows references and flattens
//! `allOf`. It never decides validity; only [`crate::Schema`] does.

use std::cell::Cell;

use serde_json::{Map, Value};

use crate::refs::{REFERENCE_KEYWORDS, References};

/// The most references and `allOf` members followed for one shape. Beyond it, the view is incomplete but not
/// wrong.
const PARTS_MAX: usize = 64;

/// The most nested unions and references followed to decide whether `null` is valid.
const NULL_DEPTH_MAX: usize = 32;

/// The most schemas visited to decide whether `null` is valid at one location.
const NULL_STEPS_MAX: usize = 1_000;

/// A set of JSON types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Types(u8);

impl Types {
    /// Only `null`.
    pub const NULL: Types = Types(1);
    /// `true` and `false`.
    pub const BOOLEAN: Types = Types(2);
    /// Whole numbers, including `1.0`.
    pub const INTEGER: Types = Types(4);
    /// All numbers, whole ones included.
    pub const NUMBER: Types = Types(8 | 4);
    /// Strings.
    pub const STRING: Types = Types(16);
    /// Arrays.
    pub const ARRAY: Types = Types(32);
    /// Objects.
    pub const OBJECT: Types = Types(64);
    /// The union of all types.
    pub const ALL: Types = Types(127);

    /// Returns whether all types of `other` are in this set.
    pub fn contains(self, other: Types) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns whether the two sets share a type.
    pub fn intersects(self, other: Types) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns the type of a value; whole numbers are integers.
    pub fn of(value: &Value) -> Types {
        match value {
            Value::Null => Types::NULL,
            Value::Bool(_) => Types::BOOLEAN,
            Value::Number(number) if is_whole(number) => Types::INTEGER,
            Value::Number(_) => Types(8),
            Value::String(_) => Types::STRING,
            Value::Array(_) => Types::ARRAY,
            Value::Object(_) => Types::OBJECT,
        }
    }

    fn named(name: &str) -> Types {
        match name {
            "null" => Types::NULL,
            "boolean" => Types::BOOLEAN,
            "integer" => Types::INTEGER,
            "number" => Types::NUMBER,
            "string" => Types::STRING,
            "array" => Types::ARRAY,
            "object" => Types::OBJECT,
            _ => Types(0),
        }
    }

    fn union(self, other: Types) -> Types {
        Types(self.0 | other.0)
    }
}

fn is_whole(number: &serde_json::Number) -> bool {
    number.as_f64().is_none_or(|float| float.fract() == 0.0)
}

/// The rule for properties that a shape does not name.
#[derive(Debug, Clone)]
pub enum Additional<'s> {
    /// Any value is allowed, or a pattern decides.
    Any,
    /// No other properties are allowed.
    Never,
    /// Other properties have this shape.
    Shaped(Shape<'s>),
}

/// Every subschema that applies to one location of a value.
#[derive(Debug, Clone)]
pub struct Shape<'s> {
    root: &'s Value,
    references: &'s References,
    parts: Vec<Subschema<'s>>,
    stated: Vec<&'s Value>,
}

#[derive(Debug, Clone, Copy)]
struct Subschema<'s> {
    keywords: &'s Map<String, Value>,
    /// Whether one branch has already replaced the union of this subschema.
    is_decided: bool,
}

impl<'s> Shape<'s> {
    pub(crate) fn new(root: &'s Value, references: &'s References) -> Shape<'s> {
        Shape::of(root, references, root)
    }

    /// Returns the shape of a schema inside the document `root`.
    pub(crate) fn of(root: &'s Value, references: &'s References, schema: &'s Value) -> Shape<'s> {
        Shape { root, references, parts: Vec::new(), stated: Vec::new() }.extended(schema)
    }

    /// Returns the shape of another schema of the same document.
    fn sibling(&self, schema: &'s Value) -> Shape<'s> {
        Shape::of(self.root, self.references, schema)
    }

    /// Adds everything that applies where `schema` applies.
    fn extended(mut self, schema: &'s Value) -> Shape<'s> {
        self.stated.push(schema);
        let mut pending = vec![schema];
        while let Some(schema) = pending.pop() {
            let Some(keywords) = schema.as_object() else { continue };
            let known = self.parts.iter().any(|part| std::ptr::eq(part.keywords, keywords));
            if known || self.parts.len() >= PARTS_MAX {
                continue;
            }
            self.parts.push(Subschema { keywords, is_decided: false });
            for keyword in REFERENCE_KEYWORDS {
                if let Some(Value::String(reference)) = keywords.get(keyword) {
                    pending.extend(self.references.resolve(self.root, reference));
                }
            }
            if let Some(Value::Array(all)) = keywords.get("allOf") {
                pending.extend(all.iter().rev());
            }
        }
        self
    }

    fn keyword<'k>(&'k self, name: &'k str) -> impl Iterator<Item = &'s Value> + 'k {
        self.parts.iter().filter_map(move |part| part.keywords.get(name))
    }

    /// Returns the schemas that apply here as written, without those that they refer to.
    pub(crate) fn stated(&self) -> &[&'s Value] {
        &self.stated
    }

    /// Returns the value of a keyword, from the first subschema that has it.
    pub(crate) fn bound(&self, name: &str) -> Option<&'s Value> {
        self.parts.iter().find_map(|part| part.keywords.get(name))
    }

    /// Returns the value of a keyword if it is a string.
    pub(crate) fn text(&self, name: &str) -> Option<&'s str> {
        self.bound(name)?.as_str()
    }

    /// Returns the first description that applies here.
    pub(crate) fn description(&self) -> Option<&'s str> {
        self.text("description")
    }

    /// Returns the items of a tuple; `None` for other values.
    pub(crate) fn tuple(&self) -> Option<&'s Vec<Value>> {
        let tuple = self.bound("prefixItems").or_else(|| self.bound("items"))?;
        tuple.as_array().filter(|items| !items.is_empty())
    }

    /// Returns the schema of properties whose name matches the first pattern.
    pub(crate) fn pattern_property(&self) -> Option<&'s Value> {
        self.bound("patternProperties")?.as_object()?.values().next()
    }

    /// Returns the allowed types: those in `type`, else those that listed values and keywords imply.
    pub fn types(&self) -> Types {
        let mut allowed = Types::ALL;
        let mut is_declared = false;
        for value in self.keyword("type") {
            is_declared = true;
            let types = match value {
                Value::String(name) => Types::named(name),
                Value::Array(names) => {
                    names.iter().filter_map(Value::as_str).map(Types::named).fold(Types(0), Types::union)
                }
                _ => Types::ALL,
            };
            allowed = Types(allowed.0 & types.0);
        }
        if let Some(values) = self.values() {
            return values.iter().map(|value| Types::of(value)).fold(Types(0), Types::union);
        }
        if is_declared {
            return allowed;
        }
        let has = |names: &[&str]| names.iter().any(|name| self.keyword(name).next().is_some());
        if has(&["properties", "required", "additionalProperties", "patternProperties"]) {
            Types::OBJECT
        } else if has(&["items", "prefixItems", "minItems", "maxItems"]) {
            Types::ARRAY
        } else {
            allowed
        }
    }

    /// Returns whether the schema allows any value here.
    pub fn is_open(&self) -> bool {
        self.types() == Types::ALL && self.alternatives().is_none()
    }

    /// Returns the allowed values if the schema lists them in `const` or `enum`.
    pub fn values(&self) -> Option<Vec<&'s Value>> {
        if let Some(constant) = self.keyword("const").next() {
            return Some(vec![constant]);
        }
        let list = self.keyword("enum").next()?.as_array()?;
        Some(list.iter().collect())
    }

    /// Returns the branches of the first undecided union, each with everything else that applies here.
    pub fn alternatives(&self) -> Option<Vec<Shape<'s>>> {
        let (index, branches) = self.parts.iter().enumerate().filter(|(_, part)| !part.is_decided).find_map(
            |(index, part)| {
                let union = part.keywords.get("anyOf").or_else(|| part.keywords.get("oneOf"))?;
                Some((index, union.as_array()?))
            },
        )?;
        let mut base = self.clone();
        base.parts[index].is_decided = true;
        Some(branches.iter().map(|branch| base.clone().extended(branch)).collect())
    }

    /// Returns the names under `properties`, in the schema's order.
    pub fn property_names(&self) -> Vec<&'s str> {
        let mut names: Vec<&'s str> = Vec::new();
        for properties in self.keyword("properties").filter_map(Value::as_object) {
            for name in properties.keys() {
                if !names.contains(&name.as_str()) {
                    names.push(name);
                }
            }
        }
        names
    }

    /// Returns the shape of a property, if the schema names it.
    pub fn property(&self, name: &str) -> Option<Shape<'s>> {
        let mut found = self.keyword("properties").filter_map(|properties| properties.get(name));
        let first = self.sibling(found.next()?);
        Some(found.fold(first, Shape::extended))
    }

    /// Returns whether a property must be present.
    pub fn is_required(&self, name: &str) -> bool {
        self.keyword("required")
            .filter_map(Value::as_array)
            .flatten()
            .any(|required| required.as_str() == Some(name))
    }

    /// Returns the names of all required properties.
    pub fn required(&self) -> Vec<&'s str> {
        self.keyword("required").filter_map(Value::as_array).flatten().filter_map(Value::as_str).collect()
    }

    /// Returns the rule for properties that the schema does not name.
    pub fn additional(&self) -> Additional<'s> {
        if self.keyword("patternProperties").next().is_some() {
            return Additional::Any;
        }
        let rules = self.keyword("additionalProperties").chain(self.keyword("unevaluatedProperties"));
        for rule in rules {
            match rule {
                Value::Bool(false) => return Additional::Never,
                Value::Object(keywords) if !keywords.is_empty() => {
                    return Additional::Shaped(self.sibling(rule));
                }
                _ => {}
            }
        }
        Additional::Any
    }

    /// Returns the shape of the item at `index`, if the schema describes it.
    pub fn item(&self, index: usize) -> Option<Shape<'s>> {
        for keyword in ["prefixItems", "items"] {
            if let Some(Value::Array(tuple)) = self.keyword(keyword).next()
                && let Some(schema) = tuple.get(index)
            {
                return Some(self.sibling(schema));
            }
        }
        let rest = self.keyword("items").find(|items| items.is_object());
        rest.or_else(|| self.keyword("additionalItems").find(|items| items.is_object()))
            .map(|schema| self.sibling(schema))
    }

    /// Returns whether `null` is valid here. Only keywords that apply to `null` are checked. It returns
    /// `true` where deciding takes too many steps.
    pub(crate) fn admits_null(&self) -> bool {
        let steps = Cell::new(0);
        self.parts.iter().all(|part| self.null_passes(part.keywords, 0, &steps))
    }

    fn null_passes(&self, keywords: &Map<String, Value>, depth: usize, steps: &Cell<usize>) -> bool {
        steps.set(steps.get() + 1);
        if depth > NULL_DEPTH_MAX || steps.get() > NULL_STEPS_MAX {
            return true;
        }
        let passes = |schema: &Value| match schema {
            Value::Bool(allowed) => *allowed,
            Value::Object(keywords) => self.null_passes(keywords, depth + 1, steps),
            _ => true,
        };
        keywords.iter().all(|(name, value)| match (name.as_str(), value) {
            ("type", Value::String(name)) => name == "null",
            ("type", Value::Array(names)) => names.iter().any(|name| name == "null"),
            ("const", constant) => constant.is_null(),
            ("enum", Value::Array(values)) => values.contains(&Value::Null),
            ("$ref", Value::String(reference)) => {
                self.references.resolve(self.root, reference).is_none_or(passes)
            }
            ("allOf", Value::Array(members)) => members.iter().all(passes),
            ("anyOf", Value::Array(members)) => members.iter().any(passes),
            ("oneOf", Value::Array(members)) => members.iter().filter(|member| passes(member)).count() == 1,
            ("not", schema) => !passes(schema),
            ("if", condition) => {
                let branch = if passes(condition) { "then" } else { "else" };
                keywords.get(branch).is_none_or(passes)
            }
            _ => true,
        })
    }

    /// Returns whether a value passes the simple assertions here: type, enumeration, bounds, required
    /// properties. It does not check nested values and other keywords.
    pub fn admits(&self, value: &Value) -> bool {
        if !self.types().intersects(Types::of(value)) {
            return false;
        }
        if let Some(values) = self.values()
            && !values.contains(&value)
        {
            return false;
        }
        let limit = |name: &str| self.keyword(name).find_map(Value::as_f64);
        match value {
            Value::Number(number) => number.as_f64().is_none_or(|number| {
                limit("minimum").is_none_or(|bound| number >= bound)
                    && limit("maximum").is_none_or(|bound| number <= bound)
                    && limit("exclusiveMinimum").is_none_or(|bound| number > bound)
                    && limit("exclusiveMaximum").is_none_or(|bound| number < bound)
            }),
            Value::Object(object) => {
                let mut required = self.keyword("required").filter_map(Value::as_array).flatten();
                required.all(|name| name.as_str().is_none_or(|name| object.contains_key(name)))
            }
            _ => true,
        }
    }
}
