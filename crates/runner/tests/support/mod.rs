//! Runs over the scripted server.

use std::sync::Arc;

use formwork_agents::contract::{ContractRequest, EnvironmentDefaults, resolve};
use formwork_model::{BackendConfig, connect};
use formwork_runner::{Claim, Clock, Error, Memory, Rung, Stop, drive};
use formwork_schema::Schema;
use formwork_testkit::fixtures::Fixture;
use formwork_testkit::{ScriptedServer, Step};
use formwork_types::{
    BackendKind, Blueprint, Capabilities, Failure, OptionsPatch, Outcome, RunId, SessionId, Strategy,
    Success, TierBackend,
};
use serde_json::{Value, json};

/// A clock that stands still: journals are the same on every run.
pub(crate) struct Still;

impl Clock for Still {
    fn now(&self) -> String {
        "2026-01-01T00:00:00.000Z".to_owned()
    }
}

pub(crate) fn journal() -> Memory {
    Memory::new(Arc::new(Still))
}

/// The settings of a backend behind a scripted server. What fails is not repeated by the backend itself, so
/// that the server's count is the engine's.
pub(crate) fn config(kind: BackendKind, server: &ScriptedServer) -> BackendConfig {
    let url = if kind == BackendKind::Anthropic { server.root_url() } else { server.base_url() };
    BackendConfig {
        base_url: Some(url),
        model: Some("scripted-model".to_owned()),
        retries: 0,
        ..BackendConfig::new("scripted", kind)
    }
}

pub(crate) fn rung(tier: &str, config: &BackendConfig) -> Rung {
    let backend = connect(config, &|_| None).expect("a backend");
    let backend_info = BackendConfig { name: tier.to_owned(), ..config.clone() };
    let tier =
        TierBackend { tier: tier.to_owned(), backend: backend_info.info(Capabilities::default(), None) };
    Rung { tier, backend }
}

pub(crate) fn claim(fixture: &Fixture, options: OptionsPatch, ladder: Vec<Rung>) -> Claim {
    let blueprint: Blueprint = serde_json::from_value(fixture.agent.clone()).expect("a blueprint");
    let request = ContractRequest { options, ..ContractRequest::default() };
    let contract = resolve(&blueprint, &request, &EnvironmentDefaults::default()).expect("a contract");
    Claim {
        session_id: SessionId::from_random([1; 6]),
        run_id: RunId::from_random([2; 6]),
        blueprint,
        contract,
        parameters: json!({"prompt": fixture.input}),
        input: fixture.input.to_owned(),
        project_dir: ".".to_owned(),
        ladder,
    }
}

pub(crate) fn options(strategy: Strategy) -> OptionsPatch {
    OptionsPatch { strategy: Some(strategy), ..OptionsPatch::default() }
}

/// Runs a claim from an empty journal to its end.
pub(crate) async fn run(claim: &Claim) -> Result<Outcome, Error> {
    drive(claim, &journal(), &Stop::default(), &()).await
}

/// The success of a run, checked once more against the fixture's schema.
#[track_caller]
pub(crate) fn success(outcome: &Outcome, fixture: &Fixture) -> Success {
    let Outcome::Completed(success) = outcome else { panic!("{}: {outcome:?}", fixture.name) };
    let schema = Schema::compile(fixture.output_schema()).expect("a usable schema");
    let result = success.result_data.as_ref().expect("a result");
    assert!(schema.is_valid(result), "{}: {result}", fixture.name);
    assert_eq!(*result, fixture.reply, "{}", fixture.name);
    (**success).clone()
}

#[track_caller]
pub(crate) fn failure(outcome: &Outcome) -> Failure {
    let Outcome::Failed(failure) = outcome else { panic!("a success: {outcome:?}") };
    (**failure).clone()
}

/// The fixture's reply without the first of its required members.
pub(crate) fn flawed(fixture: &Fixture) -> Value {
    let mut reply = fixture.reply.clone();
    let required = fixture.output_schema()["required"][0].as_str().expect("a required member");
    reply.as_object_mut().expect("an object").shift_remove(required).expect("a member of the reply");
    reply
}

/// A value said as the strategy wants it.
pub(crate) fn said(value: &Value, by_tool: bool) -> Step {
    if by_tool { Step::tool("submit_result", value.clone()) } else { Step::json(value) }
}
