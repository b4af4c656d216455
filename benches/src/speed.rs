//! Extraction speed: real outputs beside the Rust peers, clean JSON beside a plain parse, hostile texts by size.

use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::{Value, json};
use slipform_extract::{Options, extract};
use slipform_schema::Schema;

use crate::corpus::rows;
use crate::peers;

/// The corpora with real model outputs.
const REAL: [&str; 6] = [
    "bfcl_real",
    "bfcl_real_hard",
    "bfcl_real_negative",
    "ollama_real",
    "ollama_real_hard",
    "pydantic_ai_real",
];

/// Rounds of interleaved measurement. The fastest round of each contestant counts, since noise only adds time.
const ROUNDS: usize = 9;

/// Reads all real outputs.
pub fn real_texts(folder: &Path) -> Result<Vec<String>> {
    let mut texts = Vec::new();
    for corpus in REAL {
        texts.extend(rows(folder, corpus)?.into_iter().map(|row| row.input));
    }
    Ok(texts)
}

/// Runs the contestants in turns and returns the fastest time of each.
fn fastest_times(contestants: &mut [(&str, &mut dyn FnMut())]) -> Vec<(String, Duration)> {
    let mut best = vec![Duration::MAX; contestants.len()];
    for _ in 0..ROUNDS {
        for (index, (_, run)) in contestants.iter_mut().enumerate() {
            let start = Instant::now();
            run();
            best[index] = best[index].min(start.elapsed());
        }
    }
    contestants.iter().zip(best).map(|((name, _), time)| ((*name).to_owned(), time)).collect()
}

fn ratio(theirs: Duration, ours: Duration) -> f64 {
    theirs.as_secs_f64() / ours.as_secs_f64()
}

/// Measures the real outputs beside the Rust peers, and returns Slipform's rate in bytes per second.
pub fn real(folder: &Path) -> Result<f64> {
    let texts = real_texts(folder)?;
    let bytes: usize = texts.iter().map(String::len).sum();
    let options = Options::lenient();
    let results = fastest_times(&mut [
        ("slipform", &mut || {
            for text in &texts {
                black_box(extract(text, None, &options));
            }
        }),
        ("crate jsonrepair 0.1", &mut || {
            for text in &texts {
                let _ = catch_unwind(AssertUnwindSafe(|| {
                    black_box(jsonrepair::loads(text, &jsonrepair::Options::default()).ok())
                }));
            }
        }),
        ("crate llm_json 1.0", &mut || {
            for text in &texts {
                let _ = catch_unwind(AssertUnwindSafe(|| {
                    black_box(llm_json::loads(text, &llm_json::RepairOptions::default()).ok())
                }));
            }
        }),
    ]);
    let ours = results[0].1;
    println!("\nreal outputs, {} texts, {:.1} MB, one core:", texts.len(), bytes as f64 / 1e6);
    for (name, time) in &results {
        println!(
            "  {name:24} {:8.1} MB/s   slipform is {:.2} times as fast",
            bytes as f64 / 1e6 / time.as_secs_f64(),
            ratio(*time, ours)
        );
    }
    let fastest_peer = results[1..].iter().map(|(_, time)| *time).min().unwrap_or(ours);
    println!("  target: 1.5 times the fastest Rust peer; measured: {:.2}", ratio(fastest_peer, ours));
    Ok(bytes as f64 / ours.as_secs_f64())
}

/// Measures the real outputs with the scripted peers. Each runs in its own process and reports its own time.
pub fn scripted(folder: &Path, our_rate: f64) -> Result<()> {
    let texts = real_texts(folder)?;
    let bytes: usize = texts.iter().map(String::len).sum();
    for peer in peers::all() {
        if let (_, Some(seconds)) = peer.answers_for(&texts)? {
            let rate = bytes as f64 / seconds;
            println!(
                "  {:24} {:8.1} MB/s   slipform is {:.0} times as fast",
                peer.name,
                rate / 1e6,
                our_rate / rate
            );
        }
    }
    println!("  target: 100 times json_repair");
    Ok(())
}

