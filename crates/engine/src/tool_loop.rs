//! What follows from a reply that acts: tools are called, agents are started, and the loop goes on or ends.

use serde_json::{Map, Value, json};
use slipform_types::{
    CHECKING_TOOL, ChildEnd, EventBody, ExecutionMode, KEY_REMOVED, Protocol, REDACTED, Repair, Reply,
    RunErrorType, SessionId, StopReason, Strategy, ToolCall,
};

use crate::cite;
use crate::criteria;
use crate::decide::Rejection;
use crate::delegation::Known;
use crate::envelope::{self, EnvelopeAction, wanted};
use crate::error::Error;
use crate::judge::{Accepted, JudgedReply, LEAVING_OUT, Verdict, judge, judge_text};
use crate::output_mode::OutputMode;
use crate::patch::below;
use crate::plan::{Ask, Plan};
use crate::program;
use crate::prompt::Why;
use crate::state::State;
use crate::tool_state::{CALLS_A_REPLY_MAX, Pending, PendingStep, Step, answer};
use crate::usage::words;

/// What is wrong with a reply that is no action.
const NO_ACTION: &str = "Output did not follow the action protocol";

impl State {
    /// The calls that a reply makes, other than submitting its result; none where it makes none.
    pub(crate) fn calls_of(&self, reply: &Reply) -> Option<Vec<ToolCall>> {
        let calls: Vec<ToolCall> =
            reply.tool_calls.iter().filter(|call| !self.submits(call)).cloned().collect();
        (!calls.is_empty()).then_some(calls)
    }

    /// Whether a call submits the result.
    fn submits(&self, call: &ToolCall) -> bool {
        self.contract().is_some_and(|contract| call.name == contract.tool)
    }

    /// The model has called: what is wrong is answered at once, everything else is to be done.
    pub(crate) fn begin_step(&mut self, plan: Plan, calls: Vec<ToolCall>, reply: &Reply) {
        // In an action it is the name of a tool that there is not.
        let is_submit = |call: &&ToolCall| !reply.tool_calls.is_empty() && self.submits(call);
        let submits: Vec<ToolCall> = reply.tool_calls.iter().filter(is_submit).cloned().collect();
        let named = self.tools.named_apart(&[calls, submits].concat(), &self.past);
        let (submits, calls): (Vec<_>, Vec<_>) = named.into_iter().partition(|call| is_submit(&call));
        let submission = (!submits.is_empty()).then(|| Reply {
            text: String::new(),
            tool_calls: submits,
            stop: StopReason::ToolCalls,
            ..reply.clone()
        });
        let left = self.tools.calls_left();
        if let Some(message) = self.tools.over_limit(calls.len()).filter(|_| submission.is_none()) {
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
                self.tools.check(call, &self.children, plan.protocol, has_contract);
            match not_made {
                Some(reason) => {
                    pending.work = PendingStep::Nothing;
                    wrong = Some(format!("This call was not made: {reason}."));
                }
                None => self.tools.tool_calls += 1,
            }
            self.note_wrong(&pending, wrong);
            list.push(pending);
        }
        // Under actions all that was said is the call, in whichever form it came.
        let said = match plan.protocol {
            Protocol::Actions if reply.text.is_empty() => words(reply),
            _ => reply.text.clone(),
        };
        self.tools.step = Some(Box::new(Step { plan, said, calls: list, submission, is_opening: false }));
    }

    /// Calls what the blueprint wants called before the model is asked.
    pub(crate) fn open(&mut self) {
        let opening = self.task.as_ref().map(|task| task.blueprint.opening.clone()).unwrap_or_default();
        if opening.is_empty() || !self.past.is_empty() {
            return;
        }
        let Some(planned) = self.plan.take() else { return };
        let mut list = Vec::new();
        for (index, call) in opening.into_iter().enumerate() {
            let id = format!("opening-{}", index + 1);
            let arguments = if call.arguments.is_null() { json!({}) } else { call.arguments };
            let called = ToolCall { id, name: call.tool, arguments: arguments.to_string() };
            let (pending, wrong) =
                self.tools.check(called, &self.children, planned.plan.protocol, self.contract().is_some());
            self.note_wrong(&pending, wrong);
            list.push(pending);
        }
        let (plan, said) = (planned.plan, String::new());
        self.tools.step =
            Some(Box::new(Step { plan, said, calls: list, submission: None, is_opening: true }));
    }

    /// Answers a call that is not made.
    fn note_wrong(&mut self, pending: &Pending, wrong: Option<String>) {
        if let Some(message) = wrong {
            self.notes.push_back(EventBody::PostTool {
                call_id: pending.id.clone(),
                tool_name: pending.name.clone(),
                tool_output: Value::Null,
                error: Some(message),
            });
        }
    }

