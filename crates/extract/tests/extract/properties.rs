//! Properties of every text: no panic, no invalid success, no data lost by lossless repair.

use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use slipform_extract::{Options, Outcome, extract, extract_bytes};
use slipform_schema::Schema;

/// Returns fragments that models and attackers write, in any order.
fn fragments() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("{"),
        Just("}"),
        Just("["),
        Just("]"),
        Just("("),
        Just(")"),
        Just("\""),
        Just("'"),
        Just("`"),
        Just("```"),
        Just("```json\n"),
        Just("\\"),
        Just("\\\""),
        Just("\\u12"),
        Just("\\ud800"),
        Just(":"),
        Just(","),
        Just("..."),
        Just("//"),
        Just("/*"),
        Just("*/"),
        Just("#"),
        Just("\n"),
        Just(" "),
        Just("<think>"),
        Just("</think>"),
        Just("<tool_call>"),
        Just("</tool_call>"),
        Just("“"),
        Just("”"),
        Just("’"),
        Just("é"),
        Just("\u{feff}"),
        Just("\u{a0}"),
        Just("\0"),
        Just("1"),
        Just("-"),
        Just("1e999"),
        Just("0x1F"),
        Just("007"),
        Just("True"),
        Just("None"),
        Just("NaN"),
        Just("true"),
        Just("nul"),
        Just("key"),
        Just("\"key\": "),
        Just("\"a\""),
        Just("f(x=1)"),
        Just("=>"),
        Just("+"),
        Just("[TOOL_CALLS]"),
        Just("12345678901234567890123"),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

static SCHEMAS: LazyLock<Vec<Schema>> = LazyLock::new(|| {
    [
        json!({"type": "object", "properties": {"key": {"type": "integer"}, "a": {"enum": ["x", "y"]}}, "required": ["key"], "additionalProperties": false}),
        json!({"type": "array", "items": {"type": "string"}}),
        json!({"anyOf": [{"type": "boolean"}, {"type": "null"}, {"type": "object", "additionalProperties": {"type": "number"}}]}),
        json!({"type": "string"}),
    ]
    .iter()
    .map(|schema| Schema::compile(schema).unwrap())
    .collect()
});

/// Runs 2,000 cases, unless `PROPTEST_CASES` sets the number.
fn config() -> ProptestConfig {
    let cases =
        if std::env::var_os("PROPTEST_CASES").is_some() { ProptestConfig::default().cases } else { 2_000 };
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

fn documents() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        "[a-zA-Z0-9 ,.:;!?éß漢(){}\\[\\]/#-]{0,24}",
        "[a-z]{1,6}\n[a-z]{1,6}",
        "[a-z]{1,6}\t[a-z]{1,6}",
        "[a-z]{0,6}\\\\[a-z]{0,6}",
        "[a-z]{1,6} \"[a-z]{1,6}\" [a-z]{1,6}",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::from),
        (-1e6f64..1e6).prop_map(Value::from),
        text.prop_map(Value::String),
    ];
    let nested = leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::Array),
            prop::collection::vec(("[a-z_]{1,8}", inner), 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>())),
        ]
    });
    // The outermost level is an object or array, because a bare scalar leaves nothing to find.
    prop_oneof![
        prop::collection::vec(nested.clone(), 1..5).prop_map(Value::Array),
        prop::collection::vec(("[a-z_]{1,8}", nested), 1..5)
            .prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>())),
    ]
}

/// Lossless ways to write a document that is not valid JSON.
#[derive(Debug, Clone, Copy)]
struct Variation {
    single_quotes: bool,
    bare_keys: bool,
    python_literals: bool,
    trailing_commas: bool,
    comments: bool,
    raw_controls: bool,
    tuples: bool,
    indent: bool,
    raw_quotes: bool,
    /// Requires `indent`, because items must be on separate lines.
    no_commas: bool,
}

