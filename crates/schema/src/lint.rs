//! What a person most likely did wrong in a schema that compiles all the same.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::path::{Segment, json_path, unescape_pointer};
use crate::walk::{keyword_names, subschemas};

/// The most warnings for one schema; the rest would not be read.
const WARNINGS_MAX: usize = 100;

/// Something in a schema that compiles but probably does not mean what was meant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Warning {
    /// JSONPath inside the schema.
    pub path: String,
    /// What looks wrong, and what to do.
    pub message: String,
}

impl std::fmt::Display for Warning {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}: {}", self.path, self.message)
    }
}

/// Looks for likely mistakes in a schema and all its subschemas.
pub fn lint(schema: &Value) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut pending = vec![(Vec::new(), schema)];
    while let Some((place, schema)) = pending.pop() {
        let Some(keywords) = schema.as_object() else { continue };
        let mut linter = Linter { place: &place, keywords, warnings: &mut warnings };
        linter.keywords();
        linter.types();
        linter.required();
        linter.bounds();
        linter.values();
        let mut children = Vec::new();
        subschemas(keywords, |relative, child, _| {
            let steps = relative.split('/').skip(1).map(|token| Segment::Key(unescape_pointer(token)));
            children.push((place.iter().cloned().chain(steps).collect::<Vec<_>>(), child));
        });
        pending.extend(children.into_iter().rev());
        if warnings.len() >= WARNINGS_MAX {
            break;
        }
    }
    warnings.truncate(WARNINGS_MAX);
    warnings
}

struct Linter<'a> {
    place: &'a [Segment],
    keywords: &'a Map<String, Value>,
    warnings: &'a mut Vec<Warning>,
}

impl Linter<'_> {
    fn warn(&mut self, keyword: &str, message: String) {
        let mut place = self.place.to_vec();
        if !keyword.is_empty() {
            place.push(Segment::Key(keyword.to_owned()));
        }
        self.warnings.push(Warning { path: json_path(&place), message });
    }

    fn has(&self, keyword: &str) -> bool {
        self.keywords.contains_key(keyword)
    }

    /// Keywords that do not exist but nearly do.
    fn keywords(&mut self) {
        for name in self.keywords.keys() {
            if is_known(name) || name.starts_with("x-") {
                continue;
            }
            let known = ASSERTIONS.iter().copied().chain(keyword_names());
            let closest = known.map(|known| (distance(name, known), known)).min();
            if let Some((edits, suggestion)) = closest
                && (edits <= name.len().max(suggestion.len()) / 4 || name.eq_ignore_ascii_case(suggestion))
            {
                self.warn(name, format!("unknown keyword '{name}' is ignored; did you mean '{suggestion}'?"));
            }
        }
    }

    /// Keywords that have no effect, or not the one expected, because of `type`.
    fn types(&mut self) {
        let types: Option<Vec<&str>> = match self.keywords.get("type") {
            Some(Value::String(name)) => Some(vec![name]),
            Some(Value::Array(names)) => Some(names.iter().filter_map(Value::as_str).collect()),
            _ => None,
        };
        let Some(types) = types else {
            if self.has("properties")
                && !self.has("$ref")
                && !self.has("allOf")
                && self.place.last() != Some(&Segment::Key("if".into()))
            {
                self.warn(
                    "properties",
                    "'properties' without 'type' also accepts strings, numbers and arrays; add \"type\": \"object\"".to_owned(),
                );
            }
            return;
        };
        for (keyword, needed) in TYPED {
            if self.has(keyword) && !needed.iter().any(|name| types.contains(name)) {
                self.warn(
                    keyword,
                    format!(
                        "'{keyword}' has no effect on type {}; it applies to {}",
                        types.join(" or "),
                        needed.join(" or ")
                    ),
                );
            }
        }
        if types.contains(&"array") && !self.has("items") && !self.has("prefixItems") && !self.has("contains")
        {
            self.warn(
                "",
                "an array without 'items' accepts anything in it; say what its items are".to_owned(),
            );
        }
    }

    /// Required names that can never be satisfied, or that are not described.
    fn required(&mut self) {
        let Some(Value::Array(required)) = self.keywords.get("required") else { return };
        let closed = self.keywords.get("additionalProperties") == Some(&Value::Bool(false))
            && !self.has("patternProperties");
        let properties = self.keywords.get("properties").and_then(Value::as_object);
        for name in required.iter().filter_map(Value::as_str) {
            let described = properties.is_some_and(|properties| properties.contains_key(name));
            if described {
                continue;
            }
            let suggestion = properties
                .into_iter()
                .flat_map(Map::keys)
                .map(|known| (distance(name, known), known))
                .min()
                .filter(|(edits, known)| *edits <= known.len() / 3)
                .map(|(_, known)| format!("; did you mean '{known}'?"))
                .unwrap_or_default();
            if closed {
                self.warn(
                    "required",
                    format!("'{name}' is required but not in 'properties', and 'additionalProperties' is false: no object can satisfy this{suggestion}"),
                );
            } else if properties.is_some() {
                self.warn(
                    "required",
                    format!("'{name}' is required but not described in 'properties'{suggestion}"),
                );
            }
        }
        if properties.is_some_and(|properties| properties.get("required").is_some_and(Value::is_array)) {
            self.warn("properties", "'required' stands inside 'properties'; move it one level up".to_owned());
        }
    }

    /// Bounds that leave no value.
    fn bounds(&mut self) {
        for (low, high) in BOUNDS {
            let number = |keyword: &str| self.keywords.get(keyword).and_then(Value::as_f64);
            if let (Some(least), Some(most)) = (number(low), number(high)) {
                let exclusive = low.starts_with("exclusive") || high.starts_with("exclusive");
                if least > most || (exclusive && least >= most) {
                    self.warn(low, format!("'{low}' {least} and '{high}' {most} contradict each other: no value can satisfy both"));
                }
            }
        }
    }

    /// Enumerations that repeat themselves or contradict the type.
    fn values(&mut self) {
        let Some(Value::Array(values)) = self.keywords.get("enum") else { return };
        if values.is_empty() {
            self.warn("enum", "an empty 'enum' accepts nothing".to_owned());
        }
        if let Some(Value::String(name)) = self.keywords.get("type") {
            let fits = |value: &Value| match name.as_str() {
                "string" => value.is_string(),
                "integer" | "number" => value.is_number(),
                "boolean" => value.is_boolean(),
                "null" => value.is_null(),
                "array" => value.is_array(),
                _ => value.is_object(),
            };
            if let Some(odd) = values.iter().find(|value| !fits(value)) {
                self.warn("enum", format!("{odd} can never match because 'type' is {name}"));
            }
        }
    }
}

