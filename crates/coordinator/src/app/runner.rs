//! The runner API in process: registration and leases. `claim`, `finish` and `delegate` have the other operations.

use std::time::Duration;

use serde_json::{Value, json};
use slipform_api::{
    Answer, AppendRequest, Appended, AttemptRef, Beat, ChildAnswer, ChildRequest, ClaimRequest, Claims, Code,
    Error, Heartbeat, HeartbeatAnswer, RegisterRequest, Registered, RunnerApi,
};
use slipform_store::{Fence, RunnerRecord};
use slipform_types::{RunId, with_hex};

use super::submit::random;
use super::{App, errors};

impl App {
    async fn register_runner(&self, request: &RegisterRequest) -> Result<Registered, Error> {
        let runner_id = match request.runner_id.clone().filter(|id| !id.is_empty()) {
            Some(id) => id,
            None => with_hex("runner_", &random()?),
        };
        let details = match &request.details {
            Value::Null => json!({}),
            Value::Object(_) => request.details.clone(),
            _ => return Err(Error::new(Code::InvalidRequest, "`details` must be an object")),
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

    async fn park_run(&self, attempt: &AttemptRef) -> Result<(), Error> {
        self.extend_after_outage().await?;
        let parked = self.store().park(fence(attempt)).await.map_err(errors::store)?;
        parked.map_err(|_| stale(&attempt.run_id))?;
        self.inner.work_signal.notify(1);
        Ok(())
    }

    async fn release_run(&self, attempt: &AttemptRef) -> Result<(), Error> {
        self.extend_after_outage().await?;
        let released = self.store().release(fence(attempt)).await.map_err(errors::store)?;
        released.map_err(|_| stale(&attempt.run_id))?;
        self.inner.work_signal.notify(1);
        Ok(())
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

fn fence(attempt: &AttemptRef) -> Fence {
    Fence { run_id: attempt.run_id.clone(), token: attempt.token }
}

pub(super) fn stale(run: &RunId) -> Error {
    let message = format!(
        "stale attempt at run {run}: its lease has expired or another attempt has started; stop writing"
    );
    Error::new(Code::StaleAttempt, message)
}
