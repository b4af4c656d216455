//! Prints the accuracy table and the rows that Slipform misses.

use std::collections::HashMap;
use std::path::Path;

use anyhow::Result;
use serde_json::Value;
use slipform_extract::{Options, Outcome, extract};
use slipform_schema::Cache;

use crate::accuracy::{Answer, Score, Tally, measure};
use crate::corpus::{self, Row};
use crate::peers;

/// Returns a function that extracts the value of a row with Slipform.
pub fn slipform_answers(cache: &Cache) -> impl FnMut(&Row, bool) -> Answer + '_ {
    |row, is_strict| {
        let schema = match &row.schema {
            Some(schema) => Some(cache.compile(schema).ok()?),
            None => None,
        };
        let options = if is_strict { Options::default() } else { Options::lenient() };
        match extract(&row.input, schema.as_ref(), &options) {
            Outcome::Valid(extraction) => Some(extraction.value),
            _ => None,
        }
    }
}

/// Prints the table: one line per measure, one column per extractor.
pub fn accuracy(folder: &Path, with_peers: bool) -> Result<()> {
    let cache = Cache::default();
    let reasons = reasons();
    let mut misses = Vec::new();
    let (scores, silent_errors) = measure(folder, slipform_answers(&cache), |name, row, _| {
        misses.push((name.to_owned(), row.id.clone()))
    })?;
    let mut columns: Vec<(&str, Vec<Score>, Tally)> = vec![("slipform", scores, silent_errors)];
    if with_peers {
        let texts = corpus::all_texts(folder)?;
        for peer in peers::all() {
            let (answers, _) = peer.answers_for(&texts)?;
            let answer = |row: &Row, _: bool| answers.get(&row.input).cloned().flatten();
            let (scores, silent_errors) = measure(folder, answer, |_, _, _| {})?;
            columns.push((peer.name, scores, silent_errors));
        }
    }
    print!("{:32} {:>5} {:>9}", "right, in %", "rows", "target");
    columns.iter().for_each(|(name, ..)| print!(" {name:>14}"));
    println!();
    for (index, score) in columns[0].1.iter().enumerate() {
        print!("{:32} {:>5} {:>9.1}", score.name, score.tally.total, score.target);
        columns.iter().for_each(|(_, scores, _)| print!(" {:>14.1}", scores[index].tally.percent()));
        println!();
    }
    print!("{:32} {:>5} {:>9}", "silent errors, labelled rows", silent_errors.total, "<= 0.5");
    columns.iter().for_each(|(_, _, silent_errors)| print!(" {:>14.2}", silent_errors.percent()));
    println!("\n\nrows that slipform answers differently, with the reason:");
    for (name, id) in &misses {
        println!("  {name}: {id}: {}", reasons.get(id).map_or("not implemented", String::as_str));
    }
    Ok(())
}

/// Reads `arguable.json`: the reasons for deliberate differences, by row id.
fn reasons() -> HashMap<String, String> {
    serde_json::from_str(include_str!("../arguable.json")).unwrap_or_default()
}

/// Prints the missed rows of the measures whose name starts with `only`, with input and answers.
pub fn misses(folder: &Path, only: &str) -> Result<()> {
    let cache = Cache::default();
    let show = |value: &Value| value.to_string().chars().take(600).collect::<String>();
    measure(folder, slipform_answers(&cache), |name, row, found| {
        if !name.starts_with(only) {
            return;
        }
        println!("--- {name} {}", row.id);
        println!("input    {:?}", row.input.chars().take(700).collect::<String>());
        println!("expected {}", row.accept.iter().flatten().map(show).collect::<Vec<_>>().join(" or "));
        println!("found    {}", found.as_ref().map_or("nothing".to_owned(), show));
    })?;
    Ok(())
}
