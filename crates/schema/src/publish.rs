//! Rewrites schemas for readers outside: clients that list tools, and the validators that they use.
//!
//! The result is written for draft 2020-12 and means the same to validators that know only draft 7. It accepts every value
//! that the original accepts. It may accept more, because the original is what is enforced.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::{Map, Value, json};

use crate::error::Error;
use crate::google;
use crate::lower::draft::ANNOTATIONS;
use crate::normalize::{NormalizedSchema, normalize_with_annotations};
use crate::path::unescape_pointer;
use crate::portable::{self, Formats};
use crate::walk::{subschemas, subschemas_mut};

/// The property that contains a wrapped value.
const PROPERTY: &str = "result";

/// The keywords that many clients refuse at the root of an input schema.
const COMBINATIONS: [&str; 3] = ["allOf", "anyOf", "oneOf"];

/// A schema for readers outside.
#[derive(Debug, Clone, PartialEq)]
pub struct Published {
    /// The schema. Its root describes an object.
    pub schema: Map<String, Value>,
    /// Whether values are published as the member `result` of an object.
    pub is_wrapped: bool,
}

/// Rewrites the schema of a result. A root that may be something other than an object becomes the property `result` of
/// one.
///
/// # Errors
/// Returns an error if the schema is nested too deep.
pub fn publish_output(schema: &Value) -> Result<Published, Error> {
    let is_wrapped = !is_always_object(schema);
    let mut document = Document::read(schema, Formats::Agreed)?;
    if is_wrapped {
        let root = match std::mem::take(&mut document.root) {
            Value::Bool(true) => json!({}),
            Value::Bool(false) => json!({"not": {}}),
            root => root,
        };
        document.root = json!({
            "type": "object",
            "properties": {PROPERTY: root},
            "required": [PROPERTY],
            "additionalProperties": false,
        });
    }
    document.without_reference_at_root();
    Ok(Published { schema: document.into_schema(), is_wrapped })
}

/// Rewrites the schema of parameters. The root describes an object without `allOf`, `anyOf` or `oneOf`, every array
/// states its items, and members with a default may be omitted.
///
/// # Errors
/// See [`publish_output`].
pub fn publish_input(schema: &Value) -> Result<Map<String, Value>, Error> {
    let mut document = Document::read(schema, Formats::All)?;
    document.without_reference_at_root();
    if let Value::Object(root) = &mut document.root {
        remove_combinations(root, &document.targets);
    }
    remove_required_defaults(&mut document.root);
    for schema in std::iter::once(&mut document.root).chain(document.targets.values_mut()) {
        state_items(schema);
    }
    Ok(document.into_schema())
}

/// Returns whether every value that satisfies a schema is an object.
pub fn is_always_object(schema: &Value) -> bool {
    let standard = google::standard_form(schema);
    let Ok(normalized) = normalize_with_annotations(&standard) else { return false };
    always_object(&normalized.root, &normalized.targets, 0)
}

/// The most nested references and combinations followed to find an object. Deeper ones count as other values.
const OBJECT_DEPTH_MAX: usize = 8;

fn always_object(schema: &Value, targets: &HashMap<String, Value>, depth: usize) -> bool {
    if depth > OBJECT_DEPTH_MAX {
        return false;
    }
    let in_list = |keyword: &str| schema[keyword].as_array().into_iter().flatten();
    let is_object = |schema: &Value| always_object(schema, targets, depth + 1);
    schema["type"] == "object"
        || schema["type"] == json!(["object"])
        || schema["const"].is_object()
        || (schema["enum"].is_array() && in_list("enum").all(Value::is_object))
        || schema["$ref"].as_str().and_then(|reference| targets.get(reference)).is_some_and(is_object)
        || in_list("allOf").any(is_object)
        || ["anyOf", "oneOf"].iter().any(|union| schema[*union].is_array() && in_list(union).all(is_object))
}

/// A normalized schema with the definitions that it refers to.
struct Document {
    root: Value,
    /// By the text of the references to them.
    targets: HashMap<String, Value>,
}

