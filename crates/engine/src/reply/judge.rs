//! Judges replies: the only module in which the text of a model becomes a value.
//!
//! Every output mode ends here, including native ones: the value is validated in full even if the
//! backend claims to enforce the schema. Extraction repairs a value under its schema, so the
//! violations that remain come with the value.

use serde_json::{Value, json};
use slipform_extract::{Extraction, Mode, Options, Outcome, RepairKind, extract};
use slipform_schema::{Schema, Violations, escape_pointer, restore};
use slipform_types::{FILTERED_MESSAGE, Repair, Reply, StopReason};

use crate::contract::CompiledContract;
use crate::output_mode::OutputMode;
use crate::patch::{Parts, below};
use crate::reply::violation;

/// The tool that submits a result, unless the result is a plan.
pub(crate) use slipform_types::SUBMIT_RESULT as SUBMIT;

/// The flag of a reply that made several calls where one was wanted.
pub(crate) const SUBMITTED_TWICE: &str = "submitted_twice";

/// The repairs that discard text of the model. They are harmless in an answer, but not in the
/// arguments of a call.
pub(crate) const DISCARDING_REPAIRS: [RepairKind; 2] = [RepairKind::TextRemoved, RepairKind::DocumentChosen];

/// The judgment of a reply.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Verdict {
    /// The reply holds a value, which may violate the schema.
    Value(Reading),
    /// The reply holds no JSON.
    NoJson {
        /// Why extraction found none.
        reason: String,
    },
    /// The universal response that should carry the result carries none.
    Withheld {
        /// The error it reports instead, as `$.path: message`.
        error: String,
    },
    /// The model did not call the tool.
    NotSubmitted,
    /// The token budget ran out.
    Truncated {
        /// The document as far as it was written, closed. `None` if nothing can be recovered.
        candidate: Option<Value>,
        /// The repairs that closing it took.
        repairs: Vec<Repair>,
    },
    /// The reply has no text.
    Empty {
        /// Whether the model wrote reasoning without an answer.
        has_reasoning: bool,
    },
    /// The model declined, or a content filter stopped the reply.
    Refused {
        /// The explanation of the model or of the filter.
        message: String,
    },
}

/// A value that was read from a reply, with the repairs and flags of its extraction.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reading {
    pub(crate) value: Value,
    pub(crate) repairs: Vec<Repair>,
    pub(crate) flags: Vec<&'static str>,
    /// The violations of the schema that remain after all repairs.
    pub(crate) violations: Violations,
}

impl Reading {
    pub(super) fn valid(value: Value, repairs: Vec<Repair>) -> Reading {
        Reading { value, repairs, flags: Vec::new(), violations: Violations::default() }
    }

    /// Returns whether the value satisfies the schema.
    pub(crate) fn is_valid(&self) -> bool {
        self.violations.is_empty()
    }
}

impl Verdict {
    /// Returns the value if it satisfies the schema.
    fn valid_mut(&mut self) -> Option<&mut Reading> {
        match self {
            Verdict::Value(reading) if reading.is_valid() => Some(reading),
            _ => None,
        }
    }

    /// Returns whether the reply holds a value that satisfies the schema and the extra rules. This
    /// serves to choose between several values of one reply; the chosen one passes the stages of
    /// acceptance.
    pub(super) fn is_acceptable(&self, contract: &CompiledContract) -> bool {
        matches!(self, Verdict::Value(reading)
            if reading.is_valid()
                && !contract.is_repeated_by(&reading.value)
                && contract.extra_violations(&reading.value).is_empty())
    }

    /// Returns the value if it is acceptable.
    pub(super) fn acceptable_mut(&mut self, contract: &CompiledContract) -> Option<&mut Reading> {
        if self.is_acceptable(contract) { self.valid_mut() } else { None }
    }
}

/// The request settings that affect how a reply is judged.
pub(crate) struct JudgeContext<'a> {
    pub(crate) mode: OutputMode,
    /// Whether a result in the text is accepted although a tool call was requested. True for
    /// strategy `auto`.
    pub(crate) text_counts: bool,
    /// The requested parts, if the request was a patch correction.
    pub(crate) parts: Option<&'a Parts>,
}

/// Judges a reply against a contract.
pub(crate) fn judge(contract: &CompiledContract, context: &JudgeContext<'_>, reply: &Reply) -> Verdict {
    if let Some(message) = refusal(&reply.stop) {
        return Verdict::Refused { message };
    }
    if reply.stop == StopReason::Length {
        let (candidate, repairs) = partial_value(contract, context, reply).unzip();
        return Verdict::Truncated { candidate, repairs: repairs.unwrap_or_default() };
    }
    if context.mode == OutputMode::Tool {
        let submitted = judge_submission(contract, context, reply);
        if submitted != Verdict::NotSubmitted {
            return submitted;
        }
        return judge_unsubmitted(contract, context, &reply.text);
    }
    if reply.text.trim().is_empty() {
        return Verdict::Empty { has_reasoning: !reply.reasoning.trim().is_empty() };
    }
    judge_text(contract, context, &reply.text)
}

