//! Removes what validators of other languages read differently: in Python and JavaScript, in drafts 7 and 2020-12.
//!
//! A schema may only become weaker, so that it accepts every value that it accepted before. A weaker schema under `not`
//! refuses more: if anything was removed, the rules that count or negate matches are removed as well.

use serde_json::{Map, Value, json};

use crate::walk::subschemas_mut;

/// The formats that remain in a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Formats {
    /// Those on which validators agree.
    Agreed,
    /// All of them, as a hint for models.
    All,
}

/// The formats on which validators agree, if they know them.
const AGREED_FORMATS: [&str; 4] = ["date", "date-time", "ipv4", "uuid"];

/// The keywords that validators for draft 7 ignore.
const LATER_KEYWORDS: [&str; 6] = [
    "dependentRequired",
    "dependentSchemas",
    "maxContains",
    "prefixItems",
    "unevaluatedItems",
    "unevaluatedProperties",
];

/// Rewrites the root and the definitions of a document.
pub(crate) fn rewrite(parts: &mut [&mut Value], formats: Formats) {
    let mut is_weaker = false;
    for part in &mut *parts {
        remove_differences(part, formats, &mut is_weaker);
    }
    if is_weaker {
        parts.iter_mut().for_each(|part| remove_negations(part));
    }
}

/// Removes the rules of a schema that validators read differently. Sets `is_weaker` if some validator may now accept
/// more than the original.
fn remove_differences(schema: &mut Value, formats: Formats, is_weaker: &mut bool) {
    let Value::Object(keywords) = schema else { return };
    if keywords.get("$ref").and_then(Value::as_str).is_some_and(|reference| reference.contains("//")) {
        // The meta-schema of a draft, which not every validator has.
        *is_weaker |= remove(keywords, &["$ref"]);
    }
    if keywords.get("pattern").and_then(Value::as_str).is_some_and(|pattern| !is_portable(pattern)) {
        *is_weaker |= remove(keywords, &["pattern"]);
    }
    if let Some(Value::String(pattern)) = keywords.get_mut("pattern") {
        *pattern = with_explicit_dots(pattern);
    }
    if keywords.get("multipleOf").is_some_and(|factor| !factor.is_u64()) {
        // Many validators divide in binary, where 19.99 is no multiple of 0.01.
        *is_weaker |= remove(keywords, &["multipleOf"]);
    }
    if formats == Formats::Agreed
        && let Some(format) = keywords.get("format").and_then(Value::as_str)
        && !AGREED_FORMATS.contains(&format)
    {
        *is_weaker |= remove(keywords, &["format"]);
    }
    if let Some(Value::Object(patterns)) = keywords.get_mut("patternProperties") {
        let before = patterns.len();
        patterns.retain(|pattern, _| is_portable(pattern));
        if patterns.len() < before {
            // Names that matched would now count as other properties.
            *is_weaker |= remove(keywords, &["additionalProperties", "unevaluatedProperties"]);
            *is_weaker = true;
        }
    }
    if keywords.contains_key("minContains") {
        *is_weaker |= remove(keywords, &["contains", "minContains", "maxContains"]);
    }
    if let Some(length) = keywords.get("prefixItems").and_then(Value::as_array).map(Vec::len)
        && let Some(rest) = keywords.get("items")
    {
        // Draft 7 would apply the rule for further items to all.
        if rest == &Value::Bool(false) {
            let limit = keywords.get("maxItems").and_then(Value::as_u64).unwrap_or(u64::MAX);
            keywords.insert("maxItems".to_owned(), json!(limit.min(length as u64)));
        }
        *is_weaker |= remove(keywords, &["items"]);
    }
    spell_out_booleans(keywords);
    *is_weaker |= LATER_KEYWORDS.iter().any(|name| keywords.contains_key(*name));
    subschemas_mut(keywords, |child| remove_differences(child, formats, is_weaker));
}

/// The keywords whose members are schemas. Many readers expect objects there.
const SCHEMA_MAPS: [&str; 3] = ["properties", "patternProperties", "dependentSchemas"];
const SCHEMA_LISTS: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];

