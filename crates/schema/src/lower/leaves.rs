//! Lowers schemas without unions: types, listed values, strings and numbers.

use serde_json::{Map, Value, json};

use super::conjunction::{type_names, values_of};
use super::lowering::Lowering;
use super::rules::Bounds;
use super::unions::type_of;
use crate::Schema;

/// Keywords that constrain one type only, by type. A schema with such keywords and no `type` gets that type,
/// because backends would otherwise generate any value.
const BY_TYPE: [(&str, &[&str]); 4] = [
    (
        "object",
        &[
            "properties",
            "required",
            "additionalProperties",
            "patternProperties",
            "minProperties",
            "maxProperties",
            "propertyNames",
            "dependencies",
            "dependentRequired",
            "dependentSchemas",
            "unevaluatedProperties",
        ],
    ),
    (
        "array",
        &[
            "items",
            "prefixItems",
            "additionalItems",
            "minItems",
            "maxItems",
            "uniqueItems",
            "contains",
            "unevaluatedItems",
        ],
    ),
    ("string", &["minLength", "maxLength", "pattern", "format"]),
    ("number", &["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"]),
];

impl Lowering<'_> {
    /// Lowers a schema without unions and references.
    pub(super) fn leaf(&mut self, keywords: Map<String, Value>) -> Value {
        if let Some(values) = values_of(&keywords) {
            return self.values(&keywords, values);
        }
        self.record_lost_logic(&keywords);
        let types = match keywords.get("type") {
            Some(stated) => type_names(stated),
            None => {
                let implied =
                    |(_, names): &&(&str, &[&str])| names.iter().any(|name| keywords.contains_key(*name));
                match BY_TYPE.iter().find(implied) {
                    Some((name, _)) => vec![(*name).to_owned()],
                    None => return self.any_value(keywords),
                }
            }
        };
        let mut lowered = Map::new();
        lowered.insert(
            "type".to_owned(),
            if let [single] = types.as_slice() { json!(single) } else { json!(types) },
        );
        self.annotate(&keywords, &mut lowered);
        let has = |name: &str| types.iter().any(|known| known == name);
        if has("object") && !self.object(&keywords, &mut lowered) {
            return Value::Bool(false);
        }
        if has("array") {
            self.array(&keywords, &mut lowered);
        }
        if has("string") {
            self.string(&keywords, &mut lowered);
        }
        if has("integer") || has("number") {
            self.number(&keywords, !has("number"), &mut lowered);
        }
        Value::Object(lowered)
    }

    /// Records `not` and conditions as lost; no backend enforces them.
    fn record_lost_logic(&mut self, keywords: &Map<String, Value>) {
        if keywords.contains_key("not") {
            self.record_lost("not");
        }
        let branches = ["then", "else"].into_iter().filter(|name| keywords.contains_key(*name));
        for branch in branches.filter(|_| keywords.contains_key("if")) {
            self.record_lost("if");
            self.record_lost(branch);
        }
    }

    /// Writes the listed values that the keywords beside them accept, because backends ignore those keywords.
    fn values(&mut self, keywords: &Map<String, Value>, values: Vec<Value>) -> Value {
        self.record_lost_logic(keywords);
        let is_compound = |value: &Value| value.is_array() || value.is_object();
        let has_compound = values.iter().any(is_compound);
        self.unenforceable |= has_compound && !self.rules.compound_values;
        let mut beside = keywords.clone();
        beside.retain(|name, _| {
            let simple = BY_TYPE[2].1.contains(&name.as_str()) || BY_TYPE[3].1.contains(&name.as_str());
            simple || name == "type"
        });
        if has_compound {
            for (_, names) in &BY_TYPE[..2] {
                for name in names.iter().filter(|name| keywords.contains_key(**name)) {
                    self.record_lost(name);
                }
            }
        }
        let mut admitted = values;
        if !beside.is_empty() {
            match Schema::compile(&Value::Object(beside.clone())) {
                Ok(schema) => admitted.retain(|value| schema.is_valid(value)),
                Err(_) => beside.keys().for_each(|name| self.record_lost(name)),
            }
        }
        let mut types: Vec<&str> = Vec::new();
        for name in admitted.iter().map(type_of) {
            if !types.contains(&name) {
                types.push(name);
            }
        }
        if types.contains(&"number") {
            types.retain(|name| *name != "integer");
        }
        let mut lowered = Map::new();
        match types.as_slice() {
            [] => return Value::Bool(false),
            [single] => lowered.insert("type".to_owned(), json!(single)),
            several => lowered.insert("type".to_owned(), json!(several)),
        };
        self.annotate(keywords, &mut lowered);
        if keywords.contains_key("const") && admitted.len() == 1 {
            lowered.insert("const".to_owned(), admitted.swap_remove(0));
        } else {
            lowered.insert("enum".to_owned(), Value::Array(admitted));
        }
        Value::Object(lowered)
    }

    fn string(&mut self, keywords: &Map<String, Value>, lowered: &mut Map<String, Value>) {
        let mut is_constrained = false;
        for name in self.rules.string_precedence.unwrap_or(["pattern", "format"]) {
            let Some(value) = keywords.get(name) else { continue };
            let text = value.as_str().unwrap_or_default();
            let enforced = match name {
                "pattern" => self.rules.pattern(text),
                _ => self.rules.formats.contains(&text).then(|| text.to_owned()),
            };
            match enforced.filter(|_| !(is_constrained && self.rules.string_precedence.is_some())) {
                Some(text) => {
                    lowered.insert(name.to_owned(), Value::String(text));
                    is_constrained = true;
                }
                None => self.record_lost(name),
            }
        }
        let lengths = self.rules.lengths && !(is_constrained && self.rules.string_precedence.is_some());
        for name in ["minLength", "maxLength"] {
            self.count(name, keywords, lengths, lowered);
        }
    }

    /// Writes a count or length if the backend enforces it and it does not exceed the backend's limit.
    pub(super) fn count(
        &mut self,
        name: &str,
        keywords: &Map<String, Value>,
        enforced: bool,
        lowered: &mut Map<String, Value>,
    ) {
        let Some(count) = keywords.get(name) else { return };
        let whole =
            count.as_u64().or_else(|| count.as_f64().filter(|float| *float >= 0.0).map(|float| float as u64));
        match whole.filter(|whole| enforced && *whole <= self.rules.repetitions_max) {
            Some(whole) => {
                lowered.insert(name.to_owned(), json!(whole));
            }
            None => self.record_lost(name),
        }
    }

    fn number(
        &mut self,
        keywords: &Map<String, Value>,
        only_integers: bool,
        lowered: &mut Map<String, Value>,
    ) {
        let enforced = match self.rules.bounds {
            Bounds::Enforced => true,
            Bounds::IntegersOnly => only_integers,
            Bounds::Ignored => false,
        };
        let bounds = ["minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"];
        let mut kept = Map::new();
        for name in bounds {
            match keywords.get(name) {
                Some(value) if enforced => {
                    kept.insert(name.to_owned(), value.clone());
                }
                Some(_) => self.record_lost(name),
                None => {}
            }
        }
        for (inclusive, exclusive, sign) in
            [("minimum", "exclusiveMinimum", 1.0), ("maximum", "exclusiveMaximum", -1.0)]
        {
            tighten(&mut kept, inclusive, exclusive, sign, only_integers);
        }
        lowered.extend(kept);
        if let Some(step) = keywords.get("multipleOf") {
            if self.rules.multiple_of {
                lowered.insert("multipleOf".to_owned(), step.clone());
            } else if !(only_integers && step.as_f64() == Some(1.0)) {
                self.record_lost("multipleOf");
            }
        }
    }
}

/// The largest integer that is exact as a double. Bounds beyond it are left unchanged.
const EXACT_MAX: f64 = 9_007_199_254_740_991.0;

/// Joins an inclusive and an exclusive bound into one, because backends read only the first they find. For
/// integers, the result is an inclusive integer bound.
fn tighten(
    bounds: &mut Map<String, Value>,
    inclusive: &str,
    exclusive: &str,
    sign: f64,
    only_integers: bool,
) {
    let number = |name: &str| bounds.get(name).and_then(Value::as_f64).map(|bound| bound * sign);
    let (closed, open) = (number(inclusive), number(exclusive));
    if only_integers {
        let whole = closed.map(f64::ceil).into_iter().chain(open.map(|bound| bound.floor() + 1.0));
        let Some(tightest) = whole.reduce(f64::max).filter(|bound| bound.abs() < EXACT_MAX) else { return };
        bounds.shift_remove(exclusive);
        bounds.insert(inclusive.to_owned(), json!((tightest * sign) as i64));
    } else if let (Some(closed), Some(open)) = (closed, open) {
        bounds.shift_remove(if open >= closed { inclusive } else { exclusive });
    }
}