    /// A tool, or the program of a procedural agent, has answered.
    pub(crate) fn tool_answered(
        &mut self,
        call_id: &str,
        tool: &str,
        output: &Value,
        error: Option<&str>,
    ) -> Result<(), Error> {
        if self.was_cut_short() {
            return Ok(());
        }
        if self.program.is_some() && call_id == program::CALL_ID {
            self.program_ended(output, error);
            return Ok(());
        }
        if let Some(hired) = self.dismiss(|hired| hired.child.call_id == call_id) {
            // Nothing but a refusal is told this mode.
            self.hired_ended(&hired, Err(error.unwrap_or("it could not be started").to_owned()));
            return Ok(());
        }
        let step = self.tools.step.as_mut().ok_or(Error::Journal("a tool answered that was never called"))?;
        let is_opening = step.is_opening;
        let call = step.waiting(call_id).ok_or(Error::Journal("a tool answered that was never called"))?;
        call.answer = Some(answer(output, error));
        if let (PendingStep::Tool(input), CHECKING_TOOL) = (&call.work, tool) {
            criteria::decide(&mut self.tools.decided, input, output, is_opening);
            criteria::leave_open(&mut self.tools.undecided, output);
        }
        cite::see(&mut self.tools.seen, tool, output);
        cite::write(&mut self.tools.written, tool, output);
        self.end_step_if_over();
        Ok(())
    }

