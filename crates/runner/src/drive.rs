//! One run, driven to its end.

use serde_json::Value;
use slipform_engine::{Action, ModelCall, State, next};
use slipform_model::{Call, Watch};
use slipform_types::{BackendKind, Blueprint, Body, Event, Outcome, Role, RunStatus};
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::Instrument as _;

use crate::claim::Claim;
use crate::error::Error;
use crate::journal::{Accepted, Coordinator};
use crate::partial::Partial;
use crate::secrets::Secrets;
use crate::spans;

/// A way to stop a run from outside.
#[derive(Debug, Clone)]
pub struct Stop(watch::Sender<bool>);

impl Default for Stop {
    fn default() -> Self {
        Stop(watch::Sender::new(false))
    }
}

impl Stop {
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
    fn calling(&self, claim: &Claim, call: &ModelCall) {
        let _ = (claim, call);
    }
    /// Something was decided or happened.
    fn happened(&self, claim: &Claim, body: &Body) {
        let _ = (claim, body);
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
    claim: &Claim,
    coordinator: &dyn Coordinator,
    stop: &Stop,
    progress: &dyn Progress,
) -> Result<Driven, Error> {
    let span = spans::run(claim);
    let driven = drive_within(claim, coordinator, stop, progress).instrument(span.clone()).await;
    if let Ok(Driven::Ended(outcome)) = &driven {
        spans::ended(&span, outcome);
    }
    driven
}

async fn drive_within(
    claim: &Claim,
    coordinator: &dyn Coordinator,
    stop: &Stop,
    progress: &dyn Progress,
) -> Result<Driven, Error> {
    let journal = coordinator.journal(&claim.session_id).await?;
    let is_begun = journal.iter().any(|event| event.run_id == claim.run_id);
    let is_filled = asked_for(&journal, claim).is_some_and(|blueprint| *blueprint != *claim.blueprint);
    let state = State::from_journal(&journal)?;
    // A run that has ended stays as it is: nothing may follow its last event.
    if let (true, Some(outcome), None) = (is_begun, state.outcome(), next(&state)) {
        return Ok(Driven::Ended(outcome.clone()));
    }
    // A deadline that was set stands: the blueprint's limit does not begin anew with each attempt.
    let until = claim.until.or_else(|| claim.time_from_now());
    // What children found while the run was parked is in its journal already, and new to whoever watches.
    let is_news =
        |event: &&Event| matches!(event.body, Body::ChildCompleted(_)) && event.run_id == claim.run_id;
    let first = journal.len() - journal.iter().rev().take_while(is_news).count();
    journal[first..].iter().for_each(|event| progress.happened(claim, &event.body));
    let secrets = claim.secrets.with(claim.environment.secret_values());
    let mut drive = Drive { claim, coordinator, progress, secrets, state, until };
    if !is_begun {
        drive.append(vec![claim.run_start()]).await?;
    }
    drive.attempt(is_filled, stop).await?;
    drive.run(stop).await
}

/// The agent as the run was asked for: with its placeholders.
fn asked_for<'j>(journal: &'j [Event], claim: &Claim) -> Option<&'j Blueprint> {
    let mut own = journal.iter().filter(|event| event.run_id == claim.run_id);
    own.find_map(|event| match &event.body {
        Body::RunStart { blueprint, .. } => Some(&**blueprint),
        _ => None,
    })
}

/// Drives a run that has nobody to wait for to its end.
///
/// # Errors
/// As [`drive`], and when the run waits for a child all the same.
pub async fn perform(
    claim: &Claim,
    coordinator: &dyn Coordinator,
    stop: &Stop,
    progress: &dyn Progress,
) -> Result<Outcome, Error> {
    match drive(claim, coordinator, stop, progress).await? {
        Driven::Ended(outcome) => Ok(outcome),
        Driven::Parked => Err(Error::Parked),
    }
}

pub(crate) struct Drive<'a> {
    pub(crate) claim: &'a Claim,
    coordinator: &'a dyn Coordinator,
    progress: &'a dyn Progress,
    /// Those of the process and those of the agent's variables.
    secrets: Secrets,
    state: State,
    until: Option<Instant>,
}

/// Why something was not waited for.
pub(crate) enum Cut {
    Stop,
    Deadline,
}

impl Cut {
    fn body(self) -> Body {
        self.after(None)
    }

    /// With what was written by then of the reply that was not waited for.
    fn after(self, partial: Option<String>) -> Body {
        match self {
            Cut::Stop => Body::StopRequested { partial },
            Cut::Deadline => Body::DeadlineReached { partial },
        }
    }
}

