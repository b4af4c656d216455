//! Handles replies that call tools or agents, and their results, until the loop continues or ends.

use serde_json::{Map, Value, json};
use slipform_types::{
    CHECKING_TOOL, ChildEnd, EventBody, ExecutionMode, KEY_REMOVED, Protocol, REDACTED, Repair, Reply,
    RunErrorType, SessionId, StopReason, Strategy, ToolCall,
};

use crate::call_plan::{CallPlan, RequestKind};
use crate::cite;
use crate::criteria;
use crate::decide::Rejection;
use crate::envelope::{self, EnvelopeAction, parse_action};
use crate::error::Error;
use crate::judge::{AcceptedResult, DISCARDING_REPAIRS, JudgeContext, Verdict, judge, judge_text};
use crate::output_mode::OutputMode;
use crate::patch::below;
use crate::program;
use crate::prompt::RetryReason;
use crate::state::State;
use crate::tool_state::{CALLS_A_REPLY_MAX, PendingCall, PendingWork, Step, answer_text};
use crate::usage::reply_text;

/// The error of a reply that is not a valid action.
const NO_ACTION: &str = "Output did not follow the action protocol";

impl State {
    /// Returns the calls of a reply other than submissions, or `None` if there are none.
    pub(crate) fn tool_calls_in(&self, reply: &Reply) -> Option<Vec<ToolCall>> {
        let calls: Vec<ToolCall> =
            reply.tool_calls.iter().filter(|call| !self.is_submission(call)).cloned().collect();
        (!calls.is_empty()).then_some(calls)
    }

    /// Returns whether a call submits the result.
    fn is_submission(&self, call: &ToolCall) -> bool {
        self.contract().is_some_and(|contract| call.name == contract.tool)
    }

    /// Begins a step with the calls of a reply. Invalid calls are answered at once; the others
    /// become pending.
    pub(crate) fn begin_step(&mut self, plan: CallPlan, calls: Vec<ToolCall>, reply: &Reply) {
        // Under the action protocol `submit_result` is not a tool.
        let is_submit = |call: &&ToolCall| !reply.tool_calls.is_empty() && self.is_submission(call);
        let submits: Vec<ToolCall> = reply.tool_calls.iter().filter(is_submit).cloned().collect();
        let named = self.tools.with_unique_ids(&[calls, submits].concat(), &self.history.past_runs);
        let (submits, calls): (Vec<_>, Vec<_>) = named.into_iter().partition(|call| is_submit(&call));
        let submission = (!submits.is_empty()).then(|| Reply {
            text: String::new(),
            tool_calls: submits,
            stop: StopReason::ToolCalls,
            ..reply.clone()
        });
        let left = self.tools.calls_left();
        if let Some(message) = self.tools.exceeded_limit(calls.len()).filter(|_| submission.is_none()) {
            return self.end(RunErrorType::LimitExceeded, message);
        }
        let mut list = Vec::new();
        let has_contract = self.contract().is_some();
        let has_keys = reply.flags.iter().any(|flag| flag == KEY_REMOVED);
        for (index, call) in calls.into_iter().enumerate() {
            let not_made = match index {
                _ if has_keys && call.arguments.contains(REDACTED) => {
                    Some("its arguments hold a key, which no tool is given".to_owned())
                }
                _ if index >= left => Some(format!("only {left} more calls were allowed")),
                CALLS_A_REPLY_MAX.. => Some(format!("a reply may make {CALLS_A_REPLY_MAX} calls")),
                _ => None,
            };
            let (mut pending, mut wrong) =
                self.tools.check_call(call, &self.history.known_children, plan.protocol, has_contract);
            match not_made {
                Some(reason) => {
                    pending.work = PendingWork::Nothing;
                    wrong = Some(format!("This call was not made: {reason}."));
                }
                None => self.tools.tool_calls += 1,
            }
            self.note_rejected_call(&pending, wrong);
            list.push(pending);
        }
        // Under the action protocol the call is the whole text, in whichever form it came.
        let assistant_text = match plan.protocol {
            Protocol::Actions if reply.text.is_empty() => reply_text(reply),
            _ => reply.text.clone(),
        };
        self.tools.step =
            Some(Box::new(Step { plan, assistant_text, calls: list, submission, is_opening: false }));
    }

