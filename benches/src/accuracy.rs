//! How often each extractor gives the expected value, corpus by corpus.

use std::path::Path;

use anyhow::Result;
use serde_json::Value;

use crate::corpus::{Row, rows};

/// A tally over one set of rows.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tally {
    pub right: usize,
    pub total: usize,
}

impl Tally {
    fn add(&mut self, right: bool) {
        self.right += usize::from(right);
        self.total += 1;
    }

    pub fn percent(self) -> f64 {
        if self.total == 0 { 100.0 } else { 100.0 * self.right as f64 / self.total as f64 }
    }
}

/// One line of the table.
#[derive(Debug, Clone)]
pub struct Line {
    pub name: &'static str,
    pub target: f64,
    pub tally: Tally,
}

/// The answer of an extractor for a row: a value, or nothing.
pub type Answer = Option<Value>;

/// What to measure of which corpus.
struct Measure {
    name: &'static str,
    corpus: &'static str,
    target: f64,
    strict: bool,
    /// Whether the label is the document as it stands, so that no schema may take part.
    plain: bool,
    counts: fn(&Row) -> bool,
    right: fn(&Row, &Answer) -> bool,
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
        strict: false,
        plain: false,
        counts: |row| {
            row.schema_expressible == Some(true) && row.accept.is_some() && !row.expect_error && !row.partial
        },
        right: accepted,
    },
    Measure {
        name: "BAML, cut-off documents",
        corpus: "baml_jsonish",
        target: 0.0,
        strict: false,
        plain: false,
        counts: |row| {
            row.schema_expressible == Some(true) && row.accept.is_some() && !row.expect_error && row.partial
        },
        right: accepted,
    },
    Measure {
        name: "BAML, must fail",
        corpus: "baml_jsonish",
        target: 90.0,
        strict: false,
        plain: false,
        counts: |row| row.expect_error && row.schema_expressible == Some(true),
        right: refused,
    },
    Measure {
        name: "extraction tests",
        corpus: "extraction_tests",
        target: 98.0,
        strict: false,
        plain: false,
        counts: |row| row.accept.is_some() || row.expect_none,
        right: accepted,
    },
    Measure {
        name: "BFCL real",
        corpus: "bfcl_real",
        target: 98.0,
        strict: false,
        plain: false,
        counts: |row| row.accept.is_some(),
        right: accepted,
    },
    Measure {
        name: "BFCL real, several payloads",
        corpus: "bfcl_real",
        target: 97.0,
        strict: false,
        plain: false,
        counts: |row| row.n_payloads.is_some_and(|payloads| payloads > 1),
        right: accepted,
    },
    Measure {
        name: "BFCL negatives, rejected",
        corpus: "bfcl_real_negative",
        target: 100.0,
        strict: false,
        plain: false,
        counts: |row| row.expect_none,
        right: refused,
    },
    Measure {
        name: "ollama real",
        corpus: "ollama_real",
        target: 99.5,
        strict: false,
        plain: true,
        counts: |row| row.accept.is_some(),
        right: accepted,
    },
    Measure {
        name: "ollama hard, gold fields",
        corpus: "ollama_real_hard",
        target: 88.0,
        strict: false,
        plain: false,
        counts: |row| row.gold_fields.is_some(),
        right: gold,
    },
    Measure {
        name: "pydantic-ai real, strict mode",
        corpus: "pydantic_ai_real",
        target: 100.0,
        strict: true,
        plain: false,
        counts: |row| row.accept.is_some(),
        right: accepted,
    },
    Measure {
        name: "partial JSON",
        corpus: "partial_json",
        target: 95.0,
        strict: false,
        plain: false,
        counts: |row| row.accept.is_some(),
        right: accepted,
    },
    Measure {
        name: "jsonrepair pairs",
        corpus: "jsonrepair_pairs",
        target: 95.0,
        strict: false,
        plain: false,
        counts: |row| row.accept.is_some(),
        right: accepted,
    },
    Measure {
        name: "json_repair pairs",
        corpus: "json_repair_pairs",
        target: 90.0,
        strict: false,
        plain: false,
        counts: |row| row.accept.is_some(),
        right: accepted,
    },
];

/// The corpora whose rows are labelled replies: a wrong value there is a silent error.
pub const LABELLED: [&str; 4] = ["extraction_tests", "bfcl_real", "ollama_real", "pydantic_ai_real"];

/// Measures one extractor on all corpora. `answer` gets the row and whether strict mode is asked for.
pub fn measure(
    folder: &Path,
    mut answer: impl FnMut(&Row, bool) -> Answer,
    mut wrong: impl FnMut(&str, &Row, &Answer),
) -> Result<(Vec<Line>, Tally)> {
    let mut lines = Vec::new();
    for measure in MEASURES {
        let mut tally = Tally::default();
        for row in rows(folder, measure.corpus)?.iter().filter(|row| (measure.counts)(row)) {
            let row = if measure.plain { &Row { schema: None, ..row.clone() } } else { row };
            let given = answer(row, measure.strict);
            let right = (measure.right)(row, &given);
            tally.add(right);
            if !right {
                wrong(measure.name, row, &given);
            }
        }
        lines.push(Line { name: measure.name, target: measure.target, tally });
    }
    let mut silent = Tally::default();
    for corpus in LABELLED {
        for row in rows(folder, corpus)?.iter().filter(|row| row.accept.is_some() || row.expect_none) {
            let row = &Row { schema: row.schema.clone().filter(|_| corpus != "ollama_real"), ..row.clone() };
            let given = answer(row, corpus == "pydantic_ai_real");
            silent.add(given.is_some_and(|value| !row.accepts(&value)));
        }
    }
    Ok((lines, silent))
}