/// Replaces `true` and `false` among the members of keywords by objects that mean the same.
fn spell_out_booleans(keywords: &mut Map<String, Value>) {
    let spell_out = |schema: &mut Value| match schema {
        Value::Bool(true) => *schema = json!({}),
        Value::Bool(false) => *schema = json!({"not": {}}),
        _ => {}
    };
    for keyword in SCHEMA_MAPS {
        let members = keywords.get_mut(keyword).and_then(Value::as_object_mut);
        members.into_iter().flat_map(Map::values_mut).for_each(spell_out);
    }
    for keyword in SCHEMA_LISTS {
        let members = keywords.get_mut(keyword).and_then(Value::as_array_mut);
        members.into_iter().flatten().for_each(spell_out);
    }
}

/// Removes keywords, and returns whether there were any.
fn remove(keywords: &mut Map<String, Value>, names: &[&str]) -> bool {
    names.iter().filter(|name| keywords.shift_remove(**name).is_some()).count() > 0
}

/// Removes the rules that refuse more if a part of them accepts more.
fn remove_negations(schema: &mut Value) {
    let Value::Object(keywords) = schema else { return };
    for name in ["not", "if", "then", "else", "maxContains", "unevaluatedItems", "unevaluatedProperties"] {
        keywords.shift_remove(name);
    }
    if let Some(branches) = keywords.shift_remove("oneOf") {
        if keywords.contains_key("anyOf") {
            let both = keywords.entry("allOf").or_insert_with(|| json!([]));
            both.as_array_mut().into_iter().for_each(|both| both.push(json!({"anyOf": branches})));
        } else {
            keywords.insert("anyOf".to_owned(), branches);
        }
    }
    subschemas_mut(keywords, remove_negations);
}

/// Returns whether a pattern is valid and means the same in Python's `re` and in JavaScript with Unicode.
fn is_portable(pattern: &str) -> bool {
    let mut characters = pattern.chars().peekable();
    let mut before: Option<char> = None;
    // Beside a look-ahead, the letters and digits of a class are those of every script for some validators.
    let (mut looks_ahead, mut has_class) = (false, false);
    while let Some(character) = characters.next() {
        let is_allowed = match character {
            '\\' => characters.next().is_some_and(|escaped| {
                has_class |= "dwsS".contains(escaped);
                "dwsStnrfv\\./^$*+?()[]{}|".contains(escaped) || is_code(escaped, &mut characters)
            }),
            '[' => {
                let class = characters.clone().take_while(|character| *character != ']');
                has_class |= class.collect::<String>().contains('\\');
                is_portable_class(&mut characters)
            }
            '(' if characters.peek() == Some(&'?') => {
                characters.next();
                let kind = characters.next();
                looks_ahead |= matches!(kind, Some('=' | '!'));
                matches!(kind, Some(':' | '=' | '!'))
            }
            '{' => is_repetition(&mut characters),
            // Characters that must be escaped in JavaScript.
            '}' | ']' => false,
            // Possessive quantifiers.
            '+' => !matches!(before, Some('*' | '+' | '?' | '}')),
            _ => true,
        };
        if !is_allowed {
            return false;
        }
        before = match character {
            '\\' | '[' | '(' => None,
            '{' => Some('}'),
            other => Some(other),
        };
    }
    !(looks_ahead && has_class)
}

/// Replaces dots by a class: JavaScript's dot does not match `\r`, U+2028 and U+2029.
fn with_explicit_dots(pattern: &str) -> String {
    let mut text = String::with_capacity(pattern.len());
    let (mut is_escaped, mut is_in_class) = (false, false);
    for character in pattern.chars() {
        match character {
            '.' if !is_escaped && !is_in_class => text.push_str(r"[^\n]"),
            _ => text.push(character),
        }
        match character {
            '[' if !is_escaped => is_in_class = true,
            ']' if !is_escaped => is_in_class = false,
            _ => {}
        }
        is_escaped = character == '\\' && !is_escaped;
    }
    text
}

