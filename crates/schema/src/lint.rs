//! Finds likely mistakes in schemas that compile.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::google;
use crate::impossible::impossible_part;
use crate::limits::{check_depth, locate};
use crate::path::{Segment, json_path, unescape_pointer};
use crate::walk::{keyword_names, subschemas};

/// The most warnings for one schema. Users do not read longer lists.
const WARNINGS_MAX: usize = 100;

/// A likely mistake: the schema compiles but probably does not have the intended meaning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Warning {
    /// JSONPath of the keyword or subschema inside the schema.
    pub path: String,
    /// The problem and its fix.
    pub message: String,
}

impl std::fmt::Display for Warning {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}: {}", self.path, self.message)
    }
}

/// Returns the likely mistakes in a schema and all its subschemas, in document order.
pub fn lint(schema: &Value) -> Vec<Warning> {
    let mut warnings = Vec::new();
    // Rewriting recurses. A deeper schema does not compile in any form.
    let standard =
        if check_depth(schema).is_ok() { google::standard_form(schema) } else { Cow::Borrowed(schema) };
    if let Cow::Owned(_) = standard
        && let Some(stated) = google::upper_case_type(schema)
    {
        let name = stated.as_str().unwrap_or_default();
        let advice = match google::json_type(name) {
            Some(known) => format!("write '{known}'"),
            None => "leave it out".to_owned(),
        };
        let message =
            format!("'{name}' is the form of Google's APIs, which is accepted; in JSON Schema, {advice}");
        warnings.push(Warning { path: locate(schema, stated), message });
    }
    let schema = &*standard;
    let draft = schema.get("$schema").and_then(Value::as_str);
    let is_draft7 = draft.is_none_or(|draft| draft.contains("draft-07"));
    let mut has_contradiction = false;
    let mut pending = vec![(Vec::new(), schema)];
    while let Some((place, schema)) = pending.pop() {
        let Some(keywords) = schema.as_object() else { continue };
        let mut linter = Linter {
            is_draft7,
            place: &place,
            keywords,
            warnings: &mut warnings,
            has_contradiction: &mut has_contradiction,
        };
        linter.keywords();
        linter.types();
        linter.required();
        linter.bounds();
        linter.values();
        let mut children = Vec::new();
        subschemas(keywords, |relative, child, _| {
            let step = |token: &str| {
                token.parse().map_or_else(|_| Segment::Key(unescape_pointer(token)), Segment::Index)
            };
            let steps = relative.split('/').skip(1).map(step);
            children.push((place.iter().cloned().chain(steps).collect::<Vec<_>>(), child));
        });
        pending.extend(children.into_iter().rev());
        if warnings.len() >= WARNINGS_MAX {
            break;
        }
    }
    warnings.truncate(WARNINGS_MAX);
    // A warning about the contradiction itself says more.
    if let Some(part) = impossible_part(schema).filter(|_| !has_contradiction) {
        let message =
            format!("no value satisfies the schema: {part} allows nothing, so every run fails; correct it");
        warnings.push(Warning { path: "$".to_owned(), message });
    }
    warnings
}

struct Linter<'a> {
    /// Whether the document is draft-07, by `$schema` or by default.
    is_draft7: bool,
    place: &'a [Segment],
    keywords: &'a Map<String, Value>,
    warnings: &'a mut Vec<Warning>,
    /// Set when a warning names keywords that contradict each other.
    has_contradiction: &'a mut bool,
}

