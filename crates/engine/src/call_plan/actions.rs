//! Requests under the action protocol: one envelope per turn, requested like any other contract.

use std::sync::Arc;

use serde_json::Value;
use slipform_types::Message;

use super::{
    CallPlan, PreparedRequest, RequestContext, RequestKind, Target, constrain, conversation, must_call_first,
    reminder, request, restricted_schema,
};
use crate::contract::CompiledContract;
use crate::envelope::{self, AllowedActions};
use crate::output_mode::OutputMode;
use crate::prompt::{self, RetryReason};

/// Instructions for a contract that is the form that the server forces on every reply.
const DIRECT_RESULT: &str = "Instead of that last action your response may be that object itself, without an action in its `custom_fields`.";

/// Builds a request under the action protocol.
pub(super) fn prepare(
    context: &RequestContext<'_>,
    plan: &CallPlan,
    envelope: &CompiledContract,
) -> PreparedRequest {
    let contract = context.task.contract.as_ref();
    let strict = envelope.schema.source();
    let result = contract.map(|contract| contract.wrapped.as_ref().unwrap_or(&contract.schema).source());
    let mut system =
        context.task.blueprint.system_prompt.as_deref().unwrap_or_default().trim_end().to_owned();
    let callables = &context.tools.callables;
    prompt::add(&mut system, &envelope::protocol_section(callables, contract.is_some(), plan.form));
    let example = contract.filter(|_| plan.mode != OutputMode::Grammar);
    let example = example.and_then(|contract| contract.definition.example.as_ref());
    if let Some(example) = example {
        let example = serde_json::to_string_pretty(example).unwrap_or_default();
        prompt::add(&mut system, &format!("## Example Result\n\n```json\n{example}\n```"));
    }
    let mut request = request(context, plan);
    let mut input = context.task.input.clone();
    match plan.mode {
        OutputMode::Universal => {
            if let Some(result) = result {
                prompt::add(&mut system, &format!("## Required Result\n\n{}", last_action(plan, result)));
            }
            if contract.is_some_and(CompiledContract::is_universal) {
                prompt::add(&mut system, DIRECT_RESULT);
            }
            system = prompt::system(
                Some(&system),
                (OutputMode::Universal, &envelope.tool.name),
                plan.form,
                strict,
                None,
            );
        }
        OutputMode::Prompt => {
            let section = output_section(plan, strict, result);
            prompt::add(&mut input, &format!("## Output Format (REQUIRED)\n\n{section}"));
        }
        _ => {
            let section = output_section(plan, strict, result);
            prompt::add(&mut system, &format!("## Required Output Format\n\n{section}"));
        }
    }
    request.system = Some(system);
    request.messages = conversation(context, plan, Message::user(input));
    match &plan.request_kind {
        RequestKind::Full { retry_reason, errors, previous } => {
            let errors = (*retry_reason, errors.as_slice(), previous.as_str());
            request.messages.push(Message::user(correction(plan, errors, strict, result)));
        }
        // Executors with their own sessions receive only the last message, so the reminder is
        // appended to it.
        _ => {
            if let (Some(last), Some(reminder)) = (request.messages.last_mut(), reminder(context, plan)) {
                prompt::add(&mut last.content, &reminder.content);
            }
        }
    }
    let allowed = allowed_actions(context, plan);
    let restricted_schema = result.and_then(|result| restricted_schema(context, plan, result));
    let shown = Arc::new(envelope::action_schema(callables, restricted_schema.as_ref().or(result), allowed));
    let target = Target { name: "action".to_owned(), tool: &envelope.tool, shown: &shown };
    let unenforced = constrain(&mut request, &target, context.backend, plan);
    PreparedRequest { request: Arc::new(request), unenforced }
}

/// Returns which actions a reply may choose: after the last step only the end, and a call first where the agent has to
/// look before it answers.
fn allowed_actions(context: &RequestContext<'_>, plan: &CallPlan) -> AllowedActions {
    match (context.tools.is_last(), must_call_first(context, plan)) {
        (true, _) => AllowedActions::End,
        (false, true) => AllowedActions::Call,
        (false, false) => AllowedActions::Anything,
    }
}

/// Returns the last section of the prompt: the contract if there is one, otherwise the envelope.
fn output_section(plan: &CallPlan, strict: &Value, result: Option<&Value>) -> String {
    match result {
        Some(schema) => {
            let last = last_action(plan, schema);
            format!("{last}\n\nOutput ONLY the JSON object of your next action, no additional text.")
        }
        None => format!(
            "Every response MUST be one JSON object conforming to this schema:\n\n{}\n\nOutput ONLY the JSON object of \
             your next action, no additional text.",
            plan.form.show(plan.mode, strict)
        ),
    }
}

/// Returns the instructions for the last action.
fn last_action(plan: &CallPlan, schema: &Value) -> String {
    format!(
        "The `parameters` of your last action, NORMAL_RESPONSE, MUST be an object conforming to this schema:\n\n{}",
        plan.form.show(plan.mode, schema)
    )
}

fn correction(
    plan: &CallPlan,
    (retry_reason, errors, previous): (RetryReason, &[String], &str),
    strict: &Value,
    result: Option<&Value>,
) -> String {
    let shown = (plan.mode, plan.form);
    match (retry_reason, result) {
        (RetryReason::Envelope | RetryReason::CutOff, _) | (_, None) => {
            prompt::full_retry(retry_reason, errors, previous, shown, strict)
        }
        (_, Some(result)) => prompt::answer_retry(retry_reason, errors, previous, shown, result),
    }
}
