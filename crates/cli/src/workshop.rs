//! The workshop: what a runner here has to work with. Backends, keys, folders and variables are known here and nowhere
//! else.

use std::collections::HashMap;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use formwork_agents::placeholders::{Filled, Surroundings, fill};
use formwork_model::BackendConfig;
use formwork_runner::{Claim, Job, Outfitter, Rung};
use formwork_types::{AgentType, Blueprint, RunId, SessionId, TierBackend};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::backends::{self, Verdicts, environment};
use crate::settings::Settings;

/// Everything that runs of a project have in common.
pub(crate) struct Workshop {
    project: PathBuf,
    settings: Settings,
    /// The backend that everything runs on, where the caller says so.
    backend: Option<String>,
    /// Backends that are connected, by name: all runs share their connections, their limits and their weights.
    connected: tokio::sync::Mutex<HashMap<String, Rung>>,
}

impl Workshop {
    pub(crate) fn new(project: PathBuf, settings: Settings, backend: Option<String>) -> Workshop {
        Workshop { project, settings, backend, connected: tokio::sync::Mutex::default() }
    }

    /// What is said of it to a coordinator: names and kinds, no keys and no addresses.
    pub(crate) fn details(&self) -> Value {
        let backends: Vec<Value> = self
            .settings
            .backends
            .values()
            .map(|backend| json!({"name": backend.name, "kind": backend.kind.name(), "model": backend.model}))
            .collect();
        json!({"version": env!("CARGO_PKG_VERSION"), "backends": backends})
    }

    /// Finds out whether a run of this agent could begin, before it is asked for.
    pub(crate) async fn try_out(&self, blueprint: &Blueprint, parameters: &Value) -> Result<()> {
        let (session_id, run_id) = (SessionId::from_random([0; 6]), RunId::from_random([0; 6]));
        let (session_id, run_id) = (&session_id, &run_id);
        fill(blueprint, &Surroundings { parameters, session_id, run_id, environment: &environment })?;
        if blueprint.kind != AgentType::Procedural {
            self.ladder(blueprint).await?;
        }
        Ok(())
    }

    async fn claim(&self, job: &Job) -> Result<Claim> {
        let Filled { blueprint, command, mcp_servers } = fill(
            &job.blueprint,
            &Surroundings {
                parameters: &job.first.parameters,
                session_id: &job.session_id,
                run_id: &job.first.run_id,
                environment: &environment,
            },
        )?;
        let ladder = match blueprint.kind {
            AgentType::Procedural => Vec::new(),
            AgentType::Autonomous | AgentType::Orchestrator => self.ladder(&blueprint).await?,
        };
        let named = blueprint.env.iter().filter_map(|name| Some((name.clone(), environment(name)?)));
        let named: Vec<(String, String)> = named.collect();
        let folder = self.folder(job.project_dir.as_deref())?;
        Ok(Claim {
            blueprint: Arc::new(blueprint),
            command,
            mcp_servers,
            project_dir: folder.to_string_lossy().into_owned(),
            ladder,
            environment: named.into(),
            commands: self.settings.tools.commands.clone(),
            until: job.time_left.map(|left| Instant::now() + left),
            ..job.claim()
        })
    }

    /// The folder of a run: the project's, or one inside it. Whoever asks for a run has no say over the rest of the disk.
    fn folder(&self, given: Option<&str>) -> Result<PathBuf> {
        let Some(given) = given else { return Ok(self.project.clone()) };
        let project = self.project.canonicalize().context("the project's folder cannot be read")?;
        let folder = project.join(given);
        let folder =
            folder.canonicalize().with_context(|| format!("project_dir '{given}' cannot be read here"))?;
        if !folder.starts_with(&project) || !folder.is_dir() {
            bail!("project_dir '{given}' is not a folder inside the project of this runner");
        }
        Ok(folder)
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
}

impl Outfitter for Workshop {
    fn equip<'a>(&'a self, job: &'a Job) -> Pin<Box<dyn Future<Output = Result<Claim, String>> + Send + 'a>> {
        Box::pin(async move { self.claim(job).await.map_err(|error| format!("{error:#}")) })
    }
}
