//! Detects placeholders: content of an earlier attempt that a retry replaced by words such as
//! "test".

use serde_json::Value;

/// Words that models write to satisfy a validator without content.
const PLACEHOLDER_WORDS: [&str; 14] = [
    "test",
    "placeholder",
    "todo",
    "tbd",
    "n/a",
    "na",
    "none",
    "string",
    "example",
    "lorem ipsum",
    "foo",
    "dummy",
    "...",
    "sample",
];

/// A path whose content was replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Placeholder {
    /// The JSONPath.
    pub(crate) path: String,
    /// The value at the path, as JSON.
    pub(crate) found: String,
}

impl std::fmt::Display for Placeholder {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}: {} is a placeholder; give the real content", self.path, self.found)
    }
}

/// Returns the paths where an earlier candidate had content and the result has none.
pub(crate) fn placeholders(earlier: &[Value], result: &Value) -> Vec<Placeholder> {
    let mut found = Vec::new();
    if !earlier.is_empty() {
        let earlier: Vec<&Value> = earlier.iter().collect();
        walk(&earlier, result, &mut Vec::new(), &mut found);
    }
    found
}

fn walk(
    earlier: &[&Value],
    now: &Value,
    place: &mut Vec<slipform_schema::Segment>,
    found: &mut Vec<Placeholder>,
) {
    use slipform_schema::{Segment, json_path};
    match now {
        Value::Object(members) => {
            for (key, member) in members {
                let before: Vec<&Value> = earlier.iter().filter_map(|value| value.get(key)).collect();
                place.push(Segment::Key(key.clone()));
                walk(&before, member, place, found);
                place.pop();
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                let before: Vec<&Value> = earlier.iter().filter_map(|value| value.get(index)).collect();
                place.push(Segment::Index(index));
                walk(&before, item, place, found);
                place.pop();
            }
        }
        _ if is_trivial(now) && earlier.iter().any(|before| has_content(before)) => {
            found.push(Placeholder { path: json_path(place), found: now.to_string() });
        }
        _ => {}
    }
}

fn is_trivial(value: &Value) -> bool {
    match value {
        Value::String(text) => {
            let text = text.trim().trim_end_matches('.').to_lowercase();
            text.is_empty() || PLACEHOLDER_WORDS.contains(&text.as_str())
        }
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

fn has_content(value: &Value) -> bool {
    match value {
        Value::String(_) | Value::Array(_) => !is_trivial(value),
        Value::Object(members) => !members.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn paths(earlier: &[Value], result: &Value) -> Vec<String> {
        placeholders(earlier, result).into_iter().map(|found| found.path).collect()
    }

    #[test]
    fn content_replaced_by_placeholder_is_found() {
        let earlier = [json!({"summary": "Two bugs found", "issues": [{"file": "a.rs"}], "note": "test"})];
        assert_eq!(
            paths(&earlier, &json!({"summary": "Test.", "issues": [], "note": "test"})),
            ["$.summary", "$.issues"]
        );
        assert_eq!(
            paths(&earlier, &json!({"summary": "", "issues": [{"file": "todo"}]})),
            ["$.summary", "$.issues[0].file"]
        );
    }

    #[test]
    fn missing_content_without_earlier_content_is_ignored() {
        assert!(paths(&[], &json!({"summary": "test"})).is_empty());
        assert!(paths(&[json!({"issues": []})], &json!({"issues": [], "summary": "test"})).is_empty());
        assert!(paths(&[json!({"summary": "x y"})], &json!({"summary": "a real answer"})).is_empty());
    }
}