fn variations() -> impl Strategy<Value = Variation> {
    any::<[bool; 10]>().prop_map(|flags| Variation {
        single_quotes: flags[0],
        bare_keys: flags[1],
        python_literals: flags[2],
        trailing_commas: flags[3],
        comments: flags[4],
        raw_controls: flags[5],
        tuples: flags[6],
        indent: flags[7] || flags[9],
        raw_quotes: flags[8],
        no_commas: flags[9],
    })
}

impl Variation {
    fn text(self, text: &str, out: &mut String) {
        let quote = if self.single_quotes { '\'' } else { '"' };
        out.push(quote);
        for character in text.chars() {
            match character {
                '\\' => out.push_str("\\\\"),
                '"' | '\'' if character == quote && !self.raw_quotes => {
                    out.push('\\');
                    out.push(character);
                }
                '\n' | '\t' if self.raw_controls => out.push(character),
                '\n' => out.push_str("\\n"),
                '\t' => out.push_str("\\t"),
                other => out.push(other),
            }
        }
        out.push(quote);
    }

    fn separator(self, depth: usize, out: &mut String) {
        if self.comments {
            out.push_str(" /* note */");
        }
        if self.indent {
            out.push('\n');
            out.push_str(&"  ".repeat(depth));
        } else {
            out.push(' ');
        }
    }

    fn write(self, value: &Value, depth: usize, out: &mut String) {
        match value {
            Value::Null => out.push_str(if self.python_literals { "None" } else { "null" }),
            Value::Bool(true) => out.push_str(if self.python_literals { "True" } else { "true" }),
            Value::Bool(false) => out.push_str(if self.python_literals { "False" } else { "false" }),
            Value::Number(number) => out.push_str(&number.to_string()),
            Value::String(text) => self.text(text, out),
            Value::Array(items) => {
                // A tuple with one item would be a value in parentheses.
                let tuple = self.tuples && items.len() > 1 && depth > 0;
                out.push(if tuple { '(' } else { '[' });
                for (index, item) in items.iter().enumerate() {
                    if index > 0 && !self.no_commas {
                        out.push(',');
                    }
                    self.separator(depth + 1, out);
                    self.write(item, depth + 1, out);
                }
                if self.trailing_commas && !items.is_empty() {
                    out.push(',');
                }
                self.separator(depth, out);
                out.push(if tuple { ')' } else { ']' });
            }
            Value::Object(members) => {
                out.push('{');
                for (index, (key, member)) in members.iter().enumerate() {
                    if index > 0 && !self.no_commas {
                        out.push(',');
                    }
                    self.separator(depth + 1, out);
                    if self.bare_keys {
                        out.push_str(key)
                    } else {
                        self.text(key, out)
                    }
                    out.push_str(": ");
                    self.write(member, depth + 1, out);
                }
                if self.trailing_commas && !members.is_empty() {
                    out.push(',');
                }
                self.separator(depth, out);
                out.push('}');
            }
        }
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn extract_never_panics_and_success_is_valid(text in fragments()) {
        for options in [Options::default(), Options::lenient()] {
            let _ = extract(&text, None, &options);
            for schema in SCHEMAS.iter() {
                if let Outcome::Valid(extraction) = extract(&text, Some(schema), &options) {
                    prop_assert!(schema.is_valid(&extraction.value), "{text:?} gave {}", extraction.value);
                }
            }
        }
    }

    #[test]
    fn extract_of_invalid_utf8_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = extract_bytes(&bytes, None, &Options::lenient());
        let _ = extract_bytes(&bytes, None, &Options::default());
    }

    #[test]
    fn strict_mode_uses_lossless_repairs_only(text in fragments()) {
        if let Outcome::Valid(extraction) = extract(&text, None, &Options::default()) {
            for repair in &extraction.repairs {
                prop_assert!(repair.kind.is_lossless(), "{text:?}: {repair:?}");
            }
        }
    }

