//! Scores an extractor: the share of rows with the expected value, per corpus.

use std::path::Path;

use anyhow::Result;
use serde_json::Value;

use crate::corpus::{Row, rows};

/// The number of right rows in a set.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tally {
    pub right: usize,
    pub total: usize,
}

impl Tally {
    fn add(&mut self, is_right: bool) {
        self.right += usize::from(is_right);
        self.total += 1;
    }

    pub fn percent(self) -> f64 {
        if self.total == 0 { 100.0 } else { 100.0 * self.right as f64 / self.total as f64 }
    }
}

/// The result of one measure. `target` is the percentage to reach.
#[derive(Debug, Clone)]
pub struct Score {
    pub name: &'static str,
    pub target: f64,
    pub tally: Tally,
}

/// The value that an extractor finds in a row, if any.
pub type Answer = Option<Value>;

/// A measure: which rows of a corpus count, and when an answer is right.
struct Measure {
    name: &'static str,
    corpus: &'static str,
    target: f64,
    is_strict: bool,
    /// Whether the label is the unchanged document, so that the row's schema must not be used.
    is_plain: bool,
    includes: fn(&Row) -> bool,
    is_right: fn(&Row, &Answer) -> bool,
}

fn accepted(row: &Row, answer: &Answer) -> bool {
    match answer {
        Some(value) => row.accepts(value),
        None => row.expect_none && row.accept.is_none(),
    }
}

fn refused(_: &Row, answer: &Answer) -> bool {
    answer.is_none()
}

fn gold(row: &Row, answer: &Answer) -> bool {
    answer.as_ref().is_some_and(|value| row.has_gold(value))
}

const MEASURES: &[Measure] = &[
    Measure {
        name: "BAML, expressible",
        corpus: "baml_jsonish",
        target: 95.0,
        is_strict: false,
        is_plain: false,
        includes: |row| {
            row.schema_expressible == Some(true) && row.accept.is_some() && !row.expect_error && !row.partial
        },
        is_right: accepted,
    },
    Measure {
        name: "BAML, cut-off documents",
        corpus: "baml_jsonish",
        target: 0.0,
        is_strict: false,
        is_plain: false,
        includes: |row| {
            row.schema_expressible == Some(true) && row.accept.is_some() && !row.expect_error && row.partial
        },
        is_right: accepted,
    },
    Measure {
        name: "BAML, must fail",
        corpus: "baml_jsonish",
        target: 90.0,
        is_strict: false,
        is_plain: false,
        includes: |row| row.expect_error && row.schema_expressible == Some(true),
        is_right: refused,
    },
    Measure {
        name: "extraction tests",
        corpus: "extraction_tests",
        target: 98.0,
        is_strict: false,
        is_plain: false,
        includes: |row| row.accept.is_some() || row.expect_none,
        is_right: accepted,
    },
    Measure {
        name: "BFCL real",
        corpus: "bfcl_real",
        target: 98.0,
        is_strict: false,
        is_plain: false,
        includes: |row| row.accept.is_some(),
        is_right: accepted,
    },
    Measure {
        name: "BFCL real, several payloads",
        corpus: "bfcl_real",
        target: 97.0,
        is_strict: false,
        is_plain: false,
        includes: |row| row.n_payloads.is_some_and(|payloads| payloads > 1),
        is_right: accepted,
    },
    Measure {
        name: "BFCL negatives, rejected",
        corpus: "bfcl_real_negative",
        target: 100.0,
        is_strict: false,
        is_plain: false,
        includes: |row| row.expect_none,
        is_right: refused,
    },
    Measure {
        name: "ollama real",
        corpus: "ollama_real",
        target: 99.5,
        is_strict: false,
        is_plain: true,
        includes: |row| row.accept.is_some(),
        is_right: accepted,
    },
    Measure {
        name: "ollama hard, gold fields",
        corpus: "ollama_real_hard",
        target: 88.0,
        is_strict: false,
        is_plain: false,
        includes: |row| row.gold_fields.is_some(),
        is_right: gold,
    },
    Measure {
        name: "pydantic-ai real, strict mode",
        corpus: "pydantic_ai_real",
        target: 100.0,
        is_strict: true,
        is_plain: false,
        includes: |row| row.accept.is_some(),
        is_right: accepted,
    },
    Measure {
        name: "partial JSON",
        corpus: "partial_json",
        target: 95.0,
        is_strict: false,
        is_plain: false,
        includes: |row| row.accept.is_some(),
        is_right: accepted,
    },
    Measure {
        name: "jsonrepair pairs",
        corpus: "jsonrepair_pairs",
        target: 95.0,
        is_strict: false,
        is_plain: false,
        includes: |row| row.accept.is_some(),
        is_right: accepted,
    },
    Measure {
        name: "json_repair pairs",
        corpus: "json_repair_pairs",
        target: 90.0,
        is_strict: false,
        is_plain: false,
        includes: |row| row.accept.is_some(),
        is_right: accepted,
    },
];

/// The corpora with labelled replies. A wrong value for one of their rows is a silent error.
pub const LABELLED: [&str; 4] = ["extraction_tests", "bfcl_real", "ollama_real", "pydantic_ai_real"];

/// Measures one extractor on all corpora and returns the scores and the silent errors. `answer` gets the row and
/// whether strict mode applies; `on_miss` gets each row with a wrong answer.
pub fn measure(
    folder: &Path,
    mut answer: impl FnMut(&Row, bool) -> Answer,
    mut on_miss: impl FnMut(&str, &Row, &Answer),
) -> Result<(Vec<Score>, Tally)> {
    let mut scores = Vec::new();
    for measure in MEASURES {
        let mut tally = Tally::default();
        for row in rows(folder, measure.corpus)?.iter().filter(|row| (measure.includes)(row)) {
            let row = if measure.is_plain { &Row { schema: None, ..row.clone() } } else { row };
            let found = answer(row, measure.is_strict);
            let is_right = (measure.is_right)(row, &found);
            tally.add(is_right);
            if !is_right {
                on_miss(measure.name, row, &found);
            }
        }
        scores.push(Score { name: measure.name, target: measure.target, tally });
    }
    let mut silent_errors = Tally::default();
    for corpus in LABELLED {
        for row in rows(folder, corpus)?.iter().filter(|row| row.accept.is_some() || row.expect_none) {
            let row = &Row { schema: row.schema.clone().filter(|_| corpus != "ollama_real"), ..row.clone() };
            let found = answer(row, corpus == "pydantic_ai_real");
            silent_errors.add(found.is_some_and(|value| !row.accepts(&value)));
        }
    }
    Ok((scores, silent_errors))
}
