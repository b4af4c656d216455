//! The task of a run: its agent, contract and input.

use std::sync::Arc;

use serde_json::Value;
use slipform_types::{Blueprint, Contract};

use crate::contract::CompiledContract;
use crate::error::Error;

/// The agent, contract and input of the run.
#[derive(Debug, Clone)]
pub(crate) struct Task {
    pub(crate) blueprint: Arc<Blueprint>,
    pub(crate) contract: Option<CompiledContract>,
    pub(crate) parameters: Value,
    pub(crate) input: String,
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
    ) -> Result<Task, Error> {
        let own = blueprint.response_type;
        let contract = contract.map(|contract| CompiledContract::compile(contract, own)).transpose()?;
        let (blueprint, parameters, input) = (blueprint.clone(), parameters.clone(), input.to_owned());
        Ok(Task { blueprint, contract, parameters, input, under_grammar: None })
    }
}
