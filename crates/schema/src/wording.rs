//! How values are written inside messages.

use serde_json::Value;

/// The longest rendering of a single value inside a message; longer ones are cut with an ellipsis.
const VALUE_CHARS_MAX: usize = 80;

/// The most alternatives listed in one message.
const CHOICES_MAX: usize = 30;

/// A value as it appears in a message: strings in single quotes, everything else as JSON.
pub(crate) fn show(value: &Value) -> String {
    let text = match value {
        Value::String(text) => format!("'{}'", clip(text)),
        other => clip(&other.to_string()),
    };
    text.replace('\n', "\\n")
}

/// A list of values: `['low', 'medium', 'high']`.
pub(crate) fn show_list<'a>(values: impl IntoIterator<Item = &'a Value>) -> String {
    let mut shown: Vec<String> = values.into_iter().map(show).collect();
    let left_out = shown.len().saturating_sub(CHOICES_MAX);
    shown.truncate(CHOICES_MAX);
    if left_out > 0 {
        shown.push(format!("… {left_out} more"));
    }
    format!("[{}]", shown.join(", "))
}

/// The JSON type of a value, with its article.
pub(crate) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(number) if number.is_f64() => "a number",
        Value::Number(_) => "an integer",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// The name of a JSON Schema type, with its article.
pub(crate) fn type_name(name: &str) -> String {
    match name {
        "integer" | "array" | "object" => format!("an {name}"),
        "null" => name.to_owned(),
        _ => format!("a {name}"),
    }
}

/// Joins alternatives with commas and a final "or".
pub(crate) fn either(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

/// `1 item`, `2 items`.
pub(crate) fn count(number: u64, noun: &str, plural: &str) -> String {
    format!("{number} {}", if number == 1 { noun } else { plural })
}

fn clip(text: &str) -> String {
    match text.char_indices().nth(VALUE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
