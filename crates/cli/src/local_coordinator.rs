//! A coordinator in this process, over the store of the project.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use slipform_agents::parameters::with_defaults;
use slipform_agents::{KB_AGENTS_FOLDER, load};
use slipform_api::{LeaveRequest, Problem, RunRequest, RunnerApi as _};
use slipform_coordinator::{App, AppOptions, Registry, StoreError, Sweeper, SweeperOptions};
use slipform_runner::{Progress, Worker, WorkerOptions};
use slipform_types::Blueprint;
use tokio::task::JoinSet;

use crate::local_resources::LocalResources;
use crate::{analytics, coordinator, output};

/// The address of a store that ends with the process.
const IN_MEMORY: &str = "sqlite::memory:";

/// The number of concurrent runs. A parked run does not occupy a slot.
const SLOTS: usize = 4;

/// The heartbeat interval, which is also the delay between Ctrl-C and the stop of a run.
const HEARTBEAT: Duration = Duration::from_millis(100);

/// The timeout of one claim request.
const CLAIM_WAIT: Duration = Duration::from_secs(4);

/// The time between two sweeps of a command that runs no agents.
const SWEEP_INTERVAL: Duration = Duration::from_millis(500);

/// A coordinator in this process. Its background tasks end with it.
pub(crate) struct LocalCoordinator {
    pub(crate) app: App,
    project: PathBuf,
    /// The runner to which submitted runs are pinned; `None` if the store is not open for runs.
    runner_id: Option<String>,
    /// Whether the store is on disk; otherwise runs are lost when the process ends.
    is_persistent: bool,
    background: JoinSet<()>,
}

impl LocalCoordinator {
    /// Opens the store, and creates it if the project has none.
    pub(crate) async fn open(project: &Path) -> Result<LocalCoordinator> {
        let address = coordinator::database(project);
        let app = App::open(&address, false, registry(project), coordinator::options()?).await?;
        Ok(LocalCoordinator::new(app, project, true).with_sweeps().await)
    }

    /// Opens the store if the project has one, otherwise an empty one in memory.
    pub(crate) async fn open_to_read(project: &Path) -> Result<LocalCoordinator> {
        if coordinator::has_store(project) {
            LocalCoordinator::open(project).await
        } else {
            LocalCoordinator::in_memory(project, registry(project)).await
        }
    }

    /// Opens the store for runs of this process, or an empty one in memory if the project has none.
    pub(crate) async fn open_to_run(project: &Path) -> Result<LocalCoordinator> {
        // Files are read once, so an agent that writes files does not change agents of its own run.
        let registry = registry(project);
        if coordinator::has_store(project) {
            LocalCoordinator::for_runs(project, registry).await
        } else {
            LocalCoordinator::in_memory(project, registry).await
        }
    }

    /// Opens the store for a runner of this process that performs the runs of all callers, and creates it if the project
    /// has none. Runs that this process leaves behind are continued by the next one.
    pub(crate) async fn open_to_serve(project: &Path) -> Result<LocalCoordinator> {
        let options = AppOptions { heartbeat: HEARTBEAT, ..coordinator::options()? };
        let app = App::open(&coordinator::database(project), false, registry(project), options).await?;
        let mut opened = LocalCoordinator::new(app, project, true);
        let sweeper = Sweeper::new(opened.app.clone(), SweeperOptions::default());
        opened.background.spawn(sweeper.run());
        let registry = opened.app.registry().clone();
        opened.background.spawn(async move { registry.watch().await });
        Ok(opened)
    }

    /// Opens an empty store that ends with the process.
    async fn in_memory(project: &Path, registry: Arc<Registry>) -> Result<LocalCoordinator> {
        let app = App::open(IN_MEMORY, false, registry, coordinator::options()?).await?;
        Ok(LocalCoordinator::new(app, project, false))
    }

    /// Creates the project's store unless it is open, with the same agents and schemas.
    pub(crate) async fn create_store(self) -> Result<LocalCoordinator> {
        if self.runner_id.is_some() {
            return Ok(self);
        }
        LocalCoordinator::for_runs(&self.project, self.app.registry().clone()).await
    }

    /// Opens the store for a runner of this process. A folder that cannot be written to must not prevent a run.
    async fn for_runs(project: &Path, registry: Arc<Registry>) -> Result<LocalCoordinator> {
        let runner_id = random_runner_id()?;
        let pinned_to = Some(runner_id.clone());
        let options = AppOptions { heartbeat: HEARTBEAT, pinned_to, ..coordinator::options()? };
        let (app, is_persistent) = match open_writable(project, registry.clone(), options.clone()).await {
            Ok(app) => (app, true),
            Err(error) => {
                output::lines([format!("slipform: this run will not be stored: {error}")]);
                (App::open(IN_MEMORY, false, registry, options).await?, false)
            }
        };
        let mut opened = LocalCoordinator::new(app, project, is_persistent);
        // A session whose last run died with its process must not count as busy.
        let _ = opened.app.sweep_once().await;
        opened.runner_id = Some(runner_id);
        let sweeper = Sweeper::new(opened.app.clone(), SweeperOptions::default());
        opened.background.spawn(sweeper.run());
        Ok(opened)
    }