/// Returns the reason for a refusal, if the model declined or a content filter stopped the reply.
pub(crate) fn refusal(stop: &StopReason) -> Option<String> {
    match stop {
        StopReason::Refused { message } if message.trim().is_empty() => {
            Some("the model declined to answer".to_owned())
        }
        StopReason::Refused { message } => Some(message.trim().to_owned()),
        StopReason::Filtered => Some(FILTERED_MESSAGE.to_owned()),
        StopReason::Finished | StopReason::ToolCalls | StopReason::Length => None,
    }
}

/// Judges the submissions of a reply. The first acceptable one wins; otherwise the last one is
/// corrected. Where all calls count, the first one that is not acceptable is corrected.
fn judge_submission(contract: &CompiledContract, context: &JudgeContext<'_>, reply: &Reply) -> Verdict {
    let calls: Vec<_> = reply.tool_calls.iter().filter(|call| call.name == *contract.tool.name).collect();
    let (mut first, mut last) = (None, Verdict::NotSubmitted);
    for call in &calls {
        last = judge_arguments(contract, context, &call.arguments);
        if contract.tool.takes_all_calls {
            if !last.is_acceptable(contract) {
                return last;
            }
            first.get_or_insert(last.clone());
            continue;
        }
        if calls.len() > 1
            && let Some(reading) = last.acceptable_mut(contract)
        {
            reading.flags.push(SUBMITTED_TWICE);
            return last;
        }
    }
    first.unwrap_or(last)
}

/// Judges the arguments of one call.
fn judge_arguments(contract: &CompiledContract, context: &JudgeContext<'_>, arguments: &str) -> Verdict {
    let arguments = if arguments.trim().is_empty() { "{}" } else { arguments };
    let mut verdict = judge_text(contract, context, arguments);
    // Some servers join the arguments of several calls. Choosing one document would lose the other calls.
    if contract.tool.is_of_client
        && let Some(reading) = verdict.valid_mut()
        && reading.repairs.iter().any(|repair| repair.kind == RepairKind::DocumentChosen.name())
    {
        let several = violation("$", "there is more than one JSON document".to_owned());
        reading.violations = Violations { list: vec![several], more: 0 };
    }
    verdict
}

/// Returns the arguments of a call as [`judge`] reads them, if they satisfy the contract.
pub(crate) fn accepted_arguments(contract: &CompiledContract, arguments: &str) -> Option<Reading> {
    let context = JudgeContext { mode: OutputMode::Tool, text_counts: false, parts: None };
    let verdict = judge_arguments(contract, &context, arguments);
    if !verdict.is_acceptable(contract) {
        return None;
    }
    let Verdict::Value(reading) = verdict else { return None };
    Some(reading)
}

/// Judges the text of a reply that does not call the tool. A result in it is accepted where text counts. An attempt
/// at one is told its violations, which helps the model more than the missing call does.
fn judge_unsubmitted(contract: &CompiledContract, context: &JudgeContext<'_>, text: &str) -> Verdict {
    let mut found = judge_text(contract, context, text);
    if let Some(reading) = found.acceptable_mut(contract) {
        reading.flags.push("extracted_from_text");
        return if context.text_counts { found } else { Verdict::NotSubmitted };
    }
    match found {
        Verdict::Value(reading) if is_attempt(contract, &reading.value) => Verdict::Value(reading),
        _ => Verdict::NotSubmitted,
    }
}

/// Returns whether a value is meant as a result: an object with a member of the contract, or a list if the contract
/// asks for one.
fn is_attempt(contract: &CompiledContract, value: &Value) -> bool {
    let declared = contract.schema.source()["properties"].as_object();
    match value {
        Value::Object(members) => {
            let is_declared = |name: &String| declared.is_none_or(|declared| declared.contains_key(name));
            members.keys().any(is_declared) || contract.is_repeated_by(value)
        }
        Value::Array(_) => contract.wrapped.is_some(),
        _ => false,
    }
}

