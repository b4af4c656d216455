//! Builds the run that the benchmarks perform.

use std::sync::Arc;

use anyhow::Result;
use serde_json::json;
use slipform_agents::contract::{ContractRequest, EnvironmentDefaults, resolve};
use slipform_runner::{LadderRung, RunContext};
use slipform_types::{Blueprint, OptionsPatch, RunId, SessionId};

/// Builds a run of an agent on one backend.
pub fn context(
    blueprint: Blueprint,
    options: OptionsPatch,
    input: &str,
    rung: LadderRung,
) -> Result<RunContext> {
    let request = ContractRequest { options, ..ContractRequest::default() };
    let contract = resolve(&blueprint, &request, &EnvironmentDefaults::default())?;
    let (session_id, run_id) = (SessionId::from_random([1; 6]), RunId::from_random([2; 6]));
    Ok(RunContext {
        contract: contract.map(Arc::new),
        parameters: json!({"prompt": input}),
        input: input.to_owned(),
        ladder: vec![rung],
        ..RunContext::new(session_id, run_id, Arc::new(blueprint))
    })
}
