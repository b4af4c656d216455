//! `slipform mcp`: serves agents as tools to an MCP client on standard input and output.

mod client_settings;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;
use slipform_mcp_server::{McpServer, Options, serve_stdio};
use slipform_runner::Progress;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing_subscriber::filter::LevelFilter;

use crate::backends::{environment, multi_thread_runtime};
use crate::coordinator::Coordinator;
use crate::exit::Exit;
use crate::local_resources::LocalResources;
use crate::settings::{McpSettings, Settings};
use crate::{logging, output, signals};
use client_settings::ClientName;

/// The time that the runner of this process has to release its runs.
const RELEASE_MAX: Duration = Duration::from_secs(3);

#[derive(Debug, Args)]
pub(crate) struct Mcp {
    /// Agents that the client sees, separated by commas [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    agents: Option<Vec<String>>,
    /// Coordinator URL [env: SLIPFORM_URL]; default: the agents of this project
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// Backend from slipform.toml for the runs of this process
    #[arg(long, value_name = "NAME", conflicts_with = "server")]
    backend: Option<String>,
    /// Folder of the project [default: the current folder]
    #[arg(long, value_name = "FOLDER")]
    project: Option<PathBuf>,
    /// Print the settings that a client needs, and exit
    #[arg(long, value_name = "CLIENT", value_enum)]
    print_config: Option<ClientName>,
}

pub(crate) fn run(arguments: &Mcp) -> Result<Exit> {
    if let Some(project) = &arguments.project {
        std::env::set_current_dir(project)
            .with_context(|| format!("cannot use the project folder {}", project.display()))?;
    }
    if let Some(client) = arguments.print_config {
        return client_settings::print(client, arguments);
    }
    let _logging = logging::start(LevelFilter::WARN)?;
    let runtime = multi_thread_runtime()?;
    let served = runtime.block_on(serve(arguments));
    // A read of standard input cannot be interrupted.
    runtime.shutdown_background();
    served
}

async fn serve(arguments: &Mcp) -> Result<Exit> {
    let coordinator = Coordinator::open_to_serve(arguments.server.as_deref()).await?;
    let (close, closing) = watch::channel(false);
    let (shown, worker) = match &coordinator.local {
        Some(local) => {
            let settings = Settings::read(local.project(), &environment)?;
            let shown = settings.mcp.clone();
            let resources =
                LocalResources::new(local.project().to_owned(), settings, arguments.backend.clone());
            let progress: Arc<dyn Progress> = Arc::new(());
            let worker = local.worker("slipform mcp", resources, progress);
            (shown, Some(tokio::spawn(worker.run(signals::closed(closing)))))
        }
        // The settings of a coordinator's project are not here.
        None => (McpSettings::default(), None),
    };
    let options = options(&shown, arguments.agents.clone());
    warn_about_unknown_agents(&coordinator, &options).await?;
    let server = McpServer::new(coordinator.api.clone(), options);
    let served = tokio::select! {
        served = serve_stdio(server.clone(), tokio::io::stdin(), tokio::io::stdout()) => {
            served.context("the connection to the MCP client failed").map(|()| Exit::Valid)
        }
        interrupted = interrupted(&server) => interrupted.map(|()| Exit::Interrupted),
    };
    server.close();
    close.send_replace(true);
    if let Some(local) = &coordinator.local {
        release(worker).await;
        local.write_analytics().await;
    }
    served
}

/// Waits for a signal, and closes the server before its calls are told that they are cancelled: runs continue.
async fn interrupted(server: &McpServer) -> Result<()> {
    let signal = signals::interrupted().await;
    server.close();
    signal
}

/// Waits until the runner has released its runs. Those that it could not release continue when their leases end.
async fn release(worker: Option<JoinHandle<Result<(), slipform_runner::Error>>>) {
    if let Some(worker) = worker {
        let _ = tokio::time::timeout(RELEASE_MAX, worker).await;
    }
}

/// Returns what clients see: the agents of the command line, otherwise those of the settings.
pub(crate) fn options(settings: &McpSettings, agents: Option<Vec<String>>) -> Options {
    Options { agents: agents.or_else(|| settings.agents.clone()), has_session_tools: settings.session_tools }
}

/// Reports agents that were named and do not exist. They may be created later.
async fn warn_about_unknown_agents(coordinator: &Coordinator, options: &Options) -> Result<()> {
    let Some(named) = &options.agents else { return Ok(()) };
    let agents = coordinator.api.agents().await?;
    let unknown = named.iter().filter(|name| !agents.iter().any(|agent| agent.name == **name));
    output::lines(
        unknown
            .map(|name| format!("slipform: warning: agent `{name}` not found; run `slipform agents list`")),
    );
    Ok(())
}
