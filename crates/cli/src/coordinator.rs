//! The coordinator that commands use: the store of this project in this process, or a coordinator over HTTP.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use slipform_agents::contract::EnvironmentDefaults;
use slipform_api::{
    Client, Connection, EventPage, ResultView, RunCreated, RunPage, RunRequest, RunSummary, RunView,
    SchemaRequest, SchemaView, SessionPage, SessionView, StatsRow,
};
use slipform_coordinator::{App, AppOptions, Page, Registry, RunFilter, StatsFilter};
use slipform_types::{RunId, SessionId, env};
use tokio::time::Instant;

use crate::backends::environment;
use crate::{admin_token, output, secrets};

/// The variable with the coordinator's URL.
pub(crate) const URL_VARIABLE: &str = env::SLIPFORM_URL;

/// The variable with the token for the coordinator.
pub(crate) const TOKEN_VARIABLE: &str = env::SLIPFORM_TOKEN;

/// The project folder with Slipform's state.
const STATE_FOLDER: &str = ".slipform";

/// The database with the project's own runs.
const DATABASE: &str = ".slipform/slipform.db";

/// The time between two polls of a run's status.
const POLL_INTERVAL: Duration = Duration::from_millis(300);

/// The time that `stop` waits beyond the run's lease. It lets a live runner finish the run, or the sweeper end it.
const STOP_WAIT_BEYOND_LEASE: Duration = Duration::from_secs(5);

/// The time after which `stop` reports that it is waiting.
const STOP_NOTICE_DELAY: Duration = Duration::from_secs(1);

/// The time that an interrupted command waits for callbacks, to stop the runs that they start.
const STOP_CALLBACK_WAIT: Duration = Duration::from_secs(5);

/// The maximum number of children per run that a coordinator accepts.
const CHILDREN_MAX: usize = 16;

/// The timeout of one wait on the local store; the command then waits again.
const LOCAL_WAIT: Duration = Duration::from_secs(60);

/// A local or remote coordinator with the same operations.
pub(crate) enum Coordinator {
    /// The store of this project, in this process.
    Local(App),
    /// A coordinator over HTTP.
    Remote(Client),
}

/// Returns the database address of the project's own store. Restricts an existing state folder to its owner.
pub(crate) fn database(project: &Path) -> String {
    if project.join(STATE_FOLDER).is_dir() {
        // An error means that another user owns the folder, which then keeps its mode.
        let _ = restrict_to_owner(&project.join(STATE_FOLDER));
    }
    format!("sqlite:{}", project.join(DATABASE).display())
}

/// Creates a folder that only its owner can read, because state files contain prompts and replies.
pub(crate) fn make_folder(folder: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(folder)?;
    restrict_to_owner(folder)
}

/// Removes the permissions of other users from the state folder that contains `folder`.
fn restrict_to_owner(folder: &Path) -> std::io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let state = folder.ancestors().find(|folder| folder.ends_with(STATE_FOLDER));
        if let Some((state, metadata)) = state.and_then(|state| Some((state, state.metadata().ok()?)))
            && metadata.permissions().mode() & 0o077 != 0
        {
            std::fs::set_permissions(state, std::fs::Permissions::from_mode(0o700))?;
        }
    }
    Ok(())
}

/// Returns a client of the coordinator from `--server` or `SLIPFORM_URL`, or `None` if neither is set.
pub(crate) fn client(server: Option<&str>) -> Result<Option<Client>> {
    let token = environment(TOKEN_VARIABLE).filter(|token| !token.is_empty());
    let project = std::env::current_dir().context("cannot read the current folder")?;
    let connect = |url: String| {
        if token.as_ref().is_some_and(|token| !token.bytes().all(|byte| byte.is_ascii_graphic())) {
            bail!(
                "{TOKEN_VARIABLE} contains characters that are not allowed in a token, such as a space or a line \
                 break; set it again"
            );
        }
        if !url.contains("://") {
            bail!("`{url}` is not a coordinator URL; write http://HOST:PORT or https://HOST:PORT");
        }
        let client = Client::new(&Connection { url, token: token.clone() })?;
        // The user who runs a server of this project is its administrator and needs no token of their own.
        let own = client.host_and_port().filter(|_| token.is_none());
        match own.and_then(|(host, port)| admin_token::find(&project, host, port)) {
            Some((_, address)) => {
                let (project, ip, port) = (project.clone(), address.ip().to_string(), address.port());
                let source = move || Some(admin_token::find(&project, &ip, port)?.0);
                let client = Client::new(&Connection { url: format!("http://{address}"), token: None })?;
                Ok(client.with_token_source(Arc::new(source)))
            }
            None => Ok(client),
        }
    };
    if let Some(url) = server {
        return connect(url.to_owned()).map(Some);
    }
    let Some(url) = environment(URL_VARIABLE).filter(|url| !url.is_empty()) else { return Ok(None) };
    let client = connect(url.clone()).with_context(|| format!("{URL_VARIABLE} is `{url}`"))?;
    Ok(Some(client.named_by(URL_VARIABLE)))
}

