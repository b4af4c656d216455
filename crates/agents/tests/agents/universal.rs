//! Agents whose results are universal responses.

use serde_json::{Value, json};
use slipform_agents::{Checked, check};
use slipform_schema::{shipped, universal};
use slipform_types::{ResponseType, UniversalResponse};

fn agent(response_type: &str, example: Value) -> Value {
    json!({
        "name": "planner", "output_schema": shipped()[0].schema.source(), "output_example": example,
        "response_type": response_type,
    })
}

fn plan() -> Value {
    json!({
        "response_type": "planning", "status": "success", "message": "A plan.",
        "planning_data": {"summary": "s", "steps": [{"step_number": 1, "action": "a", "details": "d"}]},
    })
}

fn problems(definition: &Value) -> String {
    check(definition, None).map(|_| String::new()).unwrap_or_else(|problems| problems.to_string())
}

#[test]
fn response_type_is_one_of_the_known_types() {
    let Checked { blueprint, warnings } = check(&agent("planning", plan()), None).unwrap();
    assert_eq!((blueprint.response_type, warnings.len()), (Some(ResponseType::Planning), 0));
    // Every agent may report errors, so `error` is not a response type of its own.
    for unknown in ["error", "plan"] {
        let found = problems(&agent(unknown, plan()));
        assert!(found.contains(&format!("$.response_type: '{unknown}' is not one of")), "{found}");
    }
}

#[test]
fn output_example_must_satisfy_universal_rules() {
    assert_eq!(problems(&agent("planning", plan())), "");
    assert_eq!(
        problems(&agent("answer", plan())),
        "$.output_example.response_type: 'planning' is not one of ['answer', 'error']"
    );
    let mut bare = plan();
    bare["planning_data"] = json!({"summary": "s"});
    assert_eq!(
        problems(&agent("planning", bare)),
        "$.output_example.planning_data.steps: required property is missing"
    );
}

#[test]
fn response_type_with_other_schema_is_a_warning() {
    let other = json!({"name": "a", "output_schema": {"type": "object"}, "response_type": "custom"});
    let warnings = check(&other, None).unwrap().warnings;
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].to_string().contains(universal::NAME), "{}", warnings[0]);
}

#[test]
fn response_types_match_the_schema_enums() {
    let listed = &shipped()[0].schema.source()["properties"];
    let kinds: Vec<ResponseType> = serde_json::from_value(listed["response_type"]["enum"].clone()).unwrap();
    let names: Vec<&str> = kinds.into_iter().map(ResponseType::name).collect();
    assert_eq!(json!(names), listed["response_type"]["enum"]);
    let statuses = listed["status"]["enum"].clone();
    assert!(serde_json::from_value::<Vec<slipform_types::ResponseStatus>>(statuses).is_ok());
}

#[test]
fn values_that_satisfy_the_rules_deserialize() {
    let schema = &shipped()[0].schema;
    let sections = [
        (
            "planning_data",
            json!({"summary": "s", "steps": [{"step_number": 1.0, "action": "a", "details": "d"}]}),
        ),
        (
            "verification_data",
            json!({"checks": [{"criterion": "c", "passed": false, "by": "Ada"}, {"criterion": "d", "passed": true}]}),
        ),
        ("clarity_data", json!({"total_score": 84.0, "follow_up_questions": ["Which?"]})),
        ("research_data", json!({"findings": [{"topic": "t", "description": "d", "relevance": "low"}]})),
        ("answer_data", json!({"confidence": "medium", "asked": 3})),
        ("custom_fields", json!({"n": [1, null]})),
        ("error_details", json!({"error_code": "E", "line": 3})),
    ];
    let (mut kept, mut broken) = (0, 0);
    for kind in schema.source()["properties"]["response_type"]["enum"].as_array().unwrap() {
        for status in schema.source()["properties"]["status"]["enum"].as_array().unwrap() {
            // Each section is omitted, empty or filled in. Every fourth combination is enough.
            for mut choice in (0..3_usize.pow(7)).step_by(4) {
                let mut value = json!({"response_type": kind, "status": status, "message": "m"});
                for (name, filled) in &sections {
                    match choice % 3 {
                        0 => {}
                        1 => value[*name] = json!({}),
                        _ => value[*name] = filled.clone(),
                    }
                    choice /= 3;
                }
                if universal::pairing_violations(&value, None).is_empty() {
                    kept += 1;
                    let read = serde_json::from_value::<UniversalResponse>(value.clone());
                    assert!(read.is_ok(), "{value}: {}", read.unwrap_err());
                } else {
                    broken += 1;
                }
            }
        }
    }
    assert!(kept > 50 && broken > 1_000, "{kept} kept the rules, {broken} did not");
}
