//! What a reply is worth: the one place where a model's text becomes a result or a list of errors.
//!
//! Every strategy ends here, native ones too: whatever a backend promised, the value is validated in full.

use serde_json::{Value, json};
use slipform_extract::{Extraction, Mode, Options, Outcome, RepairKind, extract};
use slipform_schema::{Schema, Violations, escape_pointer, restore};
use slipform_types::{Repair, Reply, StopReason};

use crate::contract::Enforced;
use crate::output_mode::OutputMode;
use crate::patch::{Parts, below};

/// The name of the tool that a result is submitted with, unless it is a plan.
pub(crate) const SUBMIT: &str = "submit_result";

/// The repairs that leave out something that was said: harmless around an answer, not around a call.
pub(crate) const LEAVING_OUT: [RepairKind; 2] = [RepairKind::TextRemoved, RepairKind::DocumentChosen];

/// What a reply is worth.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Verdict {
    /// It satisfies the contract.
    Valid(Accepted),
    /// There is a document, and this is wrong with it.
    Invalid(Flawed),
    /// There is no JSON in it.
    NoJson {
        /// Why not.
        reason: String,
    },
    /// The universal response that was to carry the result carries none.
    Withheld {
        /// What it has instead, as `$.path: message`.
        error: String,
    },
    /// The tool was not called.
    NotSubmitted,
    /// The token budget ran out.
    Truncated {
        /// What had been written by then, closed, if that can be told.
        candidate: Option<Value>,
        /// The changes that this took.
        repairs: Vec<Repair>,
    },
    /// There is nothing.
    Empty {
        /// The model thought, but did not answer.
        reasoned: bool,
    },
    /// The model declined or was stopped by a filter.
    Refused {
        /// In its words.
        message: String,
    },
}

/// A value that satisfies the contract, and how it was got out of the reply.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Accepted {
    pub(crate) value: Value,
    pub(crate) repairs: Vec<Repair>,
    pub(crate) flags: Vec<&'static str>,
}

/// A value that does not satisfy the contract.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Flawed {
    pub(crate) candidate: Value,
    pub(crate) violations: Violations,
    pub(crate) repairs: Vec<Repair>,
}

/// How the reply was asked for.
pub(crate) struct JudgedReply<'a> {
    pub(crate) mode: OutputMode,
    /// Under `auto` a result found in the text counts even where a tool call was asked for.
    pub(crate) text_counts: bool,
    /// The parts that were asked for, when it was a correction.
    pub(crate) parts: Option<&'a Parts>,
}

/// Judges a reply that has to satisfy a contract.
pub(crate) fn judge(enforced: &Enforced, asked: &JudgedReply<'_>, reply: &Reply) -> Verdict {
    if let Some(message) = refusal(&reply.stop) {
        return Verdict::Refused { message };
    }
    if reply.stop == StopReason::Length {
        let (candidate, repairs) = partial(enforced, asked, reply).unzip();
        return Verdict::Truncated { candidate, repairs: repairs.unwrap_or_default() };
    }
    if asked.mode == OutputMode::Tool {
        let submitted = submitted(enforced, asked, reply);
        if submitted != Verdict::NotSubmitted || !asked.text_counts {
            return submitted;
        }
        let mut found = judge_text(enforced, asked, &reply.text);
        return match &mut found {
            Verdict::Valid(accepted) => {
                accepted.flags.push("extracted_from_text");
                found
            }
            _ => Verdict::NotSubmitted,
        };
    }
    if reply.text.trim().is_empty() {
        return Verdict::Empty { reasoned: !reply.reasoning.trim().is_empty() };
    }
    judge_text(enforced, asked, &reply.text)
}

/// Why there is no answer, where the model declined or a filter stepped in.
pub(crate) fn refusal(stop: &StopReason) -> Option<String> {
    match stop {
        StopReason::Refused { message } if message.trim().is_empty() => {
            Some("the model declined to answer".to_owned())
        }
        StopReason::Refused { message } => Some(message.trim().to_owned()),
        StopReason::Filtered => Some("the backend's content filter cut the reply off".to_owned()),
        StopReason::Finished | StopReason::ToolCalls | StopReason::Length => None,
    }
}

