//! Replays recorded outputs of real models as the replies of whole runs.
//!
//! A retry gets another model's output for the same task if one was recorded, else the same text again. The
//! rates show what recorded text alone can show; a model that reads its errors does better.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::contexts::drive_to_end;
use serde_json::{Value, json};
use slipform_model::{Backend, Call, CallFuture};
use slipform_runner::{LadderRung, StopSignal};
use slipform_schema::Schema;
use slipform_types::{Outcome, Reply, TierBackend};

/// The numbers of retries to test; the last is the default maximum of a contract.
const RETRIES: [usize; 3] = [0, 1, 2];

/// A backend that answers with texts in order and then repeats the last one.
#[derive(Debug)]
struct Recorded {
    texts: Vec<String>,
    asked: AtomicUsize,
}

impl Backend for Recorded {
    fn call<'a>(&'a self, _: Call<'a>) -> CallFuture<'a> {
        let index = self.asked.fetch_add(1, Ordering::Relaxed).min(self.texts.len() - 1);
        let reply = Reply { text: self.texts[index].clone(), ..Reply::default() };
        Box::pin(std::future::ready(Ok(reply)))
    }
}

/// A recorded output and its task.
struct Row {
    id: String,
    task: String,
    model: String,
    text: String,
    schema: Value,
}

/// Returns the rows of a corpus; `None` if the corpus is not on this machine.
fn rows(name: &str) -> Option<Vec<Row>> {
    let text = std::fs::read_to_string(slipform_testkit::corpus(&format!("text/{name}.jsonl"))?).unwrap();
    Some(text.lines().map(|line| row(&serde_json::from_str(line).unwrap())).collect())
}

fn row(line: &Value) -> Row {
    let text = |key: &str| line[key].as_str().unwrap_or_default().to_owned();
    let schema = match line.get("schema") {
        // Some tasks were recorded without a schema; then any JSON is valid.
        Some(Value::Null) => json!(true),
        Some(schema) => schema.clone(),
        None => calls(line["expected"].is_array()),
    };
    Row { id: text("id"), task: task(line), model: text("model"), text: text("input"), schema }
}

/// Returns the schema of BFCL outputs: a function call or a list of them. A call is a name with arguments, or
/// a member named like the function, because each vendor's prompt asked for another form.
fn calls(several: bool) -> Value {
    let named = |arguments: &str| {
        json!({
            "properties": {"name": {"type": "string", "minLength": 1}, arguments: {"type": "object"}},
            "required": ["name", arguments],
        })
    };
    let member = json!({"minProperties": 1, "maxProperties": 1, "additionalProperties": {"type": "object"}});
    let call = json!({"type": "object", "anyOf": [named("arguments"), named("parameters"), member]});
    if several { json!({"type": "array", "items": call, "minItems": 1}) } else { call }
}

/// Returns the key of the task, which is equal for outputs that answer the same question.
fn task(line: &Value) -> String {
    if let Some(id) = line["bfcl_id"].as_str() {
        return id.to_owned();
    }
    let source = line["source"].as_str().unwrap_or_default();
    let case = source
        .split('_')
        .find(|part| part.strip_prefix("id").is_some_and(|digits| digits.parse::<u32>().is_ok()));
    let named = line["id"].as_str().and_then(|id| id.split('/').nth(1)).unwrap_or_default();
    case.unwrap_or(named).to_owned()
}

/// Returns the replies to the first call and to the retries.
fn script(by_task: &BTreeMap<&str, Vec<&Row>>, row: &Row) -> Vec<String> {
    let others = by_task[row.task.as_str()]
        .iter()
        .filter(|other| other.model != row.model && other.schema == row.schema);
    let texts = others.map(|other| other.text.clone()).take(RETRIES.len() - 1);
    std::iter::once(row.text.clone()).chain(texts).collect()
}

async fn run(row: &Row, texts: Vec<String>, retries: usize) -> bool {
    let backend = json!({
        "name": "recorded", "kind": "openai", "model": row.model, "dialect": "generic",
        "structured_output": "prompt",
    });
    let tier: TierBackend = serde_json::from_value(json!({"tier": "default", "backend": backend})).unwrap();
    let ladder = vec![LadderRung { tier, backend: Arc::new(Recorded { texts, asked: AtomicUsize::new(0) }) }];
    let agent = json!({"name": "replay", "output_schema": row.schema});
    let context = crate::support::contexts::test_run(
        &agent,
        "The recorded task",
        json!({"max_retries": retries}),
        ladder,
    );
    match drive_to_end(&context, &crate::support::contexts::journal(), &StopSignal::default(), &())
        .await
        .unwrap()
    {
        Outcome::Completed(success) => {
            let schema = Schema::compile(&row.schema).unwrap();
            let data = success.result_data.as_ref().expect("a contract gives data");
            assert_eq!(schema.violations(data).lines(), [""; 0], "{}", row.id);
            true
        }
        Outcome::ToolCalls(ended) => panic!("the run ended with calls: {:?}", ended.calls),
        Outcome::Failed(failure) => {
            assert_eq!(failure.error.calls as usize, retries + 1, "{}", row.id);
            assert_eq!(failure.salvage.replies.len(), retries + 1, "{}", row.id);
            false
        }
    }
}

async fn replay(corpus: &str) {
    let Some(rows) = rows(corpus) else { return };
    let mut by_task: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
    for row in &rows {
        by_task.entry(&row.task).or_default().push(row);
    }
    let mut valid = [0; RETRIES.len()];
    for row in &rows {
        for (count, retries) in valid.iter_mut().zip(RETRIES) {
            *count += usize::from(run(row, script(&by_task, row), retries).await);
        }
    }
    for (count, retries) in valid.iter().zip(RETRIES) {
        let rate = 100.0 * *count as f64 / rows.len() as f64;
        println!("{corpus}: {count} of {} valid ({rate:.1} %) with {retries} retries", rows.len());
    }
    assert!(valid.is_sorted(), "{corpus}: retries lose results: {valid:?}");
}

#[tokio::test]
async fn recorded_function_calls_never_lose_results_with_retries() {
    replay("bfcl_real").await;
}

#[tokio::test]
async fn recorded_judgements_never_lose_results_with_retries() {
    replay("ollama_real").await;
}

#[tokio::test]
async fn recorded_tool_arguments_never_lose_results_with_retries() {
    replay("pydantic_ai_real").await;
}
