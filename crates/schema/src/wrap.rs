//! Schemas moved to another place: under a root object, or out of a document.

use std::collections::HashSet;
use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use crate::limits::check_depth;
use crate::path::{Segment, escape_pointer, unescape_pointer};
use crate::refs::{REFERENCE_KEYWORDS, References, identifier_keyword, identifies_itself, is_rebased};
use crate::shape::{Additional, Shape, Types};
use crate::walk::{subschemas, subschemas_mut};

/// The property that holds a wrapped answer.
const PROPERTY: &str = "result";

/// The keywords that hold definitions.
const SHELVES: [&str; 2] = ["$defs", "definitions"];

/// Whether the root does not promise an object, which many backends demand.
pub fn needs_wrapping(schema: &Value) -> bool {
    if check_depth(schema).is_err() {
        return true;
    }
    let references = References::collect(schema);
    let shape = Shape::new(schema, &references);
    !promises_object(&shape, 0)
}

/// How deep unions are followed to see whether every branch is an object. Deeper ones count as not.
const UNION_DEPTH_MAX: usize = 4;

fn promises_object(shape: &Shape<'_>, depth: usize) -> bool {
    // What the keywords merely imply is no promise, but one that everyone who leaves out the type means.
    if shape.types() == Types::OBJECT {
        return true;
    }
    let branches = shape.alternatives().filter(|_| depth < UNION_DEPTH_MAX);
    branches.is_some_and(|branches| {
        !branches.is_empty() && branches.iter().all(|branch| promises_object(branch, depth + 1))
    })
}

/// A schema for an object whose only property `result` satisfies `schema`. Definitions move to the root,
/// where backends look for them, and references follow.
pub fn wrap_root(schema: &Value) -> Value {
    let mut inner = schema.clone();
    let mut wrapped = Map::new();
    let moves = check_depth(schema).is_ok() && !stands_alone(schema);
    let identifier_keyword = identifier_keyword(schema);
    if let Value::Object(keywords) = &mut inner {
        // The identifier goes with the references that resolve against it.
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
    let shelves: Vec<(String, Value)> = SHELVES
        .iter()
        .filter_map(|shelf| Some(((*shelf).to_owned(), wrapped.shift_remove(*shelf)?)))
        .collect();
    wrapped.insert("type".to_owned(), json!("object"));
    wrapped.insert("properties".to_owned(), json!({PROPERTY: inner}));
    wrapped.insert("required".to_owned(), json!([PROPERTY]));
    wrapped.insert("additionalProperties".to_owned(), json!(false));
    wrapped.extend(shelves);
    Value::Object(wrapped)
}

/// Whether a document with an identifier has references that depend on more than their own place. Under its
/// identifier it stays a document of its own wherever it stands.
fn stands_alone(root: &Value) -> bool {
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
    for shelf in SHELVES {
        if let Some(definitions) = keywords.shift_remove(shelf) {
            wrapped.insert(shelf.to_owned(), definitions);
        }
    }
}

/// The places of all schemas that have references, also where only a reference leads.
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
        // A part with an identifier of its own keeps its references: they resolve against it.
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

/// Rewrites the references of one schema that has moved to `place`, except those to definitions.
fn relocate(keywords: &mut Map<String, Value>, identifier: &str, place: &str) {
    for keyword in REFERENCE_KEYWORDS {
        let Some(Value::String(reference)) = keywords.get_mut(keyword) else { continue };
        let Some(fragment) = local_fragment(reference, identifier) else { continue };
        let first = fragment.split('/').nth(1).unwrap_or_default();
        if !(fragment.is_empty() || fragment.starts_with('/')) || SHELVES.contains(&first) {
            continue;
        }
        *reference = format!("#{place}{fragment}");
        if keyword == "$recursiveRef" {
            // A recursive reference can only name the root; the plain one says where it led.
            let reference = reference.clone();
            keywords.shift_remove(keyword);
            keywords.insert("$ref".to_owned(), json!(reference));
        }
    }
}

/// What follows `#` in a reference to the document itself, by its identifier or without.
fn local_fragment<'r>(reference: &'r str, identifier: &str) -> Option<&'r str> {
    let rest = reference.strip_prefix(identifier).unwrap_or(reference);
    rest.strip_prefix('#').or_else(|| (rest.is_empty() && !identifier.is_empty()).then_some(rest))
}

/// The schema of the value at a place, as a document of its own with the definitions that it refers to.
/// Nothing when it cannot be told, as in a union.
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
    carry(schema, &references, &mut document)?;
    Some(document)
}

/// Brings the root's draft, and the targets of all references, into a document taken from it.
fn carry(root: &Value, references: &References, document: &mut Value) -> Option<()> {
    let mut shelf = Map::new();
    let mut pending = Vec::new();
    redirect(root, references, document, &mut pending)?;
    while let Some(pointer) = pending.pop() {
        let name = shelf_name(root, &pointer);
        if shelf.contains_key(&name) {
            continue;
        }
        let mut target = root.pointer(&pointer)?.clone();
        if let (true, Value::Object(keywords)) = (pointer.is_empty(), &mut target) {
            for shelf in SHELVES.into_iter().chain(["$schema"]) {
                keywords.shift_remove(shelf);
            }
        }
        redirect(root, references, &mut target, &mut pending)?;
        shelf.insert(name, target);
    }
    let Value::Object(keywords) = document else { return Some(()) };
    // In the older drafts nothing may stand beside a reference.
    if keywords.contains_key("$ref") {
        *keywords = Map::from_iter([("allOf".to_owned(), json!([keywords]))]);
    }
    if let Some(draft) = root.get("$schema") {
        keywords.shift_insert(0, "$schema".to_owned(), draft.clone());
    }
    if !shelf.is_empty() {
        keywords.insert("$defs".to_owned(), Value::Object(shelf));
    }
    Some(())
}

/// The name under `$defs` of what stood at a pointer: its own if it was a definition, else the pointer.
fn shelf_name(root: &Value, pointer: &str) -> String {
    let tokens: Vec<&str> = pointer.split('/').skip(1).collect();
    match tokens.as_slice() {
        ["$defs", name] => unescape_pointer(name),
        ["definitions", name] if root.pointer(&format!("/$defs/{name}")).is_none() => unescape_pointer(name),
        _ => format!("#{pointer}"),
    }
}

/// A reference to a name under `$defs`, with what a URI cannot hold written as percent codes.
fn shelf_reference(name: &str) -> String {
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

/// Points every reference of a schema to `$defs`; nothing when one cannot be followed.
fn redirect(
    root: &Value,
    references: &References,
    schema: &mut Value,
    pending: &mut Vec<String>,
) -> Option<()> {
    let Value::Object(keywords) = schema else { return Some(()) };
    if keywords.contains_key("$dynamicRef") || keywords.contains_key("$recursiveRef") {
        return None;
    }
    for shelf in SHELVES {
        keywords.shift_remove(shelf);
    }
    if let Some(Value::String(reference)) = keywords.get_mut("$ref") {
        let pointer = references.pointer(root, reference)?;
        *reference = shelf_reference(&shelf_name(root, &pointer));
        pending.push(pointer);
    }
    // An identifier would make the references resolve against it.
    for name in ["$id", "id", "$anchor", "$dynamicAnchor"] {
        if keywords.get(name).is_some_and(Value::is_string) {
            keywords.shift_remove(name);
        }
    }
    let mut followed = Some(());
    subschemas_mut(keywords, |child| {
        if followed.is_some() {
            followed = redirect(root, references, child, pending);
        }
    });
    followed
}
