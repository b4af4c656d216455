//! Checks the accuracy on the corpora against its targets. No test asserts speed.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "tests")]

use slipform_benches::{accuracy, corpus, report};
use slipform_extract::{Options, extract};
use slipform_schema::Cache;

#[test]
fn corpora_reach_their_targets() {
    let Some(folder) = corpus::folder() else {
        println!("SKIPPED: corpora not found in ../shared/corpora");
        return;
    };
    let cache = Cache::default();
    let (scores, silent_errors) =
        accuracy::measure(&folder, report::slipform_answers(&cache), |_, _, _| {}).unwrap();
    for score in &scores {
        println!(
            "{:32} {:6.2} % of {} (target {})",
            score.name,
            score.tally.percent(),
            score.tally.total,
            score.target
        );
    }
    println!("silent errors: {} of {}", silent_errors.right, silent_errors.total);
    let missed: Vec<_> = scores.iter().filter(|score| score.tally.percent() < score.target).collect();
    assert!(missed.is_empty(), "{missed:#?}");
    assert!(
        silent_errors.percent() <= 0.5,
        "{} of {} answers are silently wrong",
        silent_errors.right,
        silent_errors.total
    );
}

#[test]
fn extraction_of_any_row_neither_panics_nor_returns_invalid_values() {
    let Some(folder) = corpus::folder() else {
        println!("SKIPPED: corpora not found in ../shared/corpora");
        return;
    };
    let cache = Cache::default();
    let mut seen = 0;
    for name in corpus::ALL {
        for row in corpus::rows(&folder, name).unwrap() {
            let schema = row.schema.as_ref().and_then(|schema| cache.compile(schema).ok());
            for options in [Options::default(), Options::lenient()] {
                let outcome = extract(&row.input, schema.as_ref(), &options);
                if let (Some(value), Some(schema)) = (outcome.valid(), &schema) {
                    assert!(schema.is_valid(value), "{}: an invalid success", row.id);
                }
                seen += 1;
            }
        }
    }
    println!("{seen} extractions");
}
