//! Extraction: the first stage of acceptance, which reads the value or the text of an answer.

use slipform_extract::{Options, Outcome};
use slipform_schema::Violations;
use slipform_types::{BackendInfo, Protocol, Reply, RunErrorType, StopReason, Strategy, StructuredOutput};

use super::accept::Stop;
use super::action::{direct_result, judge_last_action, relocate_to_result};
use super::judge::{JudgeContext, Reading, SUBMIT, Verdict, judge, message_text, refusal};
use super::rejection::Rejection;
use super::{Content, LastAction, ModelReply, Source};
use crate::contract::CompiledContract;
use crate::envelope;
use crate::prompt::RetryReason;
use crate::usage::UsageLog;

/// The violation of a reply that was cut off.
pub(super) const CUT_OFF: &str = "$: the response was cut off by the token limit";

/// Extracts the content of an answer.
pub(super) fn extract(
    source: &Source,
    contract: Option<&CompiledContract>,
    backend: Option<&BackendInfo>,
    usage: &mut UsageLog,
) -> Result<Content, Stop> {
    match (source, contract) {
        (Source::Reply(answered), Some(contract)) => value_in_reply(answered, contract, usage),
        (Source::Reply(answered), None) => text_in_reply(answered, backend),
        (Source::LastAction(_, action), Some(contract)) => value_in_action(action, contract, usage),
        (Source::LastAction(_, action), None) => text_in_action(action),
        (Source::NoAction(answered, verdict), contract) => {
            value_without_action(answered, verdict, contract, usage)
        }
        (Source::Program(output), contract) => value_in_output(output, contract),
    }
}

/// Reads a value from the text or the submission of a reply.
fn value_in_reply(
    answered: &ModelReply,
    contract: &CompiledContract,
    usage: &mut UsageLog,
) -> Result<Content, Stop> {
    let ModelReply { plan, reply } = answered;
    let judge_context = JudgeContext {
        mode: plan.mode,
        text_counts: contract.options().strategy == Strategy::Auto,
        parts: plan.parts(),
    };
    match judge(contract, &judge_context, reply) {
        Verdict::Value(reading) => Ok(Content::Value(reading)),
        Verdict::Refused { message } => Err(Stop::refused(message)),
        Verdict::Truncated { candidate, repairs } => {
            let candidate = match plan.protocol {
                Protocol::Tools => candidate,
                Protocol::Actions => candidate.and_then(envelope::partial_result),
            };
            Err(Stop::Truncated { candidate, repairs })
        }
        verdict => Err(Stop::Rejected(no_value(&verdict, &contract.tool.name, usage))),
    }
}

/// Reads the text of a reply in a client's conversation without a contract. The client gets an empty text as it is, and a
/// truncated one with its reason: it may have read the beginning already.
pub(super) fn client_text(answered: &ModelReply, backend: Option<&BackendInfo>) -> Result<Content, Stop> {
    let reply = &answered.reply;
    if let Some(message) = refusal(&reply.stop) {
        return Err(Stop::refused(message));
    }
    if reply.stop == StopReason::Length && !reply.tool_calls.is_empty() {
        return Err(Stop::Truncated { candidate: None, repairs: Vec::new() });
    }
    if reply.stop == StopReason::Length {
        let message = "Output was cut off by the token limit".to_owned();
        let errors = vec![CUT_OFF.to_owned()];
        return Err(Stop::Failed { kind: RunErrorType::OutputTruncated, message, errors });
    }
    if reply.text.trim().is_empty() && !reply.tool_calls.is_empty() {
        let errors = vec!["$: no tool may be called; answer with text".to_owned()];
        let message = "The model called a tool although it may not";
        return Err(Stop::TextRejected(Rejection::unmet(RetryReason::NoAnswer, errors, message)));
    }
    match written_text(reply, backend) {
        Ok(text) => Ok(Content::Text(text)),
        Err(error) => {
            let errors = vec![format!("$: {error}")];
            let rejection = Rejection::unmet(RetryReason::NoAnswer, errors, "The model gave no answer");
            Err(Stop::TextRejected(rejection))
        }
    }
}

/// Returns the text of a reply, without the form that some servers force on every reply.
fn written_text(reply: &Reply, backend: Option<&BackendInfo>) -> Result<String, String> {
    let is_forced = backend.is_some_and(|backend| backend.structured_output == StructuredOutput::Universal);
    if is_forced { message_text(&reply.text) } else { Ok(reply.text.clone()) }
}

