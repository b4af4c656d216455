//! Drives one run: asks the engine for the next action, performs it, and appends what happened.

use std::time::Duration;

use serde_json::Value;
use slipform_api::ChildAnswer;
use slipform_engine::{Action, Child, ModelCall, State, next};
use slipform_model::{Call, Patience, Watch};
use slipform_types::{BackendKind, CallError, CallErrorKind, Event, EventBody, Outcome, Role, RunStatus};
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::Instrument as _;

use crate::attempt::{Attempt, Interruption};
use crate::error::Error;
use crate::partial::Partial;
use crate::run_context::RunContext;
use crate::secrets::Secrets;
use crate::spans;

/// The longest wait before a call is repeated, if another backend can answer instead.
const WAIT_WITH_FALLBACK_MAX: Duration = Duration::from_secs(2);

/// Requests that a run stops. Clones share the request.
#[derive(Debug, Clone)]
pub struct StopSignal(watch::Sender<bool>);

impl Default for StopSignal {
    fn default() -> Self {
        StopSignal(watch::Sender::new(false))
    }
}

impl StopSignal {
    /// Requests the stop.
    pub fn request(&self) {
        self.0.send_replace(true);
    }

    pub(crate) fn is_requested(&self) -> bool {
        *self.0.borrow()
    }

    pub(crate) async fn requested(&self) {
        // `self` owns a sender, so waiting cannot fail.
        let _ = self.0.subscribe().wait_for(|stop| *stop).await;
    }
}

/// Observes runs, for progress display. All methods have empty defaults.
pub trait Progress: Watch {
    /// Called before a model call.
    fn calling(&self, context: &RunContext, call: &ModelCall) {
        let _ = (context, call);
    }
    /// Called for every event before it is appended.
    fn happened(&self, context: &RunContext, body: &EventBody) {
        let _ = (context, body);
    }
}

impl Progress for () {}

/// The result of driving a run.
#[derive(Debug, Clone, PartialEq)]
pub enum DriveOutcome {
    /// The run has ended.
    Ended(Outcome),
    /// The run waits for a child. The coordinator assigns it again after `child_completed`.
    Parked,
}

/// Drives a run until it ends or waits for a child.
///
/// # Errors
/// Returns an error if the journal cannot be replayed, or the coordinator rejects an event.
pub async fn drive(
    context: &RunContext,
    attempt: &Attempt,
    progress: &dyn Progress,
) -> Result<DriveOutcome, Error> {
    let span = spans::run(context);
    let driven = drive_in_span(context, attempt, progress).instrument(span.clone()).await;
    if let Ok(DriveOutcome::Ended(outcome)) = &driven {
        spans::record_outcome(&span, outcome);
    }
    driven
}

async fn drive_in_span(
    context: &RunContext,
    attempt: &Attempt,
    progress: &dyn Progress,
) -> Result<DriveOutcome, Error> {
    let RunContext { assignment, resources } = context;
    let journal = &assignment.journal.events;
    let state = State::from_journal(journal)?;
    // A run that has ended must not get further events.
    if let Some(outcome) = state.outcome()
        && next(&state).is_none()
    {
        return Ok(DriveOutcome::Ended(outcome.clone()));
    }
    // Children that ended while the run was parked have appended their results, which `progress` has not
    // seen.
    let is_unseen = |event: &&Event| {
        matches!(event.body, EventBody::ChildCompleted(_)) && event.run_id == assignment.run_id
    };
    let first = journal.len() - journal.iter().rev().take_while(is_unseen).count();
    journal[first..].iter().for_each(|event| progress.happened(context, &event.body));
    let secrets = resources.secrets.with(resources.environment.secret_values());
    let mut drive = Drive { context, attempt, progress, secrets, state };
    drive.begin().await?;
    drive.run().await
}

/// Drives a run without children to its end.
///
/// # Errors
/// As [`drive`], and [`Error::Parked`] when the run waits for a child.
pub async fn drive_to_end(
    context: &RunContext,
    attempt: &Attempt,
    progress: &dyn Progress,
) -> Result<Outcome, Error> {
    match drive(context, attempt, progress).await? {
        DriveOutcome::Ended(outcome) => Ok(outcome),
        DriveOutcome::Parked => Err(Error::Parked),
    }
}

