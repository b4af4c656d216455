//! The desk where runs are admitted: an agent, its parameters and its contract become a claim.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context as _, Result, bail};
use formwork_agents::contract::{ContractRequest, EnvironmentDefaults, resolve};
use formwork_agents::placeholders::{Filled, Surroundings, fill};
use formwork_agents::{Checked, load_one, parameters};
use formwork_model::BackendConfig;
use formwork_runner::{Admitted, Claim, Desk, Rung, Submission};
use formwork_types::{AgentCard, AgentType, Blueprint, Contract, RunId, RunType, SessionId, TierBackend};
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
    /// The first claim of each session: what later runs of it go on with.
    sessions: Mutex<HashMap<SessionId, Claim>>,
    /// The agents of the task as they were when it began, by name: what an agent writes meanwhile changes none of them.
    pinned: Mutex<HashMap<String, Blueprint>>,
    /// Backends that are connected, by name: all runs share their connections, their limits and their weights.
    connected: tokio::sync::Mutex<HashMap<String, Rung>>,
}

impl Office {
    pub(super) fn new(project: PathBuf, settings: Settings, backend: Option<String>) -> Office {
        Office {
            project,
            settings,
            backend,
            sessions: Mutex::default(),
            pinned: Mutex::default(),
            connected: tokio::sync::Mutex::default(),
        }
    }

    /// Reads every agent that a task may come to, once and before it begins.
    pub(super) fn pin(&self, root: &Blueprint) -> Result<()> {
        let mut pending = vec![root.clone()];
        while let Some(blueprint) = pending.pop() {
            for (index, name) in blueprint.agents.iter().enumerate() {
                if *name == root.name || self.pinned().contains_key(name) {
                    continue;
                }
                let other = agent(&self.project, name)
                    .with_context(|| format!("the agent '{}', agents[{index}]", blueprint.name))?;
                pending.push(other.clone());
                self.pinned().insert(name.clone(), other);
            }
        }
        self.pinned().insert(root.name.clone(), root.clone());
        Ok(())
    }

    fn pinned(&self) -> MutexGuard<'_, HashMap<String, Blueprint>> {
        self.pinned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn agent(&self, name: &str) -> Result<Blueprint> {
        self.pinned().get(name).cloned().with_context(|| format!("there is no agent '{name}' in this task"))
    }

    /// A claim of a new session. The parameters have been checked.
    pub(super) async fn claim(
        &self,
        blueprint: &Blueprint,
        parameters: Value,
        contract: Option<Contract>,
    ) -> Result<Claim> {
        let (session_id, run_id) = ids()?;
        let Filled { blueprint, command, mcp_servers } = fill(
            blueprint,
            &Surroundings {
                parameters: &parameters,
                session_id: &session_id,
                run_id: &run_id,
                environment: &environment,
            },
        )?;
        let blueprint = Arc::new(blueprint);
        let input = parameters::inputs_text(&blueprint, &parameters);
        let contract = contract.map(Arc::new);
        let claim = Claim {
            contract,
            parameters,
            input,
            command,
            mcp_servers,
            ..Claim::new(session_id.clone(), run_id, blueprint)
        };
        let claim = self.equipped(claim).await?;
        // What is kept for later runs holds no tools open.
        let kept = Claim { tools: Arc::default(), ..claim.clone() };
        self.sessions().insert(session_id, kept);
        Ok(claim)
    }

    /// The claim with all that the project gives to its agent.
    async fn equipped(&self, claim: Claim) -> Result<Claim> {
        let blueprint = claim.blueprint.clone();
        let ladder = match blueprint.kind {
            AgentType::Procedural => Vec::new(),
            AgentType::Autonomous => self.ladder(&blueprint).await?,
        };
        let mut cards = Vec::new();
        for name in &blueprint.agents {
            if *name == blueprint.name || cards.iter().any(|card: &AgentCard| card.name == *name) {
                continue;
            }
            let other = self.agent(name)?;
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
            environment: named.collect::<Vec<_>>().into(),
            ..claim
        })
    }

    async fn ladder(&self, blueprint: &Blueprint) -> Result<Vec<Rung>> {
        if let Some(name) = &self.backend {
            return Ok(vec![self.rung("default", self.settings.backend(name)?).await?]);
        }
        let mut ladder = Vec::new();
        for tier in self.settings.ladder(blueprint) {
            ladder.push(self.rung(&tier, self.settings.tier(&tier)?).await?);
        }
        Ok(ladder)
    }

    async fn rung(&self, tier: &str, config: &BackendConfig) -> Result<Rung> {
        let mut connected = self.connected.lock().await;
        let rung = match connected.get(&config.name) {
            Some(rung) => rung.clone(),
            None => {
                let rung = backends::rung(tier, config, &Verdicts::read(&self.project)).await?;
                connected.insert(config.name.clone(), rung.clone());
                rung
            }
        };
        Ok(Rung { tier: TierBackend { tier: tier.to_owned(), ..rung.tier }, ..rung })
    }

    async fn start(&self, submission: Submission) -> Result<Claim> {
        let blueprint = self.agent(&submission.agent_name)?;
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
        let blueprint = kept.blueprint.clone();
        if blueprint.kind == AgentType::Procedural {
            bail!("the agent '{}' is procedural: it cannot be resumed, only started again", blueprint.name);
        }
        let request = request(&submission)?;
        let contract = match request.schema.is_some() || request.named.is_some() {
            true => {
                let defaults = EnvironmentDefaults::from_lookup(environment)?;
                resolve(&blueprint, &request, &defaults)?.map(Arc::new)
            }
            false => kept.contract.clone(),
        };
        let (_, run_id) = ids()?;
        let input = submission.parameters["prompt"].as_str().unwrap_or_default().to_owned();
        Ok(Claim {
            run_id,
            run_type: RunType::ResumeSession,
            contract,
            parameters: submission.parameters,
            input,
            until: None,
            // Each run has tools of its own, and lets go of them when it ends.
            tools: Arc::default(),
            ..kept
        })
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<SessionId, Claim>> {
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
