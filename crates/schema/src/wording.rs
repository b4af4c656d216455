//! Renders values inside messages.

use serde_json::Value;

/// The longest rendering of one value inside a message, in characters. Longer ones end with an ellipsis.
const VALUE_CHARS_MAX: usize = 80;

/// The longest message or path, in characters. Longer ones end with an ellipsis.
const MESSAGE_CHARS_MAX: usize = 600;

/// The most alternatives listed in one message.
const CHOICES_MAX: usize = 30;

/// Renders a value: strings in single quotes, everything else as JSON.
pub(crate) fn show(value: &Value) -> String {
    match value {
        Value::String(text) => format!("'{}'", visible(&clip(text))),
        // The counting keyword of `budget` is an implementation detail.
        other => visible(&clip(&other.to_string().replace(",\"x-slipform-step\":true", ""))),
    }
}

/// Escapes control characters, so that the text stays on one line.
pub(crate) fn visible(text: &str) -> String {
    let is_hidden = |character: char| character.is_control() || matches!(character, '\u{2028}' | '\u{2029}');
    if !text.contains(is_hidden) {
        return text.to_owned();
    }
    text.chars()
        .map(|character| {
            if is_hidden(character) { character.escape_default().to_string() } else { character.to_string() }
        })
        .collect()
}

/// Cuts a message to [`MESSAGE_CHARS_MAX`] characters.
pub(crate) fn shorten(text: String) -> String {
    match text.char_indices().nth(MESSAGE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// Renders a list of values: `['low', 'medium', 'high']`.
pub(crate) fn show_list<'a>(values: impl IntoIterator<Item = &'a Value>) -> String {
    let mut values = values.into_iter();
    let mut shown: Vec<String> = values.by_ref().take(CHOICES_MAX).map(show).collect();
    let left_out = values.count();
    if left_out > 0 {
        shown.push(format!("… {left_out} more"));
    }
    format!("[{}]", shown.join(", "))
}

/// Returns the JSON type of a value, with its article.
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

/// Returns the name of a JSON Schema type, with its article.
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

/// Renders a number with its noun: `1 item`, `2 items`.
pub(crate) fn count(number: u64, noun: &str, plural: &str) -> String {
    format!("{number} {}", if number == 1 { noun } else { plural })
}

fn clip(text: &str) -> String {
    match text.char_indices().nth(VALUE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
