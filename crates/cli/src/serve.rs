//! `slipform serve`: runs the coordinator with its HTTP API, and a runner in the same process.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use slipform_coordinator::http::{Mount, Server, ServerOptions};
use slipform_coordinator::{
    Analytics, App, AppOptions, Registry, Retention, StoreOptions, Sweeper, SweeperOptions,
};
use slipform_mcp_server::McpServer;
use slipform_runner::{Progress, Worker, WorkerOptions};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinHandle};
use tracing_subscriber::filter::LevelFilter;

use crate::admin_token::Announcement;
use crate::arguments::Serve;
use crate::backends::{environment, multi_thread_runtime};
use crate::dashboard::DashboardLink;
use crate::database::Database;
use crate::demo::DemoProject;
use crate::exit::Exit;
use crate::local_resources::LocalResources;
use crate::settings::{FILE, ServerSettings, Settings};
use crate::signals::Signals;
use crate::{
    admin_token, analytics, coordinator, dashboard, demo, file_limit, gateway, logging, mcp, output, secrets,
    signals,
};

/// The default listen address.
const LISTEN: &str = "127.0.0.1:8765";

/// The default number of concurrent runs of the runner in this process.
const SLOTS: usize = 4;

/// The timeout of one claim request of the runner in this process.
const CLAIM_WAIT: Duration = Duration::from_secs(2);

/// The longest wait for requests of the gateway after the server has stopped.
const GATEWAY_END_MAX: Duration = Duration::from_secs(1);

/// The milliseconds of a day, to convert `retention_days`.
const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

pub(crate) fn run(arguments: &Serve) -> Result<Exit> {
    let _logging = logging::start(LevelFilter::INFO)?;
    file_limit::raise();
    multi_thread_runtime()?.block_on(serve(arguments))
}

async fn serve(arguments: &Serve) -> Result<Exit> {
    let mut signals = Signals::listen()?;
    let demo = arguments.demo.then(DemoProject::create).transpose()?;
    if let Some(demo) = &demo {
        demo::enter(&demo.folder)?;
    }
    let project = std::env::current_dir().context("cannot read the current folder")?;
    let settings = Settings::read(&project, &environment)?;
    let listen = arguments.listen.clone().or_else(|| settings.server.listen.clone());
    let listen = parse_listen(listen.as_deref().unwrap_or(LISTEN))?;
    let database = Database::find(&project, address(arguments), &settings.server)?;
    let Some(app) = open(&database, &project, &settings.server, arguments, &mut signals).await? else {
        return Ok(Exit::Interrupted);
    };
    let server_options = server_options(&project, &app, listen, &settings.server).await?;
    let token = server_options.admin_token.clone().filter(|_| server_options.needs_token);
    output::lines(plaintext_warning(&server_options, &settings.server));
    let scheme = if server_options.tls.is_some() { "https" } else { "http" };
    let bound = Server::bind(server_options, app.clone()).await?;
    let mcp = McpServer::new(Arc::new(app.clone()), mcp::options(&settings.mcp, None));
    let bound = bound.mount(slipform_mcp_server::router(mcp.clone()));
    let record = settings.gateway.record;
    let slots = settings.server.slots.map_or(SLOTS, |slots| slots as usize);
    let url = format!("{scheme}://{}", bound.address());
    // Commands of the same user find the server and its token while this value exists.
    let _announcement = Announcement::make(&project, bound.address()).ok();
    announce(arguments, &app, &database, &url, &dashboard::link(scheme, bound.address(), token.as_deref()));
    if !arguments.no_runner {
        output::lines(settings.environment_notice());
    }
    let analytics = analytics::open(&app, &database.key(), &project, &settings.analytics);
    let sweeper = sweeper(&app, &settings.server);
    let mut background = tokio::spawn(run_background_tasks(app.clone(), sweeper, analytics.clone()));
    let (close, closing) = watch::channel(false);
    let resources = (!arguments.no_runner).then(|| {
        let private = database.private_variables(&settings.server);
        Arc::new(LocalResources::new(project.clone(), settings, None).without_variables(private))
    });
    let gateway = gateway::open(&app, resources.clone(), record);
    let bound = bound.mount(slipform_gateway::router(gateway.clone()));
    let mut worker = resources.map(|resources| {
        let worker = local_worker(&app, resources, slots, bound.address());
        tokio::spawn(worker.run(signals::closed(closing.clone())))
    });
    let server = tokio::spawn(bound.run(signals::closed(closing)));
    tokio::select! {
        () = signals.interrupted() => {}
        () = demo::fill(demo.as_ref(), &app) => {}
        // The service would accept runs and never finish them without its runner or its background tasks.
        ended = worker_ended(&mut worker) => bail!("the runner in this process ended: {}", end_reason(ended)),
        ended = &mut background => {
            let reason = ended.map_or_else(|error| error.to_string(), |()| "no error reported".to_owned());
            bail!("a background task of the coordinator ended: {reason}");
        }
    }
    output::lines(["slipform: shutting down; releasing active runs".to_owned()]);
    mcp.close();
    close.send_replace(true);
    if let Some(worker) = worker {
        let _ = worker.await;
    }
    let _ = server.await;
    // Requests whose clients are gone end a moment later; their summaries are stored too.
    gateway.wait_until_idle(GATEWAY_END_MAX).await;
    background.abort();
    let _ = background.await;
    close_store(&app, analytics).await;
    Ok(Exit::Valid)
}

