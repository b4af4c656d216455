//! The resources of a runner in this process: backends, keys, project folder and environment variables. The coordinator
//! never sees them.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};
use slipform_agents::placeholders::{FillContext, Filled, fill};
use slipform_api::Assignment;
use slipform_model::BackendConfig;
use slipform_runner::{
    LadderRung, Prepared, ProjectPolicy, ResourceProvider, Resources, Secrets, Variables, program_positions,
    resolve_folder,
};
use slipform_types::{AgentType, Blueprint, RunId, RunOverrides, SessionId, WRITING_TOOLS};

use crate::backends::{self, Verdicts, environment};
use crate::connections::Connections;
use crate::settings::Settings;
use crate::{admin_token, output, secrets};

/// The resources that all runs of a project share.
pub(crate) struct LocalResources {
    project: PathBuf,
    settings: Settings,
    /// The backend for all tiers, from `--backend`.
    backend: Option<String>,
    /// Keys and tokens of this process, which the runner redacts from events.
    secrets: Secrets,
    /// Variables of this process that agents must not name.
    private_variables: Vec<String>,
    connections: Connections,
}

impl LocalResources {
    pub(crate) fn new(project: PathBuf, settings: Settings, backend: Option<String>) -> LocalResources {
        // `Settings::read` has installed the keys of backends.
        let secrets = secrets::known().with(admin_token::read(&project));
        let connections = Connections::new(project.clone());
        LocalResources { project, settings, backend, secrets, private_variables: Vec::new(), connections }
    }

