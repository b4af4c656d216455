//! Requests under the action protocol: one envelope a turn, asked for like any contract.

use std::sync::Arc;

use serde_json::Value;
use slipform_types::Message;

use super::{
    Ask, Plan, Prepared, RequestContext, Target, constrain, has_to_look, offered, reminder, request, written,
};
use crate::contract::Enforced;
use crate::envelope::{self, May};
use crate::output_mode::OutputMode;
use crate::prompt::{self, Why};

/// What a model hears whose result is in the form that its server forces on every reply.
const OUTRIGHT: &str = "Instead of that last action your response may be that object itself, without an action in its `custom_fields`.";

pub(super) fn prepare(context: &RequestContext<'_>, plan: &Plan, envelope: &Enforced) -> Prepared {
    let contract = context.task.contract.as_ref();
    let strict = envelope.schema.source();
    let result = contract.map(|contract| contract.wrapped.as_ref().unwrap_or(&contract.schema).source());
    let mut system =
        context.task.blueprint.system_prompt.as_deref().unwrap_or_default().trim_end().to_owned();
    prompt::add(&mut system, &envelope::section(&context.tools.callables, contract.is_some(), plan.form));
    let example = contract.filter(|_| plan.mode != OutputMode::Grammar);
    let example = example.and_then(|contract| contract.contract.example.as_ref());
    if let Some(example) = example {
        let example = serde_json::to_string_pretty(example).unwrap_or_default();
        prompt::add(&mut system, &format!("## Example Result\n\n```json\n{example}\n```"));
    }
    let mut request = request(context, plan);
    let mut input = context.task.input.clone();
    match plan.mode {
        OutputMode::Universal => {
            if let Some(result) = result {
                prompt::add(&mut system, &format!("## Required Result\n\n{}", last(plan, result)));
            }
            if contract.is_some_and(Enforced::is_universal) {
                prompt::add(&mut system, OUTRIGHT);
            }
            system = prompt::system(
                Some(&system),
                (OutputMode::Universal, envelope.tool),
                plan.form,
                strict,
                None,
            );
        }
        OutputMode::Prompt => {
            let section = format(plan, strict, result);
            prompt::add(&mut input, &format!("## Output Format (REQUIRED)\n\n{section}"));
        }
        _ => {
            let section = format(plan, strict, result);
            prompt::add(&mut system, &format!("## Required Output Format\n\n{section}"));
        }
    }
    request.system = Some(system);
    request.messages = written(context, plan, Message::user(input));
    match &plan.ask {
        Ask::Full { why, errors, previous } => {
            let errors = (*why, errors.as_slice(), previous.as_str());
            request.messages.push(Message::user(correction(plan, errors, strict, result)));
        }
        // Executors with sessions of their own are told the last message alone: the answer has to be in it.
        _ => {
            if let (Some(last), Some(reminder)) = (request.messages.last_mut(), reminder(context, plan)) {
                prompt::add(&mut last.content, &reminder.content);
            }
        }
    }
    let may = match (context.tools.is_last(), has_to_look(context, plan)) {
        (true, _) => May::End,
        (false, true) => May::Call,
        (false, false) => May::Anything,
    };
    let offered = result.and_then(|result| offered(context, plan, result));
    let shown = envelope::forms(&context.tools.callables, offered.as_ref().or(result), may);
    let target = Target { name: "action".to_owned(), tool: envelope.tool, shown: &shown };
    let unenforced = constrain(&mut request, &target, context.backend, plan);
    Prepared { request: Arc::new(request), unenforced }
}

/// The last section: the contract where there is one, else the envelope.
fn format(plan: &Plan, strict: &Value, result: Option<&Value>) -> String {
    match result {
        Some(schema) => {
            let last = last(plan, schema);
            format!("{last}\n\nOutput ONLY the JSON object of your next action, no additional text.")
        }
        None => format!(
            "Every response MUST be one JSON object conforming to this schema:\n\n{}\n\nOutput ONLY the JSON object of \
             your next action, no additional text.",
            plan.form.show(plan.mode, strict)
        ),
    }
}

/// What the last action has to hold.
fn last(plan: &Plan, schema: &Value) -> String {
    format!(
        "The `parameters` of your last action, NORMAL_RESPONSE, MUST be an object conforming to this schema:\n\n{}",
        plan.form.show(plan.mode, schema)
    )
}

fn correction(
    plan: &Plan,
    (why, errors, previous): (Why, &[String], &str),
    strict: &Value,
    result: Option<&Value>,
) -> String {
    let shown = (plan.mode, plan.form);
    match (why, result) {
        (Why::Envelope | Why::CutOff, _) | (_, None) => {
            prompt::full_retry(why, errors, previous, shown, strict)
        }
        (_, Some(result)) => prompt::answer_retry(why, errors, previous, shown, result),
    }
}
