//! The accuracy table, and the rows we disagree with.

use std::collections::HashMap;
use std::path::Path;

use anyhow::Result;
use serde_json::Value;
use slipform_extract::{Options, Outcome, extract};
use slipform_schema::Cache;

use crate::accuracy::{Answer, Line, Tally, measure};
use crate::corpus::{self, Row};
use crate::peers;

/// Our own answer for a row.
pub fn ours(cache: &Cache) -> impl FnMut(&Row, bool) -> Answer + '_ {
    |row, strict| {
        let schema = match &row.schema {
            Some(schema) => Some(cache.compile(schema).ok()?),
            None => None,
        };
        let options = if strict { Options::default() } else { Options::lenient() };
        match extract(&row.input, schema.as_ref(), &options) {
            Outcome::Valid(extraction) => Some(extraction.value),
            _ => None,
        }
    }
}

/// Prints the table: a line a measure, a column an extractor.
pub fn accuracy(folder: &Path, with_peers: bool) -> Result<()> {
    let cache = Cache::default();
    let reasons = reasons();
    let mut misses = Vec::new();
    let (lines, silent) =
        measure(folder, ours(&cache), |name, row, _| misses.push((name.to_owned(), row.id.clone())))?;
    let mut columns: Vec<(&str, Vec<Line>, Tally)> = vec![("slipform", lines, silent)];
    if with_peers {
        let texts = corpus::all_texts(folder)?;
        for peer in peers::all() {
            let (answers, _) = peer.ask(&texts)?;
            let answer = |row: &Row, _: bool| answers.get(&row.input).cloned().flatten();
            let (lines, silent) = measure(folder, answer, |_, _, _| {})?;
            columns.push((peer.name, lines, silent));
        }
    }
    print!("{:32} {:>5} {:>9}", "right, in %", "rows", "to reach");
    columns.iter().for_each(|(name, ..)| print!(" {name:>14}"));
    println!();
    for (index, line) in columns[0].1.iter().enumerate() {
        print!("{:32} {:>5} {:>9.1}", line.name, line.tally.total, line.target);
        columns.iter().for_each(|(_, lines, _)| print!(" {:>14.1}", lines[index].tally.percent()));
        println!();
    }
    print!("{:32} {:>5} {:>9}", "silent wrong, labelled rows", silent.total, "0.5 most");
    columns.iter().for_each(|(_, _, silent)| print!(" {:>14.2}", silent.percent()));
    println!("\n\nrows that slipform answers otherwise, and why:");
    for (name, id) in &misses {
        println!("  {name}: {id}: {}", reasons.get(id).map_or("not done yet", String::as_str));
    }
    Ok(())
}

/// Why we do not give what a row expects, by row id.
fn reasons() -> HashMap<String, String> {
    serde_json::from_str(include_str!("../arguable.json")).unwrap_or_default()
}

/// Prints the rows of a measure that we miss, in full.
pub fn misses(folder: &Path, only: &str) -> Result<()> {
    let cache = Cache::default();
    let show = |value: &Value| value.to_string().chars().take(600).collect::<String>();
    measure(folder, ours(&cache), |name, row, given| {
        if !name.starts_with(only) {
            return;
        }
        println!("--- {name} {}", row.id);
        println!("input    {:?}", row.input.chars().take(700).collect::<String>());
        println!("expected {}", row.accept.iter().flatten().map(show).collect::<Vec<_>>().join(" or "));
        println!("given    {}", given.as_ref().map_or("nothing".to_owned(), show));
    })?;
    Ok(())
}