/// Reads the text of a reply to a run without a contract: any complete text is accepted.
fn text_in_reply(answered: &ModelReply, backend: Option<&BackendInfo>) -> Result<Content, Stop> {
    let reply = &answered.reply;
    if let Some(message) = refusal(&reply.stop) {
        return Err(Stop::refused(message));
    }
    if reply.stop == StopReason::Length {
        return Err(Stop::Truncated { candidate: None, repairs: Vec::new() });
    }
    let (kind, reason) = match written_text(reply, backend) {
        Ok(text) if !text.trim().is_empty() => return Ok(Content::Text(text)),
        Ok(_) => (RunErrorType::EmptyReply, "it was empty".to_owned()),
        Err(error) => (RunErrorType::OutputSchemaValidationFailed, error),
    };
    let errors = vec![format!("$: {reason}")];
    let rejection = Rejection::unmet(RetryReason::NoAnswer, errors, "The model gave no answer");
    Err(Stop::TextRejected(Rejection { kind, ..rejection }))
}

/// Reads a value from the parameters or the content of the last action.
fn value_in_action(
    action: &LastAction,
    contract: &CompiledContract,
    usage: &mut UsageLog,
) -> Result<Content, Stop> {
    let mut verdict = judge_last_action(contract, action);
    if let Some(reading) = verdict.acceptable_mut(contract) {
        usage.flag("actions");
        // Repairs of the envelope are also repairs of the result inside it.
        reading.repairs.splice(0..0, action.repairs.iter().map(relocate_to_result));
    }
    match verdict {
        Verdict::Value(reading) => Ok(Content::Value(reading)),
        verdict => Err(Stop::Rejected(no_value(&verdict, &contract.tool.name, usage))),
    }
}

/// Reads the text of the last action, for a run without a contract.
fn text_in_action(action: &LastAction) -> Result<Content, Stop> {
    if !action.content.trim().is_empty() {
        return Ok(Content::Text(action.content.clone()));
    }
    let errors = vec!["$.content: the answer is empty".to_owned()];
    let rejection = Rejection::unmet(RetryReason::Envelope, errors, "The model gave no answer");
    Err(Stop::Rejected(Rejection { kind: RunErrorType::EmptyReply, ..rejection }))
}

/// Reads a value from a reply that is not an action, if the server forces the form of the result on
/// every reply.
fn value_without_action(
    answered: &ModelReply,
    verdict: &Verdict,
    contract: Option<&CompiledContract>,
    usage: &mut UsageLog,
) -> Result<Content, Stop> {
    if let Verdict::Refused { message } = verdict {
        return Err(Stop::refused(message.clone()));
    }
    let ModelReply { plan, reply } = answered;
    if let Some(reading) = contract.and_then(|contract| direct_result(contract, plan, reply)) {
        return Ok(Content::Value(reading));
    }
    let rejection = match verdict {
        Verdict::Value(reading) => Rejection::no_action(reading.violations.lines()),
        verdict => Rejection { retry_reason: RetryReason::Envelope, ..no_value(verdict, SUBMIT, usage) },
    };
    Err(Stop::Rejected(rejection))
}

/// Reads a value from the standard output of a program. Output that is ambiguous or not exact JSON is
/// refused.
fn value_in_output(output: &str, contract: Option<&CompiledContract>) -> Result<Content, Stop> {
    let options = Options { strict_json_only: true, ..Options::default() };
    let reason = match slipform_extract::extract(output, None, &options) {
        Outcome::Valid(extraction) => {
            let value = extraction.value;
            let violations =
                contract.map_or_else(Violations::default, |contract| contract.schema.violations(&value));
            return Ok(Content::Value(Reading { violations, ..Reading::valid(value, Vec::new()) }));
        }
        _ if output.is_empty() => {
            "it is empty; the program has to write its result there, as JSON".to_owned()
        }
        // A program has no such option: its output is always read this way.
        Outcome::NotFound { reason } => reason.trim_end_matches(" (strict_json_only)").to_owned(),
        _ => "the text is not one JSON document".to_owned(),
    };
    let message = format!("the program's standard output is no result: {reason}");
    let (kind, errors) = match contract {
        Some(_) => (RunErrorType::OutputSchemaValidationFailed, vec![format!("$: {message}")]),
        None => (RunErrorType::ToolFailed, Vec::new()),
    };
    Err(Stop::Failed { kind, message, errors })
}

/// Returns the rejection of a reply without a value. Counts replies that should have called
/// `submit_result`, for the receipt.
fn no_value(verdict: &Verdict, tool: &str, usage: &mut UsageLog) -> Rejection {
    let is_missing = *verdict == Verdict::NotSubmitted && tool == SUBMIT;
    usage.missing_submits += u32::from(is_missing);
    Rejection::no_answer(verdict, tool)
}