    pub(crate) fn child_started(
        &mut self,
        call_id: &str,
        agent_name: &str,
        session_id: &SessionId,
        mode: ExecutionMode,
    ) -> Result<(), Error> {
        if self.was_cut_short() {
            return Ok(());
        }
        if let Some(hired) = self.hired.iter_mut().find(|hired| hired.child.call_id == call_id) {
            hired.session_id = Some(session_id.clone());
            return Ok(());
        }
        let step =
            self.tools.step.as_mut().ok_or(Error::Journal("an agent was started that nobody called"))?;
        let call = step.waiting(call_id).ok_or(Error::Journal("an agent was started that nobody called"))?;
        // The latest that was spoken to stands last.
        self.children.retain(|child| child.session_id != *session_id);
        self.children.push(Known { session_id: session_id.clone(), agent_name: agent_name.to_owned() });
        let is_awaited = mode == ExecutionMode::Sync;
        call.work = PendingStep::Working {
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

    pub(crate) fn child_completed(&mut self, end: &ChildEnd) -> Result<(), Error> {
        if self.was_cut_short() {
            return Ok(());
        }
        if let Some(hired) = self.dismiss(|hired| hired.session_id.as_ref() == Some(&end.child_session_id)) {
            self.hired_ended(&hired, Ok(end));
            return Ok(());
        }
        let step = self.tools.step.as_mut().ok_or(Error::Journal("an agent ended that nobody waits for"))?;
        let call = step.waiting_for(end).ok_or(Error::Journal("an agent ended that nobody waits for"))?;
        call.answer = Some(match end.is_completed() {
            true => end.result(),
            false => format!("Error: the agent {} failed: {}", end.agent_name, end.failure()),
        });
        self.end_step_if_over();
        Ok(())
    }

    /// Everything that was called has answered: the model hears of it, or what it submitted beside is judged.
    fn end_step_if_over(&mut self) {
        let Some(step) = self.tools.step.take_if(|step| step.is_over()) else { return };
        self.tools.turns.push(step.turn());
        let Step { plan, submission, .. } = *step;
        // Whoever goes on has got somewhere. Whoever submits has not, whatever was called beside it.
        if submission.is_none() {
            self.rung.retries = 0;
            self.rung.patched = false;
        }
        let budget = self.backend().cloned().and_then(|backend| self.first_budget(&backend));
        let plan = Plan { ask: Ask::First, narrow: None, is_retry: false, budget, ..plan };
        match submission {
            Some(reply) => self.decide_on_reply(plan, &reply),
            None => self.plan = Some(plan.into()),
        }
    }

    /// A reply under the action protocol.
    pub(crate) fn decide_on_envelope(&mut self, plan: Plan, reply: &Reply) {
        let Some(envelope) = self.tools.envelope.clone() else { return };
        let asked = JudgedReply { mode: plan.mode, text_counts: false, parts: None };
        match judge(&envelope, &asked, reply) {
            Verdict::Valid(accepted) => match wanted(&accepted.value, &self.tools.callables.agents) {
                // What a model says it would do, or thinks of doing, is not done.
                EnvelopeAction::Call(_) if !is_last_word(&reply.text) => {
                    let errors = vec!["$: an action has to be the last thing in a response".to_owned()];
                    self.correct_envelope(plan, reply, Rejection::unmet(Why::Envelope, errors, NO_ACTION));
                }
                EnvelopeAction::Call(call) if envelope::invents(&reply.text) => {
                    // What it made up of the answer must not stand beside the answer.
                    let said = Reply { text: accepted.value.to_string(), ..reply.clone() };
                    self.begin_step(plan, vec![call], &said);
                }
                EnvelopeAction::Call(call) => self.begin_step(plan, vec![call], reply),
                EnvelopeAction::Answer { content, parameters } => {
                    let answer = Answer { content, parameters, repairs: accepted.repairs };
                    self.decide_on_answer(plan, answer, reply);
                }
            },
            Verdict::Refused { message } => self.end(RunErrorType::Refused, message),
            other => {
                if let Some(accepted) = self.outright(&plan, reply) {
                    return self.accept(plan, accepted, reply);
                }
                let trouble = match &other {
                    Verdict::Invalid(flawed) => {
                        Rejection::unmet(Why::Envelope, flawed.violations.lines(), NO_ACTION)
                    }
                    other => Rejection { why: Why::Envelope, ..self.no_answer(other, envelope.tool) },
                };
                self.correct_envelope(plan, reply, trouble);
            }
        }
    }

    /// A result in the form that the server forces on every reply: it needs no action to carry it.
    fn outright(&self, plan: &Plan, reply: &Reply) -> Option<Accepted> {
        let contract = self
            .contract()
            .filter(|contract| contract.is_universal() && plan.mode == OutputMode::Universal)?;
        let asked = JudgedReply { mode: plan.mode, text_counts: false, parts: None };
        match judge(contract, &asked, reply) {
            // What was meant as an action is not the result of an agent of one's own.
            Verdict::Valid(accepted) if accepted.value["custom_fields"].get("action").is_none() => {
                Some(accepted)
            }
            _ => None,
        }
    }

    /// The last action: its content, or its parameters, have to satisfy the contract.
    fn decide_on_answer(&mut self, plan: Plan, answer: Answer, reply: &Reply) {
        let Answer { content, parameters, repairs } = answer;
        let Some(contract) = self.contract() else {
            if !content.trim().is_empty() {
                return self.take_text(plan, content, reply);
            }
            let errors = vec!["$.content: the answer is empty".to_owned()];
            let trouble = Rejection::unmet(Why::Envelope, errors, "The model gave no answer");
            return self.correct_envelope(plan, reply, trouble);
        };
        let text_counts = contract.options().strategy == Strategy::Auto;
        let by = |mode: OutputMode, text: &str| {
            judge_text(contract, &JudgedReply { mode, text_counts, parts: None }, text)
        };
        let said = match by(OutputMode::SystemPrompt, &content) {
            Verdict::Valid(accepted) if !is_whole(&accepted) => {
                Verdict::NoJson { reason: "the content is not JSON alone".to_owned() }
            }
            other => other,
        };
        // Parameters that say nothing stand for none where the content says something.
        let says_nothing = parameters.as_ref().and_then(Value::as_object).is_some_and(Map::is_empty);
        let parameters = parameters.filter(|_| !(says_nothing && matches!(said, Verdict::Valid(_))));
        // Parameters are an object, so that other results come wrapped, as they do in a tool call.
        let in_parameters =
            parameters.as_ref().map(|parameters| by(OutputMode::Tool, &parameters.to_string()));
        let verdict = match in_parameters {
            Some(valid @ Verdict::Valid(_)) => valid,
            other => match (said, other) {
                (valid @ Verdict::Valid(_), _) | (valid, None) => valid,
                (_, Some(invalid)) => invalid,
            },
        };
        match verdict {
            Verdict::Valid(mut accepted) => {
                self.usage.flag("actions");
                // What was changed in the envelope is a change of what it holds.
                accepted.repairs.splice(0..0, repairs.into_iter().map(in_result));
                self.accept(plan, accepted, reply);
            }
            Verdict::Invalid(flawed) => {
                self.usage.failed(&flawed.candidate, &flawed.violations);
                let trouble =
                    Rejection::unmet(Why::Mismatch, flawed.violations.lines(), "Output did not match schema");
                self.correct_envelope(plan, reply, trouble);
            }
            other => {
                let tool = contract.tool;
                let trouble = self.no_answer(&other, tool);
                self.correct_envelope(plan, reply, trouble);
            }
        }
    }

    /// Asks for the envelope again, or for the result inside it.
    pub(crate) fn correct_envelope(&mut self, plan: Plan, reply: &Reply, trouble: Rejection) {
        let mut plan = plan;
        if trouble.why == Why::Envelope
            && plan.mode.is_native()
            && let Some(route) = self.next_route(&plan)
        {
            plan = plan.on(route);
        }
        let ask = Ask::Full { why: trouble.why, errors: trouble.errors.clone(), previous: words(reply) };
        self.retry(trouble, Plan { ask, ..plan });
    }
}

/// Whether a text ends with its JSON, and has not thought it only.
fn is_last_word(text: &str) -> bool {
    let said = text.rsplit("</think>").next().unwrap_or_default();
    let is_thought = said.contains("<think>");
    let end = said.trim_end().trim_end_matches('`').trim_end();
    !is_thought && end.ends_with('}')
}

/// Whether a result was written as one document, with nothing around it: an example in prose is no result.
fn is_whole(accepted: &Accepted) -> bool {
    !accepted.repairs.iter().any(|repair| LEAVING_OUT.iter().any(|kind| kind.name() == repair.kind))
}

/// The last action of a model, with what it took to read it.
struct Answer {
    content: String,
    parameters: Option<Value>,
    repairs: Vec<Repair>,
}

/// A repair of an envelope at its place in the result.
fn in_result(repair: Repair) -> Repair {
    match below("/parameters", &repair.pointer) {
        Some(rest) => Repair { pointer: rest.to_owned(), ..repair },
        None => repair,
    }
}