impl Document {
    fn read(schema: &Value, formats: Formats) -> Result<Document, Error> {
        let standard = google::standard_form(schema);
        let (mut root, mut targets) = match normalize_with_annotations(&standard) {
            Ok(NormalizedSchema { root, targets, dynamic: None }) => (root, targets),
            // A reference whose target depends on identifiers or on the path of the value is left open.
            Ok(_) | Err(Error::Reference { .. }) => (outline(&standard), HashMap::new()),
            Err(error) => return Err(error),
        };
        let mut parts: Vec<&mut Value> = std::iter::once(&mut root).chain(targets.values_mut()).collect();
        portable::rewrite(&mut parts, formats);
        Ok(Document { root, targets })
    }

    /// Replaces a reference at the root by its target, because clients look for `type` and `properties` there.
    fn without_reference_at_root(&mut self) {
        let mut followed = HashSet::new();
        while let Some(reference) = self.root["$ref"].as_str().map(str::to_owned) {
            let target = self.targets.get(&reference).filter(|_| followed.insert(reference)).cloned();
            let Value::Object(keywords) = &mut self.root else { return };
            keywords.shift_remove("$ref");
            let Some(Value::Object(target)) = target else { return };
            if keywords.keys().all(|name| is_annotation(name)) {
                let known = std::mem::replace(keywords, target);
                keywords.extend(known);
            } else {
                // Both apply, each with its own meaning of keywords such as `additionalProperties`.
                let both = keywords.entry("allOf").or_insert_with(|| json!([]));
                both.as_array_mut().into_iter().for_each(|both| both.push(Value::Object(target.clone())));
            }
        }
    }

    /// Returns the schema with its definitions under `$defs`.
    fn into_schema(self) -> Map<String, Value> {
        let Document { root, targets } = self;
        let mut schema = match root {
            Value::Object(keywords) => keywords,
            _ => Map::new(),
        };
        schema.insert("type".to_owned(), json!("object"));
        let names = definition_names(&schema, &targets);
        let mut definitions = BTreeMap::new();
        for (reference, name) in &names {
            let mut target = targets.get(*reference).cloned().unwrap_or_else(|| json!({}));
            rename_references(&mut target, &names);
            definitions.insert(name.clone(), target);
        }
        let mut root = Value::Object(schema);
        rename_references(&mut root, &names);
        let Value::Object(mut schema) = root else { return Map::new() };
        // The type first, as readers expect it.
        if let Some(kind) = schema.shift_remove("type") {
            schema.shift_insert(0, "type".to_owned(), kind);
        }
        if !definitions.is_empty() {
            schema.insert("$defs".to_owned(), Value::Object(definitions.into_iter().collect()));
        }
        schema
    }
}

/// Returns what is certain of a schema whose references cannot be resolved.
fn outline(root: &Value) -> Value {
    let known = ["title", "description", "type"]
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), root.get(*name)?.clone())));
    Value::Object(known.collect())
}

fn is_annotation(keyword: &str) -> bool {
    ANNOTATIONS.contains(&keyword)
}

/// Returns a name for every definition that is in use, by the text of its references.
fn definition_names<'t>(
    root: &Map<String, Value>,
    targets: &'t HashMap<String, Value>,
) -> BTreeMap<&'t str, String> {
    let mut used: BTreeMap<&str, String> = BTreeMap::new();
    let mut taken = HashSet::new();
    let mut pending = references_in(&Value::Object(root.clone()));
    // Sorted, so that the same schema is published with the same names.
    pending.sort_unstable_by(|one, other| other.cmp(one));
    while let Some(reference) = pending.pop() {
        let Some((key, target)) = targets.get_key_value(&reference) else { continue };
        if used.contains_key(key.as_str()) {
            continue;
        }
        let wanted = definition_name(key);
        let numbered = (2..).map(|number| format!("{wanted}_{number}"));
        let free = std::iter::once(wanted.clone()).chain(numbered).find(|name| taken.insert(name.clone()));
        used.insert(key, free.unwrap_or(wanted));
        let mut further = references_in(target);
        further.sort_unstable_by(|one, other| other.cmp(one));
        pending.extend(further);
    }
    used
}

/// Returns a name for the target of a reference: the last part of its pointer, in characters that need no escapes.
fn definition_name(reference: &str) -> String {
    let last = reference.rsplit(['/', '#']).next().unwrap_or_default();
    let plain = |character: char| if character.is_ascii_alphanumeric() { character } else { '_' };
    let name: String = unescape_pointer(last).chars().map(plain).collect();
    if name.is_empty() { "root".to_owned() } else { name }
}

