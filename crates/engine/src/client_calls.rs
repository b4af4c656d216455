//! Calls of tools that the caller executes: valid calls end the run, invalid ones are requested again.

use serde_json::Value;
use slipform_extract::{Options, Outcome as Extracted, RepairKind, extract};
use slipform_types::{ClientCalls, Conversation, Outcome, Protocol, Repair, Reply, ToolCall};

use crate::call_plan::{CallPlan, RequestKind};
use crate::contract::extraction_options;
use crate::prompt::RetryReason;
use crate::reply::{Rejection, SUBMITTED_TWICE, accepted_arguments, relocate};
use crate::state::State;

/// The result of checking the calls of a reply.
enum CheckedCalls {
    Valid(Vec<ToolCall>, Vec<Repair>),
    /// The violations, and for each call what the model is told.
    Invalid {
        errors: Vec<String>,
        answers: Vec<String>,
    },
}

impl State {
    /// Returns whether the model must call one of several tools of the client.
    pub(crate) fn must_call_client(&self) -> bool {
        self.conversation().is_some_and(Conversation::must_call) && self.tools.callables.are_of_client()
    }

    /// Returns whether the answer to the client may be a text of any form.
    pub(crate) fn takes_text_of_client(&self) -> bool {
        self.conversation().is_some() && self.contract().is_none() && !self.must_call_client()
    }

    pub(crate) fn conversation(&self) -> Option<&Conversation> {
        self.task.as_ref()?.conversation.as_deref()
    }

    /// Ends the run with the calls of a reply, or asks again if one of them is invalid.
    pub(crate) fn end_with_client_calls(&mut self, plan: CallPlan, calls: &[ToolCall], reply: &Reply) {
        let mut calls = self.tools.with_unique_ids(calls, &self.history.past_runs);
        let Some(conversation) = self.conversation() else { return };
        let is_one_wanted = !conversation.parallel_tool_calls && calls.len() > 1;
        if is_one_wanted {
            calls = vec![self.first_usable_call(conversation, calls)];
        }
        match self.check_client_calls(conversation, &calls) {
            CheckedCalls::Valid(calls, repairs) => {
                let is_envelope = plan.protocol == Protocol::Actions;
                // A text beside the calls does not have to satisfy the contract of the answer, so it is left out.
                let is_unchecked = self.contract().is_none() && !is_envelope;
                let text = if is_unchecked { reply.text.clone() } else { String::new() };
                self.usage.add_backend_flags(reply, false);
                if is_one_wanted {
                    self.usage.flag(SUBMITTED_TWICE);
                }
                let receipt = self.usage.receipt(plan.mode.strategy(), None, repairs);
                let ended = ClientCalls { text, calls, receipt };
                self.decisions.set_outcome(Outcome::ToolCalls(Box::new(ended)));
            }
            CheckedCalls::Invalid { errors, answers } => {
                let message = "Tool calls did not match the schemas of their tools";
                let rejection = Rejection::unmet(RetryReason::Mismatch, errors, message);
                if plan.protocol == Protocol::Actions {
                    return self.correct_envelope(plan, reply, rejection);
                }
                let request_kind = RequestKind::ClientCalls { content: reply.text.clone(), calls, answers };
                self.retry(rejection, CallPlan { request_kind, ..plan });
            }
        }
    }

    /// Handles a reply without calls although the model must call a tool: JSON that satisfies the parameters of one tool
    /// counts as its call.
    pub(crate) fn require_client_call(&mut self, plan: CallPlan, reply: &Reply) {
        if let Some(call) = self.client_call_in_text(&reply.text) {
            self.usage.flag("extracted_from_text");
            let without_text = Reply { text: String::new(), ..reply.clone() };
            return self.end_with_client_calls(plan, &[call], &without_text);
        }
        let names: Vec<&str> =
            self.tools.callables.list.iter().map(|callable| callable.wire.as_str()).collect();
        let reason = format!("no tool was called; call one of {}", names.join(", "));
        let errors = vec![format!("$: {reason}")];
        let rejection = Rejection::unmet(RetryReason::NoAnswer, errors, "The model called no tool");
        if plan.protocol == Protocol::Actions {
            return self.correct_envelope(plan, reply, rejection);
        }
        self.retry(rejection, CallPlan { request_kind: RequestKind::Plain { reason }, ..plan });
    }

