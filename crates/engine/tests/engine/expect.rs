//! What a case expects of its run.

use serde::Deserialize;
use serde_json::{Value, json};
use slipform_engine::{ModelCall, State};
use slipform_schema::{Schema, universal};
use slipform_types::{EventBody, NOT_SUBMITTED, Outcome, Role, RunErrorType};

use crate::script::{Case, Played};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expect {
    status: String,
    result_data: Option<Value>,
    result_text: Option<String>,
    error: Option<Value>,
    receipt: Option<Value>,
    salvage: Option<Value>,
    noted: Option<Vec<String>>,
    /// What was called, run or started: each as it is, in order.
    ran: Option<Vec<Value>>,
    calls: Option<Vec<ExpectCall>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ExpectCall {
    asked: Option<String>,
    backend: Option<String>,
    number: Option<u32>,
    roles: Option<Vec<String>>,
    system_contains: Vec<String>,
    system_lacks: Vec<String>,
    system_ends_with: Option<String>,
    first_contains: Vec<String>,
    first_lacks: Vec<String>,
    first_ends_with: Option<String>,
    last_contains: Vec<String>,
    last_lacks: Vec<String>,
    last_ends_with: Option<String>,
    /// 0 where none is asked for.
    max_tokens: Option<Value>,
    format: Option<String>,
    /// Members of the whole request, by JSON Pointer.
    request: std::collections::BTreeMap<String, Value>,
}

/// What holds for every run, whatever its case says.
pub(crate) fn always(case: &Case, played: &Played) -> Result<(), String> {
    let receipt = match &played.outcome {
        Outcome::Completed(success) => {
            match (&case.contract, &success.result_data, &success.result_text) {
                (Some(contract), Some(data), None) => {
                    let schema = Schema::compile(&contract.schema).map_err(|error| error.to_string())?;
                    same("a result's violations", &json!([]), &json!(schema.violations(data).lines()))?;
                    if universal::is_universal(&schema) {
                        let own = case.blueprint["response_type"].as_str();
                        same(
                            "unpaired",
                            &json!([]),
                            &json!(universal::pairing_violations(data, own).lines()),
                        )?;
                    }
                }
                (None, None, Some(_)) => {}
                other => return Err(format!("data and text exclude each other: {other:?}")),
            }
            &success.receipt
        }
        Outcome::Failed(failure) => {
            // What a program writes is kept like what a model says.
            let is_said = |body: &&EventBody| match body {
                EventBody::Message { .. } => true,
                EventBody::StopRequested { partial } | EventBody::DeadlineReached { partial } => {
                    partial.is_some()
                }
                EventBody::PostTool { tool_output, .. } => tool_output.get("stdout").is_some(),
                _ => false,
            };
            let messages = played.bodies.iter().filter(is_said);
            same("replies kept", &json!(messages.count()), &json!(failure.salvage.replies.len()))?;
            same("calls in the error", &json!(failure.receipt.calls), &json!(failure.error.calls))?;
            ready(case, failure.error.response.as_ref())?;
            &failure.receipt
        }
    };
    let calls = played.bodies.iter().filter(|body| ends_call(body)).count();
    same("calls in the receipt", &json!(calls), &json!(receipt.calls))?;
    let on_rungs: u32 = receipt.rungs.iter().map(|rung| rung.calls).sum();
    same("calls on the rungs", &json!(calls), &json!(on_rungs))?;
    same("retries", &json!(retried(&played.bodies)), &json!(receipt.retries))?;
    same("missing submits", &json!(unsubmitted(played)), &json!(receipt.missing_submits))?;
    let beyond = played.calls.iter().find(|call| call.number > call.of);
    beyond.map_or(Ok(()), |call| Err(format!("call {} of {}", call.number, call.of)))
}

/// Where the contract is the universal response, a failure comes with one that satisfies it.
fn ready(case: &Case, response: Option<&Value>) -> Result<(), String> {
    let Some(contract) = &case.contract else { return Ok(()) };
    let schema = Schema::compile(&contract.schema).map_err(|error| error.to_string())?;
    if !universal::is_universal(&schema) {
        return Ok(());
    }
    let response = response.ok_or("a universal contract's failure without a response")?;
    same("a response's violations", &json!([]), &json!(schema.violations(response).lines()))?;
    let own = case.blueprint["response_type"].as_str();
    same("an unpaired response", &json!([]), &json!(universal::pairing_violations(response, own).lines()))
}

/// Whether it tells what came of a call, be it only the beginning of a reply.
fn ends_call(body: &EventBody) -> bool {
    use EventBody::{CallFailed, DeadlineReached, Message, StopRequested};
    matches!(
        body,
        Message { .. }
            | CallFailed { .. }
            | StopRequested { partial: Some(_) }
            | DeadlineReached { partial: Some(_) }
    )
}

/// The calls that were made because another's answer would not do.
fn retried(bodies: &[EventBody]) -> usize {
    let mut is_noted = false;
    let mut count = 0;
    for body in bodies {
        match body {
            EventBody::ValidationFailed { .. } => is_noted = true,
            EventBody::Escalated { .. } => is_noted = false,
            body if ends_call(body) => {
                count += usize::from(std::mem::take(&mut is_noted));
            }
            _ => {}
        }
    }
    count
}

/// The replies that were to submit a result and did not, as the journal tells of them.
fn unsubmitted(played: &Played) -> usize {
    let is_told = |body: &&EventBody| match body {
        EventBody::ValidationFailed { errors, .. } => errors.iter().any(|error| error == NOT_SUBMITTED),
        EventBody::Escalated { reason, .. } => reason == NOT_SUBMITTED,
        _ => false,
    };
    let was_last = matches!(&played.outcome, Outcome::Failed(failure) if failure.error.kind == RunErrorType::ResultNotSubmitted);
    played.bodies.iter().filter(is_told).count() + usize::from(was_last)
}

pub(crate) fn check(expect: &Expect, played: &Played) -> Result<(), String> {
    let status = json!(State::status(&played.outcome));
    let given = match &played.outcome {
        Outcome::Completed(success) => json!(success),
        Outcome::Failed(failure) => json!(failure),
    };
    same("status", &json!(expect.status), &status).map_err(|problem| format!("{problem} ({given})"))?;
    for (what, expected) in [
        ("result_data", &expect.result_data),
        ("error", &expect.error),
        ("receipt", &expect.receipt),
        ("salvage", &expect.salvage),
    ] {
        if let Some(expected) = expected {
            covers(what, expected, &given[what])?;
        }
    }
    if let Some(data) = &expect.result_data {
        same("result_data", data, &given["result_data"])?;
    }
    if let Some(text) = &expect.result_text {
        same("result_text", &json!(text), &given["result_text"])?;
    }
    if let Some(ran) = &expect.ran {
        same("ran", &json!(ran), &json!(played.ran))?;
    }
    if let Some(noted) = &expect.noted {
        check_notes(noted, &played.bodies)?;
    }
    let Some(calls) = &expect.calls else { return Ok(()) };
    let asked: Vec<&str> = played.calls.iter().map(|call| call.asked.as_str()).collect();
    if calls.len() != asked.len() {
        return Err(format!("{} calls are expected, and these were made: {asked:?}", calls.len()));
    }
    for (number, (expected, call)) in calls.iter().zip(&played.calls).enumerate() {
        check_call(expected, call).map_err(|problem| format!("call {}: {problem}", number + 1))?;
    }
    Ok(())
}

fn check_notes(expected: &[String], bodies: &[EventBody]) -> Result<(), String> {
    let notes: Vec<String> = bodies
        .iter()
        .filter_map(|body| match body {
            EventBody::ValidationFailed { errors, consequence, .. } => {
                Some(format!("{} -> {consequence}", errors.join("; ")))
            }
            EventBody::Escalated { from, to, reason, .. } => Some(format!("{from} to {to}: {reason}")),
            EventBody::PostTool { tool_name, error: Some(error), .. } => {
                Some(format!("{tool_name}: {error}"))
            }
            EventBody::ClarityScored { round, score, threshold, consequence, .. } => {
                Some(format!("{score} of {threshold}, round {round}: {consequence}"))
            }
            _ => None,
        })
        .collect();
    let holds = notes.len() == expected.len()
        && notes.iter().zip(expected).all(|(note, part)| note.contains(part.as_str()));
    if holds { Ok(()) } else { Err(format!("expected notes {expected:?}\n  given {notes:?}")) }
}

fn check_call(expected: &ExpectCall, call: &ModelCall) -> Result<(), String> {
    let request = json!(call.request);
    let roles: Vec<Role> = call.request.messages.iter().map(|message| message.role).collect();
    let format = request["format"]["type"].clone();
    for (what, wanted, given) in [
        ("asked", expected.asked.as_ref().map(|asked| json!(asked)), json!(call.asked)),
        ("backend", expected.backend.as_ref().map(|name| json!(name)), json!(call.backend)),
        ("number", expected.number.map(|number| json!(number)), json!(call.number)),
        ("roles", expected.roles.as_ref().map(|roles| json!(roles)), json!(roles)),
        ("format", expected.format.as_ref().map(|name| json!(name)), format),
        ("max_tokens", expected.max_tokens.clone(), json!(call.request.max_tokens.unwrap_or(0))),
    ] {
        if let Some(wanted) = wanted {
            same(what, &wanted, &given)?;
        }
    }
    for (pointer, wanted) in &expected.request {
        same(pointer, wanted, request.pointer(pointer).unwrap_or(&Value::Null))?;
    }
    let text = |message: Option<&slipform_types::Message>| {
        message.map(|message| message.content.clone()).unwrap_or_default()
    };
    let system = call.request.system.clone().unwrap_or_default();
    let (first, last) = (text(call.request.messages.first()), text(call.request.messages.last()));
    says(
        "system",
        &system,
        &expected.system_contains,
        &expected.system_lacks,
        expected.system_ends_with.as_ref(),
    )?;
    says(
        "first",
        &first,
        &expected.first_contains,
        &expected.first_lacks,
        expected.first_ends_with.as_ref(),
    )?;
    says("last", &last, &expected.last_contains, &expected.last_lacks, expected.last_ends_with.as_ref())
}

fn says(
    what: &str,
    text: &str,
    contains: &[String],
    lacks: &[String],
    end: Option<&String>,
) -> Result<(), String> {
    let problem = |problem: &str, part: &str| Err(format!("{what} {problem} {part:?}:\n{text}"));
    if let Some(part) = contains.iter().find(|part| !text.contains(part.as_str())) {
        return problem("lacks", part);
    }
    if let Some(part) = lacks.iter().find(|part| text.contains(part.as_str())) {
        return problem("contains", part);
    }
    match end {
        Some(end) if !text.ends_with(end.as_str()) => problem("does not end with", end),
        _ => Ok(()),
    }
}

fn same(what: &str, expected: &Value, given: &Value) -> Result<(), String> {
    if expected == given { Ok(()) } else { Err(format!("{what}: expected {expected}\n  given {given}")) }
}

/// Objects may have more members than expected; lists are compared item by item.
fn covers(what: &str, expected: &Value, given: &Value) -> Result<(), String> {
    match (expected, given) {
        (Value::Object(members), Value::Object(_)) => {
            members.iter().try_for_each(|(key, member)| covers(&format!("{what}.{key}"), member, &given[key]))
        }
        (Value::Array(items), Value::Array(others)) if items.len() == others.len() => {
            items.iter().zip(others).try_for_each(|(item, other)| covers(what, item, other))
        }
        _ => same(what, expected, given),
    }
}