pub(crate) struct Drive<'a> {
    pub(crate) context: &'a RunContext,
    pub(crate) attempt: &'a Attempt,
    progress: &'a dyn Progress,
    /// The secrets of the process and those in the agent's variables.
    secrets: Secrets,
    state: State,
}

impl Drive<'_> {
    /// Opens the tools and appends `attempt_started`.
    async fn begin(&mut self) -> Result<(), Error> {
        let opened = Box::pin(self.unless_interrupted(self.context.toolbox())).await;
        // A failure to open the tools ends the run without an attempt.
        let body = match opened {
            Ok(Ok(toolbox)) => self.context.attempt_started(toolbox.definitions()),
            Ok(Err(error)) => EventBody::ToolsFailed { error: error.to_string() },
            Err(interruption) => interruption.event(None),
        };
        self.append(vec![body]).await
    }

    async fn run(&mut self) -> Result<DriveOutcome, Error> {
        loop {
            match next(&self.state) {
                Some(Action::Note(body)) => self.append(vec![*body]).await?,
                Some(Action::Finish(outcome)) => {
                    self.append(final_events(&outcome)).await?;
                    return Ok(DriveOutcome::Ended(*outcome));
                }
                Some(Action::Park) => return Ok(DriveOutcome::Parked),
                Some(action) => {
                    if let Some(interruption) = self.attempt.interruption() {
                        self.append_interruption(interruption).await?;
                        continue;
                    }
                    self.perform(action).await?;
                }
                None => return Err(Error::NoNextAction),
            }
        }
    }

    async fn perform(&mut self, action: Action) -> Result<(), Error> {
        match action {
            Action::Call(call) => {
                let body = self.call(&call).await?;
                self.append(vec![body]).await
            }
            // Most runs only call models. Boxed, the other actions take no memory until they are performed.
            Action::Tools(calls) => Box::pin(self.call_tools(calls)).await,
            Action::Execute(execution) => Box::pin(self.execute(&execution)).await,
            Action::VerifyPaths(paths) => Box::pin(self.verify_paths(paths)).await,
            Action::Delegate(child) => Box::pin(self.delegate(child)).await,
            _ => Err(Error::NoNextAction),
        }
    }

    /// Starts a child run.
    async fn delegate(&mut self, child: Box<Child>) -> Result<(), Error> {
        let answer = match self.unless_interrupted(self.attempt.delegate(&child)).await {
            Ok(answer) => answer?,
            Err(interruption) => return self.append_interruption(interruption).await,
        };
        let body = match answer {
            ChildAnswer::Accepted { session_id, run_id } => EventBody::ChildStarted {
                call_id: child.call_id,
                agent_name: child.agent_name,
                child_session_id: session_id,
                child_run_id: run_id,
                execution_mode: child.execution_mode,
            },
            ChildAnswer::Refused { reason } => EventBody::PostTool {
                call_id: child.call_id,
                tool_name: child.tool_name,
                tool_output: Value::Null,
                error: Some(reason),
            },
        };
        self.append(vec![body]).await
    }

    pub(crate) async fn append(&mut self, bodies: Vec<EventBody>) -> Result<(), Error> {
        let mut journaled = Vec::with_capacity(bodies.len());
        for mut body in bodies {
            self.context.resources.environment.hide_values(&mut body);
            let written = match self.context.journaled(&body) {
                // The engine needs the values in prompts that the journal must not contain.
                Some(written) => {
                    self.state.fold(&body)?;
                    self.secrets.redact_event(written)
                }
                // For all other events the engine sees what the journal contains, so that a replay decides
                // the same.
                None => {
                    let written = self.secrets.redact_event(body);
                    self.state.fold(&written)?;
                    written
                }
            };
            self.progress.happened(self.context, &written);
            journaled.push(written);
        }
        // The caller acts on events only after the coordinator acknowledged them; a rejection ends the drive.
        self.attempt.append(journaled, self.state.progress()).await
    }

    /// Appends the event for an interruption.
    pub(crate) async fn append_interruption(&mut self, interruption: Interruption) -> Result<(), Error> {
        self.append(vec![interruption.event(None)]).await
    }

    /// Returns the time until the run's deadline; `None` without a deadline.
    pub(crate) fn time_left(&self) -> Option<Duration> {
        Some(self.attempt.deadline.get()?.saturating_duration_since(Instant::now()))
    }

    /// Awaits a future, unless the run is stopped or reaches its deadline first.
    pub(crate) async fn unless_interrupted<T>(
        &self,
        future: impl Future<Output = T>,
    ) -> Result<T, Interruption> {
        tokio::select! {
            biased;
            interruption = self.attempt.interrupted() => Err(interruption),
            value = future => Ok(value),
        }
    }

    /// Returns how long a call waits for a backend. A client that keeps its own conversation waits for the answer itself, so
    /// it learns soon that a backend is busy.
    fn patience(&self, backend: &str) -> Patience {
        let ladder = &self.context.resources.ladder;
        let after = ladder.iter().skip_while(|rung| rung.tier.backend.name != backend).nth(1);
        let has_fallback = after.is_some_and(|rung| rung.tier.is_fallback);
        Patience {
            deadline: self.attempt.deadline.get(),
            wait_max: has_fallback.then_some(WAIT_WITH_FALLBACK_MAX),
            is_short: self.context.start().conversation.is_some(),
        }
    }

    /// Calls a model, unless the run is stopped or reaches its deadline first.
    async fn call(&self, call: &ModelCall) -> Result<EventBody, Error> {
        let rung = self.context.rung(&call.backend).ok_or_else(|| Error::NoBackend(call.backend.clone()))?;
        let known = rung.backend.sampling();
        if let Some(name) = call.request.sampling.names().find(|name| !known.contains(name)) {
            let message = unsupported_message(&call.backend, name);
            let kind = CallErrorKind::Rejected;
            let error = CallError { kind, status: None, retry_after_seconds: None, message };
            return Ok(EventBody::CallFailed { error });
        }
        let is_program = rung.tier.backend.kind == BackendKind::Command;
        let invocation = is_program.then(|| self.context.invocation(self.state.is_resumed()));
        self.progress.calling(self.context, call);
        let partial = Partial::new(self.progress);
        let watch: &dyn Watch = &partial;
        let span = spans::chat(&rung.tier.backend);
        let trace_parent = spans::trace_parent(&span, self.context.start().overrides.trace_parent.as_ref());
        let request = Call {
            request: &call.request,
            invocation: invocation.as_ref(),
            watch,
            trace_parent: trace_parent.as_ref(),
            patience: self.patience(&call.backend),
        };
        let answer = span.in_scope(|| rung.backend.call(request));
        Ok(match self.unless_interrupted(answer.instrument(span.clone())).await {
            Err(interruption) => {
                let body = interruption.event(partial.written());
                spans::record_interruption(&span, &body);
                body
            }
            Ok(Ok(mut reply)) => {
                spans::record_usage(&span, &reply);
                EventBody::Message {
                    role: Role::Assistant,
                    content: std::mem::take(&mut reply.text),
                    reply: Box::new(reply),
                    asked: Some(call.asked.clone()),
                }
            }
            Ok(Err(error)) => {
                spans::record_call_error(&span, &error);
                EventBody::CallFailed { error: error.to_call_error() }
            }
        })
    }
}

/// Returns the message for a sampling parameter that a backend does not know.
pub fn unsupported_message(backend: &str, name: &str) -> String {
    format!("the backend `{backend}` does not support `{name}`; remove it from the request")
}

/// Returns the events that end a run. They are appended together, so that no result exists without an end.
pub(crate) fn final_events(outcome: &Outcome) -> Vec<EventBody> {
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
        // The journal has the reply with the calls.
        Outcome::ToolCalls(ended) => vec![EventBody::RunCompleted {
            status,
            error: None,
            salvage: None,
            receipt: Some(Box::new(ended.receipt.clone())),
        }],
        Outcome::Failed(failure) => vec![EventBody::RunCompleted {
            status,
            error: Some(Box::new(failure.error.clone())),
            salvage: Some(Box::new(failure.salvage.clone())),
            receipt: Some(Box::new(failure.receipt.clone())),
        }],
    }
}