/// Judges a text by the schema of a contract.
pub(crate) fn judge_text(contract: &CompiledContract, context: &JudgeContext<'_>, text: &str) -> Verdict {
    let options = contract.extraction();
    if let Some(parts) = context.parts
        && let Some((merged, mut repairs)) = parts.read(text, &options, &contract.schema)
    {
        let mut verdict = judge_whole(contract, context.mode, &merged.to_string(), &options);
        if let Some(reading) = verdict.valid_mut() {
            repairs.append(&mut reading.repairs);
            reading.repairs = repairs;
            reading.flags.push("patched");
        }
        return verdict;
    }
    if context.mode == OutputMode::Universal {
        return judge_universal(contract, text, &options);
    }
    if let (true, Some(wrapped)) = (context.mode.wants_object(), &contract.wrapped) {
        return judge_wrapped(contract, wrapped, context.mode, text, &options);
    }
    judge_whole(contract, context.mode, text, &options)
}

fn judge_whole(contract: &CompiledContract, mode: OutputMode, text: &str, options: &Options) -> Verdict {
    match extract(text, Some(&contract.schema), options) {
        Outcome::Valid(extraction) => {
            let repairs = extraction.repairs.into_iter().map(repair).collect();
            Verdict::Value(Reading::valid(extraction.value, repairs))
        }
        Outcome::Invalid { candidate, violations } => {
            without_nulls(&contract.schema, mode, candidate, violations, options)
        }
        Outcome::NotFound { reason } => Verdict::NoJson { reason },
        Outcome::TooLong { bytes, limit } => Verdict::NoJson {
            reason: format!("the reply has {bytes} bytes, more than the {limit} that are read"),
        },
    }
}

/// Removes nulls that stand for omitted properties.
///
/// Backends without optional properties receive nullable ones and return null for an omitted value.
/// There, a null that the contract forbids at an optional property can only mean an omission. In
/// other modes the model wrote the null itself, and only lenient mode removes it.
fn without_nulls(
    schema: &Schema,
    mode: OutputMode,
    candidate: Extraction,
    violations: Violations,
    options: &Options,
) -> Verdict {
    let is_unambiguous =
        options.mode == Mode::Lenient || candidate.repairs.iter().all(|it| it.kind.is_lossless());
    let mut repairs: Vec<Repair> = candidate.repairs.into_iter().map(repair).collect();
    let mut value = candidate.value;
    if !(is_unambiguous && (mode.is_native() || mode == OutputMode::Tool)) {
        return Verdict::Value(Reading { violations, ..Reading::valid(value, repairs) });
    }
    let removed = restore(schema.source(), &mut value);
    let violations = if removed.is_empty() { violations } else { schema.violations(&value) };
    repairs.extend(removed.into_iter().map(omitted_null));
    Verdict::Value(Reading { violations, ..Reading::valid(value, repairs) })
}

/// Judges a result that is wrapped as `{"result": …}`.
fn judge_wrapped(
    contract: &CompiledContract,
    wrapped: &Schema,
    mode: OutputMode,
    text: &str,
    options: &Options,
) -> Verdict {
    let is_wrapping =
        |value: &Value| value.as_object().is_some_and(|it| it.len() == 1) && value.get("result").is_some();
    match extract(text, Some(wrapped), options) {
        Outcome::Valid(extraction) => {
            let Extraction { value, repairs } = extracted_member(extraction, "result");
            let repairs = repairs.into_iter().map(repair).collect();
            Verdict::Value(Reading { flags: vec!["wrapped_root"], ..Reading::valid(value, repairs) })
        }
        // Violations of the content are reported at their paths in the contract.
        Outcome::Invalid { candidate, mut violations } if is_wrapping(&candidate.value) => {
            for violation in &mut violations.list {
                if let Some(below) = violation.path.strip_prefix("$.result") {
                    violation.path = format!("${below}");
                }
            }
            let inner = extracted_member(candidate, "result");
            let mut verdict = without_nulls(&contract.schema, mode, inner, violations, options);
            if let Some(reading) = verdict.valid_mut() {
                reading.flags.push("wrapped_root");
            }
            verdict
        }
        // The model may have omitted the wrapper.
        _ => judge_whole(contract, mode, text, options),
    }
}

/// Returns one member of an extraction, with its repairs relocated to the member.
fn extracted_member(mut extraction: Extraction, member: &str) -> Extraction {
    let above = format!("/{member}");
    for repair in &mut extraction.repairs {
        if let Some(rest) = below(&above, &repair.pointer) {
            repair.pointer = rest.to_owned();
        }
    }
    extraction.value = extraction.value.get_mut(member).map(Value::take).unwrap_or_default();
    extraction
}

