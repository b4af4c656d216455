//! Schemas that apply to one value: subschemas of the document, and schemas derived while solving.

use std::rc::Rc;

use serde_json::Value;

/// One of the schemas that a value must satisfy.
#[derive(Debug, Clone)]
pub(super) enum SchemaPart<'d> {
    /// A subschema of the document.
    Document(&'d Value),
    /// A schema derived from others.
    Derived(Rc<Value>),
}

/// The keyword of derived schemas for excluded values.
pub(super) const EXCEPT: &str = "\u{0}except";

/// The keyword of derived schemas for patterns that must not match.
pub(super) const UNLIKE: &str = "\u{0}unlike";

/// The keyword of derived schemas for numbers of which the value must not be a multiple.
pub(super) const INDIVISIBLE: &str = "\u{0}indivisible";

/// Marks derived schemas of a negation. Properties that they list do not count as evaluated.
pub(super) const SILENT: &str = "\u{0}silent";

impl<'d> SchemaPart<'d> {
    pub(super) fn derived(value: Value) -> SchemaPart<'d> {
        SchemaPart::Derived(Rc::new(value))
    }

    pub(super) fn value(&self) -> &Value {
        match self {
            SchemaPart::Document(value) => value,
            SchemaPart::Derived(value) => value,
        }
    }

    pub(super) fn get(&self, keyword: &str) -> Option<&Value> {
        self.value().get(keyword)
    }

    /// Returns a subschema of this schema.
    pub(super) fn child(
        &self,
        find: impl for<'v> Fn(&'v Value) -> Option<&'v Value>,
    ) -> Option<SchemaPart<'d>> {
        match self {
            SchemaPart::Document(value) => find(value).map(SchemaPart::Document),
            SchemaPart::Derived(value) => find(value).map(|child| SchemaPart::derived(child.clone())),
        }
    }

    /// Returns the subschemas in the list of a keyword.
    pub(super) fn list(&self, keyword: &str) -> Vec<SchemaPart<'d>> {
        let count = self.get(keyword).and_then(Value::as_array).map_or(0, Vec::len);
        (0..count).filter_map(|index| self.child(|value| value.get(keyword)?.get(index))).collect()
    }

    /// Returns the member names of the object of a keyword.
    pub(super) fn names(&self, keyword: &str) -> Vec<String> {
        let members = self.get(keyword).and_then(Value::as_object);
        members.map(|members| members.keys().cloned().collect()).unwrap_or_default()
    }

    /// Returns the strings in the list of a keyword.
    pub(super) fn texts(&self, keyword: &str) -> Vec<String> {
        let items = self.get(keyword).and_then(Value::as_array);
        items
            .map(|items| items.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect())
            .unwrap_or_default()
    }

    /// Returns a key that identifies this schema.
    pub(super) fn key(&self) -> String {
        match self {
            SchemaPart::Document(value) => format!("{:p}", std::ptr::from_ref(*value)),
            SchemaPart::Derived(value) => value.to_string(),
        }
    }
}

/// Returns a count of a schema, such as `minItems`. Values out of range are clamped.
pub(super) fn count(value: &Value) -> Option<usize> {
    value.as_f64().map(|number| number.max(0.0) as usize)
}

/// Returns whether two values are equal in JSON Schema, where 1 equals 1.0.
pub(super) fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter().all(|(name, value)| b.get(name).is_some_and(|other| same(value, other)))
        }
        _ => left == right,
    }
}

/// The JSON types. `integer` is not among them, because integers are numbers.
pub(super) const TYPES: [&str; 6] = ["object", "array", "string", "number", "boolean", "null"];

/// Returns the name of a value's type.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Returns whether a number is an integer.
pub(super) fn is_whole(value: &Value) -> bool {
    value.as_f64().is_some_and(|number| number.fract() == 0.0)
}
