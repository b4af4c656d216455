//! Reads the text corpora from the folder beside the checkout.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde::Deserialize;
use serde_json::Value;

/// One row of a corpus: a text and its labels.
#[derive(Debug, Clone, Deserialize)]
pub struct Row {
    #[serde(default)]
    pub id: String,
    pub input: String,
    /// The accepted values, if the row is labelled.
    #[serde(default)]
    pub accept: Option<Vec<Value>>,
    #[serde(default)]
    pub expect_error: bool,
    #[serde(default)]
    pub expect_none: bool,
    #[serde(default)]
    pub schema: Option<Value>,
    /// Properties whose right values are known.
    #[serde(default)]
    pub gold_fields: Option<Value>,
    #[serde(default)]
    pub n_payloads: Option<usize>,
    /// Whether the row's expectation can be stated as a JSON Schema.
    #[serde(default)]
    pub schema_expressible: Option<bool>,
    /// Whether the text is a document that was cut off.
    #[serde(default)]
    pub partial: bool,
    /// Whether an absent property equals null.
    #[serde(default)]
    pub null_optional_ok: bool,
}

/// Returns the folder with the corpora, if it exists.
pub fn folder() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/corpora");
    folder.is_dir().then_some(folder)
}

/// Reads all rows of one corpus.
pub fn rows(folder: &Path, name: &str) -> Result<Vec<Row>> {
    let path = folder.join("text").join(format!("{name}.jsonl"));
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    text.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
}

/// The names of all text corpora.
pub const ALL: [&str; 12] = [
    "baml_jsonish",
    "bfcl_real",
    "bfcl_real_hard",
    "bfcl_real_negative",
    "extraction_tests",
    "json_repair_pairs",
    "json_repair_schema",
    "jsonrepair_pairs",
    "ollama_real",
    "ollama_real_hard",
    "partial_json",
    "pydantic_ai_real",
];

/// Reads the texts of all corpora.
pub fn all_texts(folder: &Path) -> Result<Vec<String>> {
    let mut texts = Vec::new();
    for name in ALL {
        texts.extend(rows(folder, name)?.into_iter().map(|row| row.input));
    }
    Ok(texts)
}

/// Compares two values: `1` equals `1.0`, and with `absent_is_null` an absent property equals null.
pub fn equals(left: &Value, right: &Value, absent_is_null: bool) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => left.as_f64() == right.as_f64(),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len()
                && left.iter().zip(right).all(|(left, right)| equals(left, right, absent_is_null))
        }
        (Value::Object(left), Value::Object(right)) => {
            let covers = |left: &serde_json::Map<String, Value>, right: &serde_json::Map<String, Value>| {
                left.iter().all(|(key, value)| match right.get(key) {
                    Some(other) => equals(value, other, absent_is_null),
                    None => absent_is_null && value.is_null(),
                })
            };
            covers(left, right) && covers(right, left)
        }
        _ => left == right,
    }
}

impl Row {
    /// Returns whether `value` is one of the accepted values.
    pub fn accepts(&self, value: &Value) -> bool {
        let accepted = self.accept.as_deref().unwrap_or_default();
        accepted.iter().any(|accepted| equals(value, accepted, self.null_optional_ok))
    }

    /// Returns whether `value` has all of the row's `gold_fields`.
    pub fn has_gold(&self, value: &Value) -> bool {
        let Some(Value::Object(gold)) = &self.gold_fields else { return false };
        gold.iter().all(|(key, expected)| value.get(key).is_some_and(|found| equals(found, expected, false)))
    }
}
