//! Formwork's benchmarks: accuracy and speed beside the peers, in one run.
#![allow(clippy::print_stdout, reason = "reports go to stdout")]
#![allow(missing_docs, reason = "a binary")]

mod accuracy;
mod corpus;

use anyhow::{Result, bail};
use formwork_extract::{Options, Outcome, extract};
use formwork_schema::Cache;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(folder) = corpus::folder() else {
        bail!("the corpora are not beside this checkout (../shared/corpora); nothing can be measured without them")
    };
    let show = arguments.get(1).cloned();
    let cache = Cache::default();
    let answer = |row: &corpus::Row, strict: bool| {
        let schema = row.schema.as_ref().and_then(|schema| cache.compile(schema).ok());
        let options = if strict { Options::default() } else { Options::lenient() };
        match extract(&row.input, schema.as_ref(), &options) {
            Outcome::Valid(extraction) => Some(extraction.value),
            _ => None,
        }
    };
    let (lines, silent) = accuracy::measure(&folder, answer, |name, row, given| {
        if show.as_deref().is_some_and(|show| name.starts_with(show)) {
            println!("--- {} {}", name, row.id);
            println!("input    {:?}", row.input.chars().take(700).collect::<String>());
            println!("expected {}", serde_json::to_string(&row.accept).unwrap_or_default().chars().take(500).collect::<String>());
            println!("given    {}", serde_json::to_string(given).unwrap_or_default().chars().take(500).collect::<String>());
            if let Some(schema) = &row.schema {
                println!("schema   {}", schema.to_string().chars().take(400).collect::<String>());
            }
        }
    })?;
    for line in &lines {
        println!("{:32} {:5}/{:5} {:6.2} % (to reach {:5.1})", line.name, line.tally.right, line.tally.total, line.tally.percent(), line.target);
    }
    println!("silent wrong: {}/{} {:.2} %", silent.right, silent.total, silent.percent());
    Ok(())
}
