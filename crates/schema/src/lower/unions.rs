//! Lowers `anyOf` and `oneOf`.
//!
//! Grammar compilers ignore the keywords beside a union, so these are joined into every branch.

use serde_json::{Map, Value, json};

use super::conjunction::{type_names, values_of};
use super::draft::{ANNOTATIONS, is_any};
use super::lowering::Lowering;

/// The most branches compared to decide whether `oneOf` differs from `anyOf`. Longer unions count as
/// different.
const COMPARED_BRANCHES_MAX: usize = 64;

impl Lowering<'_> {
    pub(super) fn union(&mut self, mut keywords: Map<String, Value>) -> Value {
        let keyword = if keywords.contains_key("anyOf") { "anyOf" } else { "oneOf" };
        let Some(Value::Array(branches)) = keywords.shift_remove(keyword) else { return Value::Bool(false) };
        let is_free = keyword == "anyOf" && branches.iter().any(is_any);
        if is_free {
            let flat = self.join_all(keywords, Vec::new());
            return self.lower_flat(flat);
        }
        if keyword == "oneOf" && !self.are_disjoint(&branches) {
            self.record_lost("oneOf");
        }
        let is_annotation = |name: &String| ANNOTATIONS.contains(&name.as_str());
        let (annotations, beside): (Map<_, _>, Map<_, _>) =
            keywords.into_iter().partition(|(name, _)| is_annotation(name));
        let mut lowered: Vec<Value> = Vec::new();
        for branch in branches {
            let branch = self.branch(keyword, branch, &beside);
            if branch != Value::Bool(false) && !lowered.contains(&branch) {
                lowered.push(branch);
            }
        }
        let mut union = match lowered.len() {
            0 => return Value::Bool(false),
            1 => match lowered.pop() {
                Some(Value::Object(single)) if !single.contains_key("$ref") => single,
                Some(single) => return single,
                None => return Value::Bool(false),
            },
            _ => {
                let keyword = if self.rules.one_of { keyword } else { "anyOf" };
                Map::from_iter([(keyword.to_owned(), Value::Array(lowered))])
            }
        };
        self.annotate(&annotations, &mut union);
        Value::Object(union)
    }

    /// Lowers one branch, joined with the keywords beside the union.
    fn branch(&mut self, keyword: &'static str, branch: Value, beside: &Map<String, Value>) -> Value {
        if beside.is_empty() {
            return self.lower(&branch);
        }
        let parts = match branch {
            Value::Object(branch) => vec![(keyword, branch)],
            Value::Bool(true) => Vec::new(),
            _ => return Value::Bool(false),
        };
        if !self.add_work(beside) {
            return json!({});
        }
        let flat = self.join_all(beside.clone(), parts);
        self.lower_flat(flat)
    }

    /// Returns whether no value can satisfy two branches, so that `oneOf` is equivalent to `anyOf`.
    fn are_disjoint(&self, branches: &[Value]) -> bool {
        if branches.len() > COMPARED_BRANCHES_MAX {
            return false;
        }
        let resolved: Vec<Option<&Map<String, Value>>> =
            branches.iter().map(|branch| self.resolved_keywords(branch)).collect();
        let mut pairs = (0..resolved.len()).flat_map(|first| (0..first).map(move |second| (first, second)));
        pairs.all(|(first, second)| match (resolved[first], resolved[second]) {
            (Some(first), Some(second)) => self.are_exclusive(first, second),
            _ => false,
        })
    }

    /// Returns the keywords of a schema, or of its target if it is a reference.
    fn resolved_keywords<'s>(&'s self, schema: &'s Value) -> Option<&'s Map<String, Value>> {
        let keywords = schema.as_object()?;
        match keywords.get("$ref").and_then(Value::as_str) {
            Some(reference) => self.root.pointer(&self.resolve(reference)?)?.as_object(),
            None => Some(keywords),
        }
    }

    /// Returns whether no value can satisfy both schemas.
    fn are_exclusive(&self, first: &Map<String, Value>, second: &Map<String, Value>) -> bool {
        if first.contains_key("$ref") || second.contains_key("$ref") {
            return false;
        }
        if let (Some(first), Some(second)) = (values_of(first), values_of(second)) {
            return have_no_common_value(&first, &second);
        }
        if let (Some(first), Some(second)) = (possible_types(first), possible_types(second)) {
            let is_number = |name: &String| matches!(name.as_str(), "integer" | "number");
            let common = first
                .iter()
                .any(|name| second.contains(name) || (is_number(name) && second.iter().any(is_number)));
            if !common {
                return true;
            }
        }
        self.has_discriminator(first, second)
    }

    /// Returns whether both schemas require a property whose listed values differ.
    fn has_discriminator(&self, first: &Map<String, Value>, second: &Map<String, Value>) -> bool {
        let Some(Value::Object(properties)) = first.get("properties") else { return false };
        let requires = |side: &Map<String, Value>, name: &str| {
            let required = side.get("required").and_then(Value::as_array);
            required.is_some_and(|names| names.iter().any(|required| required == name))
        };
        properties.iter().any(|(name, schema)| {
            let other = second.get("properties").and_then(|properties| properties.get(name));
            let values = |schema: &Value| self.resolved_keywords(schema).and_then(values_of);
            requires(first, name)
                && requires(second, name)
                && match (values(schema), other.and_then(values)) {
                    (Some(first), Some(second)) => have_no_common_value(&first, &second),
                    _ => false,
                }
        })
    }
}

/// Returns the types that a schema allows; `None` if it does not declare them.
fn possible_types(keywords: &Map<String, Value>) -> Option<Vec<String>> {
    if let Some(values) = values_of(keywords) {
        let name = |value: &Value| type_of(value).to_owned();
        return Some(values.iter().map(name).collect());
    }
    keywords.get("type").map(type_names)
}

/// Returns the name of a value's type; whole numbers are integers.
pub(super) fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.as_f64().is_none_or(|float| float.fract() == 0.0) => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Returns whether two lists have no value in common. Arrays and objects count as common, because equal ones
/// may be written differently.
fn have_no_common_value(first: &[Value], second: &[Value]) -> bool {
    first.iter().all(|value| {
        second.iter().all(|other| match (value, other) {
            (Value::Number(value), Value::Number(other)) => value.as_f64() != other.as_f64(),
            (Value::Array(_), Value::Array(_)) | (Value::Object(_), Value::Object(_)) => false,
            _ => value != other,
        })
    })
}
