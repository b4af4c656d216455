//! The accuracy on the corpora, held to its targets. Speed is not asserted anywhere.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "tests")]

use slipform_benches::{accuracy, corpus, report};
use slipform_extract::{Options, extract};
use slipform_schema::Cache;

#[test]
fn every_corpus_reaches_its_target() {
    let Some(folder) = corpus::folder() else {
        println!("SKIPPED: the corpora are not beside this checkout");
        return;
    };
    let cache = Cache::default();
    let (lines, silent) = accuracy::measure(&folder, report::ours(&cache), |_, _, _| {}).unwrap();
    for line in &lines {
        println!(
            "{:32} {:6.2} % of {} (to reach {})",
            line.name,
            line.tally.percent(),
            line.tally.total,
            line.target
        );
    }
    println!("silent wrong: {} of {}", silent.right, silent.total);
    let short: Vec<_> = lines.iter().filter(|line| line.tally.percent() < line.target).collect();
    assert!(short.is_empty(), "{short:#?}");
    assert!(silent.percent() <= 0.5, "{} of {} answers are silently wrong", silent.right, silent.total);
}

#[test]
fn unlabelled_rows_neither_crash_nor_lie() {
    let Some(folder) = corpus::folder() else {
        println!("SKIPPED: the corpora are not beside this checkout");
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
