//! Finds schemas that no value satisfies. The search is incomplete: it finds contradictions that are visible in one
//! schema object, not those that follow from several rules together.

use serde_json::{Map, Value};

use crate::path::{Segment, json_path};

/// The deepest nesting that is searched. References may repeat, and a deeper contradiction is rare.
const DEPTH_MAX: usize = 32;

/// The most schema objects that are searched. References may lead to the same object many times.
const OBJECTS_MAX: usize = 10_000;

/// Pairs of keywords that contradict each other if the first is larger, with the types that they apply to.
const BOUNDS: [(&str, &str, &[&str]); 4] = [
    ("minLength", "maxLength", &["string"]),
    ("minimum", "maximum", &["number", "integer"]),
    ("minItems", "maxItems", &["array"]),
    ("minProperties", "maxProperties", &["object"]),
];

/// Pairs of keywords that contradict each other if the first is not smaller.
const EXCLUSIVE_BOUNDS: [(&str, &str); 3] = [
    ("exclusiveMinimum", "maximum"),
    ("minimum", "exclusiveMaximum"),
    ("exclusiveMinimum", "exclusiveMaximum"),
];

/// Returns the JSONPath of a part that every value needs and none can have. `None` if no contradiction is found.
pub fn impossible_part(schema: &Value) -> Option<String> {
    let mut search = Search { root: schema, place: Vec::new(), left: OBJECTS_MAX };
    search.find(schema, 0).map(|place| json_path(&place))
}

struct Search<'s> {
    root: &'s Value,
    place: Vec<Segment>,
    left: usize,
}

impl Search<'_> {
    fn find(&mut self, schema: &Value, depth: usize) -> Option<Vec<Segment>> {
        if *schema == Value::Bool(false) {
            return Some(self.place.clone());
        }
        let keywords = schema.as_object()?;
        self.left = self.left.checked_sub(1)?;
        if depth > DEPTH_MAX {
            return None;
        }
        // Keywords beside a reference do not apply in every draft.
        if let Some(reference) = keywords.get("$ref") {
            let target = self.root.pointer(reference.as_str()?.strip_prefix('#')?)?.clone();
            return self.find(&target, depth + 1);
        }
        if contradicts_itself(keywords) {
            return Some(self.place.clone());
        }
        let list = |keyword: &str| keywords.get(keyword).and_then(Value::as_array);
        if let Some(place) = list("allOf").into_iter().flatten().find_map(|part| self.find(part, depth + 1)) {
            return Some(place);
        }
        for choices in ["anyOf", "oneOf"].into_iter().filter_map(list) {
            if !choices.is_empty() && choices.iter().all(|choice| self.find(choice, depth + 1).is_some()) {
                return Some(self.place.clone());
            }
        }
        match keywords.get("type")?.as_str()? {
            "object" => self.find_required(keywords, depth),
            "array" => self.find_item(keywords, depth),
            _ => None,
        }
    }

    /// Finds a required member that no object can have.
    fn find_required(&mut self, keywords: &Map<String, Value>, depth: usize) -> Option<Vec<Segment>> {
        let is_closed = keywords.get("additionalProperties") == Some(&Value::Bool(false))
            && !keywords.contains_key("patternProperties");
        for name in keywords.get("required")?.as_array()?.iter().filter_map(Value::as_str) {
            self.place.push(Segment::Key(name.to_owned()));
            let found = match keywords.get("properties").and_then(|properties| properties.get(name)) {
                Some(schema) => self.find(schema, depth + 1),
                None => is_closed.then(|| self.place.clone()),
            };
            self.place.pop();
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// Finds the first item of a list that must have one and can have none.
    fn find_item(&mut self, keywords: &Map<String, Value>, depth: usize) -> Option<Vec<Segment>> {
        let needs_item = keywords.get("minItems").and_then(Value::as_f64).is_some_and(|count| count >= 1.0);
        if !needs_item || keywords.contains_key("prefixItems") {
            return None;
        }
        self.place.push(Segment::Index(0));
        let found = keywords.get("items").and_then(|items| self.find(items, depth + 1));
        self.place.pop();
        found
    }
}

/// Returns whether the keywords of one schema object exclude every value.
fn contradicts_itself(keywords: &Map<String, Value>) -> bool {
    let number = |keyword: &str| keywords.get(keyword).and_then(Value::as_f64);
    let only_type = keywords.get("type").and_then(Value::as_str);
    let excludes_all =
        |schema: &Value| *schema == Value::Bool(true) || schema.as_object().is_some_and(Map::is_empty);
    if keywords.get("not").is_some_and(excludes_all) {
        return true;
    }
    let values = keywords.get("enum").and_then(Value::as_array).map(Vec::as_slice);
    let values = values.or_else(|| keywords.get("const").map(std::slice::from_ref));
    if values
        .is_some_and(|values| values.iter().all(|value| only_type.is_some_and(|name| !has_type(value, name))))
    {
        return true;
    }
    let Some(name) = only_type else { return false };
    let exceeds =
        |(least, most): (&str, &str)| matches!((number(least), number(most)), (Some(a), Some(b)) if a > b);
    let reaches =
        |(least, most): &(&str, &str)| matches!((number(least), number(most)), (Some(a), Some(b)) if a >= b);
    BOUNDS.iter().any(|(least, most, types)| types.contains(&name) && exceeds((least, most)))
        || matches!(name, "number" | "integer") && EXCLUSIVE_BOUNDS.iter().any(reaches)
}

/// Returns whether a value has the type of this name.
fn has_type(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        _ => value.is_number(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn contradictions_are_found_at_their_path() {
        for (schema, expected) in [
            (json!(false), "$"),
            (json!({"not": {}}), "$"),
            (json!({"enum": ["a"], "type": "integer"}), "$"),
            (json!({"type": "string", "minLength": 3, "maxLength": 2}), "$"),
            (json!({"type": "number", "exclusiveMinimum": 1, "maximum": 1}), "$"),
            (json!({"type": "object", "required": ["a"], "additionalProperties": false}), "$.a"),
            (json!({"type": "array", "minItems": 1, "items": false}), "$[0]"),
            (json!({"allOf": [{"type": "object"}, {"$ref": "#/$defs/no"}], "$defs": {"no": false}}), "$"),
            (json!({"oneOf": [false, {"const": 1, "type": "string"}]}), "$"),
        ] {
            assert_eq!(impossible_part(&schema).as_deref(), Some(expected), "{schema}");
        }
    }

    #[test]
    fn satisfiable_schemas_have_no_contradiction() {
        for schema in [
            json!(true),
            json!({}),
            json!({"minimum": 3, "maximum": 2}),
            json!({"type": ["string", "null"], "minLength": 3, "maxLength": 2}),
            json!({"type": "object", "properties": {"a": false}}),
            json!({"type": "array", "items": false}),
            json!({"anyOf": [false, {"type": "integer"}]}),
            json!({"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#"}}}),
            json!({"type": "integer", "enum": ["a", 1.0]}),
        ] {
            assert_eq!(impossible_part(&schema), None, "{schema}");
        }
    }
}
