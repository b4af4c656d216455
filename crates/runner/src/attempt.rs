//! One attempt at a run, as a coordinator behind a door hears of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use serde_json::json;
use slipform_api::{AppendRequest, Appended, AttemptRef, ChildAnswer, ChildRequest, Code, RunnerApi};
use slipform_engine::{Action, Child, ChildTask, State, next};
use slipform_types::{Event, EventBody, RunError, RunErrorType, RunId, RunStatus, Salvage, SessionId};

use crate::backoff::insist;
use crate::drive::{StopSignal, ending};
use crate::error::Error;
use crate::job::Job;
use crate::journal::{Accepted, Coordinator, Reported};
use crate::run_context::RunContext;

/// How long results are kept and said again while the coordinator is away. Beyond it the run is somebody else's for
/// sure, and the attempt ends.
const PATIENCE: Duration = Duration::from_secs(15 * 60);

/// One attempt at a run: whatever happens in it goes through a api, numbered, and again while nobody opens.
pub struct Attempt {
    api: Arc<dyn RunnerApi>,
    reference: AttemptRef,
    job: Arc<Job>,
    stop: StopSignal,
    /// The number of the last message that was acknowledged.
    said: AtomicI64,
    is_over: AtomicBool,
}

impl Attempt {
    /// The attempt with this fencing token. Its `stop` is requested when the coordinator says so.
    pub fn new(api: Arc<dyn RunnerApi>, token: i64, job: Arc<Job>, stop: StopSignal) -> Attempt {
        let reference = AttemptRef { run_id: job.run_id.clone(), token };
        Attempt { api, reference, job, stop, said: AtomicI64::new(0), is_over: AtomicBool::new(false) }
    }

    /// Whether the run's end was acknowledged.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    /// Lets the run wait for its children.
    ///
    /// # Errors
    /// When the coordinator does not take it.
    pub async fn park(&self) -> Result<(), Error> {
        Ok(insist(PATIENCE, || self.api.park(&self.reference)).await?)
    }

    /// Ends a run before there was an attempt worth the name, for the reason that this event is.
    ///
    /// # Errors
    /// When its journal cannot be used, or the coordinator does not take it.
    pub(crate) async fn conclude(&self, reason: EventBody) -> Result<(), Error> {
        let mut state = State::from_journal(&self.job.journal)?;
        state.fold(&reason)?;
        let mut bodies = vec![reason];
        loop {
            match next(&state) {
                // A decision of an earlier attempt, which did not come to note it.
                Some(Action::Note(body)) => {
                    state.fold(&body)?;
                    bodies.push(*body);
                }
                Some(Action::Finish(outcome)) => {
                    bodies.extend(ending(&outcome));
                    return self.say(bodies).await;
                }
                _ => return Err(Error::Stuck),
            }
        }
    }

    /// Says what happened, and again until it is heard.
    async fn say(&self, events: Vec<EventBody>) -> Result<(), Error> {
        // Nobody else numbers: a drive says one thing after the other.
        let number = self.said.load(Ordering::SeqCst) + 1;
        let AttemptRef { run_id, token } = self.reference.clone();
        let mut request = AppendRequest { run_id, token, number, events };
        match self.send(&request).await {
            Err(error) if error.code == Code::InvalidResult => {
                tracing::error!(run_id = %request.run_id, %error, "a result was refused that the engine had accepted");
                // What was refused was not written, so that its number is free.
                request.events = vec![refused(&request.events, &error)];
                self.send(&request).await?;
                Err(Error::InvalidResult(error.message))
            }
            Err(error) if error.code == Code::PayloadTooLarge && is_ending(&request.events) => {
                tracing::warn!(run_id = %request.run_id, %error, "the end of a run is too large; it is said in short");
                request.events = in_short(request.events, &error);
                Ok(self.send(&request).await?)
            }
            answer => answer.map_err(Error::from),
        }
    }

    async fn send(&self, request: &AppendRequest) -> Result<(), slipform_api::Error> {
        let is_last = is_ending(&request.events);
        let Appended { stop, .. } = insist(PATIENCE, || match is_last {
            true => self.api.finish(request),
            false => self.api.append(request),
        })
        .await?;
        self.said.store(request.number, Ordering::SeqCst);
        if is_last {
            self.is_over.store(true, Ordering::SeqCst);
        } else if stop {
            self.stop.request();
        }
        Ok(())
    }
}

