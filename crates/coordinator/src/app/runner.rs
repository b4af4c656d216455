//! The runners' api.

use std::pin::pin;
use std::time::Duration;

use serde_json::{Value, json};
use slipform_api::{
    Answer, AppendRequest, Appended, Assignment, AttemptRef, Beat, ChildAnswer, ChildRequest, ClaimRequest,
    Claims, Code, Error, Heartbeat, HeartbeatAnswer, RegisterRequest, Registered, RunnerApi,
};
use slipform_schema::{Schema, universal};
use slipform_store::{Append, Claimed, Fence, Parent, ParentCall, Refusal, RunnerRecord};
use slipform_types::{Contract, EventBody, ResponseType, RunId, RunStatus, WRITING_TOOLS, with_hex};
use tokio::time::Instant;

use super::run_start_cache::{Beginning, Start};
use super::submit::{ContractInput, Draft, FAMILY, random};
use super::{App, errors, views};

/// The longest that a claim waits.
const CLAIM_WAIT_MAX: Duration = Duration::from_secs(10);

/// The most runs that are given at once.
const CLAIM_SLOTS_MAX: u32 = 64;

/// How often the queue is looked at though nobody said that there is something in it: others put things there too.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How often runners get what is kept for others that are gone: rare, and dearer than a claim.
const ADOPT_EVERY: Duration = Duration::from_secs(1);

/// The most events in one message.
const EVENTS_MAX: usize = 1_000;

impl App {
    async fn register_runner(&self, request: &RegisterRequest) -> Result<Registered, Error> {
        let runner_id = match request.runner_id.clone().filter(|id| !id.is_empty()) {
            Some(id) => id,
            None => with_hex("runner_", &random()?),
        };
        let details = match &request.details {
            Value::Null => json!({}),
            Value::Object(_) => request.details.clone(),
            _ => return Err(Error::new(Code::InvalidRequest, "details must be an object")),
        };
        let runner = RunnerRecord {
            runner_id: runner_id.clone(),
            name: request.name.clone(),
            slots: i64::from(request.slots),
            details,
            registered_at: 0,
            seen_at: 0,
            working_on: 0,
        };
        self.store().register(runner).await.map_err(errors::store)?;
        let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let options = self.options();
        Ok(Registered { runner_id, lease_ms: millis(options.lease), heartbeat_ms: millis(options.heartbeat) })
    }

    /// Asks for work until there is some, the time is up, or the asker gives up. It gives up between two questions and
    /// never within one: what the store has given away is always handed on.
    ///
    /// # Errors
    /// When the store does not answer.
    pub(crate) async fn claim_unless(
        &self,
        request: &ClaimRequest,
        given_up: impl Future<Output = ()>,
    ) -> Result<Claims, Error> {
        let mut given_up = pin!(given_up);
        let until = Instant::now() + Duration::from_millis(request.wait_ms).min(CLAIM_WAIT_MAX);
        let asked = slipform_store::ClaimRequest {
            runner_id: request.runner_id.clone(),
            slots: request.slots.clamp(1, CLAIM_SLOTS_MAX) as usize,
            lease_ms: self.lease_ms(),
            only_pinned: self.options().pinned_to.is_some(),
        };
        let mut may_claim = true;
        loop {
            let told = self.inner.work.notified();
            let mut claimed = match may_claim {
                true => self.look(&asked).await?,
                false => Vec::new(),
            };
            if claimed.is_empty() && !asked.only_pinned && self.inner.adopted.is_time(ADOPT_EVERY) {
                // Runs of commands that were killed, with all that worked for them.
                let adopted = self.store().adopt(asked.clone(), self.lease_ms()).await;
                claimed = adopted.map_err(errors::store)?;
            }
            if !claimed.is_empty() {
                return self.hand_out(claimed).await;
            }
            let now = Instant::now();
            if now >= until {
                return Ok(Claims { claims: Vec::new() });
            }
            tokio::select! {
                told = tokio::time::timeout_at(until.min(now + LOOK_EVERY), told) => {
                    may_claim = told.is_ok() || self.inner.work.may_look(LOOK_EVERY);
                }
                () = &mut given_up => return Ok(Claims { claims: Vec::new() }),
            }
        }
    }