/// Stores what is still in memory and closes the database.
async fn close_store(app: &App, analytics: Option<Analytics>) {
    if let Err(error) = app.flush_requests().await {
        tracing::warn!(%error, "the summaries of the last gateway requests are lost");
    }
    if let Some(analytics) = analytics {
        analytics.catch_up().await;
    }
    // The write-ahead log is copied into the database, which is then one file.
    app.store().close().await;
}

/// Prints where the server and its dashboard are, and opens the dashboard if that is wanted.
fn announce(arguments: &Serve, app: &App, database: &Database, url: &str, link: &DashboardLink) {
    output::lines(startup_lines(app, url, database, arguments.no_runner));
    link.print();
    if arguments.open {
        link.open();
    }
}

/// Returns the address of the database from the command line.
fn address(arguments: &Serve) -> Option<&str> {
    if arguments.demo { Some(demo::DATABASE) } else { arguments.db.as_deref() }
}

/// Opens the database, or returns `None` if a signal ends the command while it waits.
async fn open(
    database: &Database,
    project: &Path,
    settings: &ServerSettings,
    arguments: &Serve,
    signals: &mut Signals,
) -> Result<Option<App>> {
    let registry = Arc::new(Registry::read(project));
    let store = StoreOptions { is_exclusive: true, ..settings.store_options() };
    let limit = arguments.db_wait.map(|seconds| Duration::from_secs(seconds.into()));
    let opening = database.open_when_reachable(&store, registry, options(settings)?, limit);
    tokio::select! {
        opened = opening => opened.map(Some),
        () = signals.interrupted() => Ok(None),
    }
}

/// Returns the options of the HTTP server: a token is required unless it listens on a loopback address for this machine.
async fn server_options(
    project: &Path,
    app: &App,
    listen: SocketAddr,
    settings: &ServerSettings,
) -> Result<ServerOptions> {
    let needs_token = !listen.ip().is_loopback() || settings.behind_proxy;
    if needs_token && app.tokens().await?.is_empty() {
        let reason = if settings.behind_proxy {
            "server.behind_proxy is set".to_owned()
        } else {
            format!("{listen} is not a loopback address")
        };
        bail!(
            "{reason}, so every request needs a token, and no token exists; create one with `slipform token create NAME \
             --scope admin`, or listen on 127.0.0.1 without a proxy"
        );
    }
    // Live runners could not renew their leases while no coordinator was running.
    app.extend_leases().await?;
    let admin_token = match admin_token::issue(project) {
        Ok(token) => {
            secrets::add(token.clone());
            Some(token)
        }
        Err(error) => {
            output::lines([format!(
                "slipform: cannot create the local admin token: {error:#}; create a token with `slipform token create \
                 NAME --scope admin`"
            )]);
            None
        }
    };
    let tls = settings.tls_files(project);
    let mounts = vec![
        Mount {
            prefix: slipform_mcp_server::PATH,
            error_form: slipform_mcp_server::error_message,
            max_body_bytes: None,
            takes_foreign_keys: false,
        },
        Mount {
            prefix: slipform_gateway::PATH,
            error_form: slipform_gateway::error_message,
            max_body_bytes: Some(slipform_gateway::BODY_BYTES_MAX),
            takes_foreign_keys: true,
        },
    ];
    Ok(ServerOptions { needs_token, admin_token, tls, mounts, ..ServerOptions::new(listen) })
}

