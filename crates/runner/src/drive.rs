//! One run, driven to its end.

use serde_json::Value;
use slipform_engine::{Action, ModelCall, State, next};
use slipform_model::{Call, Watch};
use slipform_types::{BackendKind, Blueprint, Event, EventBody, Outcome, Role, RunStatus};
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::Instrument as _;

use crate::error::Error;
use crate::journal::{Accepted, Coordinator};
use crate::partial::Partial;
use crate::run_context::RunContext;
use crate::secrets::Secrets;
use crate::spans;

/// A way to stop a run from outside.
#[derive(Debug, Clone)]
pub struct StopSignal(watch::Sender<bool>);

impl Default for StopSignal {
    fn default() -> Self {
        StopSignal(watch::Sender::new(false))
    }
}

impl StopSignal {
    /// Asks the run to stop.
    pub fn request(&self) {
        self.0.send_replace(true);
    }

    pub(crate) fn is_requested(&self) -> bool {
        *self.0.borrow()
    }

    pub(crate) async fn requested(&self) {
        // The sender lives as long as this, so that waiting cannot fail.
        let _ = self.0.subscribe().wait_for(|stop| *stop).await;
    }
}

/// Someone who watches runs.
pub trait Progress: Watch {
    /// A call begins.
    fn calling(&self, context: &RunContext, call: &ModelCall) {
        let _ = (context, call);
    }
    /// Something was decided or happened.
    fn happened(&self, context: &RunContext, body: &EventBody) {
        let _ = (context, body);
    }
}

impl Progress for () {}

/// How far a run was driven.
#[derive(Debug, Clone, PartialEq)]
pub enum Driven {
    /// To its end.
    Ended(Outcome),
    /// To where it waits for a child. Whoever appends `child_completed` has it driven on.
    Parked,
}

/// Drives a run to its end, or to where it waits: asks the engine, does what it says, appends what happened.
pub async fn drive(
    context: &RunContext,
    coordinator: &dyn Coordinator,
    stop: &StopSignal,
    progress: &dyn Progress,
) -> Result<Driven, Error> {
    let span = spans::run(context);
    let driven = drive_within(context, coordinator, stop, progress).instrument(span.clone()).await;
    if let Ok(Driven::Ended(outcome)) = &driven {
        spans::ended(&span, outcome);
    }
    driven
}

async fn drive_within(
    context: &RunContext,
    coordinator: &dyn Coordinator,
    stop: &StopSignal,
    progress: &dyn Progress,
) -> Result<Driven, Error> {
    let journal = coordinator.journal(&context.session_id).await?;
    let is_begun = journal.iter().any(|event| event.run_id == context.run_id);
    let is_filled = asked_for(&journal, context).is_some_and(|blueprint| *blueprint != *context.blueprint);
    let state = State::from_journal(&journal)?;
    // A run that has ended stays as it is: nothing may follow its last event.
    if let (true, Some(outcome), None) = (is_begun, state.outcome(), next(&state)) {
        return Ok(Driven::Ended(outcome.clone()));
    }
    // A deadline that was set stands: the blueprint's limit does not begin anew with each attempt.
    let until = context.until.or_else(|| context.time_from_now());
    // What children found while the run was parked is in its journal already, and new to whoever watches.
    let is_news =
        |event: &&Event| matches!(event.body, EventBody::ChildCompleted(_)) && event.run_id == context.run_id;
    let first = journal.len() - journal.iter().rev().take_while(is_news).count();
    journal[first..].iter().for_each(|event| progress.happened(context, &event.body));
    let secrets = context.secrets.with(context.environment.secret_values());
    let mut drive = Drive { context, coordinator, progress, secrets, state, until };
    if !is_begun {
        drive.append(vec![context.run_start()]).await?;
    }
    drive.attempt(is_filled, stop).await?;
    drive.run(stop).await
}

/// The agent as the run was asked for: with its placeholders.
fn asked_for<'j>(journal: &'j [Event], context: &RunContext) -> Option<&'j Blueprint> {
    let mut own = journal.iter().filter(|event| event.run_id == context.run_id);
    own.find_map(|event| match &event.body {
        EventBody::RunStart { blueprint, .. } => Some(&**blueprint),
        _ => None,
    })
}

