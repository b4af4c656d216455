//! Cases as data for the resolution of contracts, parameters and placeholders: each file in
//! `decisions/` lists inputs and expected results. A `contract` lists only the members that the
//! case checks.

use std::error::Error as _;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use slipform_agents::contract::{self, ContractRequest, EnvironmentDefaults};
use slipform_agents::{Error, parameters, placeholders};
use slipform_types::{Blueprint, RunId, SessionId};

fn for_every_case(file: &str, check: impl Fn(&Value, &Blueprint) -> Result<(), String>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/decisions").join(file);
    let cases: Vec<Value> = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let failures: Vec<String> = cases
        .iter()
        .filter_map(|case| {
            let mut blueprint = case["blueprint"].clone();
            blueprint["name"] = json!("a");
            let blueprint = serde_json::from_value(blueprint).unwrap();
            check(case, &blueprint).err().map(|problem| format!("{}: {problem}", case["about"]))
        })
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn check_equal(expected: &Value, given: &Value) -> Result<(), String> {
    if expected == given { Ok(()) } else { Err(format!("expected {expected}\n   given {given}")) }
}

/// Compares the expected members, recursively.
fn check_members(expected: &Value, given: &Value) -> Result<(), String> {
    match (expected, given) {
        (Value::Object(members), Value::Object(_)) => {
            members.iter().try_for_each(|(key, value)| match key.as_str() {
                "schema" | "example" => check_equal(value, &given[key]),
                _ => check_members(value, &given[key]),
            })
        }
        _ => check_equal(expected, given),
    }
}

fn with_causes(error: &Error) -> String {
    error.source().map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"))
}

#[test]
fn contract_cases_resolve_as_expected() {
    for_every_case("contract.json", |case, blueprint| {
        let lookup = |name: &str| case["environment"][name].as_str().map(ToOwned::to_owned);
        let request = ContractRequest {
            schema: case["request"].get("schema").cloned(),
            named: serde_json::from_value(case["request"]["named"].clone()).unwrap(),
            options: serde_json::from_value(case["request"].get("options").cloned().unwrap_or(json!({})))
                .unwrap(),
        };
        let contract = EnvironmentDefaults::from_lookup(lookup)
            .and_then(|defaults| contract::resolve(blueprint, &request, &defaults));
        match (contract, case.get("error")) {
            (Ok(contract), None) => {
                check_members(&case["contract"], &serde_json::to_value(contract).unwrap())
            }
            (Err(error), Some(expected)) => check_equal(expected, &json!(with_causes(&error))),
            (given, _) => Err(format!("given {given:?}")),
        }
    });
}

#[test]
fn parameter_cases_check_as_expected() {
    for_every_case("parameters.json", |case, blueprint| {
        let is_resumed = case["resume"] == true;
        let check = if is_resumed { parameters::check_resume } else { parameters::check };
        let given = case["parameters"].clone();
        let given = if is_resumed { given } else { parameters::with_defaults(blueprint, given) };
        match (check(blueprint, &given), case.get("errors")) {
            (Ok(()), None) => check_equal(&case["text"], &json!(parameters::inputs_text(blueprint, &given))),
            (Err(invalid), Some(expected)) => {
                let lines: Vec<String> = invalid.validation_errors.iter().map(ToString::to_string).collect();
                check_equal(expected, &json!(lines))?;
                let details = serde_json::to_value(&invalid).unwrap();
                check_equal(&json!("a"), &details["agent_name"])?;
                let taken = if is_resumed { Blueprint::default() } else { blueprint.clone() };
                check_equal(&taken.schema_of_parameters(), &details["parameters_schema"])
            }
            (given, _) => Err(format!("given {given:?}")),
        }
    });
}

#[test]
fn placeholder_cases_fill_as_expected() {
    for_every_case("placeholders.json", |case, blueprint| {
        let environment = |name: &str| {
            let values = [("HOME", "/home/me"), ("SECRET", "hunter2")];
            values.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        let context = placeholders::FillContext {
            parameters: &case["parameters"],
            session_id: &SessionId::from_random([0; 6]),
            run_id: &RunId::from_random([1; 6]),
            environment: &environment,
        };
        match (placeholders::fill(blueprint, &context), case.get("errors")) {
            (Ok(filled), None) => {
                // The journal must hold no value of a variable, and the blueprint for the model
                // none in its command or MCP servers.
                let secret = "hunter2";
                let journaled = serde_json::to_string(&filled.journaled).unwrap();
                check_equal(&json!(false), &json!(journaled.contains(secret)))?;
                let kept = serde_json::to_value(&filled.blueprint).unwrap();
                let holds =
                    ["command", "mcp_servers"].iter().any(|key| kept[key].to_string().contains(secret));
                check_equal(&json!(false), &json!(holds))?;
                let placeholders::Filled { blueprint, command, mcp_servers, .. } = filled;
                let used = slipform_types::Blueprint { command, mcp_servers, ..blueprint };
                let used = serde_json::to_value(used).unwrap();
                case["filled"]
                    .as_object()
                    .unwrap()
                    .iter()
                    .try_for_each(|(key, value)| check_equal(value, &used[key]))
            }
            (Err(Error::Placeholders { problems, .. }), Some(expected)) => {
                let lines: Vec<String> = problems.list.iter().map(ToString::to_string).collect();
                check_equal(expected, &json!(lines))
            }
            (given, _) => Err(format!("given {given:?}")),
        }
    });
}
