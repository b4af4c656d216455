//! Real schemas answered by the embedded model: how many compile to a grammar, how many get a valid answer, and why the
//! others fail.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fs, io};

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};
use slipform_embedded::Embedded;
use slipform_model::BackendConfig;
use slipform_runner::LadderRung;
use slipform_schema::Schema;
use slipform_testkit::fixtures;
use slipform_types::{
    BackendKind, Blueprint, Capabilities, EventBody, OptionsPatch, Outcome, Receipt, TierBackend,
};

use crate::context::BenchRun;

/// The prompt of every run; the schema specifies the rest.
const PROMPT: &str = "Write one realistic example.";

/// The timeout of one call in seconds. A run has up to three calls.
const SECONDS_MAX: f64 = 60.0;

/// The options of the benchmark.
#[derive(Debug, Default)]
pub struct Options {
    /// The path of the weights.
    pub model: PathBuf,
    /// Names of the datasets; empty for all.
    pub only: Vec<String>,
    /// Measures only every n-th schema.
    pub every: usize,
    /// The most tokens per answer.
    pub max_tokens: u32,
    /// A file for one JSON line per schema.
    pub out: Option<PathBuf>,
}

impl Options {
    /// Parses `--model PATH [--only A,B] [--every N] [--max-tokens N] [--out FILE]`.
    pub fn parse(arguments: &[String]) -> Result<Options> {
        let mut options = Options { every: 1, max_tokens: 400, ..Options::default() };
        for pair in arguments.chunks(2) {
            let [name, value] = pair else { bail!("{} needs a value", pair[0]) };
            match name.as_str() {
                "--model" => options.model = value.into(),
                "--only" => options.only = value.split(',').map(str::to_owned).collect(),
                "--every" => options.every = value.parse().context("--every")?,
                "--max-tokens" => options.max_tokens = value.parse().context("--max-tokens")?,
                "--out" => options.out = Some(value.into()),
                _ => bail!("unknown option {name}"),
            }
        }
        if options.every == 0 {
            bail!("--every must be at least 1");
        }
        Ok(options)
    }
}

/// One dataset: a name and its schemas by id.
struct Dataset {
    name: String,
    schemas: Vec<(String, Value)>,
}

/// Reads the schemas of the fixtures first, then those of the corpus.
fn datasets(folder: &Path) -> Result<Vec<Dataset>> {
    let seeds = fixtures::all().into_iter().map(|fixture| {
        let schema = fixture.output_schema().clone();
        (fixture.name.to_owned(), schema)
    });
    let mut found = vec![Dataset { name: "seeds".to_owned(), schemas: seeds.collect() }];
    let entries = fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    files.sort();
    for file in files.iter().filter(|file| file.extension().is_some_and(|ending| ending == "jsonl")) {
        let text = fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
        let mut schemas = Vec::new();
        for line in text.lines() {
            let mut row: Value = serde_json::from_str(line)?;
            schemas.push((row["id"].as_str().unwrap_or_default().to_owned(), row["schema"].take()));
        }
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        found.push(Dataset { name, schemas });
    }
    Ok(found)
}

/// The outcome for one schema.
struct Row {
    valid: bool,
    /// Whether the schema compiled to a grammar.
    compiled: bool,
    /// Why the run failed; empty for a valid answer.
    reason: String,
    receipt: Receipt,
    /// Required strings and arrays that are empty.
    empty: usize,
    elapsed: Duration,
    value: Value,
}

/// Measures and prints the table.
pub fn run(corpora: &Path, options: &Options) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut config = BackendConfig::new("embedded", BackendKind::Embedded);
    config.timeout_seconds = SECONDS_MAX;
    config.model = options.model.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let backend = Arc::new(Embedded::new(options.model.clone(), &config));
    let tier = TierBackend::new("default", config.info(Capabilities::default(), None));
    let rung = LadderRung { tier, backend };
    let mut lines = String::new();
    println!("\n## Real schemas answered by the embedded model ({} tokens)\n", options.max_tokens);
    println!(
        "| dataset | schemas | compiled | valid | at first try | force-closed | bounded | empty parts | tokens | seconds |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    let mut reasons: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let limits = json!({"max_tokens": options.max_tokens});
    for dataset in datasets(&corpora.join("jsonschemabench"))? {
        if !(options.only.is_empty() || options.only.contains(&dataset.name)) {
            continue;
        }
        let mut rows = Vec::new();
        for (id, schema) in dataset.schemas.iter().step_by(options.every) {
            let row = runtime.block_on(answer(schema, &limits, &rung))?;
            eprintln!(
                "{id}: {} {:.1} s",
                if row.valid { "valid" } else { &row.reason },
                row.elapsed.as_secs_f64()
            );
            if !row.valid {
                reasons.entry(row.reason.clone()).or_default().push(id.clone());
            }
            let line = json!({
                "id": id, "valid": row.valid, "compiled": row.compiled, "reason": row.reason, "value": row.value,
                "receipt": row.receipt, "seconds": row.elapsed.as_secs_f64(),
            });
            lines.push_str(&format!("{line}\n"));
            rows.push(row);
        }
        if let Some(out) = &options.out {
            fs::write(out, &lines).with_context(|| format!("writing {}", out.display()))?;
        }
        println!("{}", summary(&dataset.name, &rows));
    }
    println!("\n| reason | schemas |\n|---|---|");
    for (reason, ids) in reasons {
        println!("| {reason} | {}: {} |", ids.len(), ids.join(", "));
    }
    Ok(())
}