/// Judges a result in the `custom_fields` of a universal response, or one that is a universal
/// response.
fn judge_universal(contract: &CompiledContract, text: &str, options: &Options) -> Verdict {
    let mut direct = judge_whole(contract, OutputMode::Universal, text, options);
    if contract.is_universal() {
        return direct;
    }
    let carrier_value = universal_response_in(text, options);
    // The carrier itself satisfies a permissive contract. It counts as the result only if the
    // contract declares its members.
    let knows = |member: &str| contract.definition.schema["properties"].get(member).is_some();
    let is_meant = knows("custom_fields") && (carrier_value.is_none() || knows("response_type"));
    if is_meant && direct.valid_mut().is_some() {
        return direct;
    }
    let withheld = |error: String| Verdict::Withheld { error: format!("$: {error}") };
    if let Some(error) =
        carrier_value.as_ref().map_or_else(|| reported_error_in_text(text, options), reported_error)
    {
        return withheld(error);
    }
    if carrier_value.is_some_and(|carrier| carrier.get("custom_fields").is_none()) {
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
    let Extraction { value, repairs } = extracted_member(extraction, "custom_fields");
    let fields = value.to_string();
    let mut inner = match &contract.wrapped {
        Some(wrapped) => judge_wrapped(contract, wrapped, OutputMode::Universal, &fields, options),
        None => judge_whole(contract, OutputMode::Universal, &fields, options),
    };
    if let Some(reading) = inner.valid_mut() {
        reading.repairs.splice(0..0, repairs.into_iter().map(repair));
        reading.flags.push("universal_response");
    }
    inner
}

/// Returns the universal response in a text, if the text holds a valid one.
fn universal_response_in(text: &str, options: &Options) -> Option<Value> {
    let options = Options { mode: Mode::Strict, ..*options };
    match extract(text, slipform_schema::universal::schema(), &options) {
        Outcome::Valid(extraction) => Some(extraction.value),
        _ => None,
    }
}

/// Returns the error that a universal response reports instead of a result.
fn reported_error(response: &Value) -> Option<String> {
    if response["status"] != "error" && response["response_type"] != "error" {
        return None;
    }
    let non_empty = |text: &Value| text.as_str().filter(|text| !text.trim().is_empty()).map(str::to_owned);
    let details =
        non_empty(&response["error_details"]["error_message"]).or_else(|| non_empty(&response["message"]));
    let details = details.unwrap_or_else(|| "it did not say which".to_owned());
    Some(format!("the model reported an error: {details}"))
}

/// Returns the error of a document that declares a response type but is not a valid universal
/// response.
fn reported_error_in_text(text: &str, options: &Options) -> Option<String> {
    let Outcome::Valid(Extraction { value, .. }) = extract(text, None, options) else { return None };
    value.get("response_type").and_then(|_| reported_error(&value))
}

/// Returns the answer of a server that forces the universal response on every reply: its message.
/// Any other text is the answer itself.
pub(crate) fn message_text(text: &str) -> Result<String, String> {
    let Some(response) = universal_response_in(text, &Options::default()) else { return Ok(text.to_owned()) };
    match reported_error(&response) {
        Some(error) => Err(error),
        None => Ok(response["message"].as_str().unwrap_or_default().to_owned()),
    }
}

/// Returns the value of a truncated document, as far as it can be recovered.
fn partial_value(
    contract: &CompiledContract,
    context: &JudgeContext<'_>,
    reply: &Reply,
) -> Option<(Value, Vec<Repair>)> {
    let text = match reply.tool_calls.iter().rfind(|call| call.name == *contract.tool.name) {
        Some(call) => &call.arguments,
        None => &reply.text,
    };
    let wrapped = context.mode.wants_object() && contract.wrapped.is_some();
    if context.parts.is_some() || wrapped || context.mode == OutputMode::Universal {
        return None;
    }
    let options = Options { mode: Mode::Lenient, ..contract.extraction() };
    let strict = contract.extraction().mode == Mode::Strict;
    // Without a schema nothing is coerced; strict contracts do not allow coercion.
    let extraction = match extract(text, (!strict).then_some(&contract.schema), &options) {
        Outcome::Valid(extraction) => extraction,
        Outcome::Invalid { candidate, .. } => candidate,
        Outcome::NotFound { .. } | Outcome::TooLong { .. } => return None,
    };
    // The truncated member is closed here and requested again. Any other lossy repair would remain
    // in the result.
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

/// Returns the repair that removed a null at a pointer.
pub(crate) fn omitted_null(pointer: String) -> Repair {
    Repair { kind: "null_omitted".to_owned(), pointer, from: Value::Null, to: Value::Null }
}

/// Returns a repair of a value as a repair of the document that has it at a pointer.
pub(crate) fn relocate(repair: Repair, above: &str) -> Repair {
    Repair { pointer: format!("{above}{}", repair.pointer), ..repair }
}

pub(crate) fn repair(repair: slipform_extract::Repair) -> Repair {
    Repair { kind: repair.kind.name().to_owned(), pointer: repair.pointer, from: repair.from, to: repair.to }
}