const BOUNDS: [(&str, &str); 6] = [
    ("minimum", "maximum"),
    ("exclusiveMinimum", "maximum"),
    ("minimum", "exclusiveMaximum"),
    ("minLength", "maxLength"),
    ("minItems", "maxItems"),
    ("minProperties", "maxProperties"),
];

const TYPED: [(&str, &[&str]); 17] = [
    ("properties", &["object"]),
    ("required", &["object"]),
    ("additionalProperties", &["object"]),
    ("minProperties", &["object"]),
    ("maxProperties", &["object"]),
    ("items", &["array"]),
    ("prefixItems", &["array"]),
    ("minItems", &["array"]),
    ("maxItems", &["array"]),
    ("uniqueItems", &["array"]),
    ("minLength", &["string"]),
    ("maxLength", &["string"]),
    ("pattern", &["string"]),
    ("minimum", &["number", "integer"]),
    ("maximum", &["number", "integer"]),
    ("exclusiveMinimum", &["number", "integer"]),
    ("exclusiveMaximum", &["number", "integer"]),
];

/// Keywords that hold no subschemas.
const ASSERTIONS: [&str; 43] = [
    "$schema",
    "$id",
    "$ref",
    "$anchor",
    "$comment",
    "$dynamicRef",
    "$dynamicAnchor",
    "$recursiveRef",
    "$recursiveAnchor",
    "$vocabulary",
    "id",
    "type",
    "enum",
    "const",
    "required",
    "pattern",
    "format",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minContains",
    "maxContains",
    "minProperties",
    "maxProperties",
    "dependentRequired",
    "title",
    "description",
    "default",
    "examples",
    "example",
    "deprecated",
    "readOnly",
    "writeOnly",
    "contentEncoding",
    "contentMediaType",
    "contentSchema",
];

/// Annotations of neighbouring vocabularies that are no mistakes.
const ANNOTATIONS: [&str; 6] = ["nullable", "discriminator", "xml", "externalDocs", "name", "strict"];

fn is_known(name: &str) -> bool {
    ASSERTIONS.contains(&name) || ANNOTATIONS.contains(&name) || keyword_names().any(|known| known == name)
}

/// The number of edits (insert, delete, replace, swap neighbours) between two names.
fn distance(left: &str, right: &str) -> usize {
    let left: Vec<char> = left.chars().take(64).collect();
    let right: Vec<char> = right.chars().take(64).collect();
    let mut rows: Vec<Vec<usize>> = vec![(0..=right.len()).collect()];
    for (i, a) in left.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in right.iter().enumerate() {
            let mut best = (rows[i][j] + usize::from(a != b)).min(rows[i][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *a == right[j - 1] && left[i - 1] == *b {
                best = best.min(rows[i - 1][j - 1] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[left.len()][right.len()]
}
