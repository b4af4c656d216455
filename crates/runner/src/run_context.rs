//! Everything a runner needs for one run.

use std::sync::Arc;

use slipform_api::{Assignment, RunStart};
use slipform_model::Invocation;
use slipform_tools::mcp::{Limits, ToolContext};
use slipform_tools::{Error, Toolbox};
use slipform_types::{AgentType, Blueprint, CHECKING_TOOL, EventBody, McpServer, SessionId, ToolDefinition};

use crate::confinement;
use crate::resources::{LadderRung, Resources};

/// A run with the resources to perform it.
#[derive(Debug, Clone)]
pub struct RunContext {
    /// What the coordinator says about the run.
    pub assignment: Arc<Assignment>,
    /// What the runner adds to it.
    pub resources: Resources,
}

impl RunContext {
    /// Returns the start of the run: its agent with unresolved placeholders, contract and parameters.
    pub fn start(&self) -> &RunStart {
        &self.assignment.journal.start
    }

    /// Returns the agent, with placeholders resolved.
    pub fn blueprint(&self) -> &Blueprint {
        &self.resources.blueprint
    }

    /// Returns the id of the run's session.
    pub fn session_id(&self) -> &SessionId {
        &self.assignment.session_id
    }

    /// Returns whether the agent has tools, MCP servers or agents to call.
    pub fn has_tools(&self) -> bool {
        let Blueprint { tools, mcp_servers, .. } = self.blueprint();
        !(tools.is_empty() && mcp_servers.is_empty() && self.assignment.agents.is_empty())
    }

    /// Returns the `attempt_started` event. It contains the agent if resolving placeholders changed it.
    pub(crate) fn attempt_started(&self, tools: Vec<ToolDefinition>) -> EventBody {
        let Resources { ladder, blueprint, .. } = &self.resources;
        let ladder = ladder.iter().map(|rung| rung.tier.clone()).collect();
        let is_resolved =
            !Arc::ptr_eq(blueprint, &self.start().blueprint) && *blueprint != self.start().blueprint;
        let blueprint = is_resolved.then(|| blueprint.clone());
        EventBody::AttemptStarted { ladder, blueprint, tools, agents: self.assignment.agents.clone() }
    }

    /// Returns the event to journal if it differs from the one to fold: prompts contain the values of
    /// variables.
    pub(crate) fn journaled(&self, body: &EventBody) -> Option<EventBody> {
        let journaled = self.resources.journaled_blueprint.as_ref()?;
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
        let Resources { blueprint, environment: named, project_dir, policy, .. } = &self.resources;
        let cell = &self.resources.tools;
        let (tools, servers) = (&blueprint.tools, &self.resources.mcp_servers);
        if blueprint.kind != AgentType::Autonomous || (tools.is_empty() && servers.is_empty()) {
            return cell.get_or_try_init(|| async { Ok(Toolbox::default()) }).await;
        }
        let starts_programs = tools.iter().any(|tool| tool == CHECKING_TOOL)
            || servers.values().any(|server| matches!(server, McpServer::Command { .. }));
        if starts_programs {
            confinement::warn_if_missing(policy);
        }
        // MCP servers are often installed and started by package managers, which need the common variables.
        let mut environment = slipform_process::common_environment(&|name| std::env::var(name).ok());
        let named = named.list();
        environment.retain(|(name, _)| !named.iter().any(|(other, _)| other == name));
        environment.extend(named.iter().cloned());
        let context = ToolContext {
            folder: project_dir.into(),
            environment,
            limits: Limits::default(),
            commands: self.resources.allowed_commands.clone(),
            policy: policy.clone(),
        };
        cell.get_or_try_init(|| Toolbox::open(tools, servers, &context)).await
    }

    /// Returns the model of a backend on the ladder.
    pub fn model(&self, backend: &str) -> Option<&str> {
        self.rung(backend).map(|rung| rung.tier.backend.model.as_str())
    }

    /// Returns the rung of a backend.
    pub fn rung(&self, backend: &str) -> Option<&LadderRung> {
        self.resources.ladder.iter().find(|rung| rung.tier.backend.name == backend)
    }

    /// Returns the description of the run for an executor that keeps its own sessions.
    pub(crate) fn invocation(&self, resumed: bool) -> Invocation {
        Invocation {
            session_id: self.assignment.session_id.to_string(),
            run_id: self.assignment.run_id.to_string(),
            agent_name: self.blueprint().name.clone(),
            agent_blueprint: serde_json::to_value(self.blueprint()).unwrap_or_default(),
            parameters: self.start().parameters.clone(),
            project_dir: self.resources.project_dir.clone(),
            resumed,
        }
    }
}