/// Returns the references of a schema and its subschemas.
fn references_in(schema: &Value) -> Vec<String> {
    let (mut found, mut pending) = (Vec::new(), vec![schema]);
    while let Some(schema) = pending.pop() {
        let Some(keywords) = schema.as_object() else { continue };
        found.extend(keywords.get("$ref").and_then(Value::as_str).map(str::to_owned));
        subschemas(keywords, |_, child, _| pending.push(child));
    }
    found
}

fn rename_references(schema: &mut Value, names: &BTreeMap<&str, String>) {
    let Value::Object(keywords) = schema else { return };
    if let Some(reference) = keywords.get("$ref").and_then(Value::as_str)
        && let Some(name) = names.get(reference)
    {
        keywords.insert("$ref".to_owned(), Value::String(format!("#/$defs/{name}")));
    }
    subschemas_mut(keywords, |child| rename_references(child, names));
}

/// Removes combinations from the root. The properties that their branches describe stay, without their rules about which
/// of them belong together.
fn remove_combinations(root: &mut Map<String, Value>, targets: &HashMap<String, Value>) {
    for keyword in COMBINATIONS {
        let Some(Value::Array(branches)) = root.shift_remove(keyword) else { continue };
        let described: Vec<Map<String, Value>> =
            branches.iter().map(|branch| properties_of(branch, targets)).collect();
        for (name, property) in described.iter().flatten() {
            let others = described.iter().map(|branch| branch.get(name));
            let shared = match keyword {
                "allOf" => property.clone(),
                // A value may satisfy another branch, which describes the property differently or not at all.
                _ => others.fold(property.clone(), |shared, other| shared_outline(&shared, other)),
            };
            let properties = root.entry("properties").or_insert_with(|| json!({}));
            if let Some(properties) = properties.as_object_mut() {
                properties.entry(name.clone()).or_insert(shared);
            }
        }
        if keyword == "allOf" {
            branches.iter().for_each(|branch| require(root, &branch["required"]));
        }
        // Rules about other properties would refuse those of the branches.
        root.shift_remove("unevaluatedProperties");
    }
}

/// Returns the properties that a branch describes, itself or by a reference.
fn properties_of(branch: &Value, targets: &HashMap<String, Value>) -> Map<String, Value> {
    let target = branch["$ref"].as_str().and_then(|reference| targets.get(reference));
    let parts = target.into_iter().chain([branch]);
    let properties = parts.filter_map(|part| part["properties"].as_object()).flatten();
    properties.map(|(name, property)| (name.clone(), property.clone())).collect()
}

/// Returns what two descriptions of a property have in common; only words if one is missing.
fn shared_outline(one: &Value, other: Option<&Value>) -> Value {
    if other == Some(one) {
        return one.clone();
    }
    let keeps = |name: &str| match other {
        Some(other) => one[name] == other[name],
        None => name != "type",
    };
    let shared = ["type", "title", "description"].into_iter().filter(|name| keeps(name));
    let shared = shared.filter_map(|name| Some((name.to_owned(), one.get(name)?.clone())));
    Value::Object(shared.collect())
}

fn require(root: &mut Map<String, Value>, names: &Value) {
    let required = root.entry("required").or_insert_with(|| json!([]));
    let Some(required) = required.as_array_mut() else { return };
    for name in names.as_array().into_iter().flatten() {
        if !required.contains(name) {
            required.push(name.clone());
        }
    }
    if required.is_empty() {
        root.shift_remove("required");
    }
}

/// Removes members with a default from `required`, because they are filled in before parameters are checked.
fn remove_required_defaults(schema: &mut Value) {
    let Value::Object(keywords) = schema else { return };
    let properties = keywords.get("properties").and_then(Value::as_object);
    let with_default =
        properties.into_iter().flatten().filter(|(_, property)| property.get("default").is_some());
    let filled: HashSet<String> = with_default.map(|(name, _)| name.clone()).collect();
    if let Some(Value::Array(required)) = keywords.get_mut("required") {
        required.retain(|name| !name.as_str().is_some_and(|name| filled.contains(name)));
    }
    let properties = keywords.get_mut("properties").and_then(Value::as_object_mut);
    properties.into_iter().flat_map(Map::values_mut).for_each(remove_required_defaults);
    keywords.get_mut("items").into_iter().for_each(remove_required_defaults);
}