/// Returns the options of an in-process coordinator: defaults from the environment, and redaction of secrets.
pub(crate) fn options() -> Result<AppOptions> {
    let defaults = EnvironmentDefaults::from_lookup(environment)?;
    Ok(AppOptions { defaults, redact: Some(secrets::redact_json), ..AppOptions::default() })
}

impl Coordinator {
    /// Opens the coordinator from `--server` or `SLIPFORM_URL`, otherwise the store of this project.
    pub(crate) async fn open(server: Option<&str>) -> Result<Coordinator> {
        if let Some(client) = client(server)? {
            return Ok(Coordinator::Remote(client));
        }
        let project = std::env::current_dir().context("cannot read the current folder")?;
        let registry = Arc::new(Registry::read(&project));
        let app = App::open(&database(&project), false, registry, options()?).await?;
        Ok(Coordinator::Local(app))
    }

    /// Opens the coordinator for commands that only read agent and schema files. If the store does not exist and cannot
    /// be created, it uses an empty store in memory.
    pub(crate) async fn open_to_read(server: Option<&str>) -> Result<Coordinator> {
        let error = match Coordinator::open(server).await {
            Ok(coordinator) => return Ok(coordinator),
            Err(error) => error,
        };
        let project = std::env::current_dir().context("cannot read the current folder")?;
        if !error.is::<slipform_coordinator::StoreError>() || project.join(DATABASE).exists() {
            return Err(error);
        }
        let registry = Arc::new(Registry::read(&project));
        Ok(Coordinator::Local(App::open("sqlite::memory:", false, registry, options()?).await?))
    }

    pub(crate) async fn submit(&self, request: RunRequest) -> Result<RunCreated> {
        Ok(match self {
            Coordinator::Local(app) => app.submit(request, None).await?,
            Coordinator::Remote(client) => client.post("runs", &request).await?,
        })
    }

    pub(crate) async fn run(&self, run: &RunId) -> Result<RunView> {
        Ok(match self {
            Coordinator::Local(app) => app.run(run).await?,
            Coordinator::Remote(client) => client.get(&format!("runs/{run}")).await?,
        })
    }

    pub(crate) async fn runs(&self, filter: RunFilter, page: Page) -> Result<RunPage> {
        Ok(match self {
            Coordinator::Local(app) => app.runs(filter, page).await?,
            Coordinator::Remote(client) => {
                let mut query = page_query(&page);
                query.extend(filter.session_id.map(|id| format!("session_id={id}")));
                query.extend(filter.agent_name.map(|name| format!("agent_name={}", percent_encode(&name))));
                query.extend(filter.status.map(|status| format!("status={}", status.name())));
                query.extend(filter.parent_run_id.map(|id| format!("parent_run_id={id}")));
                client.get(&format!("runs?{}", query.join("&"))).await?
            }
        })
    }

    pub(crate) async fn stop_run(&self, run: &RunId) -> Result<RunView> {
        Ok(match self {
            Coordinator::Local(app) => app.stop_run(run).await?,
            Coordinator::Remote(client) => client.post(&format!("runs/{run}/stop"), &()).await?,
        })
    }

    pub(crate) async fn stats(&self, agent: Option<String>) -> Result<Vec<StatsRow>> {
        Ok(match self {
            Coordinator::Local(app) => app.stats(StatsFilter { agent_name: agent, since: None }).await?,
            Coordinator::Remote(client) => {
                let query =
                    agent.map(|agent| format!("?agent={}", percent_encode(&agent))).unwrap_or_default();
                client.get(&format!("stats{query}")).await?
            }
        })
    }

    pub(crate) async fn session(&self, session: &SessionId) -> Result<SessionView> {
        Ok(match self {
            Coordinator::Local(app) => app.session(session).await?,
            Coordinator::Remote(client) => client.get(&format!("sessions/{session}")).await?,
        })
    }