/// The first valid submission wins; without one, the last is the one to correct.
fn submitted(enforced: &Enforced, asked: &JudgedReply<'_>, reply: &Reply) -> Verdict {
    let calls: Vec<_> = reply.tool_calls.iter().filter(|call| call.name == enforced.tool).collect();
    let mut last = Verdict::NotSubmitted;
    for call in &calls {
        let arguments = if call.arguments.trim().is_empty() { "{}" } else { &call.arguments };
        last = judge_text(enforced, asked, arguments);
        if let Verdict::Valid(accepted) = &mut last {
            if calls.len() > 1 {
                accepted.flags.push("submitted_twice");
            }
            return last;
        }
    }
    last
}

/// Judges a text, whatever it was asked for: by the schema first, and then by what goes beyond it.
pub(crate) fn judge_text(enforced: &Enforced, asked: &JudgedReply<'_>, text: &str) -> Verdict {
    let accepted = match by_schema(enforced, asked, text) {
        Verdict::Valid(accepted) => accepted,
        other => return other,
    };
    let violations = enforced.extra_violations(&accepted.value);
    match violations.is_empty() {
        true => Verdict::Valid(accepted),
        false => {
            let Accepted { value: candidate, repairs, .. } = accepted;
            Verdict::Invalid(Flawed { candidate, violations, repairs })
        }
    }
}

fn by_schema(enforced: &Enforced, asked: &JudgedReply<'_>, text: &str) -> Verdict {
    let options = enforced.extraction();
    if let Some(parts) = asked.parts
        && let Some((merged, mut repairs)) = parts.read(text, &options, &enforced.schema)
    {
        let mut verdict = whole(enforced, asked.mode, &merged.to_string(), &options);
        if let Verdict::Valid(accepted) = &mut verdict {
            repairs.append(&mut accepted.repairs);
            accepted.repairs = repairs;
            accepted.flags.push("patched");
        }
        return verdict;
    }
    if asked.mode == OutputMode::Universal {
        return universal(enforced, text, &options);
    }
    if let (true, Some(wrapped)) = (asked.mode.wants_object(), &enforced.wrapped) {
        return unwrapped(enforced, wrapped, asked.mode, text, &options);
    }
    whole(enforced, asked.mode, text, &options)
}

fn whole(enforced: &Enforced, mode: OutputMode, text: &str, options: &Options) -> Verdict {
    match extract(text, Some(&enforced.schema), options) {
        Outcome::Valid(extraction) => Verdict::Valid(Accepted {
            value: extraction.value,
            repairs: extraction.repairs.into_iter().map(repair).collect(),
            flags: Vec::new(),
        }),
        Outcome::Invalid { candidate, violations } => {
            without_nulls(&enforced.schema, mode, candidate, violations, options)
        }
        Outcome::NotFound { reason } => Verdict::NoJson { reason },
        Outcome::TooLong { bytes, limit } => Verdict::NoJson {
            reason: format!("the reply has {bytes} bytes, more than the {limit} that are read"),
        },
    }
}

/// Backends that know no optional properties are sent nullable ones, and say null for "left out". There a
/// null where the contract allows leaving out and does not allow null can only mean that. Everywhere else
/// it is the model's own word, and taking it away is for lenient mode, which does so by itself.
fn without_nulls(
    schema: &Schema,
    mode: OutputMode,
    candidate: Extraction,
    violations: Violations,
    options: &Options,
) -> Verdict {
    let sure = options.mode == Mode::Lenient || candidate.repairs.iter().all(|it| it.kind.is_lossless());
    let mut repairs: Vec<Repair> = candidate.repairs.into_iter().map(repair).collect();
    let mut value = candidate.value;
    if !(sure && (mode.is_native() || mode == OutputMode::Tool)) {
        return Verdict::Invalid(Flawed { candidate: value, violations, repairs });
    }
    let removed = restore(schema.source(), &mut value);
    let violations = if removed.is_empty() { violations } else { schema.violations(&value) };
    repairs.extend(removed.into_iter().map(|pointer| Repair {
        kind: "null_omitted".to_owned(),
        pointer,
        from: Value::Null,
        to: Value::Null,
    }));
    if violations.is_empty() {
        return Verdict::Valid(Accepted { value, repairs, flags: Vec::new() });
    }
    Verdict::Invalid(Flawed { candidate: value, violations, repairs })
}