    fn new(app: App, project: &Path, is_persistent: bool) -> LocalCoordinator {
        let mut background = JoinSet::new();
        let tail = app.tail().clone();
        background.spawn(async move { tail.run().await });
        LocalCoordinator { app, project: project.to_owned(), runner_id: None, is_persistent, background }
    }

    /// Ends runs of dead processes, now and while the command waits. A coordinator that serves does this by itself.
    async fn with_sweeps(mut self) -> LocalCoordinator {
        // A store that cannot be written to can still be read.
        let _ = self.app.sweep_once().await;
        let app = self.app.clone();
        self.background.spawn(async move {
            loop {
                tokio::time::sleep(SWEEP_INTERVAL).await;
                let _ = app.sweep_once().await;
            }
        });
        self
    }

    /// Returns the folder of the project.
    pub(crate) fn project(&self) -> &Path {
        &self.project
    }

    /// Returns what is used by a run instead of something else of the same name: an agent of `agents/` instead of one
    /// of `.kb/agents/`, or a schema of the project instead of a shipped one.
    pub(crate) fn replacement_warnings(&self, agent: &str, schema: Option<&str>) -> Vec<String> {
        let files = self.app.registry().files();
        let own = files.agents.get(agent).filter(|file| !file.path.starts_with(KB_AGENTS_FOLDER));
        let others = load(&self.project.join(KB_AGENTS_FOLDER)).unwrap_or_default();
        let other = others.iter().find(|other| other.name == agent);
        let replaced = own.zip(other).map(|(own, other)| {
            let unused = other.path.strip_prefix(&self.project).unwrap_or(&other.path).display();
            format!(
                "slipform: warning: agent `{agent}` is read from {}, not from {unused}",
                own.path.display()
            )
        });
        let schemas = schema.and_then(|name| files.schemas.get(name)).into_iter();
        let problems = schemas.flat_map(|file| {
            let line = |problem: &Problem| {
                format!("slipform: warning: {}: {}", file.path.display(), problem.message)
            };
            file.problems.iter().map(line).collect::<Vec<_>>()
        });
        replaced.into_iter().chain(problems).collect()
    }

    /// Makes an agent known that is not in the project's folder.
    pub(crate) fn add_agent(&self, path: PathBuf, blueprint: Blueprint) {
        self.app.registry().insert_agent(path, blueprint);
    }

    /// Checks that the runner of this process can start a run, before the run is submitted.
    pub(crate) async fn check_startable(
        &self,
        resources: &LocalResources,
        request: &RunRequest,
        blueprint: Option<&Blueprint>,
    ) -> Result<()> {
        self.app.check_run(request).await?;
        match blueprint {
            Some(blueprint) => {
                let parameters = request.parameters.clone().unwrap_or_default();
                let parameters = with_defaults(blueprint, parameters);
                resources.check_startable(blueprint, &parameters, &request.overrides()).await
            }
            None => Ok(()),
        }
    }

    /// Starts a runner for the runs of this process.
    pub(crate) fn start_runner(&mut self, resources: LocalResources, progress: Arc<dyn Progress>) {
        let worker = self.worker("slipform run", resources, progress);
        self.background.spawn(async move {
            if let Err(error) = worker.run(std::future::pending()).await {
                output::lines([format!("slipform: {error}")]);
            }
        });
    }

    /// Returns the runner for the runs of this process.
    pub(crate) fn worker(
        &self,
        name: &str,
        resources: LocalResources,
        progress: Arc<dyn Progress>,
    ) -> Worker {
        let options = WorkerOptions {
            name: name.to_owned(),
            slots: SLOTS,
            details: resources.details(),
            runner_id: self.runner_id.clone(),
            claim_wait: CLAIM_WAIT,
        };
        Worker::new(Arc::new(self.app.clone()), Arc::new(resources), progress, options)
    }

    /// Removes the runner of this process from the list of runners.
    pub(crate) async fn leave(&self) {
        if let Some(runner_id) = self.runner_id.clone() {
            // Without an answer, the runner disappears from the list after a while.
            let _ = self.app.leave(&LeaveRequest { runner_id }).await;
        }
    }

    /// Writes pending analytics of the project's own runs.
    pub(crate) async fn write_analytics(&self) {
        if self.is_persistent {
            analytics::catch_up(&self.app, &self.project).await;
        }
    }
}

/// Returns the agents and schemas of the project.
fn registry(project: &Path) -> Arc<Registry> {
    Arc::new(Registry::read(project))
}

/// Opens the project's own store and checks that it is writable. SQLite opens a read-only file without an error.
async fn open_writable(
    project: &Path,
    registry: Arc<Registry>,
    options: AppOptions,
) -> Result<App, StoreError> {
    let app = App::open(&coordinator::database(project), false, registry, options).await?;
    app.store().ping().await?;
    Ok(app)
}

fn random_runner_id() -> Result<String> {
    let mut bytes = [0_u8; 4];
    getrandom::fill(&mut bytes).map_err(|error| anyhow::anyhow!("cannot generate a runner id: {error}"))?;
    Ok(format!("command_{}_{:08x}", std::process::id(), u32::from_be_bytes(bytes)))
}