    pub(crate) async fn sessions(&self, page: Page) -> Result<SessionPage> {
        Ok(match self {
            Coordinator::Local(app) => app.sessions(page).await?,
            Coordinator::Remote(client) => {
                client.get(&format!("sessions?{}", page_query(&page).join("&"))).await?
            }
        })
    }

    pub(crate) async fn stop_session(&self, session: &SessionId) -> Result<RunView> {
        Ok(match self {
            Coordinator::Local(app) => app.stop_session(session).await?,
            Coordinator::Remote(client) => client.post(&format!("sessions/{session}/stop"), &()).await?,
        })
    }

    pub(crate) async fn delete_session(&self, session: &SessionId) -> Result<()> {
        match self {
            Coordinator::Local(app) => app.delete_session(session).await?,
            Coordinator::Remote(client) => client.delete(&format!("sessions/{session}")).await?,
        }
        Ok(())
    }

    pub(crate) async fn result(&self, session: &SessionId) -> Result<ResultView> {
        Ok(match self {
            Coordinator::Local(app) => app.result(session).await?,
            Coordinator::Remote(client) => client.get(&format!("sessions/{session}/result")).await?,
        })
    }

    pub(crate) async fn events(&self, session: &SessionId, after: i64) -> Result<EventPage> {
        Ok(match self {
            Coordinator::Local(app) => app.events(session, after, 1_000).await?,
            Coordinator::Remote(client) => {
                client.get(&format!("sessions/{session}/events?after={after}&limit=1000")).await?
            }
        })
    }

    pub(crate) async fn schemas(&self) -> Result<Vec<SchemaView>> {
        Ok(match self {
            Coordinator::Local(app) => app.schemas().await?,
            Coordinator::Remote(client) => client.get("schemas").await?,
        })
    }

    pub(crate) async fn schema(&self, name: &str) -> Result<SchemaView> {
        Ok(match self {
            Coordinator::Local(app) => app.schema(name).await?,
            Coordinator::Remote(client) => client.get(&format!("schemas/{}", percent_encode(name))).await?,
        })
    }

    pub(crate) async fn add_schema(&self, request: &SchemaRequest) -> Result<SchemaView> {
        Ok(match self {
            Coordinator::Local(app) => app.add_schema(request).await?,
            Coordinator::Remote(client) => client.post("schemas", request).await?,
        })
    }

    pub(crate) async fn remove_schema(&self, name: &str) -> Result<()> {
        match self {
            Coordinator::Local(app) => app.remove_schema(name).await?,
            Coordinator::Remote(client) => {
                client.delete(&format!("schemas/{}", percent_encode(name))).await?
            }
        }
        Ok(())
    }

