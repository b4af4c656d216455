//! Replies under the action protocol: a call, the last action, or neither.

use serde_json::{Map, Value};
use slipform_types::{AgentCard, Repair, Reply, Strategy, ToolCall};

use super::LastAction;
use super::judge::{DISCARDING_REPAIRS, JudgeContext, Reading, Verdict, judge, judge_text};
use crate::call_plan::CallPlan;
use crate::contract::CompiledContract;
use crate::envelope::{self, DelegationContext, EnvelopeAction, parse_action};
use crate::output_mode::OutputMode;
use crate::patch::below;
use crate::tool_loop::CallForm;

/// A reply under the action protocol.
pub(crate) enum ActionReply {
    /// A call of a tool or an agent.
    Call(ToolCall, CallForm),
    /// A call beside which the model wrote the answer. The invented answer must not appear in the
    /// conversation, so the envelope alone is kept.
    CallWithInventedAnswer { call: (ToolCall, CallForm), envelope: Value },
    /// A call that is not the last thing in the reply. An action that is only mentioned or
    /// considered is not performed.
    MentionedCall,
    /// The last action.
    Last(LastAction),
    /// Not a valid action.
    NoAction(Verdict),
}

/// Reads the action of a reply.
pub(crate) fn read_action(
    envelope: &CompiledContract,
    plan: &CallPlan,
    reply: &Reply,
    delegation: (&[AgentCard], &DelegationContext),
) -> ActionReply {
    let judge_context = JudgeContext { mode: plan.mode, text_counts: false, parts: None };
    let reading = match judge(envelope, &judge_context, reply) {
        Verdict::Value(reading) if reading.is_valid() => reading,
        Verdict::Value(reading) => match with_text_content(envelope, &reading) {
            Some(reading) => reading,
            None => return ActionReply::NoAction(Verdict::Value(reading)),
        },
        verdict => return ActionReply::NoAction(verdict),
    };
    match parse_action(&reading.value, delegation) {
        EnvelopeAction::Call(..) if !ends_with_json(&reply.text) => ActionReply::MentionedCall,
        EnvelopeAction::Call(call, form) if envelope::contains_return_action(&reply.text) => {
            ActionReply::CallWithInventedAnswer { call: (call, form), envelope: reading.value }
        }
        EnvelopeAction::Call(call, form) => ActionReply::Call(call, form),
        EnvelopeAction::Answer { content, parameters } => {
            ActionReply::Last(LastAction { content, parameters, repairs: reading.repairs })
        }
    }
}

/// Returns the reading of an envelope whose content is not a text but JSON, if nothing else is wrong with it.
fn with_text_content(envelope: &CompiledContract, reading: &Reading) -> Option<Reading> {
    let value = envelope::with_text_content(reading.value.clone())?;
    envelope.schema.is_valid(&value).then(|| Reading::valid(value, reading.repairs.clone()))
}

/// Returns a result that has no action around it.
pub(super) fn direct_result(contract: &CompiledContract, plan: &CallPlan, reply: &Reply) -> Option<Reading> {
    // On a server that forces the universal response, only that form is a result of its own.
    let is_forced = plan.mode == OutputMode::Universal;
    if is_forced && !contract.is_universal() {
        return None;
    }
    let judge_context = JudgeContext { mode: plan.mode, text_counts: false, parts: None };
    let mut verdict = judge(contract, &judge_context, reply);
    let reading = verdict.acceptable_mut(contract)?;
    // A value with an action is an incomplete action, not a result.
    let has_action =
        envelope::is_action(&reading.value) || reading.value["custom_fields"].get("action").is_some();
    if has_action || !is_only_document(reading) && is_example(&reply.text) {
        return None;
    }
    if !is_forced {
        reading.flags.push("without_action");
    }
    Some(reading.clone())
}

/// Judges the result in the last action: its parameters, or its content. An acceptable one wins, the
/// parameters first.
pub(super) fn judge_last_action(contract: &CompiledContract, action: &LastAction) -> Verdict {
    let text_counts = contract.options().strategy == Strategy::Auto;
    let judge_as = |mode: OutputMode, text: &str| {
        judge_text(contract, &JudgeContext { mode, text_counts, parts: None }, text)
    };
    let mut in_content = judge_as(OutputMode::SystemPrompt, &action.content);
    let is_in_prose = in_content.acceptable_mut(contract).is_some_and(|reading| !is_only_document(reading));
    if is_in_prose && is_example(&action.content) {
        in_content = Verdict::NoJson { reason: "the content is not JSON alone, but an example".to_owned() };
    }
    let is_in_content = in_content.is_acceptable(contract);
    // Empty parameters are ignored if the content holds an acceptable result.
    let is_empty = |parameters: &&Value| parameters.as_object().is_some_and(Map::is_empty);
    let parameters = action.parameters.as_ref().filter(|it| !(is_in_content && is_empty(it)));
    // Parameters are an object, so other results are wrapped, as in a tool call.
    let in_parameters = parameters.map(|parameters| judge_as(OutputMode::Tool, &parameters.to_string()));
    match in_parameters {
        Some(verdict) if !is_in_content || verdict.is_acceptable(contract) => verdict,
        _ => in_content,
    }
}

/// Relocates a repair of the envelope to its path in the result.
pub(super) fn relocate_to_result(repair: &Repair) -> Repair {
    match below("/parameters", &repair.pointer) {
        Some(rest) => Repair { pointer: rest.to_owned(), ..repair.clone() },
        None => repair.clone(),
    }
}

/// Returns whether a text ends with JSON outside of its reasoning.
fn ends_with_json(text: &str) -> bool {
    let answer = text.rsplit("</think>").next().unwrap_or_default();
    let is_thought = answer.contains("<think>");
    let end = answer.trim_end().trim_end_matches('`').trim_end();
    !is_thought && end.ends_with('}')
}

/// Words before JSON in prose that mark it as an example.
const EXAMPLE_WORDS: [&str; 6] = ["example", "e.g.", "for instance", "such as", "would be", "could be"];

/// Returns whether the sentence before the first JSON in a text calls it an example.
fn is_example(text: &str) -> bool {
    let before = text.split(['{', '[']).next().unwrap_or_default().to_lowercase();
    let before = before.trim_end().trim_end_matches("json").trim_end_matches('`').trim_end();
    let sentence = before.rsplit(". ").next().unwrap_or_default();
    EXAMPLE_WORDS.iter().any(|word| sentence.contains(word))
}

/// Returns whether the result was the only document in its text. An example in prose is not a
/// result.
fn is_only_document(reading: &Reading) -> bool {
    !reading.repairs.iter().any(|repair| DISCARDING_REPAIRS.iter().any(|kind| kind.name() == repair.kind))
}