    async fn look(&self, asked: &slipform_store::ClaimRequest) -> Result<Vec<Claimed>, Error> {
        let expected = self.inner.work.expected();
        let claimed = self.store().claim(asked.clone()).await.map_err(errors::store);
        self.inner.work.observed(expected, claimed.as_ref().map_or(0, Vec::len));
        claimed
    }

    /// What was claimed, with everything that is needed. Where that cannot be had, the runs go back at once.
    async fn hand_out(&self, claimed: Vec<Claimed>) -> Result<Claims, Error> {
        let fences: Vec<Fence> = claimed.iter().map(|run| run.fence.clone()).collect();
        let mut claims = Vec::with_capacity(claimed.len());
        for run in claimed {
            match self.work(run).await {
                Ok(work) => claims.push(work),
                Err(error) => {
                    for fence in fences {
                        // Where the store does not answer, the lease expires.
                        let _ = self.store().release(fence).await;
                    }
                    return Err(error);
                }
            }
        }
        Ok(Claims { claims })
    }

    async fn work(&self, run: Claimed) -> Result<Assignment, Error> {
        let start = run.journal.iter().rfind(|event| {
            event.run_id == run.fence.run_id && event.body.starts_with("{\"event_type\":\"run_start\"")
        });
        let mut commands = Vec::new();
        let agents = match start.map(|event| (event.at, serde_json::from_str::<Beginning>(&event.body))) {
            Some((at, Ok(Beginning { blueprint, contract }))) => {
                if let Ok(schema) = contract.map(|contract| self.compiled(&contract)).transpose() {
                    let own = blueprint.response_type;
                    self.inner.run_start_cache.remember(run.fence.run_id.clone(), Start { at, schema, own });
                }
                if blueprint.tools.iter().any(|tool| WRITING_TOOLS.contains(&tool.as_str())) {
                    commands = self.commands().await?;
                }
                self.cards(&blueprint).await?
            }
            _ => Vec::new(),
        };
        Ok(Assignment {
            run_id: run.fence.run_id,
            token: run.fence.token,
            session_id: run.session_id,
            project_dir: run.project_dir,
            agents,
            commands,
            time_left_ms: run.time_left_ms,
            stop: run.is_stopping,
            journal: run.journal.iter().map(views::raw).collect::<Result<_, _>>()?,
        })
    }

    async fn renew(&self, heartbeat: &Heartbeat) -> Result<HeartbeatAnswer, Error> {
        self.extend_after_outage().await?;
        let fences = heartbeat.attempts.iter().map(fence).collect();
        let beats = self.store().renew(&heartbeat.runner_id, fences, self.lease_ms()).await;
        let beats = beats.map_err(errors::store)?.into_iter().map(|beat| Beat {
            run_id: beat.fence.run_id,
            token: beat.fence.token,
            stop: beat.is_stopping,
            stale: beat.is_stale,
        });
        Ok(HeartbeatAnswer { attempts: beats.collect() })
    }

    pub(crate) async fn append_events(&self, request: AppendRequest) -> Result<Appended, Error> {
        check_told(&request.events)?;
        self.extend_after_outage().await?;
        let run_id = request.run_id.clone();
        let appended = self.store().append(self.write(request)?).await.map_err(errors::store)?;
        let appended = appended.map_err(|_| stale(&run_id))?;
        Ok(Appended { last_seq: appended.last_seq, stop: appended.is_stopping })
    }

    async fn finish_run(&self, request: &AppendRequest) -> Result<Appended, Error> {
        let Some(EventBody::RunCompleted { status, .. }) = request.events.last() else {
            return Err(Error::new(Code::InvalidRequest, "the last event of a run is run_completed"));
        };
        let before = match request.events.as_slice() {
            [before @ .., EventBody::Result { .. }, _] | [before @ .., _] => before,
            [] => &[],
        };
        check_told(before)?;
        let start = match self.inner.run_start_cache.get(&request.run_id) {
            Some(start) => start,
            None => self.start_of(&request.run_id).await?,
        };
        check_result(request, *status, &start)?;
        self.extend_after_outage().await?;
        let finished = self.store().finish(self.write(request.clone())?).await.map_err(errors::store)?;
        let finished = finished.map_err(|_| stale(&request.run_id))?;
        if !finished.is_repeated {
            self.metrics().finished(*status, &request.events);
            self.metrics().lasted(start.at);
        }
        self.inner.run_start_cache.forget(&request.run_id);
        if finished.has_queued_run {
            // A parent, a queued run or a callback.
            self.inner.work.notify(1);
        }
        Ok(Appended { last_seq: finished.last_seq, stop: finished.is_stopping })
    }

