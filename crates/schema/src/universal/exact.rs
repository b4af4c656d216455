//! The universal response for a model that can write nothing but what a grammar allows: there all of its rules can be part
//! of the schema, for the kind that one agent responds in.

use serde_json::{Value, json};

/// The longest texts. A model that needs a grammar has a short context, and repeats itself.
const MESSAGE_CHARACTERS_MAX: usize = 400;
const TEXT_CHARACTERS_MAX: usize = 200;

/// The longest lists.
const ITEMS_MAX: usize = 4;

/// A criterion of a verification, and whether it is known to be met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Criterion {
    /// In words.
    pub criterion: String,
    /// Whether it is met; none where the model decides.
    pub passed: Option<bool>,
}

/// A schema under which every response of this kind satisfies the schema of the universal response and its rules. None
/// for kinds that nobody responds in.
pub fn exactly(own: &str, criteria: &[Criterion]) -> Option<Value> {
    let open = ["success", "needs_clarification"];
    Some(match own {
        "planning" => response(own, &open, "planning_data", planning()),
        "answer" => {
            let sources = list(text());
            let members = [
                ("confidence", level()),
                ("sources", sources),
                ("follow_up_needed", json!({"type": "boolean"})),
            ];
            response(own, &open, "answer_data", object(&members))
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
                own,
                &open,
                "research_data",
                object(&[("findings", findings), ("sources", list(text()))]),
            )
        }
        "clarity" => {
            let score = json!({"type": "integer", "minimum": 0, "maximum": 100});
            let mut questions = list(text());
            questions["minItems"] = json!(1);
            let names = ["completeness_score", "clarity_score", "accuracy_score", "total_score"];
            let scores = names.map(|name| (name, score.clone()));
            let members: Vec<(&str, Value)> =
                scores.into_iter().chain([("follow_up_questions", questions)]).collect();
            response(own, &open, "clarity_data", object(&members))
        }
        "custom" => {
            let fields = json!({"type": "object", "minProperties": 1, "maxProperties": 8});
            response(own, &open, "custom_fields", fields)
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

/// An object with exactly these members.
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

/// A list that is exactly these.
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

/// A verification with this verdict; none where what is known speaks against it.
fn verdict(name: &str, criteria: &[Criterion]) -> Option<Value> {
    let free = json!({"type": "boolean"});
    let mut wanted: Vec<(Value, Value)> = criteria
        .iter()
        .map(|it| {
            (
                json!({"const": it.criterion}),
                it.passed.map_or(free.clone(), |passed| json!({"const": passed})),
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
    // Whatever the verdict needs is known already, or is said by the first that is free to say it.
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
