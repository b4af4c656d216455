//! The universal response as a type, checked against the examples of its specification.

use std::collections::HashSet;

use serde_json::{Value, json};
use slipform_testkit::universal_examples;
use slipform_types::{Level, ResponseStatus, ResponseType, RunError, RunErrorType, UniversalResponse};

fn read(value: Value) -> UniversalResponse {
    serde_json::from_value(value).unwrap()
}

#[test]
fn specification_examples_round_trip() {
    for example in universal_examples().into_iter().flatten() {
        let response = read(example.clone());
        assert_eq!(response.response_type.name(), example["response_type"]);
        assert!(response.planning_data.iter().flat_map(|plan| &plan.steps).all(|step| step.more.is_empty()));
        assert_eq!(serde_json::to_value(&response).unwrap(), example);
    }
}

#[test]
fn unknown_members_are_kept_in_sections_and_refused_at_root() {
    let open = json!({
        "response_type": "answer", "status": "success", "message": "Yes.",
        "answer_data": {"confidence": "low", "asked": ["Ada"]}, "error_details": {"line": 3},
    });
    let response = read(open.clone());
    assert_eq!(response.answer_data.as_ref().unwrap().confidence, Level::Low);
    assert_eq!(response.answer_data.as_ref().unwrap().more["asked"], json!(["Ada"]));
    assert_eq!(serde_json::to_value(&response).unwrap(), open);
    let closed =
        json!({"response_type": "answer", "status": "success", "message": "Yes.", "metadata": {"a": 1}});
    assert!(serde_json::from_value::<UniversalResponse>(closed).is_err());
}

#[test]
fn whole_number_with_decimal_point_is_accepted() {
    let scored = |score: Value| {
        serde_json::from_value::<UniversalResponse>(json!({
            "response_type": "clarity", "status": "needs_clarification", "message": "Vague.",
            "clarity_data": {"total_score": score, "follow_up_questions": ["Which file?"]},
        }))
    };
    for score in [json!(35), json!(35.0)] {
        let response = scored(score).unwrap();
        assert_eq!(response.status, ResponseStatus::NeedsClarification);
        assert_eq!(response.response_type, ResponseType::Clarity);
        assert_eq!(response.clarity_data.unwrap().total_score, Some(35));
    }
    for score in [json!(35.5), json!(-1), json!(300), json!(1e300), json!("35")] {
        assert!(scored(score.clone()).is_err(), "{score}");
    }
}

fn error(kind: RunErrorType, validation_errors: &[&str]) -> RunError {
    let validation_errors: Vec<&str> = validation_errors.to_vec();
    let error = json!({"type": kind, "message": "It failed", "validation_errors": validation_errors});
    serde_json::from_value(error).unwrap()
}

#[test]
fn response_of_every_error_type_suggests_an_action() {
    let mut actions = HashSet::new();
    for kind in RunErrorType::ALL {
        let response = UniversalResponse::of_error(&error(kind, &[]));
        let action = response.error_details.as_ref().unwrap().suggested_action.clone().unwrap();
        assert_eq!(
            serde_json::to_value(response).unwrap(),
            json!({
                "response_type": "error", "status": "error", "message": "It failed",
                "error_details": {
                    "error_code": kind.name(), "error_message": "It failed", "suggested_action": action,
                },
            })
        );
        assert!(action.ends_with('.') && actions.insert(action), "{}", kind.name());
    }
}

#[test]
fn response_of_error_lists_validation_errors() {
    let error = error(RunErrorType::OutputSchemaValidationFailed, &["$.a: is bad", "$.b: is worse"]);
    let details = UniversalResponse::of_error(&error).error_details.unwrap();
    assert_eq!(details.error_message.unwrap(), "It failed: $.a: is bad; $.b: is worse");
}
