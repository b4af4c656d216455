//! The resources of a run: everything that the runner adds to an assignment.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;

use slipform_api::Assignment;
use slipform_model::Backend;
use slipform_tools::{CommandPattern, ProjectPolicy, Toolbox};
use slipform_types::{Blueprint, McpServer, TierBackend};
use tokio::sync::OnceCell;

use crate::secrets::Secrets;
use crate::variables::Variables;

/// The result of preparing a run: its resources, or the reason why the run fails.
pub type Prepared<'a> = Pin<Box<dyn Future<Output = Result<Resources, String>> + Send + 'a>>;

/// Provides backends, keys, folders and placeholder values for runs.
pub trait ResourceProvider: Send + Sync {
    /// Prepares the resources of a run. An error fails the run with this reason.
    fn prepare<'a>(&'a self, assignment: &'a Assignment) -> Prepared<'a>;
}

/// The resources to perform a run.
#[derive(Debug, Clone)]
pub struct Resources {
    /// The agent, with placeholders resolved.
    pub blueprint: Arc<Blueprint>,
    /// The agent as the journal shows it, with `${env.NAME}` unresolved; `None` if the journal may show `blueprint`.
    pub journaled_blueprint: Option<Arc<Blueprint>>,
    /// The escalation ladder; empty for procedural agents.
    pub ladder: Vec<LadderRung>,
    /// The working directory of tools and programs.
    pub project_dir: String,
    /// Rules for reading and writing files.
    pub policy: ProjectPolicy,
    /// The variables that the blueprint names, with their values. Its programs see no others.
    pub environment: Variables,
    /// The blueprint's command with `${env.NAME}` replaced by values. The journal keeps the placeholders.
    pub command: Vec<String>,
    /// The blueprint's MCP servers with `${env.NAME}` replaced by values.
    pub mcp_servers: BTreeMap<String, McpServer>,
    /// The commands that `check:criteria` may run.
    pub allowed_commands: Vec<CommandPattern>,
    /// Values to redact everywhere, in addition to the secret ones in `environment`.
    pub secrets: Secrets,
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

impl Resources {
    /// Returns the resources of an agent without backends and variables, in the current folder.
    pub fn new(blueprint: Arc<Blueprint>) -> Resources {
        Resources {
            command: blueprint.command.clone(),
            mcp_servers: blueprint.mcp_servers.clone(),
            blueprint,
            journaled_blueprint: None,
            ladder: Vec::new(),
            project_dir: ".".to_owned(),
            policy: ProjectPolicy::default(),
            environment: Variables::default(),
            allowed_commands: Vec::new(),
            secrets: Secrets::default(),
            tools: Arc::default(),
        }
    }
}
