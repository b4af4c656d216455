//! One attempt at a run, reported to a coordinator over the runner API.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::json;
use slipform_api::{
    Answer, AppendRequest, Appended, Assignment, AttemptRef, ChildAnswer, ChildRequest, Code, RunnerApi,
};
use slipform_engine::{Action, Child, ChildTask, State, next};
use slipform_types::{EventBody, RunError, RunErrorType, RunProgress, RunStatus, Salvage};
use tokio::time::Instant;

use crate::backoff::Backoff;
use crate::drive::{StopSignal, final_events};
use crate::error::Error;

/// Time limit for retries while the coordinator is unreachable. After that the lease has expired and
/// the attempt ends.
const RETRY_TIME_MAX: Duration = Duration::from_secs(15 * 60);

/// The end of a run's time, which can be moved while the run is under way. Clones share it.
#[derive(Debug, Clone)]
pub struct Deadline(Arc<Mutex<Option<Instant>>>);

impl Deadline {
    fn new(end: Option<Instant>) -> Deadline {
        Deadline(Arc::new(Mutex::new(end)))
    }

    /// Returns the end; `None` without a limit.
    pub(crate) fn get(&self) -> Option<Instant> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves the end to a later time. An earlier one has no effect.
    pub fn extend(&self, end: Instant) {
        let mut current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *current = current.map(|current| current.max(end));
    }

    async fn reached(&self) {
        while let Some(end) = self.get() {
            if end <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(end).await;
        }
        std::future::pending().await
    }
}

/// One attempt at a run. It numbers its events and retries each append until the coordinator acknowledges it.
pub struct Attempt {
    api: Arc<dyn RunnerApi>,
    assignment: Arc<Assignment>,
    /// Requests the end of the run. The coordinator's answers trigger it too.
    pub(crate) stop: StopSignal,
    /// When the run's time is over.
    pub(crate) deadline: Deadline,
    /// The number of the last acknowledged append.
    acknowledged: AtomicI64,
    is_over: AtomicBool,
}

impl Attempt {
    /// Begins an attempt. The run's time limit counts from the first attempt if the coordinator tells how much of it is
    /// left, otherwise from now.
    pub fn new(api: Arc<dyn RunnerApi>, assignment: Arc<Assignment>, stop: StopSignal) -> Attempt {
        let limit = assignment.journal.start.blueprint.limits.timeout_seconds;
        let limit = limit.map(|seconds| Duration::from_secs(seconds.into()));
        let deadline = assignment.time_left().or(limit).map(|left| Instant::now() + left);
        Attempt {
            api,
            assignment,
            stop,
            deadline: Deadline::new(deadline),
            acknowledged: AtomicI64::new(0),
            is_over: AtomicBool::new(false),
        }
    }

    /// Returns the end of the run's time.
    pub fn deadline(&self) -> Deadline {
        self.deadline.clone()
    }

    /// Returns the assignment.
    pub fn assignment(&self) -> &Assignment {
        &self.assignment
    }

    /// Waits until the run is to end, and returns why.
    pub(crate) async fn interrupted(&self) -> Interruption {
        tokio::select! {
            biased;
            () = self.stop.requested() => Interruption::Stop,
            () = self.deadline.reached() => Interruption::Deadline,
        }
    }

    /// Returns why the run is to end, if it is.
    pub(crate) fn interruption(&self) -> Option<Interruption> {
        if self.stop.is_requested() {
            return Some(Interruption::Stop);
        }
        self.deadline.get().filter(|deadline| *deadline <= Instant::now()).map(|_| Interruption::Deadline)
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
        let reference = self.assignment.attempt();
        Ok(retry(RETRY_TIME_MAX, || self.api.park(&reference)).await?)
    }

