//! Recorded outputs of real models, replayed through the engine. Read in place from the shared corpora.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "tests")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use formwork_engine::{Action, State, next};
use formwork_schema::Schema;
use formwork_types::{
    BackendInfo, BackendKind, Blueprint, Body, Capabilities, Contract, ContractOptions, ContractSource,
    Outcome, Reply, Role, RunType, Strategy, StructuredOutput, TierBackend, ValidationMode,
};
use serde_json::{Value, json};

/// One recorded output.
struct Row {
    text: String,
    schema: Value,
    /// What was asked, where several models were asked the same.
    task: String,
}

fn rows(corpus: &str) -> Option<Vec<Row>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpora/text");
    let path = folder.join(format!("{corpus}.jsonl"));
    let Ok(text) = fs::read_to_string(&path) else {
        println!("SKIPPED: the recorded outputs are not beside this checkout ({})", path.display());
        return None;
    };
    let rows = text.lines().map(|line| {
        let row: Value = serde_json::from_str(line).expect("a row of the corpus");
        // Where no schema was recorded, any call or list of calls will do.
        let schema = row.get("schema").filter(|schema| schema.is_object()).cloned();
        Row {
            text: row["input"].as_str().unwrap().to_owned(),
            schema: schema.unwrap_or_else(|| json!({"type": ["object", "array"]})),
            task: task(&row),
        }
    });
    Some(rows.collect())
}

/// The name of the task, from where the output was recorded.
fn task(row: &Value) -> String {
    if let Some(id) = row["bfcl_id"].as_str() {
        return id.to_owned();
    }
    let source = row["source"].as_str().unwrap_or_default();
    let number = source.split("_id").nth(1).and_then(|rest| rest.split('_').next());
    number.map_or_else(|| source.to_owned(), |number| format!("{number} {}", row["schema"]))
}

/// What a run gives whose model says these texts, one after the other, the last one again and again.
fn replay(schema: &Value, mode: ValidationMode, retries: u32, texts: &[&str]) -> Outcome {
    let mut state = State::default();
    for body in opening(schema, mode, retries) {
        state.fold(&body).unwrap();
    }
    let mut replies = 0;
    loop {
        let body = match next(&state).expect("something to do") {
            Action::Note(body) => *body,
            Action::Call(_) => {
                let text = texts[replies.min(texts.len() - 1)];
                replies += 1;
                let reply = Box::new(Reply::default());
                Body::Message { role: Role::Assistant, content: text.to_owned(), reply, asked: None }
            }
            Action::Finish(outcome) => return *outcome,
            other => panic!("{other:?}"),
        };
        state.fold(&body).unwrap();
    }
}

fn opening(schema: &Value, mode: ValidationMode, retries: u32) -> [Body; 2] {
    let options = ContractOptions {
        max_retries: retries,
        strategy: Strategy::Prompt,
        validation_mode: mode,
        ..ContractOptions::default()
    };
    let contract = Contract {
        source: ContractSource::Inline,
        schema_name: None,
        schema: schema.clone(),
        hash: "sha256:recorded".to_owned(),
        options,
        example: None,
    };
    let backend = BackendInfo {
        name: "recorded".to_owned(),
        kind: BackendKind::OpenAi,
        model: "recorded".to_owned(),
        structured_output: StructuredOutput::Auto,
        dialect: "generic".to_owned(),
        capabilities: Capabilities::default(),
        small: false,
        max_tokens: None,
    };
    let start = Body::RunStart {
        run_type: RunType::StartSession,
        blueprint: Box::new(Blueprint { name: "recorded".to_owned(), ..Blueprint::default() }),
        contract: Some(Box::new(contract)),
        parameters: json!({"prompt": "Go on."}),
        input: "Go on.".to_owned(),
    };
    [start, Body::AttemptStarted { ladder: vec![TierBackend { tier: "default".to_owned(), backend }] }]
}

fn measure(corpus: &str) {
    let Some(rows) = rows(corpus) else { return };
    let mut tasks: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, row) in rows.iter().enumerate() {
        tasks.entry(&row.task).or_default().push(index);
    }
    for mode in [ValidationMode::Strict, ValidationMode::Lenient] {
        let mut valid = [0_usize; 3];
        for (index, row) in rows.iter().enumerate() {
            let schema = Schema::compile(&row.schema).expect("a usable schema");
            let others = tasks[row.task.as_str()].iter().filter(|other| **other != index);
            let texts: Vec<&str> =
                [index].iter().chain(others).map(|other| rows[*other].text.as_str()).collect();
            for (retries, valid) in valid.iter_mut().enumerate() {
                let outcome = replay(&row.schema, mode, u32::try_from(retries).unwrap(), &texts);
                if let Outcome::Completed(success) = outcome {
                    let result = success.result_data.expect("a result");
                    assert!(schema.is_valid(&result), "{corpus} row {index}: an invalid success {result}");
                    *valid += 1;
                }
            }
        }
        let rate = |count: usize| 100.0 * count as f64 / rows.len() as f64;
        println!(
            "{corpus} ({} outputs, {mode:?}): valid {:.1} % with no retry, {:.1} % with one, {:.1} % with two",
            rows.len(),
            rate(valid[0]),
            rate(valid[1]),
            rate(valid[2])
        );
        assert!(valid.is_sorted(), "{corpus}: fewer valid results with more retries: {valid:?}");
    }
}

#[test]
fn recorded_function_calls() {
    measure("bfcl_real");
}

#[test]
fn recorded_structured_outputs() {
    measure("ollama_real");
}

#[test]
fn recorded_api_outputs() {
    measure("pydantic_ai_real");
}
