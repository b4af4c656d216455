//! Renders bounds as short notes.

use serde_json::Value;

use crate::shape::Shape;

/// The longest pattern that is shown, in characters. Models do not follow longer ones.
const PATTERN_CHARACTERS_MAX: usize = 80;

pub(super) fn string_bounds(shape: &Shape<'_>) -> String {
    let mut notes = Vec::new();
    notes.extend(range(shape, "minLength", "maxLength", " characters"));
    if let Some(format) = shape.text("format") {
        notes.push(format.to_owned());
    }
    if let Some(pattern) = shape.text("pattern").filter(|text| text.chars().count() <= PATTERN_CHARACTERS_MAX)
    {
        notes.push(format!("matching {pattern}"));
    }
    in_brackets(&notes)
}

pub(super) fn item_bounds(shape: &Shape<'_>) -> String {
    let mut notes = Vec::new();
    notes.extend(range(shape, "minItems", "maxItems", " items"));
    if shape.bound("uniqueItems") == Some(&Value::Bool(true)) {
        notes.push("all different".to_owned());
    }
    in_brackets(&notes)
}

pub(super) fn number_bounds(shape: &Shape<'_>) -> String {
    let mut notes = Vec::new();
    notes.extend(range(shape, "minimum", "maximum", ""));
    for (name, words) in
        [("exclusiveMinimum", "more than"), ("exclusiveMaximum", "less than"), ("multipleOf", "multiple of")]
    {
        if let Some(bound) = shape.bound(name).filter(|bound| bound.is_number()) {
            notes.push(format!("{words} {bound}"));
        }
    }
    in_brackets(&notes)
}

fn range(shape: &Shape<'_>, least: &str, most: &str, unit: &str) -> Option<String> {
    let bound = |name: &str| shape.bound(name).filter(|bound| bound.is_number());
    let least = bound(least).filter(|least| unit.is_empty() || least.as_f64() != Some(0.0));
    Some(match (least, bound(most)) {
        (Some(least), Some(most)) if least == most => format!("exactly {least}{unit}"),
        (Some(least), Some(most)) => format!("{least} to {most}{unit}"),
        (Some(least), None) => format!("at least {least}{unit}"),
        (None, Some(most)) => format!("at most {most}{unit}"),
        (None, None) => return None,
    })
}

fn in_brackets(notes: &[String]) -> String {
    if notes.is_empty() { String::new() } else { format!(" ({})", notes.join(", ")) }
}
