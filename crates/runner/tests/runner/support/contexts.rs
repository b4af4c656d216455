//! Run contexts for tests: an agent, and the servers that answer it.

use std::sync::Arc;

use serde_json::{Value, json};
use slipform_agents::contract::{ContractRequest, EnvironmentDefaults, resolve};
use slipform_model::{BackendConfig, connect};
use slipform_runner::{Clock, LadderRung, MemoryJournal, RunContext};
use slipform_testkit::ScriptedServer;
use slipform_types::{
    BackendKind, Blueprint, Capabilities, OptionsPatch, RunId, SessionId, StructuredOutput, TierBackend,
};

/// A clock that always returns the same time.
struct FixedClock;

impl Clock for FixedClock {
    fn now(&self) -> String {
        "2026-01-01T00:00:00.000Z".to_owned()
    }
}

pub(crate) fn clock() -> Arc<dyn Clock> {
    Arc::new(FixedClock)
}

pub(crate) fn journal() -> MemoryJournal {
    MemoryJournal::new(clock())
}

/// Returns the context of a run of this agent, with these options of its contract.
pub(crate) fn run_context(agent: &Value, input: &str, options: Value, ladder: Vec<LadderRung>) -> RunContext {
    let blueprint: Blueprint = serde_json::from_value(agent.clone()).unwrap();
    let options: OptionsPatch = serde_json::from_value(options).unwrap();
    let request = ContractRequest { options, ..ContractRequest::default() };
    let contract = resolve(&blueprint, &request, &EnvironmentDefaults::default()).unwrap();
    let (session_id, run_id) = (SessionId::from_random([1; 6]), RunId::from_random([2; 6]));
    RunContext {
        contract: contract.map(Into::into),
        parameters: json!({"prompt": input}),
        input: input.to_owned(),
        ladder,
        ..RunContext::new(session_id, run_id, blueprint.into())
    }
}

/// Returns a rung with this server as backend. The backend makes no retries of its own.
pub(crate) fn rung(
    tier: &str,
    kind: BackendKind,
    server: &ScriptedServer,
    asked: StructuredOutput,
) -> LadderRung {
    let mut config = BackendConfig::new(tier, kind);
    let is_messages = kind == BackendKind::Anthropic;
    config.base_url = Some(if is_messages { server.root_url() } else { server.base_url() });
    config.model = Some("m".to_owned());
    config.structured_output = asked;
    config.retries = 0;
    let backend = connect(&config, &|_| None).unwrap();
    let tier = TierBackend { tier: tier.to_owned(), backend: config.info(Capabilities::default(), None) };
    LadderRung { tier, backend }
}
