//! The run that the benchmarks perform.

use std::sync::Arc;

use anyhow::Result;
use serde_json::json;
use slipform_agents::contract::{ContractRequest, EnvironmentDefaults, resolve};
use slipform_api::RunStart;
use slipform_runner::{
    Attempt, LadderRung, MemoryJournal, Resources, RunContext, StopSignal, SystemClock, drive_to_end,
};
use slipform_types::{Blueprint, OptionsPatch, Outcome, RunId, RunOverrides, RunType, SessionId};

/// A run of an agent on one backend, which can be performed repeatedly.
pub struct BenchRun {
    start: RunStart,
    rung: LadderRung,
}

impl BenchRun {
    /// Resolves the contract of a run.
    ///
    /// # Errors
    /// Returns an error if the contract is refused.
    pub fn new(
        blueprint: Blueprint,
        options: OptionsPatch,
        input: &str,
        rung: LadderRung,
    ) -> Result<BenchRun> {
        let request = ContractRequest { options, ..ContractRequest::default() };
        let contract = resolve(&blueprint, &request, &EnvironmentDefaults::default())?;
        let start = RunStart {
            run_type: RunType::StartSession,
            blueprint: Arc::new(blueprint),
            contract: contract.map(Arc::new),
            parameters: json!({"prompt": input}),
            input: input.to_owned(),
            overrides: RunOverrides::default(),
            conversation: None,
        };
        Ok(BenchRun { start, rung })
    }

    /// Performs the run in memory and returns its outcome and its events.
    ///
    /// # Errors
    /// Returns an error if the run cannot be driven to its end.
    pub async fn perform(&self) -> Result<(Outcome, MemoryJournal)> {
        let journal = MemoryJournal::new(Arc::new(SystemClock));
        let (session, run) = (SessionId::from_random([1; 6]), RunId::from_random([2; 6]));
        journal.submit(&session, &run, self.start.clone());
        let assignment = Arc::new(journal.assignment(&session, &run)?);
        let resources =
            Resources { ladder: vec![self.rung.clone()], ..Resources::new(self.start.blueprint.clone()) };
        let attempt = Attempt::new(Arc::new(journal.clone()), assignment.clone(), StopSignal::default());
        let outcome = drive_to_end(&RunContext { assignment, resources }, &attempt, &()).await?;
        Ok((outcome, journal))
    }
}