    /// What a run began with, as the store has it.
    async fn start_of(&self, run: &RunId) -> Result<Start, Error> {
        let start = self.store().run_start(run).await.map_err(errors::store)?;
        let start = start.ok_or_else(|| stale(run))?;
        let Ok(Beginning { blueprint, contract }) = serde_json::from_str(&start.body) else {
            return Err(Error::new(Code::Internal, format!("the run {run} has no beginning")));
        };
        let schema = contract.map(|contract| self.compiled(&contract)).transpose()?;
        Ok(Start { at: start.at, schema, own: blueprint.response_type })
    }

    fn compiled(&self, contract: &Contract) -> Result<Schema, Error> {
        let schema = self.inner.schemas.compile_known(&contract.hash, &contract.schema);
        schema.map_err(|error| Error::new(Code::Internal, error.to_string()))
    }

    async fn park_run(&self, attempt: &AttemptRef) -> Result<(), Error> {
        self.extend_after_outage().await?;
        let parked = self.store().park(fence(attempt)).await.map_err(errors::store)?;
        parked.map_err(|_| stale(&attempt.run_id))?;
        self.inner.work.notify(1);
        Ok(())
    }

    async fn release_run(&self, attempt: &AttemptRef) -> Result<(), Error> {
        self.extend_after_outage().await?;
        let released = self.store().release(fence(attempt)).await.map_err(errors::store)?;
        released.map_err(|_| stale(&attempt.run_id))?;
        self.inner.work.notify(1);
        Ok(())
    }

    async fn start_child(&self, request: &ChildRequest) -> Result<ChildAnswer, Error> {
        self.extend_after_outage().await?;
        let fence = Fence { run_id: request.run_id.clone(), token: request.token };
        let call = ParentCall { fence, call_id: request.call_id.clone() };
        let earlier = self.store().child_by_call(call.clone()).await.map_err(errors::store)?;
        if let Some(child) = earlier.map_err(|_| stale(&request.run_id))? {
            return Ok(ChildAnswer::Accepted { session_id: child.session_id, run_id: child.run_id });
        }
        let parent = self.store().run(&request.run_id).await.map_err(errors::store)?;
        let parent = parent.ok_or_else(|| stale(&request.run_id))?;
        let session = self.session(&parent.session_id).await?;
        let wanted = ContractInput {
            schema: request.output_schema.clone(),
            schema_name: request.output_schema_name.clone(),
            options: slipform_types::OptionsPatch::default(),
        };
        let draft = match &request.session_id {
            Some(session) => self.resume(session.clone(), request.parameters.clone(), &wanted, false).await,
            None => match self.blueprint(&request.agent_name).await {
                Ok(blueprint) => {
                    self.start(blueprint, request.parameters.clone(), &wanted, session.project_dir).await
                }
                Err(error) => Err(error),
            },
        };
        let draft = match draft {
            Ok(draft) => draft,
            Err(error) if error.code.status() >= 500 || error.code.is_passing() => return Err(error),
            // What the model asked for cannot be had: it is told why.
            Err(error) => return Ok(ChildAnswer::Refused { reason: error.message }),
        };
        let parent = Some(Parent { session_id: parent.session_id, call: Some(call), limits: FAMILY });
        let entered = self.enter(Draft { mode: request.execution_mode, parent, ..draft }).await?;
        match entered {
            Ok(child) => Ok(ChildAnswer::Accepted { session_id: child.session_id, run_id: child.run_id }),
            Err(Refusal::Stale) => Err(stale(&request.run_id)),
            Err(refusal) => Ok(ChildAnswer::Refused { reason: in_words(refusal) }),
        }
    }