impl Linter<'_> {
    fn warn(&mut self, keyword: &str, message: String) {
        let mut place = self.place.to_vec();
        if !keyword.is_empty() {
            place.push(Segment::Key(keyword.to_owned()));
        }
        self.warnings.push(Warning { path: json_path(&place), message });
    }

    /// Returns whether another schema, which applies to the same value, may declare the type.
    fn is_conditional(&self) -> bool {
        const BESIDE: [&str; 9] =
            ["if", "then", "else", "not", "allOf", "anyOf", "oneOf", "dependentSchemas", "dependencies"];
        self.place
            .iter()
            .any(|segment| matches!(segment, Segment::Key(key) if BESIDE.contains(&key.as_str())))
    }

    fn has(&self, keyword: &str) -> bool {
        self.keywords.contains_key(keyword)
    }

    /// Warns about misspelled keywords, and about keywords of other drafts and tools.
    fn keywords(&mut self) {
        for name in self.keywords.keys() {
            if let Some((_, advice)) = FOREIGN.iter().find(|(foreign, _)| foreign == name) {
                self.warn(name, format!("'{name}' has no effect here; {advice}"));
            } else if !is_known(name)
                && !name.starts_with("x-")
                && let Some(suggestion) = suggestion(name)
            {
                self.warn(name, format!("unknown keyword '{name}' is ignored; did you mean '{suggestion}'?"));
            }
        }
        if self.is_draft7 {
            for name in NEWER.iter().filter(|name| self.keywords.contains_key(**name)) {
                let message = format!(
                    "'{name}' is unknown to draft-07 and has no effect; add \"$schema\": \"https://json-schema.org/draft/2020-12/schema\""
                );
                self.warn(name, message);
            }
        }
        if let Some(Value::String(format)) = self.keywords.get("format")
            && let Some((_, known)) = FORMATS.iter().find(|(alias, _)| alias == format)
        {
            self.warn("format", format!("unknown format '{format}' is ignored; did you mean '{known}'?"));
        }
        let has_no_keyword = !self.keywords.is_empty() && !self.keywords.keys().any(|name| is_keyword(name));
        if has_no_keyword && self.place.is_empty() {
            self.warn("", "no JSON Schema keyword found, so any value is accepted".to_owned());
        }
    }

    /// Warns about keywords that have no effect, or an unexpected one, because of `type`.
    fn types(&mut self) {
        let types: Option<Vec<&str>> = match self.keywords.get("type") {
            Some(Value::String(name)) => Some(vec![name]),
            Some(Value::Array(names)) => Some(names.iter().filter_map(Value::as_str).collect()),
            _ => None,
        };
        let Some(types) = types else {
            if self.has("properties") && !self.has("$ref") && !self.has("allOf") && !self.is_conditional() {
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
                "an array without 'items' accepts any item; describe the items in 'items'".to_owned(),
            );
        }
    }

    /// Warns about required names that no object can have, or that are not described.
    fn required(&mut self) {
        let Some(Value::Array(required)) = self.keywords.get("required") else { return };
        let closed = self.keywords.get("additionalProperties") == Some(&Value::Bool(false))
            && !self.has("patternProperties");
        let properties = self.keywords.get("properties").and_then(Value::as_object);
        let is_described_elsewhere = self.is_conditional()
            || ["allOf", "anyOf", "oneOf", "$ref", "patternProperties"]
                .iter()
                .any(|keyword| self.has(keyword));
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
                *self.has_contradiction = true;
                self.warn(
                    "required",
                    format!("'{name}' is required but not in 'properties', and 'additionalProperties' is false: no object can satisfy this{suggestion}"),
                );
            } else if properties.is_some() && !is_described_elsewhere {
                self.warn(
                    "required",
                    format!("'{name}' is required but not described in 'properties'{suggestion}"),
                );
            }
        }
        if properties.is_some_and(|properties| properties.get("required").is_some_and(Value::is_array)) {
            self.warn("properties", "'required' is inside 'properties'; move it one level up".to_owned());
        }
    }

    /// Warns about bounds that no value satisfies.
    fn bounds(&mut self) {
        for (low, high) in BOUNDS {
            let number = |keyword: &str| self.keywords.get(keyword).and_then(Value::as_f64);
            if let (Some(least), Some(most)) = (number(low), number(high)) {
                let exclusive = low.starts_with("exclusive") || high.starts_with("exclusive");
                if least > most || (exclusive && least >= most) {
                    *self.has_contradiction = true;
                    self.warn(low, format!("'{low}' {least} and '{high}' {most} contradict each other: no value can satisfy both"));
                }
            }
        }
    }

    /// Warns about empty enumerations and values that contradict the type.
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

const BOUNDS: [(&str, &str); 8] = [
    ("exclusiveMinimum", "exclusiveMaximum"),
    ("minContains", "maxContains"),
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

/// Names of other libraries and languages that users write instead of a keyword.
const SYNONYMS: [(&str, &str); 13] = [
    ("min", "minimum"),
    ("max", "maximum"),
    ("values", "enum"),
    ("options", "enum"),
    ("regex", "pattern"),
    ("props", "properties"),
    ("property", "properties"),
    ("fields", "properties"),
    ("item", "items"),
    ("one_of", "oneOf"),
    ("any_of", "anyOf"),
    ("all_of", "allOf"),
    ("optional", "required"),
];

/// Keywords of related vocabularies, and the replacement for each.
const FOREIGN: [(&str, &str); 2] = [
    ("nullable", "write \"type\": [\"string\", \"null\"] to allow null"),
    ("input_schema", "this is a tool definition, not a schema; use the schema inside it"),
];

/// Keywords introduced after draft-07.
const NEWER: [&str; 9] = [
    "prefixItems",
    "dependentRequired",
    "dependentSchemas",
    "unevaluatedProperties",
    "unevaluatedItems",
    "minContains",
    "maxContains",
    "$dynamicRef",
    "$recursiveRef",
];

/// Wrong names of formats, and the correct name for each.
const FORMATS: [(&str, &str); 7] = [
    ("datetime", "date-time"),
    ("date_time", "date-time"),
    ("timestamp", "date-time"),
    ("e-mail", "email"),
    ("url", "uri"),
    ("ip", "ipv4"),
    ("guid", "uuid"),
];

/// Returns the keyword that a name most likely stands for.
fn suggestion(name: &str) -> Option<&'static str> {
    if let Some((_, known)) = SYNONYMS.iter().find(|(synonym, _)| *synonym == name) {
        return Some(known);
    }
    let known = ASSERTIONS.iter().copied().chain(keyword_names());
    let (edits, suggestion) = known.map(|known| (distance(name, known), known)).min()?;
    let is_close = name.len() > 4 && edits <= name.len().max(suggestion.len()) / 4;
    (is_close || name.eq_ignore_ascii_case(suggestion)).then_some(suggestion)
}

/// Keywords that contain no subschemas.
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

/// Annotations of related vocabularies that are not mistakes.
const ANNOTATIONS: [&str; 5] = ["discriminator", "xml", "externalDocs", "name", "strict"];

fn is_known(name: &str) -> bool {
    is_keyword(name) || ANNOTATIONS.contains(&name)
}

fn is_keyword(name: &str) -> bool {
    ASSERTIONS.contains(&name) || keyword_names().any(|known| known == name)
}

/// Returns the number of edits (insert, delete, replace, swap neighbours) between two names.
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
