//! Lowers objects and arrays.

use serde_json::{Map, Value, json};

use super::conjunction::type_names;
use super::draft::is_any;
use super::lowering::Lowering;

impl Lowering<'_> {
    /// Writes the keywords for objects. Returns `false` if no object can satisfy them.
    pub(super) fn object(&mut self, keywords: &Map<String, Value>, lowered: &mut Map<String, Value>) -> bool {
        let required = names_in(keywords.get("required"));
        let rest = self.rest(keywords);
        let mut properties =
            keywords.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
        for name in &required {
            // Backends look for required names under `properties` only.
            if !properties.contains_key(name) {
                properties.insert(name.clone(), rest.clone());
            }
        }
        let is_closed = rest == Value::Bool(false);
        self.write_property_counts(keywords, properties.len(), required.len(), is_closed, lowered);
        for name in ["dependencies", "dependentRequired", "dependentSchemas"] {
            if keywords.contains_key(name) {
                self.record_lost(name);
            }
        }
        if self.rules.closed && properties.is_empty() && !is_closed {
            self.unenforceable = true;
        }
        let has_names = !properties.is_empty();
        let mut forbids = false;
        let mut written = Map::new();
        for (name, schema) in properties {
            let is_required = required.contains(&name);
            match self.lower(&schema) {
                Value::Bool(false) if is_required => return false,
                Value::Bool(false) => forbids = true,
                property if self.rules.all_required && !is_required => {
                    self.needs_restore = true;
                    written.insert(name, nullable(property));
                }
                property => {
                    written.insert(name, property);
                }
            }
        }
        let required = if self.rules.all_required { written.keys().cloned().collect() } else { required };
        if has_names || self.rules.closed {
            lowered.insert("properties".to_owned(), Value::Object(written));
        }
        if !required.is_empty() {
            lowered.insert("required".to_owned(), json!(required));
        }
        let stated =
            keywords.contains_key("additionalProperties") || keywords.contains_key("patternProperties");
        let additional = if self.rules.closed || forbids || is_closed {
            Value::Bool(false)
        } else if is_any(&rest) {
            if has_names && !stated {
                return true;
            }
            Value::Bool(true)
        } else {
            self.lower(&rest)
        };
        lowered.insert("additionalProperties".to_owned(), additional);
        true
    }

    /// Returns the schema for properties that are not named. Patterns are widened to all names.
    fn rest(&mut self, keywords: &Map<String, Value>) -> Value {
        let additional = keywords.get("additionalProperties").cloned().unwrap_or_else(|| {
            // At this point no keyword is left that could evaluate properties.
            let unevaluated = keywords.get("unevaluatedProperties").cloned();
            unevaluated.unwrap_or(Value::Bool(true))
        });
        let Some(Value::Object(patterns)) = keywords.get("patternProperties") else { return additional };
        self.record_lost("patternProperties");
        if is_any(&additional) {
            return additional;
        }
        self.record_lost("additionalProperties");
        let mut choices: Vec<Value> = patterns.values().cloned().collect();
        choices.push(additional);
        choices.retain(|choice| choice != &Value::Bool(false));
        match choices.len() {
            0 => Value::Bool(false),
            1 => choices.swap_remove(0),
            _ => json!({"anyOf": choices}),
        }
    }

    /// Writes limits on the number of properties, or records them as lost if the named properties do not
    /// imply them.
    fn write_property_counts(
        &mut self,
        keywords: &Map<String, Value>,
        named: usize,
        required: usize,
        is_closed: bool,
        lowered: &mut Map<String, Value>,
    ) {
        let limit = |name: &str| keywords.get(name).and_then(Value::as_f64);
        if limit("minProperties").is_some_and(|least| least > required as f64) {
            self.count("minProperties", keywords, self.rules.property_counts, lowered);
        }
        let fits = |most: f64| (is_closed || self.rules.closed) && most >= named as f64;
        if limit("maxProperties").is_some_and(|most| !fits(most)) {
            self.count("maxProperties", keywords, self.rules.property_counts, lowered);
        }
        if keywords.contains_key("propertyNames") {
            self.record_lost("propertyNames");
        }
    }

    /// Writes the keywords for arrays.
    pub(super) fn array(&mut self, keywords: &Map<String, Value>, lowered: &mut Map<String, Value>) {
        let most = keywords.get("maxItems").and_then(Value::as_f64);
        if keywords.contains_key("uniqueItems") && most.is_none_or(|most| most > 1.0) {
            self.record_lost("uniqueItems");
        }
        let least_matches = keywords.get("minContains").and_then(Value::as_f64);
        for name in ["contains", "minContains", "maxContains"] {
            if keywords.contains_key("contains") && keywords.contains_key(name) {
                let is_void = name != "maxContains" && least_matches == Some(0.0);
                if !is_void {
                    self.record_lost(name);
                }
            }
        }
        let items = keywords.get("items").cloned().unwrap_or(Value::Bool(true));
        let (tuple, rest) = match (keywords.get("prefixItems"), items) {
            (_, Value::Array(tuple)) => {
                (tuple, keywords.get("additionalItems").cloned().unwrap_or(Value::Bool(true)))
            }
            (Some(Value::Array(tuple)), rest) => (tuple.clone(), rest),
            (_, items) => (Vec::new(), items),
        };
        if keywords.contains_key("unevaluatedItems") && is_any(&rest) {
            self.record_lost("unevaluatedItems");
        }
        if tuple.is_empty() {
            self.list(keywords, &rest, lowered);
        } else {
            self.tuple(keywords, tuple, &rest, lowered);
        }
    }

    fn list(&mut self, keywords: &Map<String, Value>, items: &Value, lowered: &mut Map<String, Value>) {
        let items = self.lower(items);
        if items == Value::Bool(false) {
            lowered.insert("items".to_owned(), json!({}));
            lowered.insert("maxItems".to_owned(), json!(0));
            self.unenforceable |= self.rules.closed;
            return;
        }
        lowered.insert("items".to_owned(), items);
        let least = keywords.get("minItems").and_then(Value::as_f64).unwrap_or(0.0);
        if self.rules.item_counts || least <= 1.0 {
            self.count("minItems", keywords, true, lowered);
        } else {
            // These backends enforce at most one item.
            lowered.insert("minItems".to_owned(), json!(1));
            self.record_lost("minItems");
        }
        self.count("maxItems", keywords, self.rules.item_counts, lowered);
    }

    fn tuple(
        &mut self,
        keywords: &Map<String, Value>,
        tuple: Vec<Value>,
        rest: &Value,
        lowered: &mut Map<String, Value>,
    ) {
        self.unenforceable |= self.rules.closed;
        self.has_tuples = true;
        let most = keywords.get("maxItems").and_then(Value::as_f64).unwrap_or(f64::INFINITY);
        let least = keywords.get("minItems").and_then(Value::as_f64).unwrap_or(0.0);
        let mut written = Vec::new();
        for schema in &tuple {
            let item = self.lower(schema);
            // The array must end before an item that no value satisfies.
            if item == Value::Bool(false) || written.len() as f64 >= most {
                break;
            }
            written.push(item);
        }
        let is_cut = written.len() < tuple.len();
        let count = written.len();
        lowered.insert("prefixItems".to_owned(), Value::Array(written));
        if least > count as f64 && (self.rules.exact_tuples || is_cut) {
            self.record_lost("minItems");
        }
        if self.rules.exact_tuples || is_cut {
            let least = if self.rules.exact_tuples { count as f64 } else { least.min(count as f64) };
            lowered.insert("minItems".to_owned(), json!(least as u64));
            lowered.insert("maxItems".to_owned(), json!(count));
            return;
        }
        let rest = self.lower(rest);
        lowered.insert("items".to_owned(), rest);
        for name in ["minItems", "maxItems"] {
            self.count(name, keywords, true, lowered);
        }
    }
}

