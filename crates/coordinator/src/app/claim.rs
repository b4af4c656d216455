//! Hands out runs to runners.

use std::pin::pin;
use std::time::Duration;

use slipform_api::{ClaimRequest, Claims, EncodedAssignment, Error};
use slipform_store::{Claimed, Fence, StoredEvent};
use slipform_types::{EventKind, WRITING_TOOLS};
use tokio::time::Instant;

use super::fencing::random_token;
use super::run_start_cache::{RunStartParts, Start};
use super::{App, errors, views};

/// Maximum time that a claim waits.
const CLAIM_WAIT_MAX: Duration = Duration::from_secs(10);

/// Maximum number of runs per claim.
const CLAIM_SLOTS_MAX: u32 = 64;

/// Polling interval for runs that other processes have queued.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Interval between searches for runs of dead runners. They are rare, and the query costs more than a claim.
const ADOPTION_INTERVAL: Duration = Duration::from_secs(1);

impl App {
    /// Claims runs, and waits for them until the time limit or until `given_up` completes. Cancellation takes
    /// effect only between two claims, so a claimed run is always returned.
    ///
    /// # Errors
    /// Fails if the store is unavailable.
    pub(crate) async fn claim_unless(
        &self,
        request: &ClaimRequest,
        given_up: impl Future<Output = ()>,
    ) -> Result<Claims, Error> {
        self.authorize_runner(&request.runner_id).await?;
        let mut given_up = pin!(given_up);
        let token = random_token()?;
        let until = Instant::now() + Duration::from_millis(request.wait_ms).min(CLAIM_WAIT_MAX);
        let claim = slipform_store::ClaimRequest {
            runner_id: request.runner_id.clone(),
            slots: request.slots.clamp(1, CLAIM_SLOTS_MAX) as usize,
            lease_ms: self.lease_ms(),
            only_pinned: self.options().pinned_to.is_some(),
            token: self.stored_token(token),
        };
        let mut may_claim = true;
        loop {
            let notified = self.inner.work_signal.notified();
            let mut claimed = if may_claim { self.check_queue(&claim).await? } else { Vec::new() };
            if claimed.is_empty() && !claim.only_pinned && self.inner.adoption.is_due(ADOPTION_INTERVAL) {
                // Runs pinned to processes that were killed, with their children.
                let adopted = self.store().adopt(claim.clone(), self.lease_ms()).await;
                claimed = adopted.map_err(errors::store)?;
            }
            if !claimed.is_empty() {
                return self.assign(claimed, token).await;
            }
            let now = Instant::now();
            if now >= until {
                return Ok(Claims { claims: Vec::new() });
            }
            tokio::select! {
                notified = tokio::time::timeout_at(until.min(now + POLL_INTERVAL), notified) => {
                    may_claim = notified.is_ok() || self.inner.work_signal.may_poll(POLL_INTERVAL);
                }
                () = &mut given_up => return Ok(Claims { claims: Vec::new() }),
            }
        }
    }

    async fn check_queue(&self, claim: &slipform_store::ClaimRequest) -> Result<Vec<Claimed>, Error> {
        let expected = self.inner.work_signal.expected();
        let claimed = self.store().claim(claim.clone()).await.map_err(errors::store);
        self.inner.work_signal.observed(expected, claimed.as_ref().map_or(0, Vec::len));
        claimed
    }

    /// Builds the assignments of claimed runs. If one fails, all claimed runs return to the queue.
    async fn assign(&self, claimed: Vec<Claimed>, token: i64) -> Result<Claims, Error> {
        let fences: Vec<Fence> = claimed.iter().map(|run| run.fence.clone()).collect();
        let mut claims = Vec::with_capacity(claimed.len());
        for run in claimed {
            match self.assignment(run, token).await {
                Ok(assignment) => claims.push(assignment),
                Err(error) => {
                    for fence in fences {
                        // If the store is unavailable, the lease expires instead.
                        let _ = self.store().release(fence).await;
                    }
                    return Err(error);
                }
            }
        }
        Ok(Claims { claims })
    }

    async fn assignment(&self, run: Claimed, token: i64) -> Result<EncodedAssignment, Error> {
        let is_start = |event: &&StoredEvent| event.kind == EventKind::RunStart;
        let events = &run.journal.events;
        let mut start =
            events.iter().filter(is_start).rfind(|event| event.run_id == run.fence.run_id).cloned();
        if start.is_none() && run.journal.has_more {
            start = self.store().run_start(&run.fence.run_id).await.map_err(errors::store)?;
        }
        let mut commands = Vec::new();
        let agents = match start.map(|event| (event.at, serde_json::from_str::<RunStartParts>(&event.body))) {
            Some((at, Ok(RunStartParts { blueprint, contract }))) => {
                let schema = match contract {
                    Some(contract) => self.compiled(contract).await.map(Some),
                    None => Ok(None),
                };
                if let Ok(schema) = schema {
                    let response_type = blueprint.response_type;
                    self.inner
                        .run_start_cache
                        .insert(run.fence.run_id.clone(), Start { at, schema, response_type });
                }
                if blueprint.tools.iter().any(|tool| WRITING_TOOLS.contains(&tool.as_str())) {
                    commands = self.commands().await?;
                }
                self.cards(&blueprint).await?
            }
            _ => Vec::new(),
        };
        let (journal, journal_next) = views::journal(&run.journal)?;
        Ok(EncodedAssignment {
            run_id: run.fence.run_id,
            token,
            session_id: run.session_id,
            project_dir: run.project_dir,
            agents,
            commands,
            time_left_ms: run.time_left_ms,
            stop: run.is_stopping,
            journal,
            journal_next,
        })
    }
}