    /// Makes the opening calls of the blueprint before the first model call.
    pub(crate) fn begin_opening_calls(&mut self) {
        let opening = self.task.as_ref().map(|task| task.blueprint.opening.clone()).unwrap_or_default();
        if opening.is_empty() || !self.history.past_runs.is_empty() {
            return;
        }
        let Some(planned) = self.ladder.call.take() else { return };
        let mut list = Vec::new();
        for (index, call) in opening.into_iter().enumerate() {
            let id = format!("opening-{}", index + 1);
            let arguments = if call.arguments.is_null() { json!({}) } else { call.arguments };
            let called = ToolCall { id, name: call.tool, arguments: arguments.to_string() };
            let (pending, wrong) = self.tools.check_call(
                called,
                &self.history.known_children,
                planned.plan.protocol,
                self.contract().is_some(),
            );
            self.note_rejected_call(&pending, wrong);
            list.push(pending);
        }
        let (plan, assistant_text) = (planned.plan, String::new());
        self.tools.step =
            Some(Box::new(Step { plan, assistant_text, calls: list, submission: None, is_opening: true }));
    }

    /// Answers a call that is not made.
    fn note_rejected_call(&mut self, pending: &PendingCall, wrong: Option<String>) {
        if let Some(message) = wrong {
            self.decisions.note(EventBody::PostTool {
                call_id: pending.id.clone(),
                tool_name: pending.name.clone(),
                tool_output: Value::Null,
                error: Some(message),
            });
        }
    }

    /// Handles the result of a tool, or of the program of a procedural agent.
    pub(crate) fn handle_tool_result(
        &mut self,
        call_id: &str,
        tool: &str,
        output: &Value,
        error: Option<&str>,
    ) -> Result<(), Error> {
        if self.is_interrupted() {
            return Ok(());
        }
        if self.tools.program.is_some() && call_id == program::CALL_ID {
            self.handle_program_end(output, error);
            return Ok(());
        }
        if self.children.remove_refused(call_id) {
            // Internal children receive `post_tool` only when they are refused.
            let reason = error.unwrap_or("it could not be started").to_owned();
            self.handle_internal_child_end(call_id, Err(reason));
            return Ok(());
        }
        let step =
            self.tools.step.as_mut().ok_or(Error::Journal("`post_tool` without a pending tool call"))?;
        let is_opening = step.is_opening;
        let call =
            step.unanswered_call(call_id).ok_or(Error::Journal("`post_tool` without a pending tool call"))?;
        call.answer = Some(answer_text(output, error));
        if let (PendingWork::Tool(input), CHECKING_TOOL) = (&call.work, tool) {
            criteria::record_decisions(&mut self.tools.decided, input, output, is_opening);
            criteria::record_undecided(&mut self.tools.undecided, output);
        }
        cite::record_seen_paths(&mut self.tools.seen, tool, output);
        cite::record_written_path(&mut self.tools.written, tool, output);
        self.end_step_if_over();
        Ok(())
    }

    pub(crate) fn handle_child_started(
        &mut self,
        call_id: &str,
        agent_name: &str,
        session_id: &SessionId,
        mode: ExecutionMode,
    ) -> Result<(), Error> {
        if self.is_interrupted() {
            return Ok(());
        }
        if self.children.record_session(call_id, session_id) {
            return Ok(());
        }
        let step =
            self.tools.step.as_mut().ok_or(Error::Journal("`child_started` without a pending delegation"))?;
        let call = step
            .unanswered_call(call_id)
            .ok_or(Error::Journal("`child_started` without a pending delegation"))?;
        self.history.record_child(session_id, agent_name);
        let is_awaited = mode == ExecutionMode::Sync;
        call.work = PendingWork::Working {
            agent_name: agent_name.to_owned(),
            session_id: session_id.clone(),
            is_awaited,
        };
        if !is_awaited {
            call.answer = Some(
                json!({"session_id": session_id, "status": "running", "note": "the result will come as a message"})
                    .to_string(),
            );
        }
        self.end_step_if_over();
        Ok(())
    }