/// A result that travels as `{"result": …}`.
fn unwrapped(
    enforced: &Enforced,
    wrapped: &Schema,
    mode: OutputMode,
    text: &str,
    options: &Options,
) -> Verdict {
    let is_wrapping =
        |value: &Value| value.as_object().is_some_and(|it| it.len() == 1) && value.get("result").is_some();
    match extract(text, Some(wrapped), options) {
        Outcome::Valid(extraction) => {
            let Extraction { value, repairs } = inside(extraction, "result");
            let repairs = repairs.into_iter().map(repair).collect();
            Verdict::Valid(Accepted { value, repairs, flags: vec!["wrapped_root"] })
        }
        // What is wrong with the content is told at the contract's own places.
        Outcome::Invalid { candidate, mut violations } if is_wrapping(&candidate.value) => {
            for violation in &mut violations.list {
                if let Some(below) = violation.path.strip_prefix("$.result") {
                    violation.path = format!("${below}");
                }
            }
            let inner = inside(candidate, "result");
            let mut verdict = without_nulls(&enforced.schema, mode, inner, violations, options);
            if let Verdict::Valid(accepted) = &mut verdict {
                accepted.flags.push("wrapped_root");
            }
            verdict
        }
        // The model may as well have left the wrapping out.
        _ => whole(enforced, mode, text, options),
    }
}

/// One member of what was extracted, with the changes at its own places.
fn inside(mut extraction: Extraction, member: &str) -> Extraction {
    let above = format!("/{member}");
    for repair in &mut extraction.repairs {
        if let Some(rest) = below(&above, &repair.pointer) {
            repair.pointer = rest.to_owned();
        }
    }
    extraction.value = extraction.value.get_mut(member).map(Value::take).unwrap_or_default();
    extraction
}

/// A result that travels in the `custom_fields` of the universal response, or is that response.
fn universal(enforced: &Enforced, text: &str, options: &Options) -> Verdict {
    let direct = whole(enforced, OutputMode::Universal, text, options);
    if enforced.is_universal() {
        return direct;
    }
    let carried = carried(text, options);
    // An undemanding contract is satisfied by the carrier itself; only where the contract knows its
    // members can that be meant.
    let knows = |member: &str| enforced.contract.schema["properties"].get(member).is_some();
    let is_meant = knows("custom_fields") && (carried.is_none() || knows("response_type"));
    if is_meant && matches!(direct, Verdict::Valid(_)) {
        return direct;
    }
    let withheld = |error: String| Verdict::Withheld { error: format!("$: {error}") };
    if let Some(error) = carried.as_ref().map_or_else(|| nearly_reported(text, options), reported_error) {
        return withheld(error);
    }
    if carried.is_some_and(|carrier| carrier.get("custom_fields").is_none()) {
        let error = "$.custom_fields: required property is missing; the result belongs there".to_owned();
        return Verdict::Withheld { error };
    }
    let carrier = Schema::compile(&json!({
        "type": "object",
        "required": ["custom_fields"],
        "properties": {"custom_fields": {"type": "object"}},
    }));
    let Ok(carrier) = carrier else { return direct };
    let Outcome::Valid(extraction) = extract(text, Some(&carrier), options) else { return direct };
    if let Some(error) = reported_error(&extraction.value) {
        return withheld(error);
    }
    let Extraction { value, repairs } = inside(extraction, "custom_fields");
    let fields = value.to_string();
    let mut inner = match &enforced.wrapped {
        Some(wrapped) => unwrapped(enforced, wrapped, OutputMode::Universal, &fields, options),
        None => whole(enforced, OutputMode::Universal, &fields, options),
    };
    if let Verdict::Valid(accepted) = &mut inner {
        accepted.repairs.splice(0..0, repairs.into_iter().map(repair));
        accepted.flags.push("universal_response");
    }
    inner
}