    /// Ends a run that cannot be driven, with the event that says why.
    ///
    /// # Errors
    /// Returns an error when the journal cannot be replayed, or the coordinator rejects the events.
    pub(crate) async fn conclude(&self, reason: EventBody) -> Result<(), Error> {
        let mut state = State::from_journal(&self.assignment.journal.events)?;
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
                    return self.append(bodies, state.progress()).await;
                }
                _ => return Err(Error::NoNextAction),
            }
        }
    }

    /// Appends events, with retries, and reports how far the run has got.
    pub(crate) async fn append(&self, events: Vec<EventBody>, progress: RunProgress) -> Result<(), Error> {
        // Only this attempt numbers its appends, and a drive appends one batch after the other.
        let number = self.acknowledged.load(Ordering::SeqCst) + 1;
        let AttemptRef { run_id, token } = self.assignment.attempt();
        let mut request = AppendRequest { run_id, token, number, events, progress: Some(progress) };
        match self.send(&request).await {
            Err(error) if error.code == Code::InvalidResult => {
                tracing::error!(run_id = %request.run_id, %error, "coordinator rejected a result that the engine accepted");
                // The coordinator wrote nothing, so the number is still free.
                request.events = vec![rejected_end(&request.events, &error)];
                self.send(&request).await?;
                Err(Error::InvalidResult(error.message))
            }
            Err(error) if error.code == Code::PayloadTooLarge && is_final(&request.events) => {
                // The result of an incomplete orchestration matters more than the results it was made from.
                if let Some(events) = without_subtask_results(&request.events) {
                    request.events = events;
                    match self.send(&request).await {
                        Err(error) if error.code == Code::PayloadTooLarge => {}
                        answer => return Ok(answer?),
                    }
                }
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

    /// Starts or resumes a child run. The coordinator may refuse it, with a reason for the parent's model.
    pub(crate) async fn delegate(&self, child: &Child) -> Result<ChildAnswer, Error> {
        let (session_id, parameters) = match &child.task {
            ChildTask::Start { parameters } => (None, parameters.clone()),
            ChildTask::Resume { session_id, prompt } => (Some(session_id.clone()), json!({"prompt": prompt})),
        };
        let AttemptRef { run_id, token } = self.assignment.attempt();
        let request = ChildRequest {
            run_id,
            token,
            call_id: child.call_id.clone(),
            agent_name: child.agent_name.clone(),
            session_id,
            parameters,
            execution_mode: child.execution_mode,
            output_schema: child.output_schema.clone(),
            output_schema_name: child.output_schema_name.clone(),
        };
        Ok(retry(RETRY_TIME_MAX, || self.api.delegate(&request)).await?)
    }
}

/// Repeats a request until it succeeds, fails permanently, or `time_max` has elapsed.
pub(crate) async fn retry<'a, T>(
    time_max: Duration,
    request: impl Fn() -> Answer<'a, T>,
) -> Result<T, slipform_api::Error> {
    let (started, mut backoff) = (Instant::now(), Backoff::default());
    loop {
        let error = match request().await {
            Err(error) if error.code.is_passing() => error,
            answer => return answer,
        };
        let wait = backoff.wait();
        if started.elapsed() + wait > time_max {
            return Err(error);
        }
        tracing::debug!(%error, ?wait, "retrying request to the coordinator");
        tokio::time::sleep(wait).await;
    }
}

/// The reason why a run is to end before it has a result.
pub(crate) enum Interruption {
    Stop,
    Deadline,
}

impl Interruption {
    /// Returns the event for the interruption, with the text of the reply that was in progress.
    pub(crate) fn event(self, partial: Option<String>) -> EventBody {
        match self {
            Interruption::Stop => EventBody::StopRequested { partial },
            Interruption::Deadline => EventBody::DeadlineReached { partial },
        }
    }
}

fn is_final(events: &[EventBody]) -> bool {
    matches!(events.last(), Some(EventBody::RunCompleted { .. }))
}

/// Returns the final events of an incomplete result without the results of its subtasks, which the journal has too.
/// `None` for other ends.
fn without_subtask_results(events: &[EventBody]) -> Option<Vec<EventBody>> {
    let mut events = events.to_vec();
    let receipt = events.iter_mut().find_map(|body| match body {
        EventBody::Result { receipt, .. } => Some(receipt).filter(|receipt| receipt.is_incomplete()),
        _ => None,
    })?;
    receipt.subtasks.iter_mut().for_each(|subtask| subtask.result = None);
    Some(events)
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
        call_error: None,
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
            call_error: None,
            response: None,
        })),
        salvage: Some(Box::new(Salvage { best_candidate, errors, ..Salvage::default() })),
        receipt: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn deadline_that_was_moved_is_reached_at_its_new_time() {
        let start = Instant::now();
        let deadline = Deadline::new(Some(start + Duration::from_secs(1)));
        let waiting = tokio::spawn({
            let deadline = deadline.clone();
            async move {
                deadline.reached().await;
                Instant::now()
            }
        });
        deadline.extend(start + Duration::from_secs(3));
        // An earlier end has no effect.
        deadline.extend(start + Duration::from_secs(2));
        assert_eq!(waiting.await.ok().map(|end| end.duration_since(start)), Some(Duration::from_secs(3)));
    }

    #[tokio::test(start_paused = true)]
    async fn run_without_a_limit_gets_none() {
        let deadline = Deadline::new(None);
        deadline.extend(Instant::now());
        assert_eq!(deadline.get(), None);
        assert!(tokio::time::timeout(Duration::from_secs(1_000), deadline.reached()).await.is_err());
    }
}
