//! What has to be true of a case: what it says itself, and what holds for all of them.

use formwork_engine::{ModelCall, State};
use formwork_schema::Schema;
use formwork_types::{Outcome, Receipt};
use serde_json::{Map, Value, json};

use crate::case::Case;
use crate::drive::Driven;

/// The heading of the section that ends the system prompt.
const SYSTEM_HEADING: &str = "## Required Output Format";

/// The heading of the section that ends the user message under the strategy `prompt`.
const USER_HEADING: &str = "## Output Format (REQUIRED)";

pub(crate) fn check(case: &Case, driven: &Driven) -> Result<(), String> {
    for (number, (step, call)) in case.steps.iter().zip(&driven.calls).enumerate() {
        let complain = |problem| format!("call {}: {problem}", number + 1);
        expected_call(&step.call, call).map_err(complain)?;
        always_true_of_calls(case, number, call).map_err(complain)?;
    }
    expected_end(case, &driven.outcome)?;
    always_true_of_ends(case, driven)
}

/// Whether `given` holds all that `wanted` names. Lists have to be equal; a string that begins with `…` has
/// to be contained.
fn holds(wanted: &Value, given: &Value) -> bool {
    match (wanted, given) {
        (Value::Object(wanted), Value::Object(given)) => {
            wanted.iter().all(|(key, value)| holds(value, given.get(key).unwrap_or(&Value::Null)))
        }
        (Value::Array(wanted), Value::Array(given)) => {
            wanted.len() == given.len()
                && wanted.iter().zip(given).all(|(wanted, given)| holds(wanted, given))
        }
        (Value::String(wanted), Value::String(given)) => match wanted.strip_prefix('…') {
            Some(part) => given.contains(part),
            None => wanted == given,
        },
        _ => wanted == given,
    }
}

fn expected_call(wanted: &Map<String, Value>, call: &ModelCall) -> Result<(), String> {
    let request = &call.request;
    let messages: Vec<&str> = request.messages.iter().map(|message| message.content.as_str()).collect();
    let said = messages.join("\n\n");
    let system = request.system.clone().unwrap_or_default();
    for (key, value) in wanted {
        let texts = || value.as_array().into_iter().flatten().map(|text| text.as_str().expect("a text"));
        let (met, given) = match key.as_str() {
            "asked" => (holds(value, &json!(call.asked)), call.asked.clone()),
            "backend" => (holds(value, &json!(call.backend)), call.backend.clone()),
            "number" => (*value == json!([call.number, call.of]), format!("[{},{}]", call.number, call.of)),
            "messages_contain" => (texts().all(|text| said.contains(text)), said.clone()),
            "messages_lack" => (!texts().any(|text| said.contains(text)), said.clone()),
            "last_message" => (messages.last().copied() == value.as_str(), said.clone()),
            "roles" => {
                let roles: Value = request.messages.iter().map(|message| json!(message.role)).collect();
                (roles == *value, roles.to_string())
            }
            "system_contains" => (texts().all(|text| system.contains(text)), system.clone()),
            "system_lacks" => (!texts().any(|text| system.contains(text)), system.clone()),
            "system_ends_with" => (system.ends_with(value.as_str().expect("a text")), system.clone()),
            "max_tokens" => (*value == json!(request.max_tokens), format!("{:?}", request.max_tokens)),
            "format" => matched(value, &json!(request.format)),
            "tools" => matched(value, &json!(request.tools)),
            "tool_choice" => matched(value, &json!(request.tool_choice)),
            other => return Err(format!("there is no expectation {other}")),
        };
        if !met {
            return Err(format!("{key}: expected {value}\ngiven {given}"));
        }
    }
    Ok(())
}

fn matched(wanted: &Value, given: &Value) -> (bool, String) {
    (holds(wanted, given), given.to_string())
}

/// What a call's text has at its end: the last heading of second rank.
fn last_heading(text: &str) -> Option<&str> {
    text.lines().rfind(|line| line.starts_with("## "))
}

