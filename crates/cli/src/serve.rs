//! `slipform serve`: the coordinator, and a runner beside it.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use slipform_coordinator::http::{Server, ServerOptions};
use slipform_coordinator::{Analytics, App, AppOptions, Registry, Retention, Sweeper, SweeperOptions};
use slipform_runner::{Progress, Worker, WorkerOptions};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinHandle};
use tracing_subscriber::filter::LevelFilter;

use crate::admin_token::Announcement;
use crate::arguments::Serve;
use crate::backends::{busy_runtime, environment};
use crate::exit::Exit;
use crate::local_resources::LocalResources;
use crate::settings::{ServerSettings, Settings};
use crate::{admin_token, analytics, coordinator, logging, output, signals};

/// Where it listens unless told otherwise.
const LISTEN: &str = "127.0.0.1:8765";

/// How many runs the runner beside it works on at a time.
const SLOTS: usize = 4;

/// How long a day is, for what is kept by age.
const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

pub(crate) fn run(arguments: &Serve) -> Result<Exit> {
    let _logging = logging::start(LevelFilter::INFO)?;
    busy_runtime()?.block_on(serve(arguments))
}

async fn serve(arguments: &Serve) -> Result<Exit> {
    let project = std::env::current_dir().context("the current folder cannot be read")?;
    let settings = Settings::read(&project, &environment)?;
    let listen = arguments.listen.clone().or_else(|| settings.server.listen.clone());
    let listen = listening_at(listen.as_deref().unwrap_or(LISTEN))?;
    let database = arguments.db.clone().or_else(|| settings.server.db.clone());
    let database =
        database.map_or_else(|| Ok(coordinator::database(&project)), |given| address(&project, &given))?;
    let registry = Arc::new(Registry::read(&project));
    let app = App::open(&database, true, registry, options(&settings.server)?).await?;
    let needs_token = !listen.ip().is_loopback();
    if needs_token && app.tokens().await?.is_empty() {
        bail!(
            "{listen} can be reached from elsewhere, so every request needs a token, and there is none; make one with \
             `slipform token create NAME --scope admin`, or listen on 127.0.0.1"
        );
    }
    // Runners that live could not renew their leases while nobody served.
    app.extend_leases().await?;
    let admin_token = match admin_token::issue(&project) {
        Ok(token) => Some(token),
        Err(error) => {
            output::lines([format!(
                "slipform: no local administrator's token: {error:#}; create one with `slipform token create NAME \
                 --scope admin`"
            )]);
            None
        }
    };
    let server_options = ServerOptions { needs_token, admin_token, ..ServerOptions::new(listen) };
    let bound = Server::bind(server_options, app.clone()).await?;
    // Commands of the same user find the server, and its token, as long as this is kept.
    let _announcement = Announcement::make(&project, bound.address()).ok();
    output::lines(said(&app, &bound.address().to_string(), &database, arguments.no_runner));
    let retention = Retention {
        age_ms_max: settings.server.retention_days.map(|days| i64::from(days) * DAY_MS),
        sessions_max: settings.server.retention_sessions.map(|count| count as usize),
    };
    let sweeper = Sweeper::new(app.clone(), SweeperOptions { retention, ..SweeperOptions::default() });
    let analytics = analytics::about(&app, &database, &project, &settings.analytics);
    let mut helpers = tokio::spawn(look_after(app.clone(), sweeper, analytics.clone()));
    let (close, closing) = watch::channel(false);
    let slots = settings.server.slots.map_or(SLOTS, |slots| slots as usize);
    let worker = (!arguments.no_runner).then(|| {
        let resources = LocalResources::new(project.clone(), settings, None);
        let options = WorkerOptions {
            name: format!("serve {}", bound.address()),
            slots,
            details: resources.details(),
            runner_id: None,
            claim_wait: Duration::from_secs(2),
        };
        let progress: Arc<dyn Progress> = Arc::new(());
        let worker = Worker::new(Arc::new(app.clone()), Arc::new(resources), progress, options);
        tokio::spawn(worker.run(closed(closing.clone())))
    });
    let server = tokio::spawn(bound.run(closed(closing)));
    let mut worker = worker;
    tokio::select! {
        interrupted = signals::interrupted() => interrupted?,
        // None of them ends by itself: a service that lost one would look well and do nothing.
        ended = working(&mut worker) => bail!("the runner in this process ended: {}", said_of(ended)),
        ended = &mut helpers => bail!("what looks after runs ended: {:?}", ended.err()),
    }
    output::lines(["slipform: going down; what is being worked on is given back".to_owned()]);
    close.send_replace(true);
    if let Some(worker) = worker {
        let _ = worker.await;
    }
    let _ = server.await;
    helpers.abort();
    if let Some(analytics) = analytics {
        analytics.catch_up().await;
    }
    Ok(Exit::Valid)
}