    #[test]
    fn extracted_value_is_extracted_again_unchanged(text in fragments()) {
        for options in [Options::default(), Options::lenient()] {
            if let Outcome::Valid(first) = extract(&text, None, &options) {
                let written = first.value.to_string();
                match extract(&written, None, &options) {
                    Outcome::Valid(second) => {
                        prop_assert_eq!(&second.value, &first.value, "{}", text);
                        prop_assert!(second.repairs.is_empty());
                    }
                    other => prop_assert!(false, "{text:?}: {written} gave {other:?}"),
                }
            }
        }
    }

    #[test]
    fn strict_json_only_agrees_with_serde_json(text in fragments()) {
        let options = Options { strict_json_only: true, ..Options::default() };
        let ours = extract(&text, None, &options);
        match (&ours, serde_json::from_str::<Value>(&text)) {
            (Outcome::Valid(extraction), Ok(value)) => prop_assert_eq!(&extraction.value, &value),
            (Outcome::Valid(_), Err(error)) => prop_assert!(false, "{text:?} is not JSON: {error}"),
            // Our parser also refuses duplicate keys and integers beyond 64 bits.
            (Outcome::NotFound { reason }, Ok(_)) => {
                prop_assert!(reason.contains("stands twice") || reason.contains("64 bits"), "{text:?}: {reason}");
            }
            (other, Ok(_)) => prop_assert!(false, "{text:?} gave {other:?}"),
            (_, Err(_)) => {}
        }
    }

    #[test]
    fn lossless_repair_restores_the_document(document in documents(), variation in variations(), around in 0..4) {
        let mut text = String::new();
        variation.write(&document, 0, &mut text);
        let text = match around {
            0 => text,
            1 => format!("```json\n{text}\n```"),
            2 => format!("<think>hm</think>\n{text}"),
            _ => format!("{{\"a\": 1}}</think>\n\n```\n{text}\n```\nThat is all."),
        };
        match extract(&text, None, &Options::default()) {
            Outcome::Valid(extraction) => prop_assert_eq!(extraction.value, document, "{}", text),
            other => prop_assert!(false, "{text}\ngave {other:?}"),
        }
    }

    #[test]
    fn valid_document_needs_no_repair(document in documents(), pretty in any::<bool>()) {
        let text = if pretty { serde_json::to_string_pretty(&document).unwrap() } else { document.to_string() };
        for options in [Options::default(), Options::lenient()] {
            match extract(&text, None, &options) {
                Outcome::Valid(extraction) => {
                    prop_assert_eq!(&extraction.value, &document);
                    prop_assert!(extraction.repairs.is_empty());
                }
                other => prop_assert!(false, "{text}\ngave {other:?}"),
            }
        }
    }

    #[test]
    fn truncated_document_in_strict_mode_yields_prefix_only(document in documents(), at in 0.0..1.0f64) {
        let text = document.to_string();
        let mut cut = (text.len() as f64 * at) as usize;
        while !text.is_char_boundary(cut) {
            cut -= 1;
        }
        // Strict mode may close brackets; its result must then be a prefix of the original.
        if let Outcome::Valid(extraction) = extract(&text[..cut], None, &Options::default()) {
            prop_assert!(is_prefix(&extraction.value, &document), "{} gave {}", &text[..cut], extraction.value);
        }
    }
}

/// Returns whether a value equals the other, except for missing members or items at the end.
fn is_prefix(part: &Value, whole: &Value) -> bool {
    match (part, whole) {
        (Value::Array(part), Value::Array(whole)) => {
            part.len() <= whole.len() && part.iter().zip(whole).all(|(part, whole)| is_prefix(part, whole))
        }
        (Value::Object(part), Value::Object(whole)) => {
            part.iter().all(|(key, part)| whole.get(key).is_some_and(|whole| is_prefix(part, whole)))
        }
        _ => part == whole,
    }
}