/// The universal response in a text, if there is one as it stands.
fn carried(text: &str, options: &Options) -> Option<Value> {
    let options = Options { mode: Mode::Strict, ..*options };
    match extract(text, slipform_schema::universal::schema(), &options) {
        Outcome::Valid(extraction) => Some(extraction.value),
        _ => None,
    }
}

/// The error that a universal response reports instead of a result.
fn reported_error(response: &Value) -> Option<String> {
    if response["status"] != "error" && response["response_type"] != "error" {
        return None;
    }
    let said = |text: &Value| text.as_str().filter(|text| !text.trim().is_empty()).map(str::to_owned);
    let details = said(&response["error_details"]["error_message"]).or_else(|| said(&response["message"]));
    let details = details.unwrap_or_else(|| "it did not say which".to_owned());
    Some(format!("the model reported an error: {details}"))
}

/// The same of a document that says which kind of response it is, and is not quite one.
fn nearly_reported(text: &str, options: &Options) -> Option<String> {
    let Outcome::Valid(Extraction { value, .. }) = extract(text, None, options) else { return None };
    value.get("response_type").and_then(|_| reported_error(&value))
}

/// The answer to a plain question, from a server that forces the universal response on every reply: its message. A text
/// that is no such response is the answer as it stands.
pub(crate) fn message(text: &str) -> Result<String, String> {
    let Some(response) = carried(text, &Options::default()) else { return Ok(text.to_owned()) };
    match reported_error(&response) {
        Some(error) => Err(error),
        None => Ok(response["message"].as_str().unwrap_or_default().to_owned()),
    }
}

/// What had been written of a document when it was cut off, as far as that can be told.
fn partial(enforced: &Enforced, asked: &JudgedReply<'_>, reply: &Reply) -> Option<(Value, Vec<Repair>)> {
    let text = match reply.tool_calls.iter().rfind(|call| call.name == enforced.tool) {
        Some(call) => &call.arguments,
        None => &reply.text,
    };
    let wrapped = asked.mode.wants_object() && enforced.wrapped.is_some();
    if asked.parts.is_some() || wrapped || asked.mode == OutputMode::Universal {
        return None;
    }
    let options = Options { mode: Mode::Lenient, ..enforced.extraction() };
    let strict = enforced.extraction().mode == Mode::Strict;
    // Without a schema nothing is coerced, which strict contracts do not allow.
    let extraction = match extract(text, (!strict).then_some(&enforced.schema), &options) {
        Outcome::Valid(extraction) => extraction,
        Outcome::Invalid { candidate, .. } => candidate,
        Outcome::NotFound { .. } | Outcome::TooLong { .. } => return None,
    };
    // What was cut off is closed here and asked for again; any other guess would be kept.
    let mut kept = extraction.repairs;
    kept.retain(|repair| repair.kind != RepairKind::Completed);
    if let Some(last) = extraction.value.as_object().and_then(|members| members.keys().next_back()) {
        let last = format!("/{}", escape_pointer(last));
        kept.retain(|repair| below(&last, &repair.pointer).is_none());
    }
    if strict && kept.iter().any(|repair| !repair.kind.is_lossless()) {
        return None;
    }
    Some((extraction.value, kept.into_iter().map(repair).collect()))
}

pub(crate) fn repair(repair: slipform_extract::Repair) -> Repair {
    Repair { kind: repair.kind.name().to_owned(), pointer: repair.pointer, from: repair.from, to: repair.to }
}
