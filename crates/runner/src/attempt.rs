//! One attempt at a run, reported to a coordinator over the runner API.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use serde_json::json;
use slipform_api::{AppendRequest, Appended, AttemptRef, ChildAnswer, ChildRequest, Code, RunnerApi};
use slipform_engine::{Action, Child, ChildTask, State, next};
use slipform_types::{Event, EventBody, RunError, RunErrorType, RunId, RunStatus, Salvage, SessionId};

use crate::backoff::retry;
use crate::drive::{StopSignal, final_events};
use crate::error::Error;
use crate::job::Job;
use crate::journal::{AcceptedChild, JournalFuture, RunJournal};
use crate::run_context::RunContext;

/// Time limit for retries while the coordinator is unreachable. After that the lease has expired and
/// the attempt ends.
const RETRY_TIME_MAX: Duration = Duration::from_secs(15 * 60);

/// One attempt at a run. It numbers its events and retries each append until the coordinator acknowledges it.
pub struct Attempt {
    api: Arc<dyn RunnerApi>,
    reference: AttemptRef,
    job: Arc<Job>,
    stop: StopSignal,
    /// The number of the last acknowledged append.
    acknowledged: AtomicI64,
    is_over: AtomicBool,
}

impl Attempt {
    /// Creates an attempt with this fencing token. A stop request of the coordinator triggers `stop`.
    pub fn new(api: Arc<dyn RunnerApi>, token: i64, job: Arc<Job>, stop: StopSignal) -> Attempt {
        let reference = AttemptRef { run_id: job.run_id.clone(), token };
        Attempt {
            api,
            reference,
            job,
            stop,
            acknowledged: AtomicI64::new(0),
            is_over: AtomicBool::new(false),
        }
    }

    /// Returns whether the coordinator acknowledged the end of the run.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    /// Parks the run until its children have ended.
    ///
    /// # Errors
    /// Returns an error when the coordinator rejects the request or stays unreachable.
    pub async fn park(&self) -> Result<(), Error> {
        Ok(retry(RETRY_TIME_MAX, || self.api.park(&self.reference)).await?)
    }

    /// Ends a run that cannot be driven, with the event that says why.
    ///
    /// # Errors
    /// Returns an error when the journal cannot be replayed, or the coordinator rejects the events.
    pub(crate) async fn conclude(&self, reason: EventBody) -> Result<(), Error> {
        let mut state = State::from_journal(&self.job.journal)?;
        state.fold(&reason)?;
        let mut bodies = vec![reason];
        loop {
            match next(&state) {
                // An earlier attempt made this decision and ended before it appended it.
                Some(Action::Note(body)) => {
                    state.fold(&body)?;
                    bodies.push(*body);
                }
                Some(Action::Finish(outcome)) => {
                    bodies.extend(final_events(&outcome));
                    return self.append_events(bodies).await;
                }
                _ => return Err(Error::NoNextAction),
            }
        }
    }

    /// Appends events, with retries.
    async fn append_events(&self, events: Vec<EventBody>) -> Result<(), Error> {
        // Only this attempt numbers its appends, and a drive appends one batch after the other.
        let number = self.acknowledged.load(Ordering::SeqCst) + 1;
        let AttemptRef { run_id, token } = self.reference.clone();
        let mut request = AppendRequest { run_id, token, number, events };
        match self.send(&request).await {
            Err(error) if error.code == Code::InvalidResult => {
                tracing::error!(run_id = %request.run_id, %error, "coordinator rejected a result that the engine accepted");
                // The coordinator wrote nothing, so the number is still free.
                request.events = vec![rejected_end(&request.events, &error)];
                self.send(&request).await?;
                Err(Error::InvalidResult(error.message))
            }
            Err(error) if error.code == Code::PayloadTooLarge && is_final(&request.events) => {
                tracing::warn!(run_id = %request.run_id, %error, "run result is too large; finishing without it");
                request.events = without_output(request.events, &error);
                Ok(self.send(&request).await?)
            }
            answer => answer.map_err(Error::from),
        }
    }

    async fn send(&self, request: &AppendRequest) -> Result<(), slipform_api::Error> {
        let is_last = is_final(&request.events);
        let send = || if is_last { self.api.finish(request) } else { self.api.append(request) };
        let Appended { stop, .. } = retry(RETRY_TIME_MAX, send).await?;
        self.acknowledged.store(request.number, Ordering::SeqCst);
        if is_last {
            self.is_over.store(true, Ordering::SeqCst);
        } else if stop {
            self.stop.request();
        }
        Ok(())
    }
}

impl RunJournal for Attempt {
    fn journal<'a>(&'a self, session: &'a SessionId) -> JournalFuture<'a, Vec<Event>> {
        let own = self.job.journal.iter().filter(|event| event.session_id == *session);
        Box::pin(std::future::ready(Ok(own.cloned().collect())))
    }

    fn append<'a>(&'a self, _: &'a SessionId, _: &'a RunId, bodies: Vec<EventBody>) -> JournalFuture<'a, ()> {
        Box::pin(self.append_events(bodies))
    }

    fn delegate<'a>(
        &'a self,
        _: &'a RunContext,
        child: &'a Child,
    ) -> JournalFuture<'a, Result<AcceptedChild, String>> {
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
            Ok(match retry(RETRY_TIME_MAX, || self.api.delegate(&request)).await? {
                ChildAnswer::Accepted { session_id, run_id } => Ok(AcceptedChild { session_id, run_id }),
                ChildAnswer::Refused { reason } => Err(reason),
            })
        })
    }
}

fn is_final(events: &[EventBody]) -> bool {
    matches!(events.last(), Some(EventBody::RunCompleted { .. }))
}

/// Returns the final events of a run without its output, which may be large. The journal has the replies.
fn without_output(events: Vec<EventBody>, rejection: &slipform_api::Error) -> Vec<EventBody> {
    let notes = events
        .iter()
        .filter(|body| !matches!(body, EventBody::Result { .. } | EventBody::RunCompleted { .. }));
    let mut shortened: Vec<EventBody> = notes.cloned().collect();
    let errors = vec![format!("partial results are in the run's journal: {}", rejection.message)];
    let salvage = Some(Box::new(Salvage { errors, ..Salvage::default() }));
    shortened.extend(events.into_iter().filter_map(|body| match body {
        EventBody::RunCompleted { status, error: Some(error), receipt, .. } => {
            let error = RunError { last_output: None, response: None, ..*error };
            Some(EventBody::RunCompleted {
                status,
                error: Some(Box::new(error)),
                salvage: salvage.clone(),
                receipt,
            })
        }
        EventBody::RunCompleted { .. } => Some(failed_end(
            RunErrorType::LimitExceeded,
            format!("result exceeds the coordinator's size limit: {}", rejection.message),
            salvage.clone(),
        )),
        _ => None,
    }));
    shortened
}

/// Returns the final event of a failed run without receipt.
pub(crate) fn failed_end(kind: RunErrorType, message: String, salvage: Option<Box<Salvage>>) -> EventBody {
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

/// Returns the final event of a run whose result the coordinator rejected. The result becomes the best
/// candidate of the salvage.
fn rejected_end(events: &[EventBody], error: &slipform_api::Error) -> EventBody {
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
            message: format!("coordinator rejected the result: {}", error.message),
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
