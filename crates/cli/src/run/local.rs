//! A run in this process: the project's own store, and a worker beside it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use slipform_agents::contract::{ContractRequest, EnvironmentDefaults, resolve};
use slipform_agents::parameters;
use slipform_coordinator::{App, AppOptions, Registry, Sweeper, SweeperOptions};
use slipform_runner::{Progress, Worker, WorkerOptions};
use slipform_types::SessionId;

use super::parameters::read_parameters;
use super::progress_line::ProgressLine;
use super::{SchemaSource, agent, check_team, report, request};
use crate::arguments::Run;
use crate::backends::environment;
use crate::coordinator::{self, Coordinator};
use crate::exit::Exit;
use crate::local_resources::LocalResources;
use crate::settings::Settings;
use crate::{analytics, output, signals, source};

/// Runs that are worked on at the same time. A parked run is none of them.
const SLOTS: usize = 4;

/// How often the worker asks whether it is to stop: as soon as somebody presses Ctrl-C.
const HEARTBEAT: Duration = Duration::from_millis(100);

/// How long the worker waits for work at a time.
const CLAIM_WAIT: Duration = Duration::from_secs(4);

pub(super) async fn run(arguments: &Run) -> Result<Exit> {
    let project = std::env::current_dir().context("the current folder cannot be read")?;
    let settings = Settings::read(&project, &environment)?;
    let resources = LocalResources::new(project.clone(), settings, arguments.place.backend.clone());
    // Files are read once: what an agent writes meanwhile changes none of those at work.
    let registry = Arc::new(Registry::read(&project));
    if let Some(session) = &arguments.place.session {
        let session = session.parse().context("--session")?;
        let place = LocalCoordinator::open(&project, registry).await?;
        return place.resume(arguments, resources, session).await;
    }
    let (path, blueprint) = agent::find(&project, &arguments.agent)?;
    check_team(arguments, &blueprint)?;
    let parameters = read_parameters(arguments, &blueprint)?;
    if let Err(invalid) = parameters::check(&blueprint, &parameters) {
        return Ok(report::invalid_parameters(arguments, &invalid));
    }
    let schema = SchemaSource::read(arguments)?;
    let contract = contract_request(arguments, schema.as_ref());
    resolve(&blueprint, &contract, &EnvironmentDefaults::from_lookup(environment)?)?;
    agent::check_family(&project, &blueprint)?;
    resources.try_out(&blueprint, &parameters).await?;
    let request = request(arguments, blueprint.name.clone(), parameters, schema)?;
    registry.insert_agent(path, blueprint);
    LocalCoordinator::open(&project, registry).await?.perform(arguments, resources, request).await
}

/// What the command line says about the result, for a first look before anything begins.
fn contract_request(arguments: &Run, schema: Option<&SchemaSource>) -> ContractRequest {
    let options = arguments.options();
    match schema {
        Some(SchemaSource::Inline(schema)) => {
            ContractRequest { schema: Some(schema.clone()), named: None, options }
        }
        // Another name may be one that was registered without a file.
        Some(SchemaSource::Named(name)) => {
            let named = source::schema_source(name).ok().map(|(_, schema)| (name.clone(), schema));
            ContractRequest { schema: None, named, options }
        }
        None => ContractRequest { options, ..ContractRequest::default() },
    }
}

/// The project's own store. SQLite opens what it may only read as well, and says so when something is written.
async fn writable(
    project: &Path,
    registry: Arc<Registry>,
    options: AppOptions,
) -> Result<App, slipform_coordinator::StoreError> {
    let app = App::open(&coordinator::database(project), false, registry, options).await?;
    app.store().ping().await?;
    Ok(app)
}

/// A store, and the runner that alone works on what is submitted here.
struct LocalCoordinator {
    app: App,
    runner_id: String,
    project: PathBuf,
    /// Whether there is something to read when the process has ended.
    is_kept: bool,
}

impl LocalCoordinator {
    async fn open(project: &Path, registry: Arc<Registry>) -> Result<LocalCoordinator> {
        let mut bytes = [0_u8; 4];
        getrandom::fill(&mut bytes).map_err(|error| anyhow::anyhow!("no random numbers for ids: {error}"))?;
        let runner_id = format!("command_{}_{:08x}", std::process::id(), u32::from_be_bytes(bytes));
        let options = AppOptions {
            heartbeat: HEARTBEAT,
            pinned_to: Some(runner_id.clone()),
            ..coordinator::options()?
        };
        let (app, is_kept) = match writable(project, registry.clone(), options.clone()).await {
            Ok(app) => (app, true),
            // A folder that cannot be written to is no reason not to run.
            Err(error) => {
                output::lines([format!("slipform: this run will not be kept: {error}")]);
                (App::open("sqlite::memory:", false, registry, options).await?, false)
            }
        };
        Ok(LocalCoordinator { app, runner_id, project: project.to_owned(), is_kept })
    }

    /// Goes on with a session. Its agent is what it was when the session began, whatever its file says by now.
    async fn resume(self, arguments: &Run, resources: LocalResources, session: SessionId) -> Result<Exit> {
        let blueprint = self.app.agent_of(&session).await?;
        let (given, name) = (&arguments.agent, &blueprint.name);
        // A file is as good as the name of what it describes.
        if given != name && agent::find(&self.project, given).is_ok_and(|(_, other)| other.name != *name) {
            bail!("the session {session} is one of the agent '{name}', not of '{given}'");
        }
        let parameters = read_parameters(arguments, &blueprint)?;
        if let Err(invalid) = parameters::check_resume(&blueprint, &parameters) {
            return Ok(report::invalid_parameters(arguments, &invalid));
        }
        let request = request(arguments, name.clone(), parameters, SchemaSource::read(arguments)?)?;
        self.perform(arguments, resources, request).await
    }

    async fn perform(
        self,
        arguments: &Run,
        resources: LocalResources,
        request: slipform_api::RunRequest,
    ) -> Result<Exit> {
        let line = Arc::new(ProgressLine::new(output::is_terminal()));
        let progress: Arc<dyn Progress> = line.clone();
        let options = WorkerOptions {
            name: "slipform run".to_owned(),
            slots: SLOTS,
            details: resources.details(),
            runner_id: Some(self.runner_id.clone()),
            claim_wait: CLAIM_WAIT,
        };
        let worker = Worker::new(Arc::new(self.app.clone()), Arc::new(resources), progress, options);
        let coordinator = Coordinator::Local(self.app.clone());
        let (app, sweeper) = (self.app.clone(), Sweeper::new(self.app.clone(), SweeperOptions::default()));
        let helpers = tokio::spawn(async move { tokio::join!(app.tail().run(), sweeper.run()) });
        let working = tokio::spawn(worker.run(std::future::pending()));
        let created = coordinator.submit(request).await?;
        let settled = tokio::select! {
            settled = coordinator.wait_until_idle(&created.run_id) => settled,
            interrupted = signals::interrupted() => {
                interrupted?;
                coordinator.stop_tree(&created.run_id).await
            }
        };
        line.clear();
        // Nothing that it holds is left: whether there is more work is of no interest.
        working.abort();
        helpers.abort();
        let run = settled?;
        let ended = report::Ended::of(&coordinator, &created.run_id, run).await?;
        let shown = report::show(arguments, &ended, &self.project);
        if self.is_kept {
            analytics::catch_up(&self.app, &self.project).await;
        }
        shown
    }
}