impl Coordinator for Attempt {
    fn journal<'a>(&'a self, session: &'a SessionId) -> Reported<'a, Vec<Event>> {
        let own = self.job.journal.iter().filter(|event| event.session_id == *session);
        Box::pin(std::future::ready(Ok(own.cloned().collect())))
    }

    fn append<'a>(&'a self, _: &'a SessionId, _: &'a RunId, bodies: Vec<EventBody>) -> Reported<'a, ()> {
        Box::pin(self.say(bodies))
    }

    fn delegate<'a>(&'a self, _: &'a RunContext, child: &'a Child) -> Reported<'a, Result<Accepted, String>> {
        Box::pin(async move {
            let (session_id, parameters) = match &child.task {
                ChildTask::Start { parameters } => (None, parameters.clone()),
                ChildTask::Resume { session_id, prompt } => {
                    (Some(session_id.clone()), json!({"prompt": prompt}))
                }
            };
            let request = ChildRequest {
                run_id: self.reference.run_id.clone(),
                token: self.reference.token,
                call_id: child.call_id.clone(),
                agent_name: child.agent_name.clone(),
                session_id,
                parameters,
                execution_mode: child.execution_mode,
                output_schema: child.output_schema.clone(),
                output_schema_name: child.output_schema_name.clone(),
            };
            Ok(match insist(PATIENCE, || self.api.delegate(&request)).await? {
                ChildAnswer::Accepted { session_id, run_id } => Ok(Accepted { session_id, run_id }),
                ChildAnswer::Refused { reason } => Err(reason),
            })
        })
    }
}

fn is_ending(events: &[EventBody]) -> bool {
    matches!(events.last(), Some(EventBody::RunCompleted { .. }))
}

/// The end of a run without what makes it long. Replies are in the journal in any case.
fn in_short(events: Vec<EventBody>, refusal: &slipform_api::Error) -> Vec<EventBody> {
    let notes = events
        .iter()
        .filter(|body| !matches!(body, EventBody::Result { .. } | EventBody::RunCompleted { .. }));
    let mut short: Vec<EventBody> = notes.cloned().collect();
    let errors = vec![format!("what the run kept is in its journal: {}", refusal.message)];
    let salvage = Some(Box::new(Salvage { errors, ..Salvage::default() }));
    short.extend(events.into_iter().filter_map(|body| match body {
        EventBody::RunCompleted { status, error: Some(error), receipt, .. } => {
            let error = RunError { last_output: None, response: None, ..*error };
            Some(EventBody::RunCompleted {
                status,
                error: Some(Box::new(error)),
                salvage: salvage.clone(),
                receipt,
            })
        }
        EventBody::RunCompleted { .. } => Some(ended(
            RunErrorType::LimitExceeded,
            format!("the result is larger than the coordinator takes: {}", refusal.message),
            salvage.clone(),
        )),
        _ => None,
    }));
    short
}

/// The end of a run that failed, said without its journal.
pub(crate) fn ended(kind: RunErrorType, message: String, salvage: Option<Box<Salvage>>) -> EventBody {
    let error = RunError {
        kind,
        message,
        validation_errors: Vec::new(),
        last_output: None,
        calls: 0,
        retry_count: 0,
        response: None,
    };
    EventBody::RunCompleted {
        status: RunStatus::Failed,
        error: Some(Box::new(error)),
        salvage,
        receipt: None,
    }
}

/// The end of a run whose result the coordinator does not take. The result is kept as what can still be used.
fn refused(events: &[EventBody], error: &slipform_api::Error) -> EventBody {
    let result = events.iter().find_map(|body| match body {
        EventBody::Result { result_data, receipt, .. } => Some((result_data.clone(), receipt)),
        _ => None,
    });
    let (best_candidate, calls, retry_count) = match result {
        Some((data, receipt)) => (data, receipt.calls, receipt.retries),
        None => (None, 0, 0),
    };
    let errors = vec![error.message.clone()];
    EventBody::RunCompleted {
        status: RunStatus::Failed,
        error: Some(Box::new(RunError {
            kind: RunErrorType::OutputSchemaValidationFailed,
            message: format!("the coordinator refused the result: {}", error.message),
            validation_errors: errors.clone(),
            last_output: None,
            calls,
            retry_count,
            response: None,
        })),
        salvage: Some(Box::new(Salvage { best_candidate, errors, ..Salvage::default() })),
        receipt: None,
    }
}
