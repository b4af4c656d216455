//! The meaning of model names, and the backends behind them.

use std::pin::Pin;
use std::sync::Arc;

use slipform_runner::Resources;
use slipform_types::Blueprint;

/// The beginning of the names of agents.
const AGENT_PREFIXES: [&str; 4] = ["agent/", "agent.", "agent%2F", "agent%2f"];

/// The meaning of a model name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelName {
    /// An agent of the project.
    Agent(String),
    /// The name of a backend, perhaps with a model behind a slash, or another name.
    Plain(String),
}

impl ModelName {
    /// Reads a model name.
    pub fn parse(name: &str) -> ModelName {
        let agent = AGENT_PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix));
        agent.map_or_else(|| ModelName::Plain(name.to_owned()), |agent| ModelName::Agent(agent.to_owned()))
    }
}

/// A model that clients can name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelEntry {
    /// The name.
    pub id: String,
    /// The provider, such as the name of a backend.
    pub owner: String,
}

/// The backends that answer for a model name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelRoute {
    /// The backends in order. A later one is used when the transport of the one before fails.
    pub steps: Vec<RouteStep>,
    /// The tiers that are tried when the answers of the first backend do not meet their contract. Without steps, the first tier
    /// answers.
    pub escalation: Vec<String>,
}

/// A backend of a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteStep {
    /// The name of the backend in `slipform.toml`.
    pub backend: String,
    /// The model that requests name; `None` for the backend's own.
    pub model: Option<String>,
}

/// Why the backends of a route cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectError {
    /// A backend does not answer now.
    Unavailable(String),
    /// The settings have to be changed.
    Misconfigured(String),
}

/// The resources of a run.
pub type Connected<'a> = Pin<Box<dyn Future<Output = Result<Resources, ConnectError>> + Send + 'a>>;

/// Connects the backends of this process.
pub trait ModelProvider: Send + Sync {
    /// Returns the models that clients can name, in order.
    fn models(&self) -> Vec<ModelEntry>;

    /// Returns the backends that answer for a name; `None` if it is unknown.
    fn route(&self, name: &str) -> Option<ModelRoute>;

    /// Returns whether a tier exists.
    fn has_tier(&self, tier: &str) -> bool;

    /// Connects the backends of a route for a run of this blueprint.
    fn connect<'a>(&'a self, blueprint: Arc<Blueprint>, route: &'a ModelRoute) -> Connected<'a>;
}
