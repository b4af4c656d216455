//! Lowering over real-world schemas: what a lowered schema admits, the contract admits, unless the keyword
//! that forbids it is listed as lost.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use slipform_schema::{Dialect, Schema, lower, restore, wrap_root};

/// Instances made from one by changing one place.
fn variations(instance: &Value) -> Vec<Value> {
    let mut places = Vec::new();
    collect_places(instance, String::new(), &mut places);
    // A few places all over the instance are enough to reach every keyword, and keep the test short.
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
                members.insert("unheard of".to_owned(), json!(1));
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

/// One dialect of each kind.
const DIALECTS: [Dialect; 4] = [Dialect::OpenAi, Dialect::Anthropic, Dialect::LlamaCpp, Dialect::Vllm];

#[derive(Default)]
struct Tally {
    schemas: usize,
    strict: usize,
    whole: usize,
    checked: usize,
    caught: usize,
    kept: usize,
    valid: usize,
}

#[test]
fn nothing_is_weakened_silently() {
    let Some(rows) = crate::corpus::rows() else { return };
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
            "{dialect}: {} schemas, {} strict, {} of them whole; {} instances checked, {} invalid ones admitted \
             by what is lost; {} of {} valid ones kept",
            tally.schemas, tally.strict, tally.whole, tally.checked, tally.caught, tally.kept, tally.valid,
        );
    }
    for line in &weakened {
        println!("  {line}");
    }
    assert!(weakened.is_empty(), "{} instances slip through", weakened.len());
}

fn check(row: &Value, contract: &Schema, dialect: Dialect, tally: &mut Tally, weakened: &mut Vec<String>) {
    let id = row["id"].as_str().or(row["name"].as_str()).unwrap_or("?");
    let lowered = lower(&row["schema"], dialect);
    tally.schemas += 1;
    if !lowered.strict {
        assert_eq!(lowered.schema, row["schema"], "{id}: what is not enforced is sent as it is");
        return;
    }
    tally.strict += 1;
    tally.whole += usize::from(lowered.lost.is_empty());
    let backend = Schema::compile(&lowered.schema)
        .unwrap_or_else(|error| panic!("{id} for {dialect}: {error}\n{:#}", lowered.schema));
    for test in row["tests"].as_array().unwrap() {
        let data = &test["data"];
        if contract.is_valid(data) {
            tally.valid += 1;
            tally.kept += usize::from(backend.is_valid(data));
        }
        for mut value in variations(data) {
            tally.checked += 1;
            if !backend.is_valid(&value) {
                continue;
            }
            if lowered.nulls {
                restore(&row["schema"], &mut value);
            }
            if contract.is_valid(&value) {
                continue;
            }
            let violations = contract.violations(&value);
            tally.caught += 1;
            // A path through a definition does not tell which keyword led there.
            let explained = lowered.lost.iter().any(|lost| lost == "$ref")
                || !lowered.lost.is_empty()
                    && violations.list.iter().all(|violation| {
                        let path = &violation.schema_path;
                        ["/definitions/", "/$defs/"].iter().any(|shelf| path.starts_with(shelf))
                            || path.split('/').any(|token| lowered.lost.iter().any(|lost| lost == token))
                    });
            if !explained {
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

/// The official suite reaches every keyword in every draft; wrapped, so that all backends take it.
#[test]
fn nothing_of_the_official_suite_is_weakened_silently() {
    let root =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpora/json-schema-test-suite/tests");
    if !root.is_dir() {
        println!("SKIPPED: the JSON-Schema-Test-Suite is not beside this checkout ({})", root.display());
        return;
    }
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
                    tally.whole += 1;
                    for test in group["tests"].as_array().unwrap() {
                        let mut value = json!({"result": test["data"]});
                        let admitted = backend.is_valid(&value);
                        if lowered.nulls {
                            restore(&wrapped, &mut value);
                        }
                        if admitted && !contract.is_valid(&value) {
                            weakened.push(format!("{name} for {dialect}: {value}\n    {}", lowered.schema));
                        }
                    }
                }
            }
        }
    }
    println!("{} schemas, {} strict, {} of them whole", tally.schemas, tally.strict, tally.whole);
    assert!(weakened.is_empty(), "{} slip through:\n{}", weakened.len(), weakened.join("\n"));
}