    pub(crate) fn handle_child_completed(&mut self, end: &ChildEnd) -> Result<(), Error> {
        if self.is_interrupted() {
            return Ok(());
        }
        if let Some(call_id) = self.children.remove_ended(&end.child_session_id) {
            self.handle_internal_child_end(&call_id, Ok(end));
            return Ok(());
        }
        let step = self
            .tools
            .step
            .as_mut()
            .ok_or(Error::Journal("`child_completed` for a child that the run does not wait for"))?;
        let call = step
            .unanswered_child_call(end)
            .ok_or(Error::Journal("`child_completed` for a child that the run does not wait for"))?;
        call.answer = Some(if end.is_completed() {
            end.result()
        } else {
            format!("Error: the agent {} failed: {}", end.agent_name, end.failure())
        });
        self.end_step_if_over();
        Ok(())
    }

    /// Passes the end of an internal child to the part of the engine that started it.
    fn handle_internal_child_end(&mut self, call_id: &str, end: Result<&ChildEnd, String>) {
        if self.clarity_state.is_scoring_call(call_id) {
            self.handle_score(end);
        } else {
            self.handle_subtask_end(call_id, end);
        }
    }

    /// Ends the step once every call is answered: plans the next model call, or judges the
    /// submission of the step.
    fn end_step_if_over(&mut self) {
        let Some(step) = self.tools.step.take_if(|step| step.is_over()) else { return };
        self.tools.turns.push(step.turn());
        let Step { plan, submission, .. } = *step;
        // A step without a submission is progress and resets the retries. A failed submission is
        // not, even beside other calls.
        if submission.is_none() {
            self.ladder.rung.retries = 0;
            self.ladder.rung.has_tried_patch = false;
        }
        let Some(task) = &self.task else { return };
        let plan = self.ladder.fresh(plan, &task.blueprint.limits);
        match submission {
            Some(reply) => self.decide_on_reply(plan, &reply),
            None => self.ladder.call = Some(plan.into()),
        }
    }

    /// Handles a reply under the action protocol.
    pub(crate) fn decide_on_envelope(&mut self, plan: CallPlan, reply: &Reply) {
        let Some(envelope) = self.tools.envelope.clone() else { return };
        let judge_context = JudgeContext { mode: plan.mode, text_counts: false, parts: None };
        match judge(&envelope, &judge_context, reply) {
            Verdict::Valid(accepted) => match parse_action(&accepted.value, &self.tools.callables.agents) {
                // An action that is only mentioned or considered in the text is not performed.
                EnvelopeAction::Call(_) if !ends_with_json(&reply.text) => {
                    let errors = vec!["$: an action has to be the last thing in a response".to_owned()];
                    self.correct_envelope(
                        plan,
                        reply,
                        Rejection::unmet(RetryReason::Envelope, errors, NO_ACTION),
                    );
                }
                EnvelopeAction::Call(call) if envelope::contains_return_action(&reply.text) => {
                    // The invented result of the call must not appear in the conversation.
                    let call_only = Reply { text: accepted.value.to_string(), ..reply.clone() };
                    self.begin_step(plan, vec![call], &call_only);
                }
                EnvelopeAction::Call(call) => self.begin_step(plan, vec![call], reply),
                EnvelopeAction::Answer { content, parameters } => {
                    let answer = Answer { content, parameters, repairs: accepted.repairs };
                    self.decide_on_answer(plan, answer, reply);
                }
            },
            Verdict::Refused { message } => self.end(RunErrorType::Refused, message),
            other => {
                if let Some(accepted) = self.direct_result(&plan, reply) {
                    return self.accept(plan, accepted, reply);
                }
                let rejection = match &other {
                    Verdict::Invalid(invalid_result) => {
                        Rejection::unmet(RetryReason::Envelope, invalid_result.violations.lines(), NO_ACTION)
                    }
                    other => Rejection {
                        retry_reason: RetryReason::Envelope,
                        ..self.no_answer(other, envelope.tool)
                    },
                };
                self.correct_envelope(plan, reply, rejection);
            }
        }
    }

    /// Returns a result in the form that the server forces on every reply. It needs no action
    /// around it.
    fn direct_result(&self, plan: &CallPlan, reply: &Reply) -> Option<AcceptedResult> {
        let contract = self
            .contract()
            .filter(|contract| contract.is_universal() && plan.mode == OutputMode::Universal)?;
        let judge_context = JudgeContext { mode: plan.mode, text_counts: false, parts: None };
        match judge(contract, &judge_context, reply) {
            // A value with an action is an incomplete action, not a custom result.
            Verdict::Valid(accepted) if accepted.value["custom_fields"].get("action").is_none() => {
                Some(accepted)
            }
            _ => None,
        }
    }