    /// Waits until a run has ended.
    pub(crate) async fn wait(&self, run: &RunId) -> Result<RunView> {
        let mut outage = Outage::default();
        loop {
            let answer = match self {
                Coordinator::Local(app) => app.wait(run, LOCAL_WAIT).await.map_err(Into::into),
                Coordinator::Remote(_) => self.run(run).await,
            };
            if let Some(view) = outage.tolerate(answer).await?.filter(|view| view.status.is_ended()) {
                return Ok(view);
            }
            if let Coordinator::Remote(_) = self {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        }
    }

    /// Waits until a stopping run has ended. Without a `slipform serve` on this project's store, this command also sweeps:
    /// if the run's process is dead, the sweep ends the run when its lease expires.
    pub(crate) async fn wait_for_stop(&self, mut run: RunView) -> Result<RunView> {
        let Coordinator::Local(app) = self else { return Ok(run) };
        let (start, limit) = (Instant::now(), AppOptions::default().lease + STOP_WAIT_BEYOND_LEASE);
        let mut is_reported = false;
        while !run.status.is_ended() && start.elapsed() < limit {
            app.sweep_once().await?;
            run = app.run(&run.run_id).await?;
            if !is_reported && start.elapsed() > STOP_NOTICE_DELAY {
                is_reported = true;
                output::lines([format!(
                    "slipform: waiting for run `{}` to stop; if its process is dead, this takes up to {} s",
                    run.run_id,
                    limit.as_secs()
                )]);
            }
            if !run.status.is_ended() {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        }
        Ok(run)
    }

    /// Ends local runs with expired leases. A remote coordinator sweeps by itself.
    pub(crate) async fn sweep(&self) -> Result<()> {
        match self {
            Coordinator::Local(app) => Ok(app.sweep_once().await?),
            Coordinator::Remote(_) => Ok(()),
        }
    }

    /// Waits until a run, its descendants and the runs that callbacks resume have ended. Returns the run itself, or the
    /// latest run that continued it. Other runs of the session are ignored.
    pub(crate) async fn wait_until_idle(&self, run: &RunId) -> Result<RunView> {
        let mut outage = Outage::default();
        loop {
            let Some(tree) = outage.tolerate(self.run_tree(run).await).await? else { continue };
            match tree.active.first() {
                Some(active) => drop(self.wait(active).await?),
                None if tree.awaits_callback => tokio::time::sleep(POLL_INTERVAL).await,
                None => return Ok(tree.last),
            }
        }
    }

    /// Stops a run, its descendants and the runs that continue it, and waits until all have ended.
    pub(crate) async fn stop_tree(&self, run: &RunId) -> Result<RunView> {
        let start = Instant::now();
        loop {
            let tree = self.run_tree(run).await?;
            // Parents come before children: a parent would otherwise continue with the result of its stopped child.
            for run in &tree.active {
                self.stop_run(run).await?;
            }
            match tree.active.first() {
                Some(run) => drop(self.wait(run).await?),
                // A pending callback may still start a run that has to be stopped.
                None if tree.awaits_callback && start.elapsed() < STOP_CALLBACK_WAIT => {
                    tokio::time::sleep(POLL_INTERVAL).await;
                }
                None => return Ok(tree.last),
            }
        }
    }

    /// Reads a run, its descendants and the runs that continue it. The end of a child and the callback to its parent are
    /// one transaction, so reading children before continuations misses nothing.
    async fn run_tree(&self, run: &RunId) -> Result<Tree> {
        let mut last = self.run(run).await?;
        let (mut active, mut awaits_callback) = (Vec::new(), false);
        let mut pending = VecDeque::from([(last.clone(), true)]);
        while let Some((view, is_own)) = pending.pop_front() {
            if !view.status.is_ended() {
                active.push(view.run_id.clone());
            }
            for child in self.children_of(&view.run_id).await? {
                pending.push_back((self.run(&child.run_id).await?, false));
            }
            // Read again: a child that ended in the meantime may have called back.
            let view = self.run(&view.run_id).await?;
            awaits_callback |= view.awaits_callback;
            for next in &view.continued_by {
                pending.push_back((self.run(next).await?, is_own));
            }
            if is_own && view.created_at >= last.created_at {
                last = view;
            }
        }
        Ok(Tree { last, active, awaits_callback })
    }

    /// Returns the child runs of a run.
    pub(crate) async fn children_of(&self, run: &RunId) -> Result<Vec<RunSummary>> {
        let filter = RunFilter { parent_run_id: Some(run.clone()), ..RunFilter::default() };
        let page = self.runs(filter, Page { after: None, limit: CHILDREN_MAX }).await?;
        Ok(page.runs)
    }
}

/// A run with its descendants and continuations.
struct Tree {
    /// The run itself, or the latest run that continued it.
    last: RunView,
    /// Runs that have not ended, parents before their children.
    active: Vec<RunId>,
    /// Whether a child has yet to call back.
    awaits_callback: bool,
}

/// The longest outage of a coordinator that a waiting command tolerates. The run itself continues.
const OUTAGE_MAX: Duration = Duration::from_secs(300);

/// The pause before an unreachable coordinator is asked again.
const OUTAGE_PAUSE: Duration = Duration::from_secs(1);

/// Tracks how long a coordinator has been unreachable.
#[derive(Default)]
struct Outage {
    since: Option<Instant>,
}

impl Outage {
    /// Returns the answer. If the coordinator is unreachable, pauses and returns `None`, until the outage exceeds
    /// [`OUTAGE_MAX`].
    async fn tolerate<T>(&mut self, answer: Result<T>) -> Result<Option<T>> {
        let error = match answer {
            Ok(answer) => {
                self.since = None;
                return Ok(Some(answer));
            }
            Err(error) => error,
        };
        let since = *self.since.get_or_insert_with(Instant::now);
        if !output::is_unavailable(&error) || since.elapsed() > OUTAGE_MAX {
            return Err(error);
        }
        tokio::time::sleep(OUTAGE_PAUSE).await;
        Ok(None)
    }
}

/// Returns the query parameters of a page.
fn page_query(page: &Page) -> Vec<String> {
    let after = page.after.as_ref().map(|after| format!("after={}", percent_encode(after)));
    std::iter::once(format!("limit={}", page.limit)).chain(after).collect()
}

/// Percent-encodes a text for a URL path segment or query value.
pub(crate) fn percent_encode(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~');
    text.bytes()
        .map(|byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}