/// Formats the table row of a dataset.
fn summary(name: &str, rows: &[Row]) -> String {
    let count = |holds: &dyn Fn(&Row) -> bool| rows.iter().filter(|row| holds(row)).count();
    let share = |part: usize| format!("{part} ({:.1} %)", 100.0 * part as f64 / rows.len().max(1) as f64);
    let flagged = |flag: &str| count(&|row| row.valid && row.receipt.flags.iter().any(|known| known == flag));
    let tokens: u64 = rows.iter().map(|row| row.receipt.tokens.output).sum();
    let calls: u32 = rows.iter().map(|row| row.receipt.calls).sum();
    let seconds: f64 = rows.iter().map(|row| row.elapsed.as_secs_f64()).sum();
    format!(
        "| {name} | {} | {} | {} | {} | {} | {} | {} | {:.0} | {:.1} |",
        rows.len(),
        share(count(&|row| row.compiled)),
        share(count(&|row| row.valid)),
        share(count(&|row| row.valid && row.receipt.calls == 1)),
        share(flagged("forced_close")),
        share(flagged("bounded")),
        rows.iter().map(|row| row.empty).sum::<usize>(),
        tokens as f64 / f64::from(calls.max(1)),
        seconds / rows.len().max(1) as f64,
    )
}

/// Performs one run with the schema as contract, through the whole engine.
async fn answer(schema: &Value, limits: &Value, rung: &LadderRung) -> Result<Row> {
    let start = Instant::now();
    let row = |valid, compiled, reason: String, receipt| Row {
        valid,
        compiled,
        reason,
        receipt,
        empty: 0,
        elapsed: start.elapsed(),
        value: Value::Null,
    };
    let blueprint: Blueprint =
        serde_json::from_value(json!({"name": "bench", "default_output_schema": schema, "limits": limits}))?;
    let run = match BenchRun::new(blueprint, OptionsPatch::default(), PROMPT, rung.clone()) {
        Ok(run) => run,
        Err(error) => return Ok(row(false, false, format!("contract refused: {error}"), Receipt::default())),
    };
    let (outcome, journal) = run.perform().await?;
    let refused =
        |body: &EventBody| matches!(body, EventBody::CallFailed { error } if error.status == Some(422));
    let compiled = !journal.events().iter().any(|event| refused(&event.body));
    Ok(match outcome {
        Outcome::Completed(success) => {
            let value = success.result_data.unwrap_or_default();
            let compiled_schema = Schema::compile(schema)?;
            if !compiled_schema.is_valid(&value) {
                bail!("an invalid success: {value}");
            }
            let empty = count_empty(schema, schema, &value);
            Row { empty, value, ..row(true, compiled, String::new(), success.receipt) }
        }
        Outcome::ToolCalls(_) => bail!("a run without tools ended with calls"),
        Outcome::Failed(failure) => {
            let first = failure.error.validation_errors.first().cloned().unwrap_or_default();
            let reason = format!("{}: {first}", failure.error.message);
            let value = failure.salvage.best_candidate.clone().unwrap_or_default();
            Row { value, ..row(false, compiled, reason.chars().take(160).collect(), failure.receipt.clone()) }
        }
    })
}

/// Counts the required strings and arrays that are empty: valid, but useless to a caller.
fn count_empty(root: &Value, schema: &Value, value: &Value) -> usize {
    let target = schema["$ref"].as_str().and_then(|reference| root.pointer(reference.strip_prefix('#')?));
    let schema = target.unwrap_or(schema);
    let is_empty = |value: &Value| *value == json!("") || *value == json!([]);
    match value {
        Value::Array(items) => items.iter().map(|item| count_empty(root, &schema["items"], item)).sum(),
        Value::Object(members) => {
            let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let own = required.filter(|name| members.get(*name).is_some_and(is_empty)).count();
            let nested =
                members.iter().map(|(name, member)| count_empty(root, &schema["properties"][name], member));
            own + nested.sum::<usize>()
        }
        _ => 0,
    }
}
