//! The runner API in process: registration, leases, appends and the ends of runs. `claim` and `delegate` have the other
//! operations.

use std::time::Duration;

use serde_json::{Value, json};
use slipform_api::{
    Answer, AppendRequest, Appended, AttemptRef, Beat, ChildAnswer, ChildRequest, ClaimRequest, Claims, Code,
    Error, Heartbeat, HeartbeatAnswer, JournalPage, JournalRequest, LeaveRequest, RegisterRequest,
    Registered, RunnerApi,
};
use slipform_schema::{Schema, universal};
use slipform_store::{Append, Fence, Registration, RunnerRecord};
use slipform_types::{Contract, EventBody, ResponseType, RunId, RunStatus, with_hex};

use super::authority::foreign_runner;
use super::run_start_cache::{RunStartParts, Start};
use super::submit::random;
use super::{App, errors, event_number, views};

/// Maximum number of events per append.
const EVENTS_MAX: usize = 1_000;

/// The detail of runners that claim only the runs of their own process.
pub(super) const OWN_RUNS_ONLY: &str = "own_runs_only";

/// Maximum size of a runner's id and of its name.
const RUNNER_TEXT_BYTES_MAX: usize = 200;

/// Maximum size of a runner's details.
const RUNNER_DETAILS_BYTES_MAX: usize = 16 << 10;

impl App {
    async fn register_runner(&self, request: &RegisterRequest) -> Result<Registered, Error> {
        check_registration(request)?;
        let runner_id = match request.runner_id.clone().filter(|id| !id.is_empty()) {
            Some(id) => id,
            None => with_hex("runner_", &random::<6>()?),
        };
        let mut details = match &request.details {
            Value::Null => json!({}),
            Value::Object(_) => request.details.clone(),
            _ => return Err(Error::new(Code::InvalidRequest, "`details` must be an object")),
        };
        if self.options().pinned_to.is_some() {
            details[OWN_RUNS_ONLY] = json!(true);
        }
        let runner = RunnerRecord {
            runner_id: runner_id.clone(),
            name: request.name.clone(),
            slots: i64::from(request.slots),
            details,
            created_by: self.authority.token_id().map(str::to_owned),
            registered_at: 0,
            seen_at: 0,
            working_on: 0,
        };
        match self.store().register(runner).await.map_err(errors::store)? {
            Registration::Done => {}
            Registration::Foreign => return Err(foreign_runner(&runner_id)),
            Registration::TooMany => {
                let message =
                    "too many runners are registered; those that are not seen for an hour are removed";
                return Err(Error::new(Code::RateLimited, message));
            }
        }
        let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let options = self.options();
        Ok(Registered { runner_id, lease_ms: millis(options.lease), heartbeat_ms: millis(options.heartbeat) })
    }

    async fn further_events(&self, request: &JournalRequest) -> Result<JournalPage, Error> {
        let fence = self.fence(&request.run_id, request.token);
        let page = self.store().events_of_attempt(fence, event_number(request.after)?).await;
        let page = page.map_err(errors::store)?.map_err(|_| stale(&request.run_id))?;
        let (events, next) = views::journal(&page)?;
        Ok(JournalPage { events, next })
    }

    async fn remove_runner(&self, request: &LeaveRequest) -> Result<(), Error> {
        self.authorize_runner(&request.runner_id).await?;
        self.store().remove_runner(&request.runner_id).await.map_err(errors::store)
    }

    async fn renew(&self, heartbeat: &Heartbeat) -> Result<HeartbeatAnswer, Error> {
        self.authorize_runner(&heartbeat.runner_id).await?;
        self.extend_after_outage().await?;
        let fences = heartbeat.attempts.iter().map(|attempt| self.attempt_fence(attempt)).collect();
        let beats = self.store().renew(&heartbeat.runner_id, fences, self.lease_ms()).await;
        let beats = beats.map_err(errors::store)?.into_iter().zip(&heartbeat.attempts);
        let beats = beats.map(|(beat, attempt)| Beat {
            run_id: beat.fence.run_id,
            token: attempt.token,
            stop: beat.is_stopping,
            stale: beat.is_stale,
        });
        Ok(HeartbeatAnswer { attempts: beats.collect() })
    }

    pub(crate) async fn append_events(&self, request: AppendRequest) -> Result<Appended, Error> {
        check_runner_events(&request.events)?;
        self.extend_after_outage().await?;
        let run_id = request.run_id.clone();
        let appended = self.store().append(self.append_of(request)?).await.map_err(errors::store)?;
        let appended = appended.map_err(|_| stale(&run_id))?;
        Ok(Appended { last_seq: appended.last_seq, stop: appended.is_stopping })
    }

