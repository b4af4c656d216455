//! Schemas that apply to one value together: parts of the document, and schemas made while solving.

use std::rc::Rc;

use serde_json::Value;

/// One of the schemas that a value has to satisfy.
#[derive(Debug, Clone)]
pub(super) enum SchemaPart<'d> {
    /// A schema of the document.
    Document(&'d Value),
    /// A schema that was made from others.
    Made(Rc<Value>),
}

/// Excluded values, in schemas that were made.
pub(super) const EXCEPT: &str = "\u{0}except";

/// Patterns that must not match, in schemas that were made.
pub(super) const UNLIKE: &str = "\u{0}unlike";

/// Numbers of which the value must not be a multiple, in schemas that were made.
pub(super) const INDIVISIBLE: &str = "\u{0}indivisible";

/// Marks schemas that were made to say what a value is not: what they list counts as unevaluated.
pub(super) const SILENT: &str = "\u{0}silent";

impl<'d> SchemaPart<'d> {
    pub(super) fn made(value: Value) -> SchemaPart<'d> {
        SchemaPart::Made(Rc::new(value))
    }

    pub(super) fn value(&self) -> &Value {
        match self {
            SchemaPart::Document(value) => value,
            SchemaPart::Made(value) => value,
        }
    }

    pub(super) fn get(&self, keyword: &str) -> Option<&Value> {
        self.value().get(keyword)
    }

    /// A schema inside this one.
    pub(super) fn child(
        &self,
        find: impl for<'v> Fn(&'v Value) -> Option<&'v Value>,
    ) -> Option<SchemaPart<'d>> {
        match self {
            SchemaPart::Document(value) => find(value).map(SchemaPart::Document),
            SchemaPart::Made(value) => find(value).map(|child| SchemaPart::made(child.clone())),
        }
    }

    /// The schemas in a list under a keyword.
    pub(super) fn list(&self, keyword: &str) -> Vec<SchemaPart<'d>> {
        let count = self.get(keyword).and_then(Value::as_array).map_or(0, Vec::len);
        (0..count).filter_map(|index| self.child(|value| value.get(keyword)?.get(index))).collect()
    }

    /// The names of the members of an object under a keyword.
    pub(super) fn names(&self, keyword: &str) -> Vec<String> {
        let members = self.get(keyword).and_then(Value::as_object);
        members.map(|members| members.keys().cloned().collect()).unwrap_or_default()
    }

    /// The texts in a list under a keyword.
    pub(super) fn texts(&self, keyword: &str) -> Vec<String> {
        let items = self.get(keyword).and_then(Value::as_array);
        items
            .map(|items| items.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect())
            .unwrap_or_default()
    }

    /// What tells this part from others.
    pub(super) fn key(&self) -> String {
        match self {
            SchemaPart::Document(value) => format!("{:p}", std::ptr::from_ref(*value)),
            SchemaPart::Made(value) => value.to_string(),
        }
    }
}

/// A bound in a schema as a whole number. Bounds beyond any document are as good as the largest.
pub(super) fn count(value: &Value) -> Option<usize> {
    value.as_f64().map(|number| number.max(0.0) as usize)
}

/// Whether two values are the same in JSON Schema, where 1 and 1.0 are.
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

/// The names of all types, the whole numbers last: they are numbers.
pub(super) const TYPES: [&str; 6] = ["object", "array", "string", "number", "boolean", "null"];

/// The name of a value's type.
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

/// Whether a number is whole.
pub(super) fn is_whole(value: &Value) -> bool {
    value.as_f64().is_some_and(|number| number.fract() == 0.0)
}
