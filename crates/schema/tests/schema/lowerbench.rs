//! Lowers real-world schemas: a lowered schema accepts only what the contract accepts, except for keywords
//! that are listed as lost.

use std::fs;

use serde_json::{Value, json};
use slipform_schema::{Dialect, Schema, lower, restore, wrap_root};
use slipform_testkit::corpus;

/// Returns copies of an instance that each differ in one place.
fn variations(instance: &Value) -> Vec<Value> {
    let mut places = Vec::new();
    collect_places(instance, String::new(), &mut places);
    // A few places across the instance reach every keyword and keep the test short.
    let stride = places.len().div_ceil(6).max(1);
    let places: Vec<String> = places.into_iter().step_by(stride).collect();
    let mut variations = vec![instance.clone()];
    for place in places {
        for replacement in [json!(null), json!(-7.5), json!("~ x"), json!({})] {
            let mut copy = instance.clone();
            *copy.pointer_mut(&place).unwrap() = replacement;
            variations.push(copy);
        }
        let mut copy = instance.clone();
        match copy.pointer_mut(&place).unwrap() {
            Value::Object(members) => {
                members.insert("unknown property".to_owned(), json!(1));
            }
            Value::Array(items) if !items.is_empty() => items.push(items[0].clone()),
            _ => {}
        }
        variations.push(copy);
        if let Some((parent, name)) = place.rsplit_once('/') {
            let mut copy = instance.clone();
            match copy.pointer_mut(parent).unwrap() {
                Value::Object(members) => {
                    members.shift_remove(&name.replace("~1", "/").replace("~0", "~"));
                }
                Value::Array(items) => {
                    items.remove(name.parse().unwrap());
                }
                _ => {}
            }
            variations.push(copy);
        }
    }
    variations
}

fn collect_places(value: &Value, place: String, places: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let name = name.replace('~', "~0").replace('/', "~1");
                collect_places(member, format!("{place}/{name}"), places);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                collect_places(item, format!("{place}/{index}"), places);
            }
        }
        _ => {}
    }
    places.push(place);
}

/// One dialect per set of rules.
const DIALECTS: [Dialect; 4] = [Dialect::OpenAi, Dialect::Anthropic, Dialect::LlamaCpp, Dialect::Vllm];

#[derive(Default)]
struct Tally {
    schemas: usize,
    strict: usize,
    lossless: usize,
    checked: usize,
    accepted_invalid: usize,
    accepted_valid: usize,
    valid: usize,
}

#[test]
fn lowered_corpus_schema_accepts_only_contract_values() {
    let Some(rows) = crate::support::rows() else { return };
    let mut weakened = Vec::new();
    let mut tallies: Vec<(Dialect, Tally)> = DIALECTS.map(|dialect| (dialect, Tally::default())).into();
    for row in &rows {
        let Ok(contract) = Schema::compile(&row["schema"]) else {
            for dialect in DIALECTS {
                lower(&row["schema"], dialect);
            }
            continue;
        };
        for (dialect, tally) in &mut tallies {
            check(row, &contract, *dialect, tally, &mut weakened);
        }
    }
    for (dialect, tally) in tallies {
        println!(
            "{dialect}: {} schemas, {} strict, {} of them lossless; {} instances checked, {} invalid ones accepted \
             because of lost keywords; {} of {} valid ones accepted",
            tally.schemas,
            tally.strict,
            tally.lossless,
            tally.checked,
            tally.accepted_invalid,
            tally.accepted_valid,
            tally.valid,
        );
    }
    for line in &weakened {
        println!("  {line}");
    }
    assert!(weakened.is_empty(), "{} invalid instances accepted", weakened.len());
}

