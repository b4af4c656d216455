//! The desk where runs are admitted: an agent, its parameters and its contract become a claim.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result, bail};
use formwork_agents::contract::{ContractRequest, EnvironmentDefaults, resolve};
use formwork_agents::placeholders::{Surroundings, fill};
use formwork_agents::{Checked, load_one, parameters};
use formwork_runner::{Admitted, Claim, Desk, Rung, Submission};
use formwork_types::{AgentCard, AgentType, Blueprint, Contract, RunId, RunType, SessionId};
use serde_json::Value;

use crate::backends::{self, Verdicts, environment};
use crate::settings::Settings;
use crate::{agents, source};

/// Everything that runs of a project have in common.
pub(super) struct Office {
    pub(super) project: PathBuf,
    pub(super) settings: Settings,
    /// The backend that everything runs on, where the caller says so.
    pub(super) backend: Option<String>,
    sessions: Mutex<HashMap<SessionId, Kept>>,
}

/// What later runs of a session go on with.
#[derive(Clone)]
struct Kept {
    blueprint: Arc<Blueprint>,
    contract: Option<Arc<Contract>>,
}

impl Office {
    pub(super) fn new(project: PathBuf, settings: Settings, backend: Option<String>) -> Office {
        Office { project, settings, backend, sessions: Mutex::default() }
    }

    /// A claim of a new session. The parameters have been checked.
    pub(super) async fn claim(
        &self,
        blueprint: &Blueprint,
        parameters: Value,
        contract: Option<Contract>,
    ) -> Result<Claim> {
        let (session_id, run_id) = ids()?;
        let blueprint = Arc::new(fill(
            blueprint,
            &Surroundings {
                parameters: &parameters,
                session_id: &session_id,
                run_id: &run_id,
                environment: &environment,
            },
        )?);
        let input = parameters::inputs_text(&blueprint, &parameters);
        let contract = contract.map(Arc::new);
        let kept = Kept { blueprint: blueprint.clone(), contract: contract.clone() };
        self.sessions().insert(session_id.clone(), kept);
        let claim = Claim { contract, parameters, input, ..Claim::new(session_id, run_id, blueprint) };
        self.equipped(claim).await
    }

    /// The claim with all that the project gives to its agent.
    async fn equipped(&self, claim: Claim) -> Result<Claim> {
        let blueprint = claim.blueprint.clone();
        let ladder = match blueprint.kind {
            AgentType::Procedural => Vec::new(),
            AgentType::Autonomous => self.ladder(&blueprint).await?,
        };
        let mut cards = Vec::new();
        for (index, name) in blueprint.agents.iter().enumerate() {
            if *name == blueprint.name || cards.iter().any(|card: &AgentCard| card.name == *name) {
                continue;
            }
            let other = agent(&self.project, name)
                .with_context(|| format!("the agent '{}', agents[{index}]", blueprint.name))?;
            cards.push(AgentCard {
                name: other.name,
                description: other.description,
                parameters_schema: other.parameters_schema,
                has_output_schema: other.output_schema.is_some(),
            });
        }
        let named = blueprint.env.iter().filter_map(|name| Some((name.clone(), environment(name)?)));
        Ok(Claim {
            project_dir: self.project.to_string_lossy().into_owned(),
            ladder,
            agents: cards,
            environment: named.collect(),
            ..claim
        })
    }

    async fn ladder(&self, blueprint: &Blueprint) -> Result<Vec<Rung>> {
        let verdicts = Verdicts::read(&self.project);
        if let Some(name) = &self.backend {
            return Ok(vec![backends::rung("default", self.settings.backend(name)?, &verdicts).await?]);
        }
        let mut ladder = Vec::new();
        for tier in self.settings.ladder(blueprint) {
            ladder.push(backends::rung(&tier, self.settings.tier(&tier)?, &verdicts).await?);
        }
        Ok(ladder)
    }

    async fn start(&self, submission: Submission) -> Result<Claim> {
        let blueprint = agent(&self.project, &submission.agent_name)?;
        if let Err(invalid) = parameters::check(&blueprint, &submission.parameters) {
            let errors: Vec<String> =
                invalid.validation_errors.iter().map(|error| format!("- {error}")).collect();
            let name = &blueprint.name;
            bail!("the agent '{name}' does not take these parameters:\n{}", errors.join("\n"));
        }
        let request = request(&submission)?;
        let contract = resolve(&blueprint, &request, &EnvironmentDefaults::from_lookup(environment)?)?;
        self.claim(&blueprint, submission.parameters, contract).await
    }

    async fn resume(&self, session_id: SessionId, submission: Submission) -> Result<Claim> {
        let kept = self.sessions().get(&session_id).cloned();
        let kept = kept.with_context(|| format!("there is no session {session_id}"))?;
        let blueprint = kept.blueprint;
        if blueprint.kind == AgentType::Procedural {
            bail!("the agent '{}' is procedural: it cannot be resumed, only started again", blueprint.name);
        }
        let request = request(&submission)?;
        let contract = match request.schema.is_some() || request.named.is_some() {
            true => {
                let defaults = EnvironmentDefaults::from_lookup(environment)?;
                resolve(&blueprint, &request, &defaults)?.map(Arc::new)
            }
            false => kept.contract,
        };
        let (_, run_id) = ids()?;
        let input = submission.parameters["prompt"].as_str().unwrap_or_default().to_owned();
        self.equipped(Claim {
            run_type: RunType::ResumeSession,
            contract,
            parameters: submission.parameters,
            input,
            ..Claim::new(session_id, run_id, blueprint)
        })
        .await
    }

    fn sessions(&self) -> std::sync::MutexGuard<'_, HashMap<SessionId, Kept>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Desk for Office {
    fn admit(&self, submission: Submission) -> Admitted<'_> {
        Box::pin(async move {
            let claim = match submission.session_id.clone() {
                Some(session_id) => self.resume(session_id, submission).await,
                None => self.start(submission).await,
            };
            claim.map_err(|error| format!("{error:#}"))
        })
    }
}

fn request(submission: &Submission) -> Result<ContractRequest> {
    let named = match &submission.output_schema_name {
        Some(name) => Some((name.clone(), source::named_schema(name)?)),
        None => None,
    };
    Ok(ContractRequest { schema: submission.output_schema.clone(), named, ..ContractRequest::default() })
}

/// The agent of a name, or of a file.
pub(super) fn agent(project: &Path, given: &str) -> Result<Blueprint> {
    let path = Path::new(given);
    let is_path = given.contains(std::path::MAIN_SEPARATOR) || path.extension().is_some();
    let loaded = if is_path {
        if !path.exists() {
            bail!("there is no agent file {given}");
        }
        load_one(path)
    } else {
        agents::find(project, given)?
    };
    match loaded.result {
        Ok(Checked { blueprint, .. }) => {
            agents::check_tools(&blueprint)?;
            Ok(blueprint)
        }
        Err(problems) => bail!("{} cannot be used:\n{problems}", loaded.path.display()),
    }
}

fn ids() -> Result<(SessionId, RunId)> {
    let mut bytes = [0_u8; 12];
    getrandom::fill(&mut bytes).map_err(|error| anyhow::anyhow!("no random numbers for ids: {error}"))?;
    let (mut session, mut run) = ([0; 6], [0; 6]);
    session.copy_from_slice(&bytes[..6]);
    run.copy_from_slice(&bytes[6..]);
    Ok((SessionId::from_random(session), RunId::from_random(run)))
}
