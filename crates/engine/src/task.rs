//! The task of a run: its agent, contract and input.

use std::sync::Arc;

use serde_json::Value;
use slipform_types::{Blueprint, Contract, Limits, RunOverrides};

use crate::contract::CompiledContract;
use crate::error::Error;

/// The agent, contract and input of the run.
#[derive(Debug, Clone)]
pub(crate) struct Task {
    pub(crate) blueprint: Arc<Blueprint>,
    pub(crate) contract: Option<CompiledContract>,
    pub(crate) parameters: Value,
    pub(crate) input: String,
    /// The settings that the caller chose for this run.
    pub(crate) overrides: RunOverrides,
    /// A narrower schema for grammars, if one exists that is stricter than the schema of the
    /// contract.
    pub(crate) under_grammar: Option<Value>,
}

impl Task {
    /// Creates the task of a `run_start` event.
    pub(crate) fn new(
        blueprint: &Arc<Blueprint>,
        contract: Option<&Arc<Contract>>,
        parameters: &Value,
        input: &str,
        overrides: &RunOverrides,
    ) -> Result<Task, Error> {
        let own = blueprint.response_type;
        let contract = contract.map(|contract| CompiledContract::compile(contract, own)).transpose()?;
        let (blueprint, parameters, input) = (blueprint.clone(), parameters.clone(), input.to_owned());
        let overrides = overrides.clone();
        Ok(Task { blueprint, contract, parameters, input, overrides, under_grammar: None })
    }

    /// Returns the limits of the run: those of its agent, unless the caller chose others.
    pub(crate) fn limits(&self) -> Limits {
        self.overrides.limits(&self.blueprint.limits)
    }
}
