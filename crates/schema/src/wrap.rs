//! Moves schemas: under a root object, or out of a document.

use std::collections::HashSet;
use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use crate::limits::check_depth;
use crate::path::{Segment, escape_pointer, unescape_pointer};
use crate::refs::{REFERENCE_KEYWORDS, References, identifier_keyword, identifies_itself, is_rebased};
use crate::shape::{Additional, Shape, Types};
use crate::walk::{subschemas, subschemas_mut};

/// The property that contains a wrapped reply.
const PROPERTY: &str = "result";

/// The keywords that contain definitions.
const DEFINITION_KEYWORDS: [&str; 2] = ["$defs", "definitions"];

/// Returns whether the root may be something other than an object. Many backends require an object.
pub fn needs_wrapping(schema: &Value) -> bool {
    if check_depth(schema).is_err() {
        return true;
    }
    let references = References::collect(schema);
    let shape = Shape::new(schema, &references);
    !is_always_object(&shape, 0)
}

/// The most nested unions followed to decide whether every branch is an object. Deeper unions count as not.
const UNION_DEPTH_MAX: usize = 4;

fn is_always_object(shape: &Shape<'_>, depth: usize) -> bool {
    // Keywords such as `properties` imply an object: authors who omit `type` mean one.
    if shape.types() == Types::OBJECT {
        return true;
    }
    let branches = shape.alternatives().filter(|_| depth < UNION_DEPTH_MAX);
    branches.is_some_and(|branches| {
        !branches.is_empty() && branches.iter().all(|branch| is_always_object(branch, depth + 1))
    })
}

/// Returns a schema for an object whose only property `result` satisfies `schema`. Definitions move to the
/// root, where backends expect them, and references are updated.
pub fn wrap_root(schema: &Value) -> Value {
    let mut inner = schema.clone();
    let mut wrapped = Map::new();
    let moves = check_depth(schema).is_ok() && !is_separate_resource(schema);
    let identifier_keyword = identifier_keyword(schema);
    if let Value::Object(keywords) = &mut inner {
        // The identifier moves together with the references that resolve against it.
        for name in ["$schema", identifier_keyword] {
            if (moves || name == "$schema") && keywords.get(name).is_some_and(Value::is_string) {
                wrapped.extend(keywords.shift_remove(name).map(|value| (name.to_owned(), value)));
            }
        }
    }
    if moves {
        let identifier = wrapped.get(identifier_keyword).and_then(Value::as_str);
        let identifier = identifier.unwrap_or_default().trim_end_matches('#').to_owned();
        for place in referring_places(schema) {
            if let Some(Value::Object(keywords)) = inner.pointer_mut(&place) {
                relocate(keywords, &identifier, &format!("/properties/{PROPERTY}"));
            }
        }
        hoist(&mut inner, &mut wrapped);
    }
    let definitions: Vec<(String, Value)> = DEFINITION_KEYWORDS
        .iter()
        .filter_map(|keyword| Some(((*keyword).to_owned(), wrapped.shift_remove(*keyword)?)))
        .collect();
    wrapped.insert("type".to_owned(), json!("object"));
    wrapped.insert("properties".to_owned(), json!({PROPERTY: inner}));
    wrapped.insert("required".to_owned(), json!([PROPERTY]));
    wrapped.insert("additionalProperties".to_owned(), json!(false));
    wrapped.extend(definitions);
    Value::Object(wrapped)
}

/// Returns whether a document with an identifier has references that depend on more than their own location.
/// Such a document keeps its identifier and stays a separate resource inside the wrapper.
fn is_separate_resource(root: &Value) -> bool {
    let Some(keywords) = root.as_object().filter(|keywords| identifies_itself(root, keywords)) else {
        return false;
    };
    let mut pending = vec![keywords];
    while let Some(keywords) = pending.pop() {
        if keywords.contains_key("$recursiveRef") || keywords.contains_key("$dynamicRef") {
            return true;
        }
        subschemas(keywords, |_, child, _| pending.extend(child.as_object()));
    }
    is_rebased(root)
}

/// Moves the definitions of a wrapped schema to the root.
fn hoist(inner: &mut Value, wrapped: &mut Map<String, Value>) {
    let Value::Object(keywords) = inner else { return };
    for keyword in DEFINITION_KEYWORDS {
        if let Some(definitions) = keywords.shift_remove(keyword) {
            wrapped.insert(keyword.to_owned(), definitions);
        }
    }
}

/// Returns the locations of all schemas with references, including those that only a reference reaches.
fn referring_places(root: &Value) -> Vec<String> {
    let references = References::collect(root);
    let mut places = Vec::new();
    let mut seen = HashSet::new();
    let mut pending = vec![String::new()];
    while let Some(place) = pending.pop() {
        let Some(schema) = root.pointer(&place).filter(|schema| seen.insert(std::ptr::from_ref(*schema)))
        else {
            continue;
        };
        let Some(keywords) = schema.as_object() else { continue };
        // A subschema with its own identifier keeps its references, because they resolve against it.
        if !place.is_empty() && identifies_itself(root, keywords) {
            continue;
        }
        let outgoing: Vec<&str> =
            REFERENCE_KEYWORDS.iter().filter_map(|keyword| keywords.get(*keyword)?.as_str()).collect();
        pending.extend(outgoing.iter().filter_map(|reference| references.pointer(root, reference)));
        subschemas(keywords, |relative, _, _| pending.push(format!("{place}{relative}")));
        if !outgoing.is_empty() {
            places.push(place);
        }
    }
    places
}

