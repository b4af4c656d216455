//! The expectations of a case.

use serde::Deserialize;
use serde_json::{Value, json};
use slipform_engine::{ModelCall, State};
use slipform_schema::{Schema, universal};
use slipform_types::{EventBody, NOT_SUBMITTED, Outcome, RUN_FAILS, Role, RunErrorType};

use crate::support::script::{Case, RunRecord};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expect {
    status: String,
    result_data: Option<Value>,
    result_text: Option<String>,
    /// The calls of the client's tools, each as `[name, arguments]`.
    tool_calls: Option<Vec<(String, Value)>>,
    error: Option<Value>,
    receipt: Option<Value>,
    salvage: Option<Value>,
    noted: Option<Vec<String>>,
    /// The tools, programs and children that the run started, in order.
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
    /// 0 if the request sets no limit.
    max_tokens: Option<Value>,
    format: Option<String>,
    /// Members of the request, by JSON Pointer.
    request: std::collections::BTreeMap<String, Value>,
}

/// Checks the invariants of every run.
pub(crate) fn check_invariants(case: &Case, record: &RunRecord) -> Result<(), String> {
    let receipt = match &record.outcome {
        Outcome::Completed(success) => {
            match (&case.contract, &success.result_data, &success.result_text) {
                (Some(contract), Some(data), None) => {
                    let schema = Schema::compile(&contract.schema).map_err(|error| error.to_string())?;
                    check_equal(
                        "a result's violations",
                        &json!([]),
                        &json!(schema.violations(data).lines()),
                    )?;
                    if universal::is_universal(&schema) {
                        let own = case.blueprint["response_type"].as_str();
                        check_equal(
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
        Outcome::ToolCalls(ended) => {
            let tools = case.conversation.as_ref().map(|it| it.client_tools.as_slice()).unwrap_or_default();
            for call in &ended.calls {
                let tool = tools.iter().find(|tool| tool.name == call.name).ok_or("a call of no tool")?;
                let schema = Schema::compile(&tool.parameters).map_err(|error| error.to_string())?;
                let arguments: Value =
                    serde_json::from_str(&call.arguments).map_err(|error| error.to_string())?;
                let violations = schema.violations(&arguments).lines();
                check_equal("violations of arguments", &json!([]), &json!(violations))?;
            }
            &ended.receipt
        }
        Outcome::Failed(failure) => {
            // The output of a program is kept like a reply.
            let is_reply = |body: &&EventBody| match body {
                EventBody::Message { .. } => true,
                EventBody::StopRequested { partial } | EventBody::DeadlineReached { partial } => {
                    partial.is_some()
                }
                EventBody::PostTool { tool_output, .. } => tool_output.get("stdout").is_some(),
                _ => false,
            };
            let messages = record.bodies.iter().filter(is_reply);
            check_equal("replies kept", &json!(messages.count()), &json!(failure.salvage.replies.len()))?;
            check_equal("calls in the error", &json!(failure.receipt.calls), &json!(failure.error.calls))?;
            check_failure_response(case, failure.error.response.as_ref())?;
            &failure.receipt
        }
    };
    let calls = record.bodies.iter().filter(|body| ends_call(body)).count();
    check_equal("calls in the receipt", &json!(calls), &json!(receipt.calls))?;
    let on_rungs: u32 = receipt.rungs.iter().map(|rung| rung.calls).sum();
    check_equal("calls on the rungs", &json!(calls), &json!(on_rungs))?;
    check_equal("retries", &json!(count_retries(&record.bodies)), &json!(receipt.retries))?;
    check_validation_events(record)?;
    check_equal("missing submits", &json!(unsubmitted(record)), &json!(receipt.missing_submits))?;
    let excess_call = record.calls.iter().find(|call| call.number > call.of);
    excess_call.map_or(Ok(()), |call| Err(format!("call {} of {}", call.number, call.of)))
}

/// Checks that a failure under the universal response contract has a response that satisfies it.
fn check_failure_response(case: &Case, response: Option<&Value>) -> Result<(), String> {
    let Some(contract) = &case.contract else { return Ok(()) };
    let schema = Schema::compile(&contract.schema).map_err(|error| error.to_string())?;
    if !universal::is_universal(&schema) {
        return Ok(());
    }
    let response = response.ok_or("a universal contract's failure without a response")?;
    check_equal("a response's violations", &json!([]), &json!(schema.violations(response).lines()))?;
    let own = case.blueprint["response_type"].as_str();
    check_equal(
        "an unpaired response",
        &json!([]),
        &json!(universal::pairing_violations(response, own).lines()),
    )
}

/// Returns whether an event ends a model call, even if only the beginning of the reply was
/// received.
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

/// Counts the calls that repeat a rejected one.
fn count_retries(bodies: &[EventBody]) -> usize {
    let mut is_noted = false;
    let mut count = 0;
    for body in bodies {
        match body {
            EventBody::ValidationFailed { correction, .. } => is_noted = correction.is_some(),
            EventBody::Escalated { .. } => is_noted = false,
            body if ends_call(body) => {
                count += usize::from(std::mem::take(&mut is_noted));
            }
            _ => {}
        }
    }
    count
}

/// Counts the replies in the journal that should have submitted a result and did not.
fn unsubmitted(record: &RunRecord) -> usize {
    let is_missing_submit = |body: &&EventBody| match body {
        EventBody::ValidationFailed { errors, .. } => errors.iter().any(|error| error == NOT_SUBMITTED),
        EventBody::Escalated { reason, .. } => reason == NOT_SUBMITTED,
        _ => false,
    };
    record.bodies.iter().filter(is_missing_submit).count()
}

/// Checks that the journal has the message of every retry, and the errors of the last failed answer.
fn check_validation_events(record: &RunRecord) -> Result<(), String> {
    let mut calls = record.calls.iter();
    let mut expected = None;
    for body in &record.bodies {
        match body {
            EventBody::ValidationFailed { correction, .. } => expected = correction.clone(),
            EventBody::Escalated { .. } => expected = None,
            body if ends_call(body) => {
                let call = calls.next().ok_or("a reply without a call")?;
                let asked = call.request.messages.last().map(|message| message.content.clone());
                if let Some(expected) = expected.take() {
                    check_equal("the journaled correction", &json!(asked), &json!(expected))?;
                }
            }
            _ => {}
        }
    }
    let Outcome::Failed(failure) = &record.outcome else { return Ok(()) };
    let is_about_answer = matches!(
        failure.error.kind,
        RunErrorType::OutputSchemaValidationFailed
            | RunErrorType::ResultNotSubmitted
            | RunErrorType::OutputTruncated
            | RunErrorType::EmptyReply
    );
    let last = record.bodies.iter().rev().find_map(|body| match body {
        EventBody::ValidationFailed { errors, consequence, .. } if consequence == RUN_FAILS => {
            Some(errors.clone())
        }
        _ => None,
    });
    let has_answer = is_about_answer && !failure.salvage.replies.is_empty();
    let expected = has_answer.then(|| failure.error.validation_errors.clone());
    check_equal("the errors of the last answer", &json!(expected), &json!(last))
}

pub(crate) fn check_expectations(expect: &Expect, record: &RunRecord) -> Result<(), String> {
    let status = json!(State::status(&record.outcome));
    let given = match &record.outcome {
        Outcome::Completed(success) => json!(success),
        Outcome::ToolCalls(ended) => json!(ended),
        Outcome::Failed(failure) => json!(failure),
    };
    check_equal("status", &json!(expect.status), &status)
        .map_err(|problem| format!("{problem} ({given})"))?;
    for (what, expected) in [
        ("result_data", &expect.result_data),
        ("error", &expect.error),
        ("receipt", &expect.receipt),
        ("salvage", &expect.salvage),
    ] {
        if let Some(expected) = expected {
            check_members(what, expected, &given[what])?;
        }
    }
    if let Some(expected) = &expect.tool_calls {
        let Outcome::ToolCalls(ended) = &record.outcome else { return Err(format!("no calls: {given}")) };
        let read = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
        let calls = ended.calls.iter().map(|call| (call.name.clone(), read(&call.arguments)));
        check_equal("tool_calls", &json!(expected), &json!(calls.collect::<Vec<_>>()))?;
    }
    if let Some(data) = &expect.result_data {
        check_equal("result_data", data, &given["result_data"])?;
    }
    if let Some(text) = &expect.result_text {
        check_equal("result_text", &json!(text), &given["result_text"])?;
    }
    if let Some(ran) = &expect.ran {
        check_equal("ran", &json!(ran), &json!(record.ran))?;
    }
    if let Some(noted) = &expect.noted {
        check_notes(noted, &record.bodies)?;
    }
    let Some(calls) = &expect.calls else { return Ok(()) };
    let asked: Vec<&str> = record.calls.iter().map(|call| call.asked.as_str()).collect();
    if calls.len() != asked.len() {
        return Err(format!("{} calls are expected, and these were made: {asked:?}", calls.len()));
    }
    for (number, (expected, call)) in calls.iter().zip(&record.calls).enumerate() {
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
            check_equal(what, &wanted, &given)?;
        }
    }
    for (pointer, wanted) in &expected.request {
        check_equal(pointer, wanted, request.pointer(pointer).unwrap_or(&Value::Null))?;
    }
    let text = |message: Option<&slipform_types::Message>| {
        message.map(|message| message.content.clone()).unwrap_or_default()
    };
    let system = call.request.system.clone().unwrap_or_default();
    let (first, last) = (text(call.request.messages.first()), text(call.request.messages.last()));
    check_text(
        "system",
        &system,
        &expected.system_contains,
        &expected.system_lacks,
        expected.system_ends_with.as_ref(),
    )?;
    check_text(
        "first",
        &first,
        &expected.first_contains,
        &expected.first_lacks,
        expected.first_ends_with.as_ref(),
    )?;
    check_text("last", &last, &expected.last_contains, &expected.last_lacks, expected.last_ends_with.as_ref())
}

fn check_text(
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

fn check_equal(what: &str, expected: &Value, given: &Value) -> Result<(), String> {
    if expected == given { Ok(()) } else { Err(format!("{what}: expected {expected}\n  given {given}")) }
}

/// Compares the expected members of objects. Lists are compared item by item.
fn check_members(what: &str, expected: &Value, given: &Value) -> Result<(), String> {
    match (expected, given) {
        (Value::Object(members), Value::Object(_)) => members
            .iter()
            .try_for_each(|(key, member)| check_members(&format!("{what}.{key}"), member, &given[key])),
        (Value::Array(items), Value::Array(others)) if items.len() == others.len() => {
            items.iter().zip(others).try_for_each(|(item, other)| check_members(what, item, other))
        }
        _ => check_equal(what, expected, given),
    }
}