/// Adds `items` to arrays that do not state them.
fn state_items(schema: &mut Value) {
    let Value::Object(keywords) = schema else { return };
    let kind = keywords.get("type");
    let may_be_array = kind.is_some_and(|kind| {
        kind == "array" || kind.as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == "array"))
    });
    if (may_be_array || keywords.contains_key("prefixItems")) && !keywords.contains_key("items") {
        keywords.insert("items".to_owned(), json!({}));
    }
    subschemas_mut(keywords, state_items);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_of_draft_7_uses_keywords_of_2020_12() {
        let published = publish_output(&json!({
            "$schema": "http://json-schema.org/draft-07/schema#",
            "title": "Order",
            "type": "object",
            "properties": {
                "pair": {"type": "array", "items": [{"type": "string"}, {"$ref": "#/definitions/Amount"}], "additionalItems": false},
                "next": {"$ref": "#"},
            },
            "definitions": {"Amount": {"type": "number", "description": "In euros."}},
        }))
        .unwrap();
        assert!(!published.is_wrapped);
        let root = json!({
            "type": "object",
            "title": "Order",
            "properties": {
                "pair": {"type": "array", "prefixItems": [{"type": "string"}, {"$ref": "#/$defs/Amount"}], "maxItems": 2},
                "next": {"$ref": "#/$defs/root"},
            },
        });
        let mut definition = root.clone();
        let mut expected = root;
        expected["$defs"] = json!({"Amount": {"type": "number", "description": "In euros."}});
        definition["title"] = json!("Order");
        expected["$defs"]["root"] = definition;
        assert_eq!(Value::Object(published.schema), expected);
    }

    #[test]
    fn root_that_may_be_something_else_is_wrapped() {
        for schema in [
            json!({"type": "array", "items": {"$ref": "#"}}),
            json!({"anyOf": [{"type": "object"}, {"type": "null"}]}),
            json!({"properties": {"a": {}}}),
            json!(true),
        ] {
            let published = publish_output(&schema).unwrap();
            assert!(published.is_wrapped, "{schema}");
            assert_eq!(published.schema["type"], "object");
            assert_eq!(published.schema["required"], json!(["result"]));
        }
        for schema in [
            json!({"$ref": "#/$defs/a", "$defs": {"a": {"type": "object"}}}),
            json!({"anyOf": [{"type": "object"}, {"const": {}}]}),
        ] {
            assert!(!publish_output(&schema).unwrap().is_wrapped, "{schema}");
        }
    }

    #[test]
    fn input_has_no_combination_at_its_root_and_items_in_arrays() {
        let input = publish_input(&json!({
            "oneOf": [
                {"properties": {"id": {"type": "string"}, "at": {"type": "integer"}}, "required": ["id"]},
                {"properties": {"tags": {"type": "array"}, "at": {"type": "string"}}},
            ],
        }))
        .unwrap();
        let properties = json!({"id": {}, "at": {}, "tags": {}});
        assert_eq!(Value::Object(input), json!({"type": "object", "properties": properties}));
        let input = publish_input(&json!({
            "properties": {"tags": {"type": "array"}},
            "allOf": [{"properties": {"id": {"type": "string"}}, "required": ["id"]}],
        }))
        .unwrap();
        let properties = json!({"tags": {"type": "array", "items": {}}, "id": {"type": "string"}});
        let expected = json!({"type": "object", "properties": properties, "required": ["id"]});
        assert_eq!(Value::Object(input), expected);
    }

    #[test]
    fn input_with_a_default_may_be_omitted_and_is_sent_in_no_header() {
        let limit = json!({"type": "integer", "default": 10, "x-mcp-header": "Limit"});
        let inner = json!({"type": "object", "properties": {"limit": limit}, "required": ["limit"]});
        let input = publish_input(&json!({
            "type": "object",
            "properties": {"limit": limit, "inner": inner, "name": {"type": "string"}},
            "required": ["limit", "inner", "name"],
        }))
        .unwrap();
        assert_eq!(input["required"], json!(["inner", "name"]));
        assert_eq!(input["properties"]["inner"]["required"], json!([]));
        assert_eq!(input["properties"]["limit"], json!({"type": "integer", "default": 10}));
    }
}