    /// Ends a run, after checking its result against the stored contract once more.
    async fn finish_run(&self, request: &AppendRequest) -> Result<Appended, Error> {
        let Some(EventBody::RunCompleted { status, .. }) = request.events.last() else {
            return Err(Error::new(Code::InvalidRequest, "the last event of a run must be `run_completed`"));
        };
        let before = match request.events.as_slice() {
            [before @ .., EventBody::Result { .. }, _] | [before @ .., _] => before,
            [] => &[],
        };
        check_runner_events(before)?;
        let start = match self.inner.run_start_cache.get(&request.run_id) {
            Some(start) => start,
            None => self.read_start(&request.run_id).await?,
        };
        check_result(request, *status, &start)?;
        self.extend_after_outage().await?;
        let finished = self.store().finish(self.append_of(request.clone())?).await.map_err(errors::store)?;
        let finished = finished.map_err(|_| stale(&request.run_id))?;
        if !finished.is_repeated {
            tracing::info!(run_id = %request.run_id, status = status.name(), "run ended");
            self.metrics().finished(*status, &request.events);
            self.metrics().record_duration(start.at);
        }
        self.inner.run_start_cache.remove(&request.run_id);
        if finished.has_queued_run {
            // A parent, a queued run or a callback run.
            self.inner.work_signal.notify(1);
        }
        Ok(Appended { last_seq: finished.last_seq, stop: finished.is_stopping })
    }

    /// Reads the `run_start` data of a run from the store.
    async fn read_start(&self, run: &RunId) -> Result<Start, Error> {
        let start = self.store().run_start(run).await.map_err(errors::store)?;
        let start = start.ok_or_else(|| stale(run))?;
        let Ok(RunStartParts { blueprint, contract }) = serde_json::from_str(&start.body) else {
            return Err(Error::new(Code::Internal, format!("run {run} has no `run_start`")));
        };
        let schema = match contract {
            Some(contract) => Some(self.compiled(contract).await?),
            None => None,
        };
        Ok(Start { at: start.at, schema, response_type: blueprint.response_type })
    }

    /// Returns the compiled schema of a contract.
    pub(super) async fn compiled(&self, contract: Contract) -> Result<Schema, Error> {
        if let Some(schema) = self.inner.schemas.known(&contract.hash, &contract.schema) {
            return Ok(schema);
        }
        let app = self.clone();
        let schema = self.inner.runner_pool.run(move || app.inner.schemas.compile(&contract.schema)).await?;
        schema.map_err(|error| Error::new(Code::Internal, error.to_string()))
    }

    fn append_of(&self, request: AppendRequest) -> Result<Append, Error> {
        if request.events.is_empty() || request.events.len() > EVENTS_MAX {
            let message = format!("`events` must contain 1 to {EVENTS_MAX} events");
            return Err(Error::new(Code::InvalidRequest, message));
        }
        Ok(Append {
            fence: self.fence(&request.run_id, request.token),
            number: request.number,
            bodies: request.events,
            progress: request.progress,
            lease_ms: self.lease_ms(),
        })
    }

    async fn park_run(&self, attempt: &AttemptRef) -> Result<(), Error> {
        self.extend_after_outage().await?;
        let parked = self.store().park(self.attempt_fence(attempt)).await.map_err(errors::store)?;
        parked.map_err(|_| stale(&attempt.run_id))?;
        self.inner.work_signal.notify(1);
        Ok(())
    }

    async fn release_run(&self, attempt: &AttemptRef) -> Result<(), Error> {
        self.extend_after_outage().await?;
        let released = self.store().release(self.attempt_fence(attempt)).await.map_err(errors::store)?;
        released.map_err(|_| stale(&attempt.run_id))?;
        self.inner.work_signal.notify(1);
        Ok(())
    }

    fn attempt_fence(&self, attempt: &AttemptRef) -> Fence {
        self.fence(&attempt.run_id, attempt.token)
    }

    pub(super) fn lease_ms(&self) -> i64 {
        i64::try_from(self.options().lease.as_millis()).unwrap_or(i64::MAX)
    }
}

impl RunnerApi for App {
    fn register<'a>(&'a self, request: &'a RegisterRequest) -> Answer<'a, Registered> {
        Box::pin(self.register_runner(request))
    }

    fn claim<'a>(&'a self, request: &'a ClaimRequest) -> Answer<'a, Claims> {
        Box::pin(self.claim_unless(request, std::future::pending()))
    }

    fn heartbeat<'a>(&'a self, heartbeat: &'a Heartbeat) -> Answer<'a, HeartbeatAnswer> {
        Box::pin(self.renew(heartbeat))
    }

    fn append<'a>(&'a self, request: &'a AppendRequest) -> Answer<'a, Appended> {
        Box::pin(self.append_events(request.clone()))
    }

    fn finish<'a>(&'a self, request: &'a AppendRequest) -> Answer<'a, Appended> {
        Box::pin(self.finish_run(request))
    }

    fn park<'a>(&'a self, attempt: &'a AttemptRef) -> Answer<'a, ()> {
        Box::pin(self.park_run(attempt))
    }

