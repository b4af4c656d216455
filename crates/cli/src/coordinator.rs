//! Where commands ask: at the store of this project, or at a coordinator.

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

/// The variable with a coordinator's address.
pub(crate) const URL_VARIABLE: &str = env::SLIPFORM_URL;

/// The variable with the token to show it.
pub(crate) const TOKEN_VARIABLE: &str = env::SLIPFORM_TOKEN;

/// Where a project keeps its state.
const STATE_FOLDER: &str = ".slipform";

/// Where a project keeps its runs.
const DATABASE: &str = ".slipform/slipform.db";

/// How often a coordinator is asked about a run that is waited for.
const LOOK_EVERY: Duration = Duration::from_millis(300);

/// How long a run that is to stop is waited for beyond its lease: for those who are there to end it, and for the
/// sweeps after it.
const STOP_WAIT_MORE: Duration = Duration::from_secs(5);

/// How long nothing is said about it.
const STOP_WAIT_SILENT: Duration = Duration::from_secs(1);

/// How long an interrupted command waits for callbacks, to stop the runs that they start.
const STOP_CALLBACK_WAIT: Duration = Duration::from_secs(5);

/// The most children of a run: a coordinator accepts no more.
const CHILDREN_MAX: usize = 16;

/// How long the store's own waiting takes at most.
const WAIT: Duration = Duration::from_secs(60);

/// Somewhere to ask.
pub(crate) enum Coordinator {
    /// The store of this project.
    Local(App),
    /// A coordinator.
    Remote(Client),
}

/// The address of the project's own store. The state folder is made private where others could look into it.
pub(crate) fn database(project: &Path) -> String {
    if project.join(STATE_FOLDER).is_dir() {
        // A folder of another user stays as it is.
        let _ = tighten(&project.join(STATE_FOLDER));
    }
    format!("sqlite:{}", project.join(DATABASE).display())
}

/// Makes a folder for what runs leave, for nobody else to read: prompts and replies are in it.
pub(crate) fn make_folder(folder: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(folder)?;
    tighten(folder)
}