/// Returns the strings of a list, without duplicates.
fn names_in(list: Option<&Value>) -> Vec<String> {
    let names = list.and_then(Value::as_array).into_iter().flatten();
    let mut unique: Vec<String> = Vec::new();
    for name in names.filter_map(Value::as_str) {
        if !unique.iter().any(|known| known == name) {
            unique.push(name.to_owned());
        }
    }
    unique
}

/// Returns a schema that also accepts `null`.
fn nullable(schema: Value) -> Value {
    let nothing = json!({"type": "null"});
    let Value::Object(mut keywords) = schema else { return schema };
    if keywords.contains_key("$ref") {
        return json!({"anyOf": [keywords, nothing]});
    }
    if let Some(Value::Array(branches)) = keywords.get_mut("anyOf") {
        if !branches.iter().any(admits_null) {
            branches.push(nothing);
        }
        return Value::Object(keywords);
    }
    if let Some(constant) = keywords.shift_remove("const") {
        keywords.insert("enum".to_owned(), json!([constant]));
    }
    if let Some(Value::Array(values)) = keywords.get_mut("enum")
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
    if let Some(stated) = keywords.get_mut("type") {
        let mut names = type_names(stated);
        if !names.iter().any(|name| name == "null") {
            names.push("null".to_owned());
            *stated = json!(names);
        }
    }
    Value::Object(keywords)
}

fn admits_null(lowered: &Value) -> bool {
    lowered.get("type").is_some_and(|stated| type_names(stated).iter().any(|name| name == "null"))
}
