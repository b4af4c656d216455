//! A claim: everything a runner needs for one run.

use std::sync::Arc;

use formwork_model::{Backend, Invocation};
use formwork_types::{Blueprint, Body, Contract, RunId, RunType, SessionId, TierBackend};
use serde_json::Value;

/// A run that a runner has taken on.
#[derive(Debug, Clone)]
pub struct Claim {
    /// The session.
    pub session_id: SessionId,
    /// The run.
    pub run_id: RunId,
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
    /// The escalation ladder.
    pub ladder: Vec<Rung>,
}

/// A step of the ladder, with the backend that stands behind it.
#[derive(Debug, Clone)]
pub struct Rung {
    /// What the engine knows of it.
    pub tier: TierBackend,
    /// Who answers.
    pub backend: Arc<dyn Backend>,
}

impl Claim {
    pub(crate) fn run_start(&self) -> Body {
        Body::RunStart {
            run_type: RunType::StartSession,
            blueprint: self.blueprint.clone(),
            contract: self.contract.clone(),
            parameters: self.parameters.clone(),
            input: self.input.clone(),
        }
    }

    pub(crate) fn attempt_started(&self) -> Body {
        Body::AttemptStarted { ladder: self.ladder.iter().map(|rung| rung.tier.clone()).collect() }
    }

    pub(crate) fn rung(&self, backend: &str) -> Option<&Rung> {
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
