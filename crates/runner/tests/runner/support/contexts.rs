//! Runs for tests: an agent, and the servers that answer it.

use std::sync::Arc;

use serde_json::{Value, json};
use slipform_agents::contract::{ContractRequest, EnvironmentDefaults, resolve};
use slipform_api::{Assignment, RunStart, RunnerApi};
use slipform_model::{BackendConfig, connect};
use slipform_runner::{
    Attempt, Clock, DriveOutcome, Error, LadderRung, MemoryJournal, Progress, Resources, RunContext,
    StopSignal, Variables, drive,
};
use slipform_testkit::ScriptedServer;
use slipform_tools::Toolbox;
use slipform_types::{
    AgentCard, BackendKind, Blueprint, Capabilities, Contract, OptionsPatch, Outcome, RunId, RunOverrides,
    RunType, SessionId, StructuredOutput, TierBackend,
};
use tokio::sync::OnceCell;

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

/// A run to drive on a [`MemoryJournal`], with what a coordinator and a resource provider would say about it.
#[derive(Debug, Clone)]
pub(crate) struct TestRun {
    pub(crate) session_id: SessionId,
    pub(crate) run_id: RunId,
    pub(crate) run_type: RunType,
    pub(crate) blueprint: Arc<Blueprint>,
    pub(crate) contract: Option<Arc<Contract>>,
    pub(crate) parameters: Value,
    pub(crate) input: String,
    pub(crate) agents: Vec<AgentCard>,
    pub(crate) ladder: Vec<LadderRung>,
    pub(crate) project_dir: String,
    pub(crate) environment: Variables,
    pub(crate) command: Vec<String>,
    pub(crate) tools: Arc<OnceCell<Toolbox>>,
}

impl TestRun {
    /// Returns the run's assignment and context, and submits the run first if the journal does not have it.
    fn context(&self, journal: &MemoryJournal) -> RunContext {
        if !journal.events().iter().any(|event| event.run_id == self.run_id) {
            let start = RunStart {
                run_type: self.run_type,
                blueprint: self.blueprint.clone(),
                contract: self.contract.clone(),
                parameters: self.parameters.clone(),
                input: self.input.clone(),
                overrides: RunOverrides::default(),
                conversation: None,
            };
            journal.submit(&self.session_id, &self.run_id, start);
        }
        let assignment = journal.assignment(&self.session_id, &self.run_id).unwrap();
        let resources = Resources {
            ladder: self.ladder.clone(),
            project_dir: self.project_dir.clone(),
            environment: self.environment.clone(),
            command: self.command.clone(),
            tools: self.tools.clone(),
            ..Resources::new(self.blueprint.clone())
        };
        RunContext {
            assignment: Arc::new(Assignment { agents: self.agents.clone(), ..assignment }),
            resources,
        }
    }

    /// Drives the run over an API whose events are in this journal.
    pub(crate) async fn drive(
        &self,
        api: Arc<dyn RunnerApi>,
        journal: &MemoryJournal,
        stop: &StopSignal,
        progress: &dyn Progress,
    ) -> Result<DriveOutcome, Error> {
        let context = self.context(journal);
        let attempt = Attempt::new(api, context.assignment.clone(), stop.clone());
        drive(&context, &attempt, progress).await
    }
}

/// Drives a run without children to its end.
pub(crate) async fn drive_to_end(
    run: &TestRun,
    journal: &MemoryJournal,
    stop: &StopSignal,
    progress: &dyn Progress,
) -> Result<Outcome, Error> {
    let context = run.context(journal);
    let attempt = Attempt::new(Arc::new(journal.clone()), context.assignment.clone(), stop.clone());
    slipform_runner::drive_to_end(&context, &attempt, progress).await
}

/// Returns the resources of an assignment without backends.
pub(crate) fn resources(assignment: &Assignment) -> Resources {
    let blank = Resources::new(assignment.journal.start.blueprint.clone());
    Resources { project_dir: assignment.project_dir.clone().unwrap_or(blank.project_dir), ..blank }
}

/// Returns a run of this agent, with these options of its contract.
pub(crate) fn test_run(agent: &Value, input: &str, options: Value, ladder: Vec<LadderRung>) -> TestRun {
    let blueprint: Blueprint = serde_json::from_value(agent.clone()).unwrap();
    let options: OptionsPatch = serde_json::from_value(options).unwrap();
    let request = ContractRequest { options, ..ContractRequest::default() };
    let contract = resolve(&blueprint, &request, &EnvironmentDefaults::default()).unwrap();
    TestRun {
        session_id: SessionId::from_random([1; 6]),
        run_id: RunId::from_random([2; 6]),
        run_type: RunType::StartSession,
        command: blueprint.command.clone(),
        blueprint: blueprint.into(),
        contract: contract.map(Into::into),
        parameters: json!({"prompt": input}),
        input: input.to_owned(),
        agents: Vec::new(),
        ladder,
        project_dir: ".".to_owned(),
        environment: Variables::default(),
        tools: Arc::default(),
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
    let tier = TierBackend::new(tier, config.info(Capabilities::default(), None));
    LadderRung { tier, backend }
}