    /// Returns the calls of the tool that the model had to call: the accepted one, and further valid ones of the same reply.
    pub(crate) fn forced_calls(
        &self,
        reply: Option<&Reply>,
        value: &Value,
        is_unrepaired: bool,
    ) -> Option<Vec<ToolCall>> {
        let name = self.task.as_ref()?.forced_tool()?;
        let contract = self.contract()?;
        let made = reply.into_iter().flat_map(|reply| &reply.tool_calls).filter(|call| call.name == name);
        let mut calls: Vec<ToolCall> = Vec::new();
        let mut has_accepted = false;
        for call in made {
            let Some(accepted) = accepted_arguments(contract, &call.arguments) else { continue };
            has_accepted |= accepted.value == *value;
            let arguments = written_arguments(&call.arguments, &accepted.value, accepted.repairs.is_empty());
            calls.push(ToolCall { arguments, ..call.clone() });
        }
        if !has_accepted {
            let first = reply.and_then(|reply| reply.tool_calls.iter().find(|call| call.name == name));
            let written = first.map(|call| call.arguments.as_str()).unwrap_or_default();
            let arguments = written_arguments(written, value, is_unrepaired);
            let id = first.map(|call| call.id.clone()).unwrap_or_default();
            calls = vec![ToolCall { id, name: name.to_owned(), arguments }];
        }
        if self.conversation().is_some_and(|conversation| !conversation.parallel_tool_calls) {
            calls.truncate(1);
        }
        Some(calls)
    }

    /// Returns the first valid call where only one is wanted, or the first one if none is valid. Many servers ignore that only
    /// one is wanted. The model can make the others in its next turn.
    fn first_usable_call(&self, conversation: &Conversation, mut calls: Vec<ToolCall>) -> ToolCall {
        let options = extraction_options(&conversation.options);
        let is_usable = |call: &ToolCall| {
            let callable = self.tools.callables.find(&call.name);
            callable.is_some_and(|callable| callable.read_with(&call.arguments, &options).is_ok())
        };
        let index = calls.iter().position(is_usable).unwrap_or(0);
        calls.swap_remove(index)
    }

    fn check_client_calls(&self, conversation: &Conversation, calls: &[ToolCall]) -> CheckedCalls {
        let options = extraction_options(&conversation.options);
        let (mut valid, mut repairs) = (Vec::with_capacity(calls.len()), Vec::new());
        let (mut errors, mut answers) = (Vec::new(), Vec::new());
        for (index, call) in calls.iter().enumerate() {
            let checked = match self.tools.callables.find(&call.name) {
                None => Err((vec![self.tools.callables.unknown(&call.name, true, false)], None)),
                Some(callable) => callable
                    .read_with(&call.arguments, &options)
                    .map(|(value, made)| (callable.name.clone(), value, made))
                    .map_err(|errors| (errors, Some(callable))),
            };
            match checked {
                Ok((name, value, made)) => {
                    let above = format!("/tool_calls/{index}/arguments");
                    let arguments = written_arguments(&call.arguments, &value, made.is_empty());
                    repairs.extend(made.into_iter().map(|repair| relocate(repair, &above)));
                    valid.push(ToolCall { id: call.id.clone(), name, arguments });
                    answers.push("This call is right. Make it again beside the others.".to_owned());
                }
                Err((wrong, callable)) => {
                    answers.push(
                        callable
                            .map_or_else(|| wrong.join("\n"), |callable| callable.wrong_arguments(&wrong)),
                    );
                    errors.extend(wrong.into_iter().map(|error| format!("{}: {error}", call.name)));
                }
            }
        }
        if errors.is_empty() {
            CheckedCalls::Valid(valid, repairs)
        } else {
            CheckedCalls::Invalid { errors, answers }
        }
    }

    /// Returns the call in a text: an object with the name and the arguments of a tool, or the arguments of exactly one
    /// tool.
    pub(crate) fn client_call_in_text(&self, text: &str) -> Option<ToolCall> {
        let Extracted::Valid(extraction) = extract(text, None, &Options::default()) else { return None };
        // Text around a call is no part of it, but choosing one of several documents would lose the others.
        if extraction.repairs.iter().any(|repair| repair.kind == RepairKind::DocumentChosen) {
            return None;
        }
        let value = extraction.value;
        let callables = &self.tools.callables;
        let named = value["name"].as_str().and_then(|name| callables.find(name));
        let arguments = value.get("arguments").or_else(|| value.get("parameters"));
        if let (Some(callable), Some(arguments)) = (named, arguments) {
            let arguments = arguments.as_str().map_or_else(|| arguments.to_string(), str::to_owned);
            return Some(ToolCall { id: String::new(), name: callable.name.clone(), arguments });
        }
        let arguments = value.to_string();
        let mut fitting =
            callables.list.iter().filter(|callable| value.is_object() && callable.read(&arguments).is_ok());
        let (callable, None) = (fitting.next()?, fitting.next()) else { return None };
        Some(ToolCall { id: String::new(), name: callable.name.clone(), arguments })
    }
}

/// Returns the arguments of a call as the client gets them: as the model wrote them, unless they were repaired.
pub(crate) fn written_arguments(written: &str, value: &Value, is_unrepaired: bool) -> String {
    let is_same = |written: &str| serde_json::from_str::<Value>(written).is_ok_and(|parsed| parsed == *value);
    if is_unrepaired && is_same(written) { written.to_owned() } else { value.to_string() }
}