    fn release<'a>(&'a self, attempt: &'a AttemptRef) -> Answer<'a, ()> {
        Box::pin(self.release_run(attempt))
    }

    fn delegate<'a>(&'a self, request: &'a ChildRequest) -> Answer<'a, ChildAnswer> {
        Box::pin(self.start_child(request))
    }

    fn journal<'a>(&'a self, request: &'a JournalRequest) -> Answer<'a, JournalPage> {
        Box::pin(self.further_events(request))
    }

    fn leave<'a>(&'a self, request: &'a LeaveRequest) -> Answer<'a, ()> {
        Box::pin(self.remove_runner(request))
    }
}

pub(super) fn stale(run: &RunId) -> Error {
    let message = format!(
        "stale attempt at run {run}: its lease has expired or another attempt has started; stop writing"
    );
    Error::new(Code::StaleAttempt, message)
}

/// Checks the size of what a runner says of itself. Lists of runners repeat it.
fn check_registration(request: &RegisterRequest) -> Result<(), Error> {
    let RegisterRequest { runner_id, name, details, .. } = request;
    let sizes = [
        ("runner_id", runner_id.as_ref().map_or(0, String::len), RUNNER_TEXT_BYTES_MAX),
        ("name", name.len(), RUNNER_TEXT_BYTES_MAX),
        ("details", details.to_string().len(), RUNNER_DETAILS_BYTES_MAX),
    ];
    match sizes.into_iter().find(|(_, size, limit)| size > limit) {
        Some((key, size, limit)) => {
            let message = format!("`{key}` has {size} bytes, more than the {limit} allowed; shorten it");
            Err(Error::new(Code::InvalidRequest, message))
        }
        None => Ok(()),
    }
}

/// Refuses a result that does not satisfy the stored contract, and a completed run without a result.
fn check_result(request: &AppendRequest, status: RunStatus, start: &Start) -> Result<(), Error> {
    let result = request.events.iter().rev().find_map(|body| match body {
        EventBody::Result { result_text, result_data, .. } => Some((result_text, result_data)),
        _ => None,
    });
    let refused = |message: String| Err(Error::new(Code::InvalidResult, message));
    let (text, data) = match (status, result) {
        (RunStatus::Completed, Some(result)) => result,
        (RunStatus::Completed, None) => return refused("a completed run must have a result".to_owned()),
        (RunStatus::Failed | RunStatus::Stopped, None) => return Ok(()),
        (RunStatus::Failed | RunStatus::Stopped, Some(_)) => {
            return refused("a failed or stopped run must not have a result".to_owned());
        }
        _ => return refused(format!("a run cannot end with status `{}`", status.name())),
    };
    match (&start.schema, data, text) {
        (Some(schema), Some(data), None) => satisfies(schema, start.response_type, data),
        // Over HTTP a result that is null looks like an absent one.
        (Some(schema), None, None) => satisfies(schema, start.response_type, &Value::Null),
        (Some(_), _, _) => {
            refused("a run with a contract must have `result_data` and no `result_text`".to_owned())
        }
        (None, Some(_), Some(_)) | (None, None, None) => {
            refused("a run must have either `result_text` or `result_data`".to_owned())
        }
        (None, _, _) => Ok(()),
    }
}

fn satisfies(schema: &Schema, response_type: Option<ResponseType>, data: &Value) -> Result<(), Error> {
    let violations = if schema.is_valid(data) {
        universal::extra_rules(schema, data, response_type.map(ResponseType::name))
    } else {
        schema.violations(data)
    };
    if violations.is_empty() {
        return Ok(());
    }
    let errors = violations.lines();
    let message = format!("the result does not satisfy its contract: {}", errors.join("; "));
    Err(Error::new(Code::InvalidResult, message).with(json!({"validation_errors": errors})))
}

/// Refuses events that only the coordinator may write, or that belong to the end of a run. Misplaced ones
/// would make the journal unreadable.
fn check_runner_events(events: &[EventBody]) -> Result<(), Error> {
    let Some((name, reason)) = events.iter().find_map(reserved_event) else { return Ok(()) };
    Err(Error::new(Code::InvalidRequest, format!("event `{name}` is not allowed here: {reason}")))
}

fn reserved_event(body: &EventBody) -> Option<(&'static str, &'static str)> {
    let by_coordinator = "only the coordinator writes it";
    match body {
        EventBody::RunStart { .. } => Some(("run_start", by_coordinator)),
        EventBody::ChildCompleted(_) => Some(("child_completed", by_coordinator)),
        EventBody::LeaseExpired { .. } => Some(("lease_expired", by_coordinator)),
        EventBody::Result { .. } => Some(("result", "send it with finish, directly before `run_completed`")),
        EventBody::RunCompleted { .. } => Some(("run_completed", "send it with finish, as the last event")),
        _ => None,
    }
}
