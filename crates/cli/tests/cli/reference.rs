//! The tables of docs/reference against the code: each lists exactly what the program knows.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use slipform_types::{EventBody, env};

use crate::support::Project;

/// Returns the names in the first column of a page's table.
fn documented(page: &str) -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(page);
    let text = fs::read_to_string(path).unwrap();
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    rows.map(str::to_owned).collect()
}

fn set(names: impl IntoIterator<Item = impl Into<String>>) -> BTreeSet<String> {
    names.into_iter().map(Into::into).collect()
}

/// Returns the names that serde lists in its error for an unknown one.
fn expected_names(message: &str) -> Vec<String> {
    let list =
        message.split("expected one of ").nth(1).or_else(|| message.split("expected ").nth(1)).unwrap();
    let list = list.split(" (`").next().unwrap();
    list.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn environment_variables_are_documented() {
    assert_eq!(documented("environment.md"), set(env::ALL));
}

#[test]
fn event_types_are_documented() {
    let unknown = serde_json::from_value::<EventBody>(json!({"event_type": "nothing"})).unwrap_err();
    assert_eq!(documented("events.md"), set(expected_names(&unknown.to_string())));
}

#[test]
fn keys_of_agent_files_are_documented() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../agents/src/blueprint.schema.json");
    let schema: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let mut keys = BTreeSet::new();
    collect_keys(&schema, "", &mut keys);
    assert_eq!(documented("agent-files.md"), keys);
}

/// Adds the properties of a schema and of the schemas below it, as dotted names.
fn collect_keys(schema: &Value, prefix: &str, keys: &mut BTreeSet<String>) {
    for (key, property) in schema["properties"].as_object().into_iter().flatten() {
        let name = format!("{prefix}{key}");
        collect_keys(property, &format!("{name}."), keys);
        collect_keys(&property["items"], &format!("{name}[]."), keys);
        collect_keys(&property["additionalProperties"], &format!("{name}.NAME."), keys);
        keys.insert(name);
    }
}

#[test]
fn keys_of_the_settings_are_documented() {
    let keys_of = |table: &str| {
        let text =
            if table.is_empty() { "nothing = 1\n".to_owned() } else { format!("[{table}]\nnothing = 1\n") };
        let ran = Project::new("reference-settings").file("slipform.toml", &text).run(&["probe"]);
        expected_names(&ran.stderr)
    };
    let mut keys = BTreeSet::new();
    for key in keys_of("") {
        match key.as_str() {
            "backends" => keys.extend(keys_of("backends.a").iter().map(|key| format!("backends.NAME.{key}"))),
            "tiers" => drop(keys.insert("tiers.NAME".to_owned())),
            "default_backend" => drop(keys.insert(key)),
            table => keys.extend(keys_of(table).iter().map(|key| format!("{table}.{key}"))),
        }
    }
    assert_eq!(documented("settings.md"), keys);
}
