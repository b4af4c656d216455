//! Formats any JSON value as an indented outline.

use serde_json::{Map, Value};

use super::page::{Page, one_line};

/// The indentation per level, in spaces.
const STEP: usize = 2;

/// Adds the members of an object with their names.
pub(super) fn members(page: &mut Page, indent: usize, members: &Map<String, Value>) {
    for (name, member) in members {
        named(page, indent, name, member);
    }
}

/// Adds a value of any type.
pub(super) fn value(page: &mut Page, indent: usize, value: &Value) {
    match value {
        Value::Object(object) if !object.is_empty() => members(page, indent, object),
        Value::Array(items) if !items.is_empty() => list(page, indent, items),
        other => page.text(indent, &plain(other)),
    }
}

fn named(page: &mut Page, indent: usize, name: &str, member: &Value) {
    let name = format!("{}:", one_line(name));
    match member {
        Value::Object(object) if !object.is_empty() => {
            page.text(indent, &name);
            members(page, indent + STEP, object);
        }
        Value::Array(items) if !items.is_empty() => {
            page.text(indent, &name);
            list(page, indent + STEP, items);
        }
        Value::String(text) if text.contains('\n') => {
            page.text(indent, &name);
            page.text(indent + STEP, text);
        }
        other => page.text(indent, &format!("{name} {}", plain(other))),
    }
}

fn list(page: &mut Page, indent: usize, items: &[Value]) {
    for (index, item) in items.iter().enumerate() {
        match item {
            Value::Object(object) if !object.is_empty() => {
                page.text(indent, &format!("{}.", index + 1));
                members(page, indent + STEP, object);
            }
            Value::Array(inner) if !inner.is_empty() => {
                page.text(indent, &format!("{}.", index + 1));
                list(page, indent + STEP, inner);
            }
            other => page.item(indent, "-", None, &plain(other)),
        }
    }
}

/// Formats a scalar or an empty container.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) if text.trim().is_empty() => "(empty)".to_owned(),
        Value::String(text) => text.clone(),
        Value::Null => "(none)".to_owned(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Array(_) | Value::Object(_) => "(empty)".to_owned(),
        Value::Number(number) => number.to_string(),
    }
}
