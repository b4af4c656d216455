//! Joins two schemas for the same value into one, where one schema can express both.

use serde_json::{Map, Value, json};

use super::draft::ANNOTATIONS;

/// The conjunction of two schemas.
#[derive(Debug)]
pub(super) enum Conjunction {
    /// One schema that is equivalent to both.
    Both(Map<String, Value>),
    /// No value satisfies both.
    Never,
    /// One schema cannot express both.
    Unclear,
}

/// Keywords that depend on each other: one side may have a group only if the other side has none of it, or
/// the same.
const GROUPS: [&[&str]; 2] = [&["if", "then", "else"], &["contains", "minContains", "maxContains"]];

/// Joins two cleaned schemas; `right` was nested inside `left`. A part that both describe, such as a
/// property, becomes an `allOf` that is joined when lowering reaches it.
pub(super) fn join(mut left: Map<String, Value>, mut right: Map<String, Value>) -> Conjunction {
    for side in [&left, &right] {
        // Whether a property is evaluated depends on its enclosing schema, which joining would change.
        let depends_on_context = side.contains_key("unevaluatedItems") || side.contains_key("allOf");
        if depends_on_context {
            return Conjunction::Unclear;
        }
    }
    if right.contains_key("unevaluatedProperties") {
        return Conjunction::Unclear;
    }
    for group in GROUPS {
        let has = |side: &Map<String, Value>| group.iter().any(|name| side.contains_key(*name));
        if has(&left) && has(&right) && group.iter().any(|name| left.get(*name) != right.get(*name)) {
            return Conjunction::Unclear;
        }
    }
    if !spread_additional(&mut left, &mut right) {
        return Conjunction::Unclear;
    }
    let is_tuple = |side: &Map<String, Value>| {
        side.contains_key("prefixItems")
            || side.contains_key("additionalItems")
            || side.get("items").is_some_and(Value::is_array)
    };
    let has_items = |side: &Map<String, Value>| is_tuple(side) || side.contains_key("items");
    if (is_tuple(&left) && has_items(&right)) || (is_tuple(&right) && has_items(&left)) {
        return Conjunction::Unclear;
    }
    if let (Some(first), Some(second)) = (values_of(&left), values_of(&right)) {
        let common: Vec<Value> = first.iter().filter(|value| second.contains(value)).cloned().collect();
        if common.is_empty() {
            return Conjunction::Never;
        }
        right.shift_remove("const");
        right.shift_remove("enum");
        left.shift_remove("const");
        left.insert("enum".to_owned(), Value::Array(common));
    }
    for (name, theirs) in right {
        let Some(ours) = left.get_mut(&name) else {
            left.insert(name, theirs);
            continue;
        };
        if *ours == theirs || ANNOTATIONS.contains(&name.as_str()) {
            continue;
        }
        match join_keyword(&name, ours, theirs) {
            Some(true) => {}
            Some(false) => return Conjunction::Never,
            None => return Conjunction::Unclear,
        }
    }
    Conjunction::Both(left)
}

/// Joins both values of one keyword into `ours`. Returns `Some(false)` if no value satisfies both, `None` if
/// one keyword cannot express both.
fn join_keyword(name: &str, ours: &mut Value, theirs: Value) -> Option<bool> {
    match name {
        "type" => {
            let common = common_types(ours, &theirs);
            let [single] = common.as_slice() else {
                let is_possible = !common.is_empty();
                *ours = json!(common);
                return Some(is_possible);
            };
            *ours = json!(single);
        }
        "minimum" | "exclusiveMinimum" | "minLength" | "minItems" | "minProperties" => {
            if theirs.as_f64()? > ours.as_f64()? {
                *ours = theirs;
            }
        }
        "maximum" | "exclusiveMaximum" | "maxLength" | "maxItems" | "maxProperties" => {
            if theirs.as_f64()? < ours.as_f64()? {
                *ours = theirs;
            }
        }
        "required" => {
            let (Value::Array(ours), Value::Array(theirs)) = (ours, theirs) else { return None };
            for required in theirs {
                if !ours.contains(&required) {
                    ours.push(required);
                }
            }
        }
        "properties" => {
            let (Value::Object(ours), Value::Object(theirs)) = (ours, theirs) else { return None };
            for (property, schema) in theirs {
                match ours.get_mut(&property) {
                    Some(known) => *known = both(known.take(), schema),
                    None => {
                        ours.insert(property, schema);
                    }
                }
            }
        }
        "items" | "additionalProperties" => *ours = both(ours.take(), theirs),
        _ => return None,
    }
    Some(true)
}

