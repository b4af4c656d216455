//! A context: everything a runner needs for one run.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use slipform_model::{Backend, Invocation};
use slipform_tools::mcp::{Limits, ToolContext};
use slipform_tools::{Error, ProjectPolicy, Toolbox};
use slipform_types::{
    AgentCard, AgentType, Blueprint, Contract, EventBody, McpServer, RunId, RunType, SessionId, TierBackend,
    ToolDefinition,
};
use tokio::sync::OnceCell;
use tokio::time::Instant;

use crate::secrets::Secrets;
use crate::variables::Variables;

/// A run that a runner has taken on.
#[derive(Debug, Clone)]
pub struct RunContext {
    /// The session.
    pub session_id: SessionId,
    /// The run.
    pub run_id: RunId,
    /// Whether it begins the session or goes on with it.
    pub run_type: RunType,
    /// The agent, placeholders resolved.
    pub blueprint: Arc<Blueprint>,
    /// What the result has to satisfy.
    pub contract: Option<Arc<Contract>>,
    /// What the caller gave.
    pub parameters: Value,
    /// The same as text for the model.
    pub input: String,
    /// Where the run takes place.
    pub project_dir: String,
    /// The escalation ladder; empty for procedural agents.
    pub ladder: Vec<LadderRung>,
    /// The agents that it may delegate to.
    pub agents: Vec<AgentCard>,
    /// The variables that its blueprint names, with their values: its programs see no others.
    pub environment: Variables,
    /// The blueprint's command with those values in place of `${env.NAME}`, which the journal does not hold.
    pub command: Vec<String>,
    /// The blueprint's MCP servers, in the same way.
    pub mcp_servers: BTreeMap<String, McpServer>,
    /// The commands that its checks may run, by their first words, such as `cargo test`.
    pub commands: Vec<String>,
    /// What its tools may not write and read.
    pub policy: ProjectPolicy,
    /// The agent as the journal shows it: values of variables are still `${env.NAME}`. None where that is `blueprint`.
    pub journaled_blueprint: Option<Arc<Blueprint>>,
    /// Values that are written nowhere, besides those of `environment` whose names say so.
    pub secrets: Secrets,
    /// When its time is up. Where nobody has said so, the blueprint's limit counts from when the run is driven.
    pub until: Option<Instant>,
    /// Its tools, once they are open.
    pub tools: Arc<OnceCell<Toolbox>>,
}

/// A step of the ladder, with the backend that stands behind it.
#[derive(Debug, Clone)]
pub struct LadderRung {
    /// What the engine knows of it.
    pub tier: TierBackend,
    /// Who answers.
    pub backend: Arc<dyn Backend>,
}

impl RunContext {
    /// A context of a new session without tools, agents or variables.
    pub fn new(session_id: SessionId, run_id: RunId, blueprint: Arc<Blueprint>) -> RunContext {
        RunContext {
            session_id,
            run_id,
            run_type: RunType::StartSession,
            command: blueprint.command.clone(),
            mcp_servers: blueprint.mcp_servers.clone(),
            blueprint,
            contract: None,
            parameters: Value::Null,
            input: String::new(),
            project_dir: ".".to_owned(),
            ladder: Vec::new(),
            agents: Vec::new(),
            environment: Variables::default(),
            commands: Vec::new(),
            policy: ProjectPolicy::default(),
            journaled_blueprint: None,
            secrets: Secrets::default(),
            until: None,
            tools: Arc::default(),
        }
    }

    /// When the blueprint's time would be up, were it to begin now.
    pub(crate) fn time_from_now(&self) -> Option<Instant> {
        let seconds = self.blueprint.limits.timeout_seconds?;
        Some(Instant::now() + Duration::from_secs(seconds.into()))
    }

    /// Whether the agent has anything to call.
    pub fn acts(&self) -> bool {
        let Blueprint { tools, mcp_servers, .. } = &*self.blueprint;
        !(tools.is_empty() && mcp_servers.is_empty() && self.agents.is_empty())
    }

    pub(crate) fn run_start(&self) -> EventBody {
        EventBody::RunStart {
            run_type: self.run_type,
            blueprint: self.blueprint.clone(),
            contract: self.contract.clone(),
            parameters: self.parameters.clone(),
            input: self.input.clone(),
        }
    }

    /// What there is to work with; with the agent where it is not as the run was asked for.
    pub(crate) fn attempt_started(&self, tools: Vec<ToolDefinition>, is_filled: bool) -> EventBody {
        let ladder = self.ladder.iter().map(|rung| rung.tier.clone()).collect();
        let blueprint = is_filled.then(|| self.blueprint.clone());
        EventBody::AttemptStarted { ladder, blueprint, tools, agents: self.agents.clone() }
    }

    /// An event as it is written, where that is not as it is used: an agent's prompts hold the values of variables.
    pub(crate) fn journaled(&self, body: &EventBody) -> Option<EventBody> {
        let journaled = self.journaled_blueprint.as_ref()?;
        match body {
            EventBody::AttemptStarted { ladder, blueprint: Some(_), tools, agents } => {
                Some(EventBody::AttemptStarted {
                    ladder: ladder.clone(),
                    blueprint: Some(journaled.clone()),
                    tools: tools.clone(),
                    agents: agents.clone(),
                })
            }
            _ => None,
        }
    }

    /// Opens the tools, or gives those that are open already.
    pub(crate) async fn toolbox(&self) -> Result<&Toolbox, Error> {
        if self.blueprint.kind != AgentType::Autonomous {
            return self.tools.get_or_try_init(|| async { Ok(Toolbox::default()) }).await;
        }
        // Servers are installed by package managers and started through them: they need to find those.
        let mut environment = slipform_process::common_environment(&|name| std::env::var(name).ok());
        let named = self.environment.list();
        environment.retain(|(name, _)| !named.iter().any(|(other, _)| other == name));
        environment.extend(named.iter().cloned());
        let folder = self.project_dir.clone().into();
        let context = ToolContext {
            folder,
            environment,
            limits: Limits::default(),
            commands: self.commands.clone(),
            policy: self.policy.clone(),
        };
        let tools = &self.blueprint.tools;
        self.tools.get_or_try_init(|| Toolbox::open(tools, &self.mcp_servers, &context)).await
    }

    pub(crate) fn rung(&self, backend: &str) -> Option<&LadderRung> {
        self.ladder.iter().find(|rung| rung.tier.backend.name == backend)
    }

    /// What an executor with sessions of its own is told about the run.
    pub(crate) fn invocation(&self, resumed: bool) -> Invocation {
        Invocation {
            session_id: self.session_id.to_string(),
            run_id: self.run_id.to_string(),
            agent_name: self.blueprint.name.clone(),
            agent_blueprint: serde_json::to_value(&*self.blueprint).unwrap_or_default(),
            parameters: self.parameters.clone(),
            project_dir: self.project_dir.clone(),
            resumed,
        }
    }
}