type Characters<'p> = std::iter::Peekable<std::str::Chars<'p>>;

/// Reads the digits of `\x41` or `\u0041`.
fn is_code(kind: char, characters: &mut Characters<'_>) -> bool {
    let length = match kind {
        'x' => 2,
        'u' => 4,
        _ => return false,
    };
    (0..length).all(|_| characters.next().is_some_and(|digit| digit.is_ascii_hexdigit()))
}

/// Reads a class such as `[^a-z\d]` after its opening bracket.
fn is_portable_class(characters: &mut Characters<'_>) -> bool {
    let is_negated = characters.next_if_eq(&'^').is_some();
    // An empty class in JavaScript, a bracket in Python.
    if characters.peek() == Some(&']') {
        return false;
    }
    let (mut follows_set, mut follows_dash) = (false, false);
    while let Some(character) = characters.next() {
        let mut is_set = false;
        match character {
            ']' => return true,
            '\\' => {
                let Some(escaped) = characters.next() else { return false };
                is_set = "dws".contains(escaped);
                let is_known = is_set || "tnrfv\\./^$*+?()[]{}|-".contains(escaped);
                // Python's digits and letters are those of every script, so others are fewer.
                if (is_set && (is_negated || follows_dash)) || !(is_known || is_code(escaped, characters)) {
                    return false;
                }
            }
            '-' if follows_set && characters.peek() != Some(&']') => return false,
            _ => {}
        }
        follows_dash = character == '-';
        follows_set = is_set;
    }
    false
}

/// Reads a repetition such as `{1,3}` after its opening brace.
fn is_repetition(characters: &mut Characters<'_>) -> bool {
    let mut text = String::new();
    for character in characters.by_ref() {
        if character == '}' {
            let (low, high) = text.split_once(',').unwrap_or((&text, ""));
            let is_number = |text: &str| text.chars().all(|digit| digit.is_ascii_digit());
            return !low.is_empty() && is_number(low) && is_number(high);
        }
        text.push(character);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_patterns_that_mean_the_same_everywhere_are_portable() {
        for pattern in ["^[a-z0-9_.-]+$", r"^\d{4}-\d{2}$", r"(?:a|b)?c+?", r"[\w.]+@[\w-]+", r"\u00e9\/\$"] {
            assert!(is_portable(pattern), "{pattern}");
        }
        for pattern in [
            r"\p{L}",
            r"(?i)a",
            r"(?<year>\d)",
            r"(?P<y>\d)",
            r"(?<=a)b",
            r"a\-b",
            "a{",
            "{}",
            "a]",
            "[]a]",
            r"[\w-.]",
            r"[^\d]",
            r"\D",
            r"\Aa\Z",
            "a*+",
            r"\1",
            r"[a-\d]",
            r"\bword",
            r"^(?=.*\d).+$",
        ] {
            assert!(!is_portable(pattern), "{pattern}");
        }
    }

    #[test]
    fn dot_becomes_a_class_that_every_language_reads_alike() {
        assert_eq!(with_explicit_dots(r"^a.b\.c[.\].]*\\.$"), r"^a[^\n]b\.c[.\].]*\\[^\n]$");
    }

    #[test]
    fn rules_that_negate_are_removed_with_what_they_depend_on() {
        let mut schema = json!({
            "not": {"pattern": r"\p{L}"},
            "oneOf": [{"type": "string"}, {"multipleOf": 2}],
            "patternProperties": {r"^\p{L}": {"type": "string"}, "^a": true},
            "additionalProperties": false,
        });
        rewrite(&mut [&mut schema], Formats::Agreed);
        let expected = json!({
            "anyOf": [{"type": "string"}, {"multipleOf": 2}],
            "patternProperties": {"^a": {}},
        });
        assert_eq!(schema, expected);
        let mut schema = json!({"not": {"type": "string"}, "oneOf": [{"multipleOf": 3}]});
        let unchanged = schema.clone();
        rewrite(&mut [&mut schema], Formats::Agreed);
        assert_eq!(schema, unchanged);
    }
}
