//! Executes a run in this process: the project's own store and a worker.

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
use super::{SchemaSource, agent, check_orchestrator, report, request};
use crate::arguments::Run;
use crate::backends::environment;
use crate::coordinator::{self, Coordinator};
use crate::exit::Exit;
use crate::local_resources::LocalResources;
use crate::settings::Settings;
use crate::{analytics, output, signals, source};

/// The number of concurrent runs. A parked run does not occupy a slot.
const SLOTS: usize = 4;

/// The heartbeat interval, which is also the delay between Ctrl-C and the stop of a run.
const HEARTBEAT: Duration = Duration::from_millis(100);

/// The timeout of one claim request.
const CLAIM_WAIT: Duration = Duration::from_secs(4);

pub(super) async fn run(arguments: &Run) -> Result<Exit> {
    let project = std::env::current_dir().context("cannot read the current folder")?;
    let settings = Settings::read(&project, &environment)?;
    let resources = LocalResources::new(project.clone(), settings, arguments.target.backend.clone());
    // Files are read once, so an agent that writes files does not change agents of its own run.
    let registry = Arc::new(Registry::read(&project));
    if let Some(session) = &arguments.target.session {
        let session = session.parse().context("--session")?;
        let coordinator = LocalCoordinator::open(&project, registry).await?;
        return coordinator.resume(arguments, resources, session).await;
    }
    let (path, blueprint) = agent::find(&project, &arguments.agent)?;
    check_orchestrator(arguments, &blueprint)?;
    let parameters = read_parameters(arguments, &blueprint)?;
    if let Err(invalid) = parameters::check(&blueprint, &parameters) {
        return Ok(report::invalid_parameters(arguments, &invalid));
    }
    let schema = SchemaSource::read(arguments)?;
    let contract = contract_request(arguments, schema.as_ref());
    resolve(&blueprint, &contract, &EnvironmentDefaults::from_lookup(environment)?)?;
    agent::check_callable_agents(&project, &blueprint)?;
    resources.check_startable(&blueprint, &parameters).await?;
    let request = request(arguments, blueprint.name.clone(), parameters, schema)?;
    registry.insert_agent(path, blueprint);
    LocalCoordinator::open(&project, registry).await?.perform(arguments, resources, request).await
}

/// Returns the contract options of the command line, to resolve the contract before the run is submitted.
fn contract_request(arguments: &Run, schema: Option<&SchemaSource>) -> ContractRequest {
    let options = arguments.options();
    match schema {
        Some(SchemaSource::Inline(schema)) => {
            ContractRequest { schema: Some(schema.clone()), named: None, options }
        }
        // A name without a file may be a registered schema, which the coordinator resolves.
        Some(SchemaSource::Named(name)) => {
            let named = source::load_schema_source(name).ok().map(|(_, schema)| (name.clone(), schema));
            ContractRequest { schema: None, named, options }
        }
        None => ContractRequest { options, ..ContractRequest::default() },
    }
}

/// Opens the project's own store and checks that it is writable. SQLite opens a read-only file without an error.
async fn open_writable(
    project: &Path,
    registry: Arc<Registry>,
    options: AppOptions,
) -> Result<App, slipform_coordinator::StoreError> {
    let app = App::open(&coordinator::database(project), false, registry, options).await?;
    app.store().ping().await?;
    Ok(app)
}

/// An in-process coordinator whose runs are pinned to the worker of this process.
struct LocalCoordinator {
    app: App,
    runner_id: String,
    project: PathBuf,
    /// Whether the store is on disk; otherwise runs are lost when the process ends.
    is_persistent: bool,
}

impl LocalCoordinator {
    async fn open(project: &Path, registry: Arc<Registry>) -> Result<LocalCoordinator> {
        let mut bytes = [0_u8; 4];
        getrandom::fill(&mut bytes)
            .map_err(|error| anyhow::anyhow!("cannot generate a runner id: {error}"))?;
        let runner_id = format!("command_{}_{:08x}", std::process::id(), u32::from_be_bytes(bytes));
        let options = AppOptions {
            heartbeat: HEARTBEAT,
            pinned_to: Some(runner_id.clone()),
            ..coordinator::options()?
        };
        let (app, is_persistent) = match open_writable(project, registry.clone(), options.clone()).await {
            Ok(app) => (app, true),
            // A read-only folder must not prevent the run.
            Err(error) => {
                output::lines([format!("slipform: this run will not be stored: {error}")]);
                (App::open("sqlite::memory:", false, registry, options).await?, false)
            }
        };
        Ok(LocalCoordinator { app, runner_id, project: project.to_owned(), is_persistent })
    }

    /// Resumes a session with the agent as it was when the session started, even if its file has changed.
    async fn resume(self, arguments: &Run, resources: LocalResources, session: SessionId) -> Result<Exit> {
        let blueprint = self.app.agent_of(&session).await?;
        let (given, name) = (&arguments.agent, &blueprint.name);
        // The argument may also be a file that describes the same agent.
        if given != name && agent::find(&self.project, given).is_ok_and(|(_, other)| other.name != *name) {
            bail!("session `{session}` belongs to agent `{name}`, not to `{given}`; run it with `{name}`");
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
        let outcome = tokio::select! {
            outcome = coordinator.wait_until_idle(&created.run_id) => outcome,
            interrupted = signals::interrupted() => {
                interrupted?;
                coordinator.stop_tree(&created.run_id).await
            }
        };
        line.clear();
        // The worker has no active runs left, so aborting it loses nothing.
        working.abort();
        helpers.abort();
        let run = outcome?;
        let ended = report::EndedRun::load(&coordinator, &created.run_id, run).await?;
        let shown = report::show(arguments, &ended, &self.project);
        if self.is_persistent {
            analytics::catch_up(&self.app, &self.project).await;
        }
        shown
    }
}
