//! The cost of a correction: tokens per valid result if the model repeats the whole answer, and if it returns only the
//! invalid parts.
//!
//! The scripted model corrects every violation, so only the form of the correction differs. Each example answer is made
//! invalid at one value after the other, and each variant runs in every form.

use anyhow::{Context as _, Result, bail};
use serde_json::{Map, Value, json};
use slipform_model::{BackendConfig, connect};
use slipform_runner::LadderRung;
use slipform_schema::Schema;
use slipform_testkit::fixtures::{self, Fixture};
use slipform_testkit::{ScriptedServer, Step};
use slipform_types::{
    BackendKind, Blueprint, Capabilities, Correction, OptionsPatch, Outcome, Strategy, TierBackend,
};

use crate::context::BenchRun;

/// The most values that are made invalid in one example.
const VALUES_MAX: u32 = 12;

/// Collects the JSON Pointers of all scalars in a document.
fn scalar_pointers(value: &Value, pointer: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            members
                .iter()
                .for_each(|(key, member)| scalar_pointers(member, &format!("{pointer}/{key}"), found));
        }
        Value::Array(items) => {
            items
                .iter()
                .enumerate()
                .for_each(|(index, item)| scalar_pointers(item, &format!("{pointer}/{index}"), found));
        }
        _ => found.push(pointer.to_owned()),
    }
}

/// Returns the right values of the parts that a correction prompt asks for; `None` if it asks for the whole answer.
fn requested_parts(prompt: &str, right: &Value) -> Option<Value> {
    let (_, section) = prompt.rsplit_once("## Parts To Correct")?;
    let schema = section.split_once("```json\n")?.1.split_once("\n```")?.0;
    let schema: Value = serde_json::from_str(schema).ok()?;
    let parts: Map<String, Value> = schema["properties"]
        .as_object()?
        .keys()
        .map(|pointer| (pointer.clone(), right.pointer(pointer).cloned().unwrap_or_default()))
        .collect();
    Some(Value::Object(parts))
}

/// Runs the agent on a model whose first answer is `broken`, and returns the tokens of the run.
async fn tokens(fixture: &Fixture, broken: &Value, correction: Correction) -> Result<u64> {
    let (first, right) = (broken.clone(), fixture.reply.clone());
    let server = ScriptedServer::respond(move |request, index| {
        let answer = match index {
            0 => first.clone(),
            _ => requested_parts(&request.prompt(), &right).unwrap_or_else(|| right.clone()),
        };
        Step::text(serde_json::to_string_pretty(&answer).unwrap_or_default()).without_usage()
    });
    let mut config = BackendConfig::new("scripted", BackendKind::OpenAi);
    config.base_url = Some(server.base_url());
    let backend = connect(&config, &|_| None)?;
    let blueprint: Blueprint = serde_json::from_value(fixture.agent.clone())?;
    let options = OptionsPatch {
        correction: Some(correction),
        strategy: Some(Strategy::SystemPrompt),
        ..OptionsPatch::default()
    };
    let tier = TierBackend::new("default", config.info(Capabilities::default(), None));
    let run = BenchRun::new(blueprint, options, fixture.input, LadderRung { tier, backend })?;
    match run.perform().await?.0 {
        Outcome::Completed(success) if success.result_data.as_ref() == Some(&fixture.reply) => {
            Ok(success.receipt.tokens.input + success.receipt.tokens.output)
        }
        Outcome::Completed(_) | Outcome::ToolCalls(_) => {
            bail!("{}: the correction changed valid parts", fixture.name)
        }
        Outcome::Failed(failure) => bail!("{}: {}", fixture.name, failure.error.message),
    }
}

/// Measures and prints the table.
pub fn run() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    println!("\n## Corrections: tokens per valid result, first answer invalid at one value\n");
    println!("| example | values | in full | in parts | auto | saved by auto |\n|---|---|---|---|---|---|");
    for fixture in fixtures::all() {
        let schema = Schema::compile(fixture.output_schema())?;
        let mut found = Vec::new();
        scalar_pointers(&fixture.reply, "", &mut found);
        let mut sums = [0_u64; 3];
        let mut count = 0_u32;
        for pointer in found {
            let mut broken = fixture.reply.clone();
            *broken.pointer_mut(&pointer).context("no value at the pointer")? = json!({"unexpected": true});
            if schema.is_valid(&broken) || count == VALUES_MAX {
                continue;
            }
            count += 1;
            for (sum, form) in sums.iter_mut().zip([Correction::Full, Correction::Patch, Correction::Auto]) {
                *sum += runtime.block_on(tokens(&fixture, &broken, form))?;
            }
        }
        let [full, patch, auto] = sums.map(|sum| sum as f64 / f64::from(count));
        let saved = 100.0 * (1.0 - auto / full);
        println!("| {} | {count} | {full:.0} | {patch:.0} | {auto:.0} | {saved:.0} % |", fixture.name);
    }
    Ok(())
}