/// Drives a run that has nobody to wait for to its end.
///
/// # Errors
/// As [`drive`], and when the run waits for a child all the same.
pub async fn perform(
    context: &RunContext,
    coordinator: &dyn Coordinator,
    stop: &StopSignal,
    progress: &dyn Progress,
) -> Result<Outcome, Error> {
    match drive(context, coordinator, stop, progress).await? {
        Driven::Ended(outcome) => Ok(outcome),
        Driven::Parked => Err(Error::Parked),
    }
}

pub(crate) struct Drive<'a> {
    pub(crate) context: &'a RunContext,
    coordinator: &'a dyn Coordinator,
    progress: &'a dyn Progress,
    /// Those of the process and those of the agent's variables.
    secrets: Secrets,
    state: State,
    until: Option<Instant>,
}

/// Why something was not waited for.
pub(crate) enum Interruption {
    Stop,
    Deadline,
}

impl Interruption {
    fn body(self) -> EventBody {
        self.after(None)
    }

    /// With what was written by then of the reply that was not waited for.
    fn after(self, partial: Option<String>) -> EventBody {
        match self {
            Interruption::Stop => EventBody::StopRequested { partial },
            Interruption::Deadline => EventBody::DeadlineReached { partial },
        }
    }
}

impl Drive<'_> {
    /// Opens the tools and says what there is to work with.
    async fn attempt(&mut self, is_filled: bool, stop: &StopSignal) -> Result<(), Error> {
        let opened = self.unless_interrupted(stop, self.context.toolbox()).await;
        let (definitions, trouble) = match opened {
            Ok(Ok(toolbox)) => (toolbox.definitions(), None),
            Ok(Err(error)) => (Vec::new(), Some(EventBody::ToolsFailed { error: error.to_string() })),
            Err(cut) => (Vec::new(), Some(cut.body())),
        };
        // What cannot be had ends the run before there is an attempt.
        match trouble {
            Some(body) => self.append(vec![body]).await,
            None => self.append(vec![self.context.attempt_started(definitions, is_filled)]).await,
        }
    }

    async fn run(mut self, stop: &StopSignal) -> Result<Driven, Error> {
        loop {
            match next(&self.state) {
                Some(Action::Note(body)) => self.append(vec![*body]).await?,
                Some(Action::Finish(outcome)) => {
                    self.append(ending(&outcome)).await?;
                    return Ok(Driven::Ended(*outcome));
                }
                Some(Action::Park) => return Ok(Driven::Parked),
                Some(action) => {
                    if let Some(cut) = self.interruption(stop) {
                        self.append_interruption(cut).await?;
                        continue;
                    }
                    self.act(action, stop).await?;
                }
                None => return Err(Error::Stuck),
            }
        }
    }

    async fn act(&mut self, action: Action, stop: &StopSignal) -> Result<(), Error> {
        match action {
            Action::Call(call) => {
                let body = self.call(&call, stop).await?;
                self.append(vec![body]).await
            }
            Action::Tools(calls) => self.call_tools(calls, stop).await,
            Action::Execute(execution) => self.execute(&execution, stop).await,
            Action::VerifyPaths(paths) => self.look(paths, stop).await,
            Action::Delegate(child) => {
                let asked = self.coordinator.delegate(self.context, &child);
                let accepted = match self.unless_interrupted(stop, asked).await {
                    Ok(accepted) => accepted?,
                    Err(cut) => return self.append_interruption(cut).await,
                };
                let body = match accepted {
                    Ok(Accepted { session_id, run_id }) => EventBody::ChildStarted {
                        call_id: child.call_id,
                        agent_name: child.agent_name,
                        child_session_id: session_id,
                        child_run_id: run_id,
                        execution_mode: child.execution_mode,
                    },
                    Err(refusal) => EventBody::PostTool {
                        call_id: child.call_id,
                        tool_name: child.tool_name,
                        tool_output: Value::Null,
                        error: Some(refusal),
                    },
                };
                self.append(vec![body]).await
            }
            _ => Err(Error::Stuck),
        }
    }

    pub(crate) async fn append(&mut self, bodies: Vec<EventBody>) -> Result<(), Error> {
        let mut journaled = Vec::with_capacity(bodies.len());
        for mut body in bodies {
            self.context.environment.hide_values(&mut body);
            let written = match self.context.journaled(&body) {
                // Prompts are made of values that are not written.
                Some(written) => {
                    self.state.fold(&body)?;
                    self.secrets.redact_event(written)
                }
                // Everything else the engine decides by what is written.
                None => {
                    let written = self.secrets.redact_event(body);
                    self.state.fold(&written)?;
                    written
                }
            };
            self.progress.happened(self.context, &written);
            journaled.push(written);
        }
        // Nothing follows from the events before they are acknowledged: a refusal ends the drive.
        self.coordinator.append(&self.context.session_id, &self.context.run_id, journaled).await
    }

    /// Appends that something was not waited for.
    pub(crate) async fn append_interruption(&mut self, cut: Interruption) -> Result<(), Error> {
        self.append(vec![cut.body()]).await
    }

    /// How much of the run's time is left, where it is limited.
    pub(crate) fn time_left(&self) -> Option<std::time::Duration> {
        Some(self.until?.saturating_duration_since(Instant::now()))
    }

    fn interruption(&self, stop: &StopSignal) -> Option<Interruption> {
        if stop.is_requested() {
            return Some(Interruption::Stop);
        }
        self.until.filter(|until| *until <= Instant::now()).map(|_| Interruption::Deadline)
    }

    /// What a future gives, unless the run is stopped or its time is up before that.
    pub(crate) async fn unless_interrupted<T>(
        &self,
        stop: &StopSignal,
        future: impl Future<Output = T>,
    ) -> Result<T, Interruption> {
        let deadline = async {
            match self.until {
                Some(until) => tokio::time::sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = stop.requested() => Err(Interruption::Stop),
            () = deadline => Err(Interruption::Deadline),
            value = future => Ok(value),
        }
    }

    /// Makes one call, unless the run is stopped or its time is up before the reply is there.
    async fn call(&self, call: &ModelCall, stop: &StopSignal) -> Result<EventBody, Error> {
        let rung = self.context.rung(&call.backend).ok_or_else(|| Error::NoBackend(call.backend.clone()))?;
        let is_program = rung.tier.backend.kind == BackendKind::Command;
        let invocation = is_program.then(|| self.context.invocation(self.state.is_resumed()));
        self.progress.calling(self.context, call);
        let partial = Partial::of(self.progress);
        let watch: &dyn Watch = &partial;
        let span = spans::chat(&rung.tier.backend);
        let answer = span.in_scope(|| {
            rung.backend.call(Call { request: &call.request, invocation: invocation.as_ref(), watch })
        });
        Ok(match self.unless_interrupted(stop, answer.instrument(span.clone())).await {
            Err(cut) => {
                let body = cut.after(partial.written());
                spans::cut(&span, &body);
                body
            }
            Ok(Ok(mut reply)) => {
                spans::replied(&span, &reply);
                EventBody::Message {
                    role: Role::Assistant,
                    content: std::mem::take(&mut reply.text),
                    reply: Box::new(reply),
                    asked: Some(call.asked.clone()),
                }
            }
            Ok(Err(error)) => {
                spans::call_failed(&span, &error);
                EventBody::CallFailed { error: error.to_call_error() }
            }
        })
    }
}

/// The events that end a run. They belong together: there is no result without an end.
pub(crate) fn ending(outcome: &Outcome) -> Vec<EventBody> {
    let status = State::status(outcome);
    match outcome {
        Outcome::Completed(success) => vec![
            EventBody::Result {
                result_text: success.result_text.clone(),
                result_data: success.result_data.clone(),
                receipt: Box::new(success.receipt.clone()),
            },
            EventBody::RunCompleted {
                status: RunStatus::Completed,
                error: None,
                salvage: None,
                receipt: None,
            },
        ],
        Outcome::Failed(failure) => vec![EventBody::RunCompleted {
            status,
            error: Some(Box::new(failure.error.clone())),
            salvage: Some(Box::new(failure.salvage.clone())),
            receipt: Some(Box::new(failure.receipt.clone())),
        }],
    }
}