impl Drive<'_> {
    /// Opens the tools and says what there is to work with.
    async fn attempt(&mut self, is_filled: bool, stop: &Stop) -> Result<(), Error> {
        let opened = self.unless_cut(stop, self.claim.toolbox()).await;
        let (definitions, trouble) = match opened {
            Ok(Ok(toolbox)) => (toolbox.definitions(), None),
            Ok(Err(error)) => (Vec::new(), Some(Body::ToolsFailed { error: error.to_string() })),
            Err(cut) => (Vec::new(), Some(cut.body())),
        };
        // What cannot be had ends the run before there is an attempt.
        match trouble {
            Some(body) => self.append(vec![body]).await,
            None => self.append(vec![self.claim.attempt_started(definitions, is_filled)]).await,
        }
    }

    async fn run(mut self, stop: &Stop) -> Result<Driven, Error> {
        loop {
            match next(&self.state) {
                Some(Action::Note(body)) => self.append(vec![*body]).await?,
                Some(Action::Finish(outcome)) => {
                    self.append(ending(&outcome)).await?;
                    return Ok(Driven::Ended(*outcome));
                }
                Some(Action::Park) => return Ok(Driven::Parked),
                Some(action) => {
                    if let Some(cut) = self.is_cut(stop) {
                        self.append_cut(cut).await?;
                        continue;
                    }
                    self.act(action, stop).await?;
                }
                None => return Err(Error::Stuck),
            }
        }
    }

    async fn act(&mut self, action: Action, stop: &Stop) -> Result<(), Error> {
        match action {
            Action::Call(call) => {
                let body = self.call(&call, stop).await?;
                self.append(vec![body]).await
            }
            Action::Tools(calls) => self.call_tools(calls, stop).await,
            Action::Execute(execution) => self.execute(&execution, stop).await,
            Action::Look(paths) => self.look(paths, stop).await,
            Action::Delegate(child) => {
                let asked = self.coordinator.delegate(self.claim, &child);
                let accepted = match self.unless_cut(stop, asked).await {
                    Ok(accepted) => accepted?,
                    Err(cut) => return self.append_cut(cut).await,
                };
                let body = match accepted {
                    Ok(Accepted { session_id, run_id }) => Body::ChildStarted {
                        call_id: child.call_id,
                        agent_name: child.agent_name,
                        child_session_id: session_id,
                        child_run_id: run_id,
                        execution_mode: child.execution_mode,
                    },
                    Err(refusal) => Body::PostTool {
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

    pub(crate) async fn append(&mut self, bodies: Vec<Body>) -> Result<(), Error> {
        let mut journaled = Vec::with_capacity(bodies.len());
        for body in bodies {
            let written = match self.claim.journaled(&body) {
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
            self.progress.happened(self.claim, &written);
            journaled.push(written);
        }
        // Nothing follows from the events before they are acknowledged: a refusal ends the drive.
        self.coordinator.append(&self.claim.session_id, &self.claim.run_id, journaled).await
    }

    /// Appends that something was not waited for.
    pub(crate) async fn append_cut(&mut self, cut: Cut) -> Result<(), Error> {
        self.append(vec![cut.body()]).await
    }

    /// How much of the run's time is left, where it is limited.
    pub(crate) fn time_left(&self) -> Option<std::time::Duration> {
        Some(self.until?.saturating_duration_since(Instant::now()))
    }

    fn is_cut(&self, stop: &Stop) -> Option<Cut> {
        if stop.is_requested() {
            return Some(Cut::Stop);
        }
        self.until.filter(|until| *until <= Instant::now()).map(|_| Cut::Deadline)
    }

    /// What a future gives, unless the run is stopped or its time is up before that.
    pub(crate) async fn unless_cut<T>(&self, stop: &Stop, future: impl Future<Output = T>) -> Result<T, Cut> {
        let deadline = async {
            match self.until {
                Some(until) => tokio::time::sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = stop.requested() => Err(Cut::Stop),
            () = deadline => Err(Cut::Deadline),
            value = future => Ok(value),
        }
    }

    /// Makes one call, unless the run is stopped or its time is up before the reply is there.
    async fn call(&self, call: &ModelCall, stop: &Stop) -> Result<Body, Error> {
        let rung = self.claim.rung(&call.backend).ok_or_else(|| Error::NoBackend(call.backend.clone()))?;
        let is_program = rung.tier.backend.kind == BackendKind::Command;
        let invocation = is_program.then(|| self.claim.invocation(self.state.is_resumed()));
        self.progress.calling(self.claim, call);
        let partial = Partial::of(self.progress);
        let watch: &dyn Watch = &partial;
        let span = spans::chat(&rung.tier.backend);
        let answer = span.in_scope(|| {
            rung.backend.call(Call { request: &call.request, invocation: invocation.as_ref(), watch })
        });
        Ok(match self.unless_cut(stop, answer.instrument(span.clone())).await {
            Err(cut) => {
                let body = cut.after(partial.written());
                spans::cut(&span, &body);
                body
            }
            Ok(Ok(mut reply)) => {
                spans::replied(&span, &reply);
                Body::Message {
                    role: Role::Assistant,
                    content: std::mem::take(&mut reply.text),
                    reply: Box::new(reply),
                    asked: Some(call.asked.clone()),
                }
            }
            Ok(Err(error)) => {
                spans::call_failed(&span, &error);
                Body::CallFailed { error: error.to_call_error() }
            }
        })
    }
}

/// The events that end a run. They belong together: there is no result without an end.
pub(crate) fn ending(outcome: &Outcome) -> Vec<Body> {
    let status = State::status(outcome);
    match outcome {
        Outcome::Completed(success) => vec![
            Body::Result {
                result_text: success.result_text.clone(),
                result_data: success.result_data.clone(),
                receipt: Box::new(success.receipt.clone()),
            },
            Body::RunCompleted { status: RunStatus::Completed, error: None, salvage: None, receipt: None },
        ],
        Outcome::Failed(failure) => vec![Body::RunCompleted {
            status,
            error: Some(Box::new(failure.error.clone())),
            salvage: Some(Box::new(failure.salvage.clone())),
            receipt: Some(Box::new(failure.receipt.clone())),
        }],
    }
}
