//! `formwork run`: an agent, in this process, from parameters to a result that satisfies its contract.

mod given;
mod line;
mod office;
mod report;

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use formwork_agents::contract::{ContractRequest, EnvironmentDefaults, resolve};
use formwork_agents::parameters;
use formwork_runner::{Claim, Clock as _, Local, Progress, Stop, SystemClock};
use tokio::signal::unix::{SignalKind, signal};

use crate::arguments::Run;
use crate::backends::{self, environment};
use crate::exit::Exit;
use crate::settings::Settings;
use crate::{output, source};
use line::Line;
use office::Office;

pub(crate) fn run(arguments: &Run) -> Result<Exit> {
    let project = std::env::current_dir().context("the current folder cannot be read")?;
    let blueprint = office::agent(&project, &arguments.agent)?;
    let parameters = given::parameters(arguments, &blueprint)?;
    if let Err(invalid) = parameters::check(&blueprint, &parameters) {
        return Ok(report::invalid_parameters(arguments, &invalid));
    }
    let contract =
        resolve(&blueprint, &request(arguments)?, &EnvironmentDefaults::from_lookup(environment)?)?;
    let settings = Settings::read(&project, &environment)?;
    let office = Arc::new(Office::new(project, settings, arguments.backend.clone()));
    office.pin(&blueprint)?;
    backends::runtime()?.block_on(async {
        let claim = office.claim(&blueprint, parameters, contract).await?;
        perform(arguments, claim, office).await
    })
}

async fn perform(arguments: &Run, claim: Claim, office: Arc<Office>) -> Result<Exit> {
    let clock = Arc::new(SystemClock);
    let created_at = clock.now();
    let stop = Stop::default();
    let interrupted = stop.clone();
    let listen = |kind: SignalKind| signal(kind).context("listening for signals");
    let (mut terminated, mut hung_up, mut quit) =
        (listen(SignalKind::terminate())?, listen(SignalKind::hangup())?, listen(SignalKind::quit())?);
    let listener = tokio::spawn(async move {
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = terminated.recv() => {}
            _ = hung_up.recv() => {}
            _ = quit.recv() => {}
        }
        interrupted.request();
    });
    let line = Arc::new(Line::new(output::is_terminal()));
    let progress: Arc<dyn Progress> = line.clone();
    let local = Arc::new(Local::new(clock.clone(), office.clone()));
    let ended = local.run(claim, &stop, &progress).await;
    line.clear();
    listener.abort();
    let (claim, outcome) = ended?;
    let ended = report::Ended {
        claim: &claim,
        outcome: &outcome,
        events: &local.events(),
        created_at: &created_at,
        finished_at: &clock.now(),
    };
    report::show(arguments, &ended, &office.project)
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
