//! Everything a runner needs for one run.

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

/// A run with the resources to perform it.
#[derive(Debug, Clone)]
pub struct RunContext {
    /// The session that the run belongs to.
    pub session_id: SessionId,
    /// The run's id.
    pub run_id: RunId,
    /// Whether the run starts the session or resumes it.
    pub run_type: RunType,
    /// The agent, with placeholders resolved.
    pub blueprint: Arc<Blueprint>,
    /// The resolved output contract; `None` for runs that return text.
    pub contract: Option<Arc<Contract>>,
    /// The parameters of the run, validated by the coordinator.
    pub parameters: Value,
    /// The parameters as text for the model.
    pub input: String,
    /// The working directory of tools and programs.
    pub project_dir: String,
    /// The escalation ladder; empty for procedural agents.
    pub ladder: Vec<LadderRung>,
    /// The agents that this run may delegate to.
    pub agents: Vec<AgentCard>,
    /// The variables that the blueprint names, with their values. Its programs see no others.
    pub environment: Variables,
    /// The blueprint's command with `${env.NAME}` replaced by values. The journal keeps the placeholders.
    pub command: Vec<String>,
    /// The blueprint's MCP servers with `${env.NAME}` replaced by values.
    pub mcp_servers: BTreeMap<String, McpServer>,
    /// The commands that `check:criteria` may run, each given by its leading words, such as `cargo test`.
    pub commands: Vec<String>,
    /// Rules for reading and writing files.
    pub policy: ProjectPolicy,
    /// The agent as the journal shows it, with `${env.NAME}` unresolved; `None` if equal to `blueprint`.
    pub journaled_blueprint: Option<Arc<Blueprint>>,
    /// Values to redact everywhere, in addition to the secret ones in `environment`.
    pub secrets: Secrets,
    /// The deadline of the run. `None` applies the blueprint's time limit from the start of the drive.
    pub deadline: Option<Instant>,
    /// The run's tools, opened on first use.
    pub tools: Arc<OnceCell<Toolbox>>,
}

/// A rung of the escalation ladder.
#[derive(Debug, Clone)]
pub struct LadderRung {
    /// The tier and backend as the engine sees them.
    pub tier: TierBackend,
    /// The client that performs the calls.
    pub backend: Arc<dyn Backend>,
}

impl RunContext {
    /// Creates the context of a new session without tools, agents and variables.
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
            deadline: None,
            tools: Arc::default(),
        }
    }

    /// Returns the deadline if the blueprint's time limit started now.
    pub(crate) fn deadline_from_now(&self) -> Option<Instant> {
        let seconds = self.blueprint.limits.timeout_seconds?;
        Some(Instant::now() + Duration::from_secs(seconds.into()))
    }

    /// Returns whether the agent has tools, MCP servers or agents to call.
    pub fn has_tools(&self) -> bool {
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

    /// Returns the `attempt_started` event. It contains the agent if resolving placeholders changed it.
    pub(crate) fn attempt_started(&self, tools: Vec<ToolDefinition>, is_resolved: bool) -> EventBody {
        let ladder = self.ladder.iter().map(|rung| rung.tier.clone()).collect();
        let blueprint = is_resolved.then(|| self.blueprint.clone());
        EventBody::AttemptStarted { ladder, blueprint, tools, agents: self.agents.clone() }
    }

    /// Returns the event to journal if it differs from the one to fold: prompts contain the values of
    /// variables.
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

    /// Opens the tools on the first call and returns them.
    pub(crate) async fn toolbox(&self) -> Result<&Toolbox, Error> {
        if self.blueprint.kind != AgentType::Autonomous {
            return self.tools.get_or_try_init(|| async { Ok(Toolbox::default()) }).await;
        }
        // MCP servers are often installed and started by package managers, which need the common variables.
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

    /// Returns the description of the run for an executor that keeps its own sessions.
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