    /// Handles the last action: its content or its parameters must satisfy the contract.
    fn decide_on_answer(&mut self, plan: CallPlan, answer: Answer, reply: &Reply) {
        let Answer { content, parameters, repairs } = answer;
        let Some(contract) = self.contract() else {
            if !content.trim().is_empty() {
                return self.proceed_with_text(plan, content, reply);
            }
            let errors = vec!["$.content: the answer is empty".to_owned()];
            let rejection = Rejection::unmet(RetryReason::Envelope, errors, "The model gave no answer");
            return self.correct_envelope(plan, reply, rejection);
        };
        let text_counts = contract.options().strategy == Strategy::Auto;
        let judge_as = |mode: OutputMode, text: &str| {
            judge_text(contract, &JudgeContext { mode, text_counts, parts: None }, text)
        };
        let in_content = match judge_as(OutputMode::SystemPrompt, &content) {
            Verdict::Valid(accepted) if !is_only_document(&accepted) => {
                Verdict::NoJson { reason: "the content is not JSON alone".to_owned() }
            }
            other => other,
        };
        // Empty parameters are ignored if the content holds a valid result.
        let is_empty = parameters.as_ref().and_then(Value::as_object).is_some_and(Map::is_empty);
        let parameters = parameters.filter(|_| !(is_empty && matches!(in_content, Verdict::Valid(_))));
        // Parameters are an object, so other results are wrapped, as in a tool call.
        let in_parameters =
            parameters.as_ref().map(|parameters| judge_as(OutputMode::Tool, &parameters.to_string()));
        let verdict = match in_parameters {
            Some(valid @ Verdict::Valid(_)) => valid,
            other => match (in_content, other) {
                (valid @ Verdict::Valid(_), _) | (valid, None) => valid,
                (_, Some(invalid)) => invalid,
            },
        };
        match verdict {
            Verdict::Valid(mut accepted) => {
                self.usage.flag("actions");
                // Repairs of the envelope are also repairs of the result inside it.
                accepted.repairs.splice(0..0, repairs.into_iter().map(relocate_to_result));
                self.accept(plan, accepted, reply);
            }
            Verdict::Invalid(invalid_result) => {
                self.usage.record_invalid_candidate(&invalid_result.candidate, &invalid_result.violations);
                let rejection = Rejection::unmet(
                    RetryReason::Mismatch,
                    invalid_result.violations.lines(),
                    "Output did not match schema",
                );
                self.correct_envelope(plan, reply, rejection);
            }
            other => {
                let tool = contract.tool;
                let rejection = self.no_answer(&other, tool);
                self.correct_envelope(plan, reply, rejection);
            }
        }
    }

    /// Asks again for the envelope, or for the result inside it.
    pub(crate) fn correct_envelope(&mut self, plan: CallPlan, reply: &Reply, rejection: Rejection) {
        let mut plan = plan;
        if rejection.retry_reason == RetryReason::Envelope
            && plan.mode.is_native()
            && let Some(route) = self.ladder.next_route(&plan, !self.tools.callables.is_empty())
        {
            plan = plan.on(route);
        }
        let request_kind = RequestKind::Full {
            retry_reason: rejection.retry_reason,
            errors: rejection.errors.clone(),
            previous: reply_text(reply),
        };
        self.retry(rejection, CallPlan { request_kind, ..plan });
    }
}

/// Returns whether a text ends with JSON outside of its reasoning.
fn ends_with_json(text: &str) -> bool {
    let answer = text.rsplit("</think>").next().unwrap_or_default();
    let is_thought = answer.contains("<think>");
    let end = answer.trim_end().trim_end_matches('`').trim_end();
    !is_thought && end.ends_with('}')
}

/// Returns whether the result was the only document in its text. An example in prose is not a
/// result.
fn is_only_document(accepted: &AcceptedResult) -> bool {
    !accepted.repairs.iter().any(|repair| DISCARDING_REPAIRS.iter().any(|kind| kind.name() == repair.kind))
}

/// The last action of a model, with the repairs of its envelope.
struct Answer {
    content: String,
    parameters: Option<Value>,
    repairs: Vec<Repair>,
}

/// Relocates a repair of the envelope to its path in the result.
fn relocate_to_result(repair: Repair) -> Repair {
    match below("/parameters", &repair.pointer) {
        Some(rest) => Repair { pointer: rest.to_owned(), ..repair },
        None => repair,
    }
}
