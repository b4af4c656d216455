//! The universal response for constrained decoding. A grammar can enforce all of its rules, so they become
//! part of a schema for the response type of one agent.

use serde_json::{Value, json};

use super::clarity::CLEAR_FROM;

/// The longest `message`, in characters. Models that need a grammar have a short context and repeat
/// themselves.
const MESSAGE_CHARACTERS_MAX: usize = 400;
/// The longest other text, in characters.
const TEXT_CHARACTERS_MAX: usize = 200;

/// A text that begins with a letter or digit of any language, so that it is not blank.
const QUESTION: &str = r"^[^\s!-/:-@\[-`{-~].{0,199}$";

/// The most items of a list.
const ITEMS_MAX: usize = 4;

/// A criterion of a verification, and its result if it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Criterion {
    /// The criterion's text, as the response repeats it.
    pub criterion: String,
    /// Whether the criterion is met; `None` if the model decides.
    pub passed: Option<bool>,
}

/// Returns a schema whose instances satisfy the universal response's schema and rules for one response type.
/// Returns `None` for types that no agent declares, such as `error`.
pub fn exact_schema(response_type: &str, criteria: &[Criterion]) -> Option<Value> {
    let statuses = ["success", "needs_clarification"];
    Some(match response_type {
        "planning" => response(response_type, &statuses, "planning_data", planning()),
        "answer" => {
            let sources = list(text());
            let members = [
                ("confidence", level()),
                ("sources", sources),
                ("follow_up_needed", json!({"type": "boolean"})),
            ];
            response(response_type, &statuses, "answer_data", object(&members))
        }
        "research" => {
            let finding = object(&[
                ("topic", text()),
                ("description", text()),
                ("source_file", text()),
                ("relevance", level()),
            ]);
            let mut findings = list(finding);
            findings["minItems"] = json!(1);
            response(
                response_type,
                &statuses,
                "research_data",
                object(&[("findings", findings), ("sources", list(text()))]),
            )
        }
        "clarity" => {
            let below = CLEAR_FROM - 1;
            json!({"anyOf": [
                clarity("needs_clarification", (0, below), 1),
                clarity("success", (CLEAR_FROM, 100), 0),
            ]})
        }
        "custom" => {
            let fields = json!({"type": "object", "minProperties": 1, "maxProperties": 8});
            response(response_type, &statuses, "custom_fields", fields)
        }
        "verification" => {
            let verdicts =
                [verdict("PASS", criteria), verdict("PARTIAL", criteria), verdict("FAIL", criteria)];
            let verdicts: Vec<Value> = verdicts.into_iter().flatten().collect();
            match <[Value; 1]>::try_from(verdicts) {
                Ok([only]) => only,
                Err(several) => json!({"anyOf": several}),
            }
        }
        _ => return None,
    })
}

/// Returns the schema of a clarity response with this status, a total in this range and so many questions.
fn clarity(status: &str, (lowest, highest): (u8, u8), questions_min: usize) -> Value {
    let score = |lowest: u8, highest: u8| json!({"type": "integer", "minimum": lowest, "maximum": highest});
    let mut questions = list(json!({"type": "string", "minLength": 1, "maxLength": TEXT_CHARACTERS_MAX,
        "pattern": QUESTION}));
    questions["minItems"] = json!(questions_min);
    let names = ["completeness_score", "clarity_score", "accuracy_score"];
    let members: Vec<(&str, Value)> = names
        .into_iter()
        .map(|name| (name, score(0, 100)))
        .chain([("total_score", score(lowest, highest)), ("follow_up_questions", questions)])
        .collect();
    response("clarity", &[status], "clarity_data", object(&members))
}

fn response(kind: &str, statuses: &[&str], section: &str, data: Value) -> Value {
    let message = json!({"type": "string", "minLength": 1, "maxLength": MESSAGE_CHARACTERS_MAX});
    let members = [
        ("response_type", json!({"const": kind})),
        ("status", json!({"enum": statuses})),
        ("message", message),
        (section, data),
    ];
    object(&members)
}

/// Returns the schema of an object with exactly these members.
fn object(members: &[(&str, Value)]) -> Value {
    let names: Vec<&str> = members.iter().map(|(name, _)| *name).collect();
    let properties: serde_json::Map<String, Value> =
        members.iter().map(|(name, schema)| ((*name).to_owned(), schema.clone())).collect();
    json!({"type": "object", "required": names, "additionalProperties": false, "properties": properties})
}

fn text() -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": TEXT_CHARACTERS_MAX})
}

fn level() -> Value {
    json!({"enum": ["high", "medium", "low"]})
}

fn list(items: Value) -> Value {
    json!({"type": "array", "maxItems": ITEMS_MAX, "items": items})
}

/// Returns the schema of an array with exactly these items, of which the first `least` are required.
fn tuple(items: &[Value], least: usize) -> Value {
    json!({"type": "array", "minItems": least, "maxItems": items.len(), "items": items, "additionalItems": false})
}

fn planning() -> Value {
    let step = |number: usize| {
        let minutes = json!({"type": "integer", "minimum": 1, "maximum": 480});
        object(&[
            ("step_number", json!({"const": number})),
            ("action", text()),
            ("details", text()),
            ("estimated_minutes", minutes),
        ])
    };
    let steps: Vec<Value> = (1..=ITEMS_MAX).map(step).collect();
    object(&[("summary", text()), ("steps", tuple(&steps, 1)), ("dependencies", tuple(&[text(), text()], 0))])
}

/// Returns the schema of a verification with this verdict, or `None` if the known criteria contradict it.
fn verdict(name: &str, criteria: &[Criterion]) -> Option<Value> {
    let free = json!({"type": "boolean"});
    let mut wanted: Vec<(Value, Value)> = criteria
        .iter()
        .map(|known| {
            (
                json!({"const": known.criterion}),
                known.passed.map_or(free.clone(), |passed| json!({"const": passed})),
            )
        })
        .collect();
    if wanted.is_empty() {
        wanted = vec![(text(), free.clone()); if name == "PARTIAL" { 2 } else { 1 }];
    }
    let needed: &[bool] = match name {
        "PASS" => &[],
        "FAIL" => &[false],
        _ => &[true, false],
    };
    if name == "PASS" {
        for (_, passed) in &mut wanted {
            match passed.get("const") {
                Some(Value::Bool(false)) => return None,
                _ => *passed = json!({"const": true}),
            }
        }
    }
    // A required result is already known, or the first criterion that the model decides must have it.
    for needed in needed {
        let needed = json!({"const": needed});
        if !wanted.iter().any(|(_, passed)| *passed == needed) {
            wanted.iter_mut().find(|(_, passed)| *passed == free)?.1 = needed;
        }
    }
    let check = |(criterion, passed): &(Value, Value)| {
        object(&[("criterion", criterion.clone()), ("passed", passed.clone()), ("note", text())])
    };
    let checks: Vec<Value> = wanted.iter().map(check).collect();
    let data = object(&[("checks", tuple(&checks, checks.len())), ("suggestions", list(text()))]);
    Some(response("verification", &[name], "verification_data", data))
}