/// Takes the state folder from others, whoever made it.
fn tighten(folder: &Path) -> std::io::Result<()> {
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

/// A client of the coordinator that was named, or that the environment names.
pub(crate) fn client(server: Option<&str>) -> Result<Option<Client>> {
    let token = environment(TOKEN_VARIABLE).filter(|token| !token.is_empty());
    let project = std::env::current_dir().context("the current folder cannot be read")?;
    let connect = |url: String| {
        if token.as_ref().is_some_and(|token| !token.bytes().all(|byte| byte.is_ascii_graphic())) {
            bail!(
                "{TOKEN_VARIABLE} has characters that no token has, such as a space or a line end; set it again"
            );
        }
        let client = Client::new(&Connection { url, token: token.clone() })?;
        // A server of this project takes its own user for an administrator.
        let own = client.host_and_port().filter(|_| token.is_none());
        match own.and_then(|(host, port)| admin_token::find(&project, host, port)) {
            Some((token, address)) => {
                Ok(Client::new(&Connection { url: format!("http://{address}"), token: Some(token) })?)
            }
            None => Ok(client),
        }
    };
    if let Some(url) = server {
        return connect(url.to_owned()).map(Some);
    }
    let Some(url) = environment(URL_VARIABLE).filter(|url| !url.is_empty()) else { return Ok(None) };
    let client = connect(url.clone()).with_context(|| format!("{URL_VARIABLE} names '{url}'"))?;
    Ok(Some(client.named_by(URL_VARIABLE)))
}

/// How an app of this process works.
pub(crate) fn options() -> Result<AppOptions> {
    let defaults = EnvironmentDefaults::from_lookup(environment)?;
    Ok(AppOptions { defaults, redact: Some(secrets::redact_json), ..AppOptions::default() })
}

impl Coordinator {
    /// The coordinator that is named, else the store of this project.
    pub(crate) async fn open(server: Option<&str>) -> Result<Coordinator> {
        if let Some(client) = client(server)? {
            return Ok(Coordinator::Remote(client));
        }
        let project = std::env::current_dir().context("the current folder cannot be read")?;
        let registry = Arc::new(Registry::read(&project));
        let app = App::open(&database(&project), false, registry, options()?).await?;
        Ok(Coordinator::Local(app))
    }

    /// The same for whoever only looks at what files describe: where there is no store and none can be made, files are
    /// there all the same.
    pub(crate) async fn open_to_read(server: Option<&str>) -> Result<Coordinator> {
        let error = match Coordinator::open(server).await {
            Ok(coordinator) => return Ok(coordinator),
            Err(error) => error,
        };
        let project = std::env::current_dir().context("the current folder cannot be read")?;
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
                let mut query = paging(&page);
                query.extend(filter.session_id.map(|id| format!("session_id={id}")));
                query.extend(filter.agent_name.map(|name| format!("agent_name={}", encoded(&name))));
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
                let query = agent.map(|agent| format!("?agent={}", encoded(&agent))).unwrap_or_default();
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
                client.get(&format!("sessions?{}", paging(&page).join("&"))).await?
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
            Coordinator::Remote(client) => client.get(&format!("schemas/{}", encoded(name))).await?,
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
            Coordinator::Remote(client) => client.delete(&format!("schemas/{}", encoded(name))).await?,
        }
        Ok(())
    }

    /// Waits until a run has ended.
    pub(crate) async fn wait(&self, run: &RunId) -> Result<RunView> {
        let mut patience = Patience::default();
        loop {
            let asked = match self {
                Coordinator::Local(app) => app.wait(run, WAIT).await.map_err(Into::into),
                Coordinator::Remote(_) => self.run(run).await,
            };
            if let Some(view) = patience.unless_away(asked).await?.filter(|view| view.status.is_ended()) {
                return Ok(view);
            }
            if let Coordinator::Remote(_) = self {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        }
    }

    /// Sees a run off that was asked to stop. Nobody may serve this project's store, and then nobody else notices that
    /// whoever worked on the run is gone: its lease has to pass, and somebody has to look.
    pub(crate) async fn wait_for_stop(&self, mut run: RunView) -> Result<RunView> {
        let Coordinator::Local(app) = self else { return Ok(run) };
        let (begun, limit) = (Instant::now(), AppOptions::default().lease + STOP_WAIT_MORE);
        let mut is_said = false;
        while !run.status.is_ended() && begun.elapsed() < limit {
            app.sweep_once().await?;
            run = app.run(&run.run_id).await?;
            if !is_said && begun.elapsed() > STOP_WAIT_SILENT {
                is_said = true;
                output::lines([format!(
                    "slipform: waiting for the end of {}; where its process is gone, that takes up to {} s",
                    run.run_id,
                    limit.as_secs()
                )]);
            }
            if !run.status.is_ended() {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        }
        Ok(run)
    }

    /// Ends what nobody looks after, where nobody serves this project's store.
    pub(crate) async fn sweep(&self) -> Result<()> {
        match self {
            Coordinator::Local(app) => Ok(app.sweep_once().await?),
            Coordinator::Remote(_) => Ok(()),
        }
    }

    /// Waits until a run has ended and everything that it led to has: children, theirs, and the runs that go on with it
    /// when children call back. The run that gave the last word is the run itself or the latest of those that went on
    /// with it. Other runs of the session are not waited for.
    pub(crate) async fn wait_until_idle(&self, run: &RunId) -> Result<RunView> {
        let mut patience = Patience::default();
        loop {
            let looked_at = patience.unless_away(self.look_at_tree(run).await).await?;
            let Some(tree) = looked_at else { continue };
            match tree.open.first() {
                Some(open) => drop(self.wait(open).await?),
                None if tree.awaits_callback => tokio::time::sleep(LOOK_EVERY).await,
                None => return Ok(tree.last),
            }
        }
    }

    /// Stops a run and everything that it led to, and waits until all of it has ended.
    pub(crate) async fn stop_tree(&self, run: &RunId) -> Result<RunView> {
        let begun = Instant::now();
        loop {
            let tree = self.look_at_tree(run).await?;
            // A parent is stopped before its children: it would go on with what became of them.
            for run in &tree.open {
                self.stop_run(run).await?;
            }
            match tree.open.first() {
                Some(run) => drop(self.wait(run).await?),
                // A callback that waits for another caller's run starts a run that nobody waits for.
                None if tree.awaits_callback && begun.elapsed() < STOP_CALLBACK_WAIT => {
                    tokio::time::sleep(LOOK_EVERY).await;
                }
                None => return Ok(tree.last),
            }
        }
    }

    /// Looks at a run and at all that it led to. The end of a child and what it leads to are one transaction, so that
    /// children are looked at before the runs that they are reported to.
    async fn look_at_tree(&self, run: &RunId) -> Result<Tree> {
        let mut last = self.run(run).await?;
        let (mut open, mut awaits_callback) = (Vec::new(), false);
        let mut pending = VecDeque::from([(last.clone(), true)]);
        while let Some((view, is_own)) = pending.pop_front() {
            if !view.status.is_ended() {
                open.push(view.run_id.clone());
            }
            for child in self.children_of(&view.run_id).await? {
                pending.push_back((self.run(&child.run_id).await?, false));
            }
            // Looked at once more: a child that ended meanwhile may have called back.
            let view = self.run(&view.run_id).await?;
            awaits_callback |= view.awaits_callback;
            for next in &view.continued_by {
                pending.push_back((self.run(next).await?, is_own));
            }
            if is_own && view.created_at >= last.created_at {
                last = view;
            }
        }
        Ok(Tree { last, open, awaits_callback })
    }

    /// The runs that were started by a run.
    pub(crate) async fn children_of(&self, run: &RunId) -> Result<Vec<RunSummary>> {
        let filter = RunFilter { parent_run_id: Some(run.clone()), ..RunFilter::default() };
        let page = self.runs(filter, Page { after: None, limit: CHILDREN_MAX }).await?;
        Ok(page.runs)
    }
}

/// A run and what it led to.
struct Tree {
    /// The run that gave the last word.
    last: RunView,
    /// Those that have not ended, parents before their children.
    open: Vec<RunId>,
    /// Whether a callback is still to come.
    awaits_callback: bool,
}

/// How long a coordinator may be away before whoever waits for a run gives up. The run goes on without him.
const AWAY_MAX: Duration = Duration::from_secs(300);

/// How soon one that is away is asked again.
const AWAY_PAUSE: Duration = Duration::from_secs(1);

/// Bears with a coordinator that is away for a while.
#[derive(Default)]
struct Patience {
    since: Option<Instant>,
}

impl Patience {
    /// What was answered; none where nobody was there, for now.
    async fn unless_away<T>(&mut self, asked: Result<T>) -> Result<Option<T>> {
        let error = match asked {
            Ok(answer) => {
                self.since = None;
                return Ok(Some(answer));
            }
            Err(error) => error,
        };
        let since = *self.since.get_or_insert_with(Instant::now);
        if !output::is_away(&error) || since.elapsed() > AWAY_MAX {
            return Err(error);
        }
        tokio::time::sleep(AWAY_PAUSE).await;
        Ok(None)
    }
}

fn paging(page: &Page) -> Vec<String> {
    let after = page.after.as_ref().map(|after| format!("after={}", encoded(after)));
    std::iter::once(format!("limit={}", page.limit)).chain(after).collect()
}

/// A text as it may stand in an address.
pub(crate) fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~');
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}