    pub(crate) fn connections(&self) -> &Connections {
        &self.connections
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// Refuses agents that name one of these variables: their programs must not see the database's password.
    pub(crate) fn without_variables(self, private_variables: Vec<String>) -> LocalResources {
        LocalResources { private_variables, ..self }
    }

    /// Checks that an agent names no private variable. Placeholders need a variable that `env` names.
    fn check_variables(&self, blueprint: &Blueprint) -> Result<()> {
        let private = blueprint.env.iter().find(|name| self.private_variables.contains(name));
        match private {
            Some(name) => bail!(
                "agent `{}`: `env` names `{name}`, which is reserved for the password of this server's database; give \
                 the agent a variable of its own",
                blueprint.name
            ),
            None => Ok(()),
        }
    }

    /// Returns the runner details for the coordinator: names, kinds and models of backends, without keys and URLs.
    pub(crate) fn details(&self) -> Value {
        let verdicts = Verdicts::read(&self.project);
        let describe = |backend: &BackendConfig| {
            let probe = verdicts.of(backend).map(|verdict| verdict.capabilities);
            json!({
                "name": backend.name,
                "kind": backend.kind.name(),
                "model": backends::model_name(backend),
                "probe": probe,
            })
        };
        let backends: Vec<Value> = self.settings.backends.values().map(describe).collect();
        json!({"version": env!("CARGO_PKG_VERSION"), "backends": backends})
    }

    /// Reports a backend that the environment chose, unless `--backend` names one or the agent asks no model.
    pub(crate) fn announce_backend(&self, blueprint: Option<&Blueprint>) {
        let is_program = blueprint.is_some_and(|blueprint| blueprint.kind == AgentType::Procedural);
        if self.backend.is_none() && !is_program {
            output::lines(self.settings.environment_notice());
        }
    }

    /// Checks that a run of this agent can start, before it is submitted.
    pub(crate) async fn check_startable(
        &self,
        blueprint: &Blueprint,
        parameters: &Value,
        overrides: &RunOverrides,
    ) -> Result<()> {
        let (session_id, run_id) = (SessionId::from_random([0; 6]), RunId::from_random([0; 6]));
        let (session_id, run_id) = (&session_id, &run_id);
        fill(blueprint, &FillContext { parameters, session_id, run_id, environment: &environment })?;
        if blueprint.kind != AgentType::Procedural {
            self.ladder(blueprint, overrides).await?;
        }
        Ok(())
    }

    async fn resources(&self, assignment: &Assignment) -> Result<Resources> {
        self.check_variables(&assignment.journal.start.blueprint)?;
        let first_run = &assignment.journal.first_run;
        let Filled { blueprint, journaled, command, mcp_servers } = fill(
            &assignment.journal.start.blueprint,
            &FillContext {
                parameters: &first_run.parameters,
                session_id: &assignment.session_id,
                run_id: &first_run.run_id,
                environment: &environment,
            },
        )?;
        let ladder = match blueprint.kind {
            AgentType::Procedural => Vec::new(),
            AgentType::Autonomous | AgentType::Orchestrator => {
                self.ladder(&blueprint, &assignment.journal.start.overrides).await?
            }
        };
        let named = blueprint.env.iter().filter_map(|name| Some((name.clone(), environment(name)?)));
        let named = Variables::from(named.collect::<Vec<_>>());
        let folder = resolve_folder(&self.project, assignment.project_dir.as_deref())?;
        Ok(Resources {
            ladder,
            command,
            mcp_servers,
            project_dir: folder.to_string_lossy().into_owned(),
            policy: self.policy(&blueprint, &assignment.commands)?,
            environment: named,
            allowed_commands: self.settings.tools.commands.clone(),
            secrets: self.secrets.clone(),
            journaled_blueprint: Some(Arc::new(journaled)),
            ..Resources::new(Arc::new(blueprint))
        })
    }

    /// Returns the files that the tools of a run must not write or read.
    fn policy(&self, blueprint: &Blueprint, commands: &[Vec<String>]) -> Result<ProjectPolicy> {
        let root = self.project.canonicalize().context("cannot read the project folder")?;
        let has_writing_tools = blueprint.tools.iter().any(|tool| WRITING_TOOLS.contains(&tool.as_str()));
        let programs = if has_writing_tools { self.programs(blueprint, commands) } else { Vec::new() };
        Ok(ProjectPolicy {
            root: Some(root),
            readable: self.settings.tools.readable.clone(),
            programs,
            has_free_programs: !self.settings.tools.confine_programs,
        })
    }

    /// Returns the programs and scripts that this runner may start: those of backends, of `check:criteria`, and of all
    /// agents of the coordinator. Tools must not overwrite them.
    fn programs(&self, blueprint: &Blueprint, commands: &[Vec<String>]) -> Vec<PathBuf> {
        let backends = self.settings.backends.values().map(|backend| backend.command.clone());
        let allowed = self.settings.tools.commands.iter().map(|pattern| pattern.words().to_vec());
        let own = std::iter::once(blueprint.command.clone());
        let commands = backends.chain(allowed).chain(own).chain(commands.iter().cloned());
        commands
            .flat_map(|command| {
                let positions = program_positions(&command);
                positions.into_iter().map(|position| PathBuf::from(&command[position])).collect::<Vec<_>>()
            })
            .collect()
    }

    /// Connects the backends of a run: the one that the run or this process chooses, otherwise those of the agent's tiers.
    async fn ladder(&self, blueprint: &Blueprint, overrides: &RunOverrides) -> Result<Vec<LadderRung>> {
        let chosen = overrides.backend.as_ref().or(self.backend.as_ref());
        let chosen = chosen.map(|name| self.settings.backend(name)).transpose()?;
        match (chosen, &overrides.model) {
            (Some(backend), None) => return Ok(vec![self.connections.rung("default", backend).await?]),
            (Some(backend), Some(model)) => {
                return Ok(vec![self.connections.with_model(backend, model).await?]);
            }
            (None, _) => {}
        }
        let mut ladder = Vec::new();
        for tier in self.settings.ladder(blueprint)? {
            let backend = self.settings.tier(&tier)?;
            if let Some(model) = &overrides.model {
                return Ok(vec![self.connections.with_model(backend, model).await?]);
            }
            ladder.push(self.connections.rung(&tier, backend).await?);
        }
        Ok(ladder)
    }
}

impl ResourceProvider for LocalResources {
    fn prepare<'a>(&'a self, assignment: &'a Assignment) -> Prepared<'a> {
        Box::pin(async move {
            let prepared = self.resources(assignment).await;
            prepared.map_err(|error| self.secrets.redact(format!("{error:#}")))
        })
    }
}