/// Measures clean JSON beside `serde_json` with the same validator.
pub fn clean(folder: &Path) -> Result<()> {
    let mut documents: Vec<(String, Value)> = Vec::new();
    for row in rows(folder, "ollama_real")?.into_iter().chain(rows(folder, "pydantic_ai_real")?) {
        let Some(schema) = row.schema else { continue };
        if serde_json::from_str::<Value>(&row.input).is_ok() {
            documents.push((row.input, schema));
        }
    }
    let large = json!({"items": (0..2000).map(|index| json!({"id": index, "name": format!("item {index}"), "price": 1.5, "tags": ["a", "b"], "note": "some longer text that goes on for a while"})).collect::<Vec<_>>()});
    let large_schema = json!({"type": "object", "properties": {"items": {"type": "array", "items": {"type": "object", "properties": {"id": {"type": "integer"}, "name": {"type": "string"}, "price": {"type": "number"}, "tags": {"type": "array", "items": {"type": "string"}}, "note": {"type": "string"}}, "required": ["id", "name"]}}}, "required": ["items"]});
    println!("\nclean JSON, parse and validate; target: at most 1.3 times a plain parse and validation");
    for (name, set) in
        [("replies", documents), ("one large document", vec![(large.to_string(), large_schema)])]
    {
        let prepared: Vec<(String, Schema, jsonschema::Validator)> = set
            .into_iter()
            .filter_map(|(text, schema)| {
                let plain = jsonschema::options().should_validate_formats(true).build(&schema).ok()?;
                let value = serde_json::from_str(&text).ok()?;
                let schema = Schema::compile(&schema).ok()?;
                // A text with a duplicate key parses, but needs a repair.
                let is_clean = plain.is_valid(&value)
                    && extract(&text, Some(&schema), &Options::default()).valid().is_some();
                is_clean.then_some((text, schema, plain))
            })
            .collect();
        let options = Options::default();
        let results = fastest_times(&mut [
            ("slipform", &mut || {
                for _ in 0..5 {
                    for (text, schema, _) in &prepared {
                        black_box(extract(text, Some(schema), &options));
                    }
                }
            }),
            ("plain", &mut || {
                for _ in 0..5 {
                    for (text, _, validator) in &prepared {
                        let value: Value = serde_json::from_str(text).unwrap_or_default();
                        black_box(validator.is_valid(&value));
                        black_box(value);
                    }
                }
            }),
        ]);
        println!(
            "  {name:24} {} documents, slipform takes {:.2} times as long",
            prepared.len(),
            ratio(results[0].1, results[1].1)
        );
    }
    Ok(())
}

/// Texts that provoke quadratic behaviour, each with its name.
fn hostile(length: usize) -> Vec<(&'static str, String)> {
    let repeat = |unit: &str| unit.repeat(length / unit.len());
    vec![
        ("{", repeat("{")),
        ("[", repeat("[")),
        ("\"", repeat("\"")),
        ("\\", repeat("\\")),
        ("{\"", repeat("{\"")),
        ("[\"", repeat("[\"")),
        ("{\"a\":", repeat("{\"a\":")),
        ("[{", repeat("[{")),
        ("([", repeat("([")),
        ("\"\\", repeat("\"\\")),
        ("{\"a", repeat("{\"a ")),
        ("['", repeat("['x ")),
        ("`", repeat("`")),
        ("```{", repeat("```{\n")),
        ("<think>", repeat("<think>{")),
        ("/*", repeat("[/*")),
        ("//", repeat("{//")),
        (",", format!("[{}", repeat(","))),
        ("}", repeat("}")),
        ("a:", format!("{{{}", repeat("a:"))),
        ("quotes in a string", format!("{{\"a\": \"{}\"}}", repeat("x\" y "))),
        ("apostrophes", format!("['{}']", repeat("it's "))),
        ("keys", format!("{{{}}}", repeat("\"a\": 1 "))),
        ("brackets in prose", repeat("see [1] and {x} or f(y=[2]) ")),
        ("open strings", repeat("{\"a\": \"b\n")),
        ("typographic", repeat("“[“")),
        ("numbers", format!("[{}]", repeat("1 "))),
        ("dots", format!("[{}]", repeat("..."))),
        ("spaces", format!("[{}]", repeat(" \n"))),
    ]
}

/// Measures how the time per byte of hostile texts grows with their size.
pub fn linear() -> Vec<(String, f64)> {
    let small = hostile(10 * 1024);
    let large = hostile(1024 * 1024);
    let options = Options::lenient();
    let mut results = Vec::new();
    println!("\nhostile texts, time per byte at 1 MiB divided by that at 10 KiB; target: at most 1.2");
    for ((name, small), (_, large)) in small.iter().zip(&large) {
        let mut small_best = Duration::MAX;
        let mut large_best = Duration::MAX;
        for _ in 0..3 {
            let start = Instant::now();
            for _ in 0..100 {
                black_box(extract(small, None, &options));
            }
            small_best = small_best.min(start.elapsed());
            let start = Instant::now();
            black_box(extract(large, None, &options));
            large_best = large_best.min(start.elapsed());
        }
        let per_byte = |time: Duration, bytes: usize| time.as_secs_f64() / bytes as f64;
        let growth = per_byte(large_best, large.len()) / per_byte(small_best, small.len() * 100);
        println!(
            "  {name:24} {growth:6.2}   ({:.1} ns per byte at 1 MiB)",
            per_byte(large_best, large.len()) * 1e9
        );
        results.push(((*name).to_owned(), growth));
    }
    results
}