/// Returns an `allOf` of both schemas, which is joined when lowering reaches it.
pub(super) fn both(first: Value, second: Value) -> Value {
    if first == second {
        return first;
    }
    match (&first, &second) {
        (Value::Bool(false), _) | (_, Value::Bool(true)) => first,
        (Value::Bool(true), _) | (_, Value::Bool(false)) => second,
        _ => json!({"allOf": [first, second]}),
    }
}

/// Applies each side's `additionalProperties` to the properties that only the other side names: in the joined
/// schema they are no longer additional. Returns `false` if one schema cannot express this.
fn spread_additional(left: &mut Map<String, Value>, right: &mut Map<String, Value>) -> bool {
    let is_open = |side: &Map<String, Value>| {
        side.get("additionalProperties").is_none_or(|rule| rule == &Value::Bool(true))
            && !side.contains_key("patternProperties")
    };
    if is_open(left) && is_open(right) {
        return true;
    }
    let fill = |from: &Map<String, Value>, into: &mut Map<String, Value>| {
        let Some(Value::Object(named)) = from.get("properties") else { return true };
        if is_open(into) {
            return true;
        }
        if into.contains_key("patternProperties") && !named.is_empty() {
            return false;
        }
        let rule = into.get("additionalProperties").cloned().unwrap_or(Value::Bool(true));
        let properties = into.entry("properties").or_insert_with(|| json!({}));
        let Value::Object(properties) = properties else { return false };
        for name in named.keys() {
            properties.entry(name.clone()).or_insert_with(|| rule.clone());
        }
        true
    };
    if !fill(left, right) || !fill(right, left) {
        return false;
    }
    // A pattern exempts names from the rule of its own side only. One schema cannot express that.
    let has_patterns = |side: &Map<String, Value>| side.contains_key("patternProperties");
    (is_open(left) || !has_patterns(right)) && (is_open(right) || !has_patterns(left))
}

/// Returns the values that a schema lists in `const` and `enum`; `None` if it lists none.
pub(super) fn values_of(keywords: &Map<String, Value>) -> Option<Vec<Value>> {
    let listed = keywords.get("enum").and_then(Value::as_array);
    match (keywords.get("const"), listed) {
        (Some(constant), Some(listed)) if !listed.contains(constant) => Some(Vec::new()),
        (Some(constant), _) => Some(vec![constant.clone()]),
        (None, Some(listed)) => Some(listed.clone()),
        (None, None) => None,
    }
}

/// Returns the names under a `type` keyword.
pub(super) fn type_names(value: &Value) -> Vec<String> {
    match value {
        Value::String(name) => vec![name.clone()],
        Value::Array(names) => names.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

/// Returns the types that both lists allow; `number` includes `integer`.
fn common_types(first: &Value, second: &Value) -> Vec<String> {
    let (first, second) = (type_names(first), type_names(second));
    let holds = |list: &[String], name: &str| list.iter().any(|known| known == name);
    let admitted =
        |list: &[String], name: &str| holds(list, name) || (name == "integer" && holds(list, "number"));
    let mut common: Vec<String> = first.iter().filter(|name| admitted(&second, name)).cloned().collect();
    for name in second.iter().filter(|name| admitted(&first, name)) {
        if !holds(&common, name) {
            common.push(name.clone());
        }
    }
    // `number` is common only if both sides have it; it then includes `integer`.
    if holds(&common, "number") {
        common.retain(|name| name != "integer");
    }
    common
}
