//! The task of a run: its agent, contract and input.

use std::sync::Arc;

use serde_json::Value;
use slipform_types::{Blueprint, Contract, Conversation, Limits, RunOverrides, Tool};

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
    /// The conversation of a caller that keeps it and executes its tools.
    pub(crate) conversation: Option<Arc<Conversation>>,
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
        conversation: Option<&Arc<Conversation>>,
    ) -> Result<Task, Error> {
        let own = blueprint.response_type;
        let forced = conversation.and_then(|conversation| Some((conversation.forced_tool()?, conversation)));
        let contract = match forced {
            // The arguments of the call are the result.
            Some((tool, conversation)) => Some(CompiledContract::forced_call(tool, conversation)?),
            // The run cannot end with an answer.
            None if conversation.is_some_and(|conversation| conversation.must_call()) => None,
            None => contract.map(|contract| CompiledContract::compile(contract, own)).transpose()?,
        };
        let (blueprint, parameters, input) = (blueprint.clone(), parameters.clone(), input.to_owned());
        let (overrides, conversation) = (overrides.clone(), conversation.cloned());
        Ok(Task { blueprint, contract, parameters, input, overrides, conversation, under_grammar: None })
    }

    /// Returns the name of the client's tool that the model has to call.
    pub(crate) fn forced_tool(&self) -> Option<&str> {
        Some(&self.conversation.as_ref()?.forced_tool()?.name)
    }

    /// Returns the client's tools that the model may choose from.
    pub(crate) fn offered_tools(&self) -> &[Tool] {
        self.conversation.as_ref().map_or(&[], |conversation| conversation.offered_tools())
    }

    /// Returns the limits of the run: those of its agent, unless the caller chose others.
    pub(crate) fn limits(&self) -> Limits {
        self.overrides.limits(&self.blueprint.limits)
    }
}