    fn write(&self, request: AppendRequest) -> Result<Append, Error> {
        if request.events.is_empty() || request.events.len() > EVENTS_MAX {
            let message = format!("a message has 1 to {EVENTS_MAX} events");
            return Err(Error::new(Code::InvalidRequest, message));
        }
        Ok(Append {
            fence: Fence { run_id: request.run_id, token: request.token },
            number: request.number,
            bodies: request.events,
            lease_ms: self.lease_ms(),
        })
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
}

/// The lock on the door: no result is stored for a contract that it does not satisfy, and there is no success without a
/// result.
fn check_result(request: &AppendRequest, status: RunStatus, start: &Start) -> Result<(), Error> {
    let result = request.events.iter().rev().find_map(|body| match body {
        EventBody::Result { result_text, result_data, .. } => Some((result_text, result_data)),
        _ => None,
    });
    let refused = |message: String| Err(Error::new(Code::InvalidResult, message));
    let (text, data) = match (status, result) {
        (RunStatus::Completed, Some(result)) => result,
        (RunStatus::Completed, None) => return refused("a completed run has a result".to_owned()),
        (RunStatus::Failed | RunStatus::Stopped, None) => return Ok(()),
        (RunStatus::Failed | RunStatus::Stopped, Some(_)) => {
            return refused("a run that was not completed has no result".to_owned());
        }
        _ => return refused(format!("a run does not end as '{}'", status.name())),
    };
    match (&start.schema, data, text) {
        (Some(schema), Some(data), None) => satisfies(schema, start.own, data),
        (Some(_), _, _) => refused("a run with a contract gives result_data, and no result_text".to_owned()),
        (None, Some(_), Some(_)) | (None, None, None) => {
            refused("a run gives result_text or result_data, and not both".to_owned())
        }
        (None, _, _) => Ok(()),
    }
}

fn satisfies(schema: &Schema, own: Option<ResponseType>, data: &Value) -> Result<(), Error> {
    let violations = match schema.is_valid(data) {
        true => universal::extra_rules(schema, data, own.map(ResponseType::name)),
        false => schema.violations(data),
    };
    if violations.is_empty() {
        return Ok(());
    }
    let errors = violations.lines();
    let message = format!("the result does not satisfy its contract: {}", errors.join("; "));
    Err(Error::new(Code::InvalidResult, message).with(json!({"validation_errors": errors})))
}

/// Whether these events are a runner's to tell, before the end of its run. Others are the coordinator's: a journal that
/// has them where they do not belong cannot be read any more.
fn check_told(events: &[EventBody]) -> Result<(), Error> {
    let Some((name, why)) = events.iter().find_map(reserved) else { return Ok(()) };
    Err(Error::new(Code::InvalidRequest, format!("{name} cannot be sent here: {why}")))
}

fn reserved(body: &EventBody) -> Option<(&'static str, &'static str)> {
    let of_coordinator = "the coordinator writes it";
    match body {
        EventBody::RunStart { .. } => Some(("run_start", of_coordinator)),
        EventBody::ChildCompleted(_) => Some(("child_completed", of_coordinator)),
        EventBody::LeaseExpired { .. } => Some(("lease_expired", of_coordinator)),
        EventBody::Result { .. } => Some(("result", "finish takes one, right before run_completed")),
        EventBody::RunCompleted { .. } => Some(("run_completed", "finish takes one, as the last event")),
        _ => None,
    }
}

fn fence(attempt: &AttemptRef) -> Fence {
    Fence { run_id: attempt.run_id.clone(), token: attempt.token }
}

fn stale(run: &RunId) -> Error {
    let message =
        format!("this attempt at {run} is not its latest, or its lease has expired: write nothing more");
    Error::new(Code::StaleAttempt, message)
}

/// Why there is no child, in words that a model can do something with.
fn in_words(refusal: Refusal) -> String {
    match refusal {
        Refusal::Delegation(reason) => reason,
        Refusal::SessionNotFound(session) => format!("there is no session {session} of this agent"),
        Refusal::SessionBusy { session_id, .. } => {
            format!("the session {session_id} is still busy; wait for its result first")
        }
        Refusal::IdempotencyConflict | Refusal::Stale => "it was asked for before".to_owned(),
    }
}
