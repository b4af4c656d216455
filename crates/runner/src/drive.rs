//! One run, driven to its end.

use std::time::Duration;

use formwork_engine::{Action, ModelCall, State, next};
use formwork_model::{Call, Watch};
use formwork_types::{Body, Outcome, Role, RunStatus};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::claim::Claim;
use crate::error::Error;
use crate::journal::Coordinator;

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

    async fn requested(&self) {
        // The sender lives as long as this, so that waiting cannot fail.
        let _ = self.0.subscribe().wait_for(|stop| *stop).await;
    }
}

/// Someone who watches a run.
pub trait Progress: Watch {
    /// A call begins.
    fn calling(&self, call: &ModelCall) {
        let _ = call;
    }
    /// Something was decided or happened.
    fn happened(&self, body: &Body) {
        let _ = body;
    }
}

impl Progress for () {}

/// Drives a run to its end: asks the engine, does what it says, appends what happened.
pub async fn drive(
    claim: &Claim,
    coordinator: &dyn Coordinator,
    stop: &Stop,
    progress: &dyn Progress,
) -> Result<Outcome, Error> {
    let journal = coordinator.journal(&claim.run_id).await?;
    let state = State::from_journal(&journal)?;
    // A run that has ended stays as it is: nothing may follow its last event.
    if let (Some(outcome), None) = (state.outcome(), next(&state)) {
        return Ok(outcome.clone());
    }
    let fresh = journal.is_empty();
    let mut drive = Drive::new(claim, coordinator, progress, state);
    if fresh {
        drive.append(vec![claim.run_start()]).await?;
    }
    drive.append(vec![claim.attempt_started()]).await?;
    drive.run(stop).await
}

struct Drive<'a> {
    claim: &'a Claim,
    coordinator: &'a dyn Coordinator,
    progress: &'a dyn Progress,
    state: State,
    deadline: Option<Instant>,
}

impl<'a> Drive<'a> {
    fn new(
        claim: &'a Claim,
        coordinator: &'a dyn Coordinator,
        progress: &'a dyn Progress,
        state: State,
    ) -> Drive<'a> {
        let seconds = claim.blueprint.limits.timeout_seconds;
        let deadline = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds.into()));
        Drive { claim, coordinator, progress, state, deadline }
    }

    async fn run(mut self, stop: &Stop) -> Result<Outcome, Error> {
        loop {
            match next(&self.state) {
                Some(Action::Note(body)) => self.append(vec![*body]).await?,
                Some(Action::Call(call)) => {
                    let body = self.call(&call, stop).await?;
                    self.append(vec![body]).await?;
                }
                Some(Action::Finish(outcome)) => {
                    self.append(ending(&outcome)).await?;
                    return Ok(*outcome);
                }
                _ => return Err(Error::Stuck),
            }
        }
    }

    async fn append(&mut self, bodies: Vec<Body>) -> Result<(), Error> {
        self.coordinator.append(&self.claim.session_id, &self.claim.run_id, bodies.clone()).await?;
        for body in &bodies {
            self.state.fold(body)?;
            self.progress.happened(body);
        }
        Ok(())
    }

    /// Makes one call, unless the run is stopped or its time is up before the reply is there.
    async fn call(&self, call: &ModelCall, stop: &Stop) -> Result<Body, Error> {
        let backend =
            self.claim.backend(&call.backend).ok_or_else(|| Error::NoBackend(call.backend.clone()))?;
        let mut invocation = self.claim.invocation();
        invocation.resumed = self.state.calls() > 0;
        self.progress.calling(call);
        let watch: &dyn Watch = self.progress;
        let answer = backend.call(Call { request: &call.request, invocation: Some(&invocation), watch });
        let deadline = async {
            match self.deadline {
                Some(deadline) => tokio::time::sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = stop.requested() => Ok(Body::StopRequested),
            () = deadline => Ok(Body::DeadlineReached),
            answer = answer => Ok(match answer {
                Ok(mut reply) => Body::Message {
                    role: Role::Assistant,
                    content: std::mem::take(&mut reply.text),
                    reply: Box::new(reply),
                    asked: Some(call.asked.clone()),
                },
                Err(error) => Body::CallFailed { error: error.to_call_error() },
            }),
        }
    }
}

/// The events that end a run. They belong together: there is no result without an end.
fn ending(outcome: &Outcome) -> Vec<Body> {
    let status = State::status(outcome);
    match outcome {
        Outcome::Completed(success) => vec![
            Body::Result {
                result_text: success.result_text.clone(),
                result_data: success.result_data.clone(),
                receipt: Box::new(success.receipt.clone()),
            },
            Body::RunCompleted { status: RunStatus::Completed, error: None, salvage: None },
        ],
        Outcome::Failed(failure) => vec![Body::RunCompleted {
            status,
            error: Some(Box::new(failure.error.clone())),
            salvage: Some(Box::new(failure.salvage.clone())),
        }],
    }
}