fn always_true_of_calls(case: &Case, number: usize, call: &ModelCall) -> Result<(), String> {
    let messages = &call.request.messages;
    let system = call.request.system.as_deref().unwrap_or_default();
    // One question, one answer, and what is said to it for each tool call.
    let answers = messages.iter().filter(|message| message.tool_call_id.is_some()).count();
    if messages.len() > 3.max(2 + answers) {
        return Err(format!("the conversation grew to {} messages", messages.len()));
    }
    if case.contract().is_some() {
        let by_prompt = call.asked.starts_with("prompt");
        if by_prompt == (last_heading(system) == Some(SYSTEM_HEADING)) {
            return Err(format!("'{}' with the system prompt {system}", call.asked));
        }
        let is_first = !call.asked.ends_with("correction");
        if by_prompt && is_first && last_heading(&messages[0].content) != Some(USER_HEADING) {
            return Err(format!("the user message ends without its section: {}", messages[0].content));
        }
    }
    let again = call.asked.ends_with("correction") || call.asked.ends_with("reminder");
    let last = messages.last().map(|message| message.content.as_str()).unwrap_or_default();
    let wrapped =
        last.starts_with("<output-validation-error>\n") && last.ends_with("\n</output-validation-error>");
    if again != wrapped {
        return Err(format!("'{}' with the message {last}", call.asked));
    }
    if number == 0 && again {
        return Err("the first call corrects nothing".to_owned());
    }
    Ok(())
}

fn expected_end(case: &Case, outcome: &Outcome) -> Result<(), String> {
    let status = json!(State::status(outcome));
    let given = match outcome {
        Outcome::Completed(success) => json!({
            "status": status, "result": success.result_data, "text": success.result_text,
            "receipt": success.receipt,
        }),
        Outcome::Failed(failure) => json!({
            "status": status, "error": failure.error, "receipt": failure.receipt, "salvage": failure.salvage,
        }),
    };
    for (key, value) in &case.expect {
        // A result is compared as a whole: what is not wanted must not be there.
        let met = if key == "result" { given[key] == *value } else { holds(value, &given[key]) };
        if !met || given.get(key).is_none() {
            return Err(format!("{key}: expected {value}\ngiven {given}"));
        }
    }
    if case.expect.contains_key("status") { Ok(()) } else { Err("the case expects no status".to_owned()) }
}

fn always_true_of_ends(case: &Case, driven: &Driven) -> Result<(), String> {
    let receipt = match &driven.outcome {
        Outcome::Completed(success) => {
            let valid = case.contract().is_none_or(|contract| {
                let schema = Schema::compile(&contract.schema).expect("a usable schema");
                success.result_data.as_ref().is_some_and(|value| schema.is_valid(value))
            });
            if !valid || success.result_data.is_some() == success.result_text.is_some() {
                return Err(format!("an invalid success: {success:?}"));
            }
            &success.receipt
        }
        Outcome::Failed(failure) => {
            let counts = (failure.error.calls, failure.error.retry_count);
            if counts != (failure.receipt.calls, failure.receipt.retries) {
                return Err(format!("error and receipt disagree: {failure:?}"));
            }
            &failure.receipt
        }
    };
    counted(case, driven, receipt)
}

/// The receipt tells every call that was made, and no rung had more than its budget.
fn counted(case: &Case, driven: &Driven, receipt: &Receipt) -> Result<(), String> {
    let broken_off = driven.journal.iter().filter(|event| {
        matches!(event.body, formwork_types::Body::StopRequested | formwork_types::Body::DeadlineReached)
    });
    let made = driven.calls.len() - broken_off.count();
    let by_rung: u32 = receipt.rungs.iter().map(|rung| rung.calls).sum();
    let most = case.contract().map_or(1, |contract| contract.options.max_retries) + 1;
    let within = receipt.rungs.iter().all(|rung| rung.calls <= most);
    if receipt.calls as usize != made || by_rung != receipt.calls || !within {
        return Err(format!("{made} calls were made, the receipt says {receipt:?}"));
    }
    let hash = case.contract().map(|contract| contract.hash);
    if receipt.schema_hash != hash { Err(format!("the hash is not {hash:?}")) } else { Ok(()) }
}