fn check(row: &Value, contract: &Schema, dialect: Dialect, tally: &mut Tally, weakened: &mut Vec<String>) {
    let id = row["id"].as_str().or(row["name"].as_str()).unwrap_or("?");
    let lowered = lower(&row["schema"], dialect);
    tally.schemas += 1;
    if !lowered.strict {
        assert_eq!(lowered.schema, row["schema"], "{id}: an unenforced schema is sent unchanged");
        return;
    }
    tally.strict += 1;
    tally.lossless += usize::from(lowered.lost.is_empty());
    let backend = Schema::compile(&lowered.schema)
        .unwrap_or_else(|error| panic!("{id} for {dialect}: {error}\n{:#}", lowered.schema));
    for test in row["tests"].as_array().unwrap() {
        let data = &test["data"];
        if contract.is_valid(data) {
            tally.valid += 1;
            tally.accepted_valid += usize::from(backend.is_valid(data));
        }
        for mut value in variations(data) {
            tally.checked += 1;
            if !backend.is_valid(&value) {
                continue;
            }
            if lowered.needs_restore {
                restore(&row["schema"], &mut value);
            }
            if contract.is_valid(&value) {
                continue;
            }
            let violations = contract.violations(&value);
            tally.accepted_invalid += 1;
            // A path through a definition does not show which keyword led there.
            let is_listed_as_lost = lowered.lost.iter().any(|lost| lost == "$ref")
                || !lowered.lost.is_empty()
                    && violations.list.iter().all(|violation| {
                        let path = &violation.schema_path;
                        ["/definitions/", "/$defs/"].iter().any(|prefix| path.starts_with(prefix))
                            || path.split('/').any(|token| lowered.lost.iter().any(|lost| lost == token))
                    });
            if !is_listed_as_lost {
                weakened.push(format!(
                    "{id} for {dialect}: lost {:?}, but {:?} at {}",
                    lowered.lost,
                    violations.lines(),
                    violations.list[0].schema_path
                ));
                break;
            }
        }
    }
}

/// The official suite covers every keyword in every draft. Schemas are wrapped, so that all backends accept
/// them.
#[test]
fn lowered_suite_schema_accepts_only_contract_values() {
    let Some(root) = corpus("json-schema-test-suite/tests") else { return };
    let mut weakened = Vec::new();
    let mut tally = Tally::default();
    for folder in ["draft7", "draft2019-09", "draft2020-12", "draft7/optional/format"] {
        let mut files: Vec<_> =
            fs::read_dir(root.join(folder)).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        for file in files.into_iter().filter(|path| path.is_file()) {
            let groups: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
            for group in groups.as_array().unwrap() {
                let wrapped = wrap_root(&group["schema"]);
                let Ok(plain) = Schema::compile(&group["schema"]) else { continue };
                let contract = Schema::compile(&wrapped)
                    .unwrap_or_else(|error| panic!("{folder} {group:#}: {error}\n{wrapped:#}"));
                for test in group["tests"].as_array().unwrap() {
                    let value = json!({"result": test["data"]});
                    if plain.is_valid(&test["data"]) != contract.is_valid(&value) {
                        weakened
                            .push(format!("{folder} {}: {value} differs in {wrapped}", group["description"]));
                    }
                }
                for dialect in DIALECTS {
                    let lowered = lower(&wrapped, dialect);
                    tally.schemas += 1;
                    let name =
                        format!("{folder} {}: {}", file.file_stem().unwrap().display(), group["description"]);
                    let backend = Schema::compile(&lowered.schema).unwrap_or_else(|error| {
                        panic!("{name} for {dialect}: {error}\n{:#}", lowered.schema)
                    });
                    tally.strict += usize::from(lowered.strict);
                    if !lowered.strict || !lowered.lost.is_empty() {
                        continue;
                    }
                    tally.lossless += 1;
                    for test in group["tests"].as_array().unwrap() {
                        let mut value = json!({"result": test["data"]});
                        let is_accepted = backend.is_valid(&value);
                        if lowered.needs_restore {
                            restore(&wrapped, &mut value);
                        }
                        if is_accepted && !contract.is_valid(&value) {
                            weakened.push(format!("{name} for {dialect}: {value}\n    {}", lowered.schema));
                        }
                    }
                }
            }
        }
    }
    println!("{} schemas, {} strict, {} of them lossless", tally.schemas, tally.strict, tally.lossless);
    assert!(weakened.is_empty(), "{} invalid instances accepted:\n{}", weakened.len(), weakened.join("\n"));
}