/// Returns a warning about an address that others can reach and that does not use TLS.
fn plaintext_warning(options: &ServerOptions, settings: &ServerSettings) -> Option<String> {
    let is_open = !options.listen.ip().is_loopback() && options.tls.is_none() && !settings.behind_proxy;
    is_open.then(|| {
        format!(
            "slipform: warning: {} is reachable from other machines without TLS: the network can read tokens, prompts and \
             results; set tls_cert and tls_key in [server] of {FILE}, or set behind_proxy = true behind a proxy with TLS",
            options.listen
        )
    })
}

fn sweeper(app: &App, settings: &ServerSettings) -> Sweeper {
    let retention = Retention {
        age_ms_max: settings.retention_days.map(|days| i64::from(days) * DAY_MS),
        sessions_max: settings.retention_sessions.map(|count| count as usize),
    };
    Sweeper::new(app.clone(), SweeperOptions { retention, ..SweeperOptions::default() })
}

/// Creates the runner of this process, which calls the coordinator without HTTP.
fn local_worker(app: &App, resources: Arc<LocalResources>, slots: usize, address: SocketAddr) -> Worker {
    let options = WorkerOptions {
        name: format!("serve {address}"),
        slots,
        details: resources.details(),
        runner_id: None,
        claim_wait: CLAIM_WAIT,
    };
    let progress: Arc<dyn Progress> = Arc::new(());
    Worker::new(Arc::new(app.clone()), resources, progress, options)
}

/// Runs the coordinator's background tasks: event tail, file watcher, sweeper, analytics and request log.
async fn run_background_tasks(app: App, sweeper: Sweeper, analytics: Option<Analytics>) {
    let analytics = async {
        match analytics {
            Some(analytics) => analytics.run().await,
            None => std::future::pending().await,
        }
    };
    tokio::join!(app.tail().run(), app.registry().watch(), sweeper.run(), analytics, app.write_requests());
}

type WorkerTask = JoinHandle<Result<(), slipform_runner::Error>>;

/// Waits until the runner of this process ends. Without a runner it waits forever.
async fn worker_ended(
    worker: &mut Option<WorkerTask>,
) -> Result<Result<(), slipform_runner::Error>, JoinError> {
    match worker {
        Some(worker) => worker.await,
        None => std::future::pending().await,
    }
}

/// Returns the error with which the runner of this process ended.
fn end_reason(ended: Result<Result<(), slipform_runner::Error>, JoinError>) -> String {
    match ended {
        Ok(Ok(())) => "no error reported".to_owned(),
        Ok(Err(error)) => error.to_string(),
        Err(error) => error.to_string(),
    }
}

fn options(settings: &ServerSettings) -> Result<AppOptions> {
    let options = coordinator::options()?;
    let lease = settings.lease_seconds.map_or(options.lease, |seconds| Duration::from_secs(seconds.into()));
    // Several heartbeats fit into a lease, so one lost heartbeat does not expire it.
    let heartbeat = options.heartbeat.min(lease / 4);
    Ok(AppOptions { lease, heartbeat, ..options })
}

/// Parses a listen address. Accepts `localhost` for 127.0.0.1.
fn parse_listen(given: &str) -> Result<SocketAddr> {
    let numbered = given.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    let parsed = numbered.as_deref().unwrap_or(given).parse::<SocketAddr>();
    parsed.map_err(|_| anyhow!("invalid listen address `{given}`; write ADDRESS:PORT, such as {LISTEN}"))
}

/// Returns the lines printed at startup: address, database, and the problems of agent and schema files.
fn startup_lines(app: &App, url: &str, database: &Database, no_runner: bool) -> Vec<String> {
    let files = app.registry().files();
    let runner = if no_runner { "no runner" } else { "runner in this process" };
    let mut lines = vec![
        format!("slipform: listening on {url} ({}, {runner})", output::counted(files.agents.len(), "agent")),
        format!("slipform: storing runs in {}", database.shown()),
    ];
    for (name, file) in &files.agents {
        lines.extend(file.problems.iter().map(|problem| format!("slipform: agent `{name}`: {problem}")));
        let warnings = file.warnings.iter();
        lines.extend(warnings.map(|warning| format!("slipform: agent `{name}`: warning: {warning}")));
    }
    for (name, file) in &files.schemas {
        lines.extend(file.problems.iter().map(|problem| format!("slipform: schema `{name}`: {problem}")));
    }
    lines
}