/// Rewrites the references of one schema that moved to `place`, except references to definitions.
fn relocate(keywords: &mut Map<String, Value>, identifier: &str, place: &str) {
    for keyword in REFERENCE_KEYWORDS {
        let Some(Value::String(reference)) = keywords.get_mut(keyword) else { continue };
        let Some(fragment) = local_fragment(reference, identifier) else { continue };
        let first = fragment.split('/').nth(1).unwrap_or_default();
        if !(fragment.is_empty() || fragment.starts_with('/')) || DEFINITION_KEYWORDS.contains(&first) {
            continue;
        }
        *reference = format!("#{place}{fragment}");
        if keyword == "$recursiveRef" {
            // `$recursiveRef` can refer only to the root, so it becomes a `$ref` to the new location.
            let reference = reference.clone();
            keywords.shift_remove(keyword);
            keywords.insert("$ref".to_owned(), json!(reference));
        }
    }
}

/// Returns the fragment of a reference to the document itself, with or without its identifier.
fn local_fragment<'r>(reference: &'r str, identifier: &str) -> Option<&'r str> {
    let rest = reference.strip_prefix(identifier).unwrap_or(reference);
    rest.strip_prefix('#').or_else(|| (rest.is_empty() && !identifier.is_empty()).then_some(rest))
}

/// Returns the schema of the value at a location as a separate document, with the definitions that it refers
/// to. Returns `None` if the schema is not unique, as in a union.
pub fn subschema_document(schema: &Value, place: &[Segment]) -> Option<Value> {
    check_depth(schema).ok()?;
    let references = References::collect(schema);
    let mut shape = Shape::new(schema, &references);
    for segment in place {
        if shape.alternatives().is_some() {
            return None;
        }
        shape = match segment {
            Segment::Key(name) => match shape.property(name) {
                Some(property) => property,
                None => match shape.additional() {
                    Additional::Shaped(rest) => rest,
                    _ => return None,
                },
            },
            Segment::Index(index) => shape.item(*index)?,
        };
    }
    if place.is_empty() {
        return Some(schema.clone());
    }
    let parts = shape.stated();
    let mut document = match parts {
        [] => return None,
        [single] => (*single).clone(),
        several => json!({"allOf": several}),
    };
    copy_dependencies(schema, &references, &mut document)?;
    Some(document)
}

/// Copies the root's draft and the targets of all references into a document taken from it.
fn copy_dependencies(root: &Value, references: &References, document: &mut Value) -> Option<()> {
    let mut definitions = Map::new();
    let mut pending = Vec::new();
    redirect_references(root, references, document, &mut pending)?;
    while let Some(pointer) = pending.pop() {
        let name = definition_name(root, &pointer);
        if definitions.contains_key(&name) {
            continue;
        }
        let mut target = root.pointer(&pointer)?.clone();
        if let (true, Value::Object(keywords)) = (pointer.is_empty(), &mut target) {
            for keyword in DEFINITION_KEYWORDS.into_iter().chain(["$schema"]) {
                keywords.shift_remove(keyword);
            }
        }
        redirect_references(root, references, &mut target, &mut pending)?;
        definitions.insert(name, target);
    }
    let Value::Object(keywords) = document else { return Some(()) };
    // Older drafts ignore the keywords beside a reference.
    if keywords.contains_key("$ref") {
        *keywords = Map::from_iter([("allOf".to_owned(), json!([keywords]))]);
    }
    if let Some(draft) = root.get("$schema") {
        keywords.shift_insert(0, "$schema".to_owned(), draft.clone());
    }
    if !definitions.is_empty() {
        keywords.insert("$defs".to_owned(), Value::Object(definitions));
    }
    Some(())
}

/// Returns the name under `$defs` for the target of a pointer: its own if it was a definition, else the
/// pointer.
fn definition_name(root: &Value, pointer: &str) -> String {
    let tokens: Vec<&str> = pointer.split('/').skip(1).collect();
    match tokens.as_slice() {
        ["$defs", name] => unescape_pointer(name),
        ["definitions", name] if root.pointer(&format!("/$defs/{name}")).is_none() => unescape_pointer(name),
        _ => format!("#{pointer}"),
    }
}

/// Returns a percent-encoded reference to a name under `$defs`.
fn definition_reference(name: &str) -> String {
    let mut reference = String::from("#/$defs/");
    for byte in escape_pointer(name).bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~$".contains(&byte) {
            reference.push(char::from(byte));
        } else {
            let _ = write!(reference, "%{byte:02X}");
        }
    }
    reference
}

/// Points every reference of a schema to `$defs`. Returns `None` if a target is unknown.
fn redirect_references(
    root: &Value,
    references: &References,
    schema: &mut Value,
    pending: &mut Vec<String>,
) -> Option<()> {
    let Value::Object(keywords) = schema else { return Some(()) };
    if keywords.contains_key("$dynamicRef") || keywords.contains_key("$recursiveRef") {
        return None;
    }
    for keyword in DEFINITION_KEYWORDS {
        keywords.shift_remove(keyword);
    }
    if let Some(Value::String(reference)) = keywords.get_mut("$ref") {
        let pointer = references.pointer(root, reference)?;
        *reference = definition_reference(&definition_name(root, &pointer));
        pending.push(pointer);
    }
    // References would resolve against an identifier.
    for name in ["$id", "id", "$anchor", "$dynamicAnchor"] {
        if keywords.get(name).is_some_and(Value::is_string) {
            keywords.shift_remove(name);
        }
    }
    let mut followed = Some(());
    subschemas_mut(keywords, |child| {
        if followed.is_some() {
            followed = redirect_references(root, references, child, pending);
        }
    });
    followed
}
