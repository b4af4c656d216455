//! `formwork run`: an agent, in this process, from parameters to a result that satisfies its contract.

mod given;
mod line;
mod report;

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use formwork_agents::contract::{ContractRequest, EnvironmentDefaults, resolve};
use formwork_agents::placeholders::{Surroundings, fill};
use formwork_agents::{Checked, load_one, parameters};
use formwork_runner::{Claim, Clock as _, Memory, Rung, Stop, SystemClock, drive};
use formwork_types::{AgentType, Blueprint, RunId, SessionId};
use tokio::signal::unix::{SignalKind, signal};

use crate::arguments::Run;
use crate::backends::{self, Verdicts, environment};
use crate::exit::Exit;
use crate::settings::Settings;
use crate::{agents, output, source};
use line::Line;

pub(crate) fn run(arguments: &Run) -> Result<Exit> {
    let project = std::env::current_dir().context("the current folder cannot be read")?;
    let blueprint = agent(&project, &arguments.agent)?;
    refuse_what_cannot_run_yet(&blueprint)?;
    let parameters = given::parameters(arguments, &blueprint)?;
    if let Err(invalid) = parameters::check(&blueprint, &parameters) {
        return Ok(report::invalid_parameters(arguments, &invalid));
    }
    let contract =
        resolve(&blueprint, &request(arguments)?, &EnvironmentDefaults::from_lookup(environment)?)?;
    let settings = Settings::read(&project, &environment)?;
    let (session_id, run_id) = ids()?;
    let surroundings = Surroundings {
        parameters: &parameters,
        session_id: &session_id,
        run_id: &run_id,
        environment: &environment,
    };
    let blueprint = fill(&blueprint, &surroundings)?;
    let input = parameters::inputs_text(&blueprint, &parameters);
    backends::runtime()?.block_on(async {
        let ladder = ladder(arguments, &blueprint, &settings, &project).await?;
        let claim = Claim {
            session_id,
            run_id,
            blueprint: Arc::new(blueprint),
            contract: contract.map(Arc::new),
            parameters,
            input,
            project_dir: project.to_string_lossy().into_owned(),
            ladder,
        };
        perform(arguments, &claim, &project).await
    })
}

async fn perform(arguments: &Run, claim: &Claim, project: &Path) -> Result<Exit> {
    let clock = Arc::new(SystemClock);
    let created_at = clock.now();
    let journal = Memory::new(clock.clone());
    let stop = Stop::default();
    let interrupted = stop.clone();
    let mut terminated = signal(SignalKind::terminate()).context("listening for signals")?;
    let listener = tokio::spawn(async move {
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = terminated.recv() => {}
        }
        interrupted.request();
    });
    let line = Line::new(&claim.blueprint.name, output::is_terminal());
    let outcome = drive(claim, &journal, &stop, &line).await;
    line.clear();
    listener.abort();
    let ended = report::Ended {
        claim,
        outcome: &outcome?,
        events: &journal.events(),
        created_at: &created_at,
        finished_at: &clock.now(),
    };
    report::show(arguments, &ended, project)
}

/// The agent of a name, or of a file.
fn agent(project: &Path, given: &str) -> Result<Blueprint> {
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
        Ok(Checked { blueprint, .. }) => Ok(blueprint),
        Err(problems) => bail!("{} cannot be used:\n{problems}", loaded.path.display()),
    }
}

/// Says so rather than running an agent without what it needs.
fn refuse_what_cannot_run_yet(blueprint: &Blueprint) -> Result<()> {
    let name = &blueprint.name;
    if blueprint.kind == AgentType::Procedural {
        bail!("the agent '{name}' is procedural; this version runs autonomous agents only");
    }
    if !(blueprint.tools.is_empty() && blueprint.agents.is_empty() && blueprint.mcp_servers.is_empty()) {
        bail!("the agent '{name}' uses tools or other agents; this version runs agents without them only");
    }
    if blueprint.protocol == formwork_types::Protocol::Actions {
        bail!("the agent '{name}' speaks the action protocol, which this version does not run");
    }
    Ok(())
}

fn request(arguments: &Run) -> Result<ContractRequest> {
    let mut request = ContractRequest { options: arguments.options(), ..ContractRequest::default() };
    if let Some(given) = &arguments.schema {
        let (_, schema) = source::schema_source(given)?;
        if Path::new(given).exists() {
            request.schema = Some(schema);
        } else {
            request.named = Some((given.clone(), schema));
        }
    }
    Ok(request)
}

async fn ladder(
    arguments: &Run,
    blueprint: &Blueprint,
    settings: &Settings,
    project: &Path,
) -> Result<Vec<Rung>> {
    let verdicts = Verdicts::read(project);
    if let Some(name) = &arguments.backend {
        return Ok(vec![backends::rung("default", settings.backend(name)?, &verdicts).await?]);
    }
    let mut ladder = Vec::new();
    for tier in Settings::ladder(blueprint) {
        ladder.push(backends::rung(&tier, settings.tier(&tier)?, &verdicts).await?);
    }
    Ok(ladder)
}

fn ids() -> Result<(SessionId, RunId)> {
    let mut bytes = [0_u8; 12];
    getrandom::fill(&mut bytes).map_err(|error| anyhow::anyhow!("no random numbers for ids: {error}"))?;
    let (mut session, mut run) = ([0; 6], [0; 6]);
    session.copy_from_slice(&bytes[..6]);
    run.copy_from_slice(&bytes[6..]);
    Ok((SessionId::from_random(session), RunId::from_random(run)))
}
