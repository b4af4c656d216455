//! A run in this process: the project's own store, and a worker beside it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use formwork_agents::contract::{ContractRequest, EnvironmentDefaults, resolve};
use formwork_agents::parameters;
use formwork_coordinator::{App, AppOptions, Registry, Sweeper, SweeperOptions};
use formwork_runner::{Progress, Worker, WorkerOptions};
use formwork_types::{Blueprint, SessionId};

use super::line::Line;
use super::{agent, given, report, request};
use crate::arguments::Run;
use crate::backends::environment;
use crate::desk::{self, Desk};
use crate::exit::Exit;
use crate::settings::Settings;
use crate::workshop::Workshop;
use crate::{output, signals, source};

/// Runs that are worked on at the same time. A parked run is none of them.
const SLOTS: usize = 4;

/// How often the worker asks whether it is to stop: as soon as somebody presses Ctrl-C.
const HEARTBEAT: Duration = Duration::from_millis(100);

/// How long the worker waits for work at a time.
const CLAIM_WAIT: Duration = Duration::from_secs(10);

pub(super) async fn run(arguments: &Run) -> Result<Exit> {
    let project = std::env::current_dir().context("the current folder cannot be read")?;
    let (path, blueprint) = agent::find(&project, &arguments.agent)?;
    let parameters = given::parameters(arguments, &blueprint)?;
    let is_resumed = arguments.session.is_some();
    let checked = match is_resumed {
        true => parameters::check_resume(&blueprint, &parameters),
        false => parameters::check(&blueprint, &parameters),
    };
    if let Err(invalid) = checked {
        return Ok(report::invalid_parameters(arguments, &invalid));
    }
    resolve(&blueprint, &contract_request(arguments)?, &EnvironmentDefaults::from_lookup(environment)?)?;
    agent::check_family(&project, &blueprint)?;
    let settings = Settings::read(&project, &environment)?;
    let workshop = Workshop::new(project.clone(), settings, arguments.backend.clone());
    if !is_resumed {
        workshop.try_out(&blueprint, &parameters).await?;
    }
    // Files are read once: what an agent writes meanwhile changes none of those at work.
    let registry = Registry::read(&project);
    let name = blueprint.name.clone();
    registry.give(path, blueprint.clone());
    let place = Place::open(&project, Arc::new(registry)).await?;
    place.perform(arguments, workshop, &blueprint, request(arguments, name, parameters)?).await
}

/// What the command line says about the result, for a first look before anything begins.
fn contract_request(arguments: &Run) -> Result<ContractRequest> {
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

/// A store, and the runner that alone works on what is submitted here.
struct Place {
    app: App,
    runner_id: String,
    project: PathBuf,
}

impl Place {
    async fn open(project: &Path, registry: Arc<Registry>) -> Result<Place> {
        let mut bytes = [0_u8; 4];
        getrandom::fill(&mut bytes).map_err(|error| anyhow::anyhow!("no random numbers for ids: {error}"))?;
        let runner_id = format!("command_{}_{:08x}", std::process::id(), u32::from_be_bytes(bytes));
        let options =
            AppOptions { heartbeat: HEARTBEAT, pinned_to: Some(runner_id.clone()), ..desk::options()? };
        let app = match App::open(&desk::database(project), false, registry.clone(), options.clone()).await {
            Ok(app) => app,
            // A folder that cannot be written to is no reason not to run.
            Err(error) => {
                output::lines([format!("formwork: this run will not be kept: {error}")]);
                App::open("sqlite::memory:", false, registry, options).await?
            }
        };
        Ok(Place { app, runner_id, project: project.to_owned() })
    }

    async fn perform(
        self,
        arguments: &Run,
        workshop: Workshop,
        blueprint: &Blueprint,
        request: formwork_api::RunRequest,
    ) -> Result<Exit> {
        let line = Arc::new(Line::new(output::is_terminal()));
        let progress: Arc<dyn Progress> = line.clone();
        let options = WorkerOptions {
            name: "formwork run".to_owned(),
            slots: SLOTS,
            details: workshop.details(),
            runner_id: Some(self.runner_id.clone()),
            claim_wait: CLAIM_WAIT,
        };
        let worker = Worker::new(Arc::new(self.app.clone()), Arc::new(workshop), progress, options);
        let desk = Desk::Here(self.app.clone());
        if let Some(session) = &request.session_id {
            check_session(&desk, session, blueprint).await?;
        }
        let (app, sweeper) = (self.app.clone(), Sweeper::new(self.app.clone(), SweeperOptions::default()));
        let helpers = tokio::spawn(async move { tokio::join!(app.tail().run(), sweeper.run()) });
        let working = tokio::spawn(worker.run(std::future::pending()));
        let created = desk.submit(request).await?;
        let settled = tokio::select! {
            settled = desk.settle(&created.session_id) => settled,
            interrupted = signals::interrupted() => {
                interrupted?;
                stop_all(&desk, &created.session_id).await
            }
        };
        line.clear();
        // Nothing that it holds is left: whether there is more work is of no interest.
        working.abort();
        helpers.abort();
        let run = settled?;
        let ended = report::Ended::of(&desk, run).await?;
        report::show(arguments, &ended, &self.project)
    }
}

/// A session is one agent's; going on with it as another would be a mistake.
async fn check_session(desk: &Desk, session: &SessionId, blueprint: &Blueprint) -> Result<()> {
    let view = desk.session(session).await?;
    if view.agent_name != blueprint.name {
        bail!("the session {session} is one of the agent '{}', not of '{}'", view.agent_name, blueprint.name);
    }
    Ok(())
}

/// Stops everything that a session led to, and waits until it has.
async fn stop_all(desk: &Desk, session: &SessionId) -> Result<formwork_api::RunView> {
    while let Some(run) = desk.busy(session).await? {
        desk.stop_run(&run).await?;
        desk.stop_session(session).await?;
        desk.wait(&run).await?;
    }
    desk.settle(session).await
}