/// Does what has to be done besides answering, for as long as it is polled.
async fn look_after(app: App, sweeper: Sweeper, analytics: Option<Analytics>) {
    let writing = async {
        match analytics {
            Some(analytics) => analytics.run().await,
            None => std::future::pending().await,
        }
    };
    tokio::join!(app.tail().run(), app.registry().watch(), sweeper.run(), writing);
}

type Working = JoinHandle<Result<(), slipform_runner::Error>>;

async fn working(worker: &mut Option<Working>) -> Result<Result<(), slipform_runner::Error>, JoinError> {
    match worker {
        Some(worker) => worker.await,
        None => std::future::pending().await,
    }
}

fn said_of(ended: Result<Result<(), slipform_runner::Error>, JoinError>) -> String {
    match ended {
        Ok(Ok(())) => "it says nothing of why".to_owned(),
        Ok(Err(error)) => error.to_string(),
        Err(error) => error.to_string(),
    }
}

fn options(settings: &ServerSettings) -> Result<AppOptions> {
    let options = coordinator::options()?;
    let lease = settings.lease_seconds.map_or(options.lease, |seconds| Duration::from_secs(seconds.into()));
    // A heartbeat or two may be lost on their way before a lease is.
    let heartbeat = options.heartbeat.min(lease / 4);
    Ok(AppOptions { lease, heartbeat, ..options })
}

async fn closed(mut closing: watch::Receiver<bool>) {
    let _ = closing.wait_for(|is_closing| *is_closing).await;
}

/// Where to listen. This machine's name for itself is as good as its number.
fn listening_at(given: &str) -> Result<SocketAddr> {
    let numbered = given.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    let parsed = numbered.as_deref().unwrap_or(given).parse();
    parsed.with_context(|| format!("--listen {given}: write an address and a port, like {LISTEN}"))
}

/// The kinds of stores that have addresses.
const STORES: [&str; 3] = ["sqlite", "postgres", "postgresql"];

/// A database as the user wrote it: an address, or the path of a file.
pub(crate) fn address(project: &Path, given: &str) -> Result<String> {
    match given.split_once(':') {
        None => Ok(format!("sqlite:{}", project.join(given).display())),
        Some((kind, _)) if STORES.contains(&kind) => Ok(given.to_owned()),
        // What follows is not repeated: there may be a password in it.
        Some((kind, _)) => bail!(
            "--db {kind}:…: there is no such kind of database; write the path of a file, sqlite:FILE or \
             postgres://USER@HOST/DATABASE"
        ),
    }
}

fn said(app: &App, listen: &str, database: &str, no_runner: bool) -> Vec<String> {
    let files = app.registry().files();
    let shown = match database.split_once("://") {
        // What stands before the @ is a password.
        Some((kind, rest)) => format!("{kind}://{}", rest.rsplit_once('@').map_or(rest, |(_, rest)| rest)),
        None => database.to_owned(),
    };
    let runner = if no_runner { "no runner here" } else { "a runner in this process" };
    let mut lines = vec![
        format!("slipform: listening on http://{listen} ({} agents, {runner})", files.agents.len()),
        format!("slipform: runs are kept in {shown}"),
    ];
    for (name, file) in &files.agents {
        lines.extend(file.problems.iter().map(|problem| format!("slipform: agent '{name}': {problem}")));
    }
    for (name, file) in &files.schemas {
        lines.extend(file.problems.iter().map(|problem| format!("slipform: schema '{name}': {problem}")));
    }
    lines
}
