//! `slipform runner`: executes runs for a remote coordinator.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use slipform_runner::{Progress, Worker, WorkerOptions};
use tracing_subscriber::filter::LevelFilter;

use crate::arguments::Runner;
use crate::backends::{environment, multi_thread_runtime};
use crate::coordinator::{TOKEN_VARIABLE, URL_VARIABLE};
use crate::exit::Exit;
use crate::local_resources::LocalResources;
use crate::settings::Settings;
use crate::{coordinator, logging, output, signals};

/// The timeout of one claim request.
const CLAIM_WAIT: Duration = Duration::from_secs(4);

pub(crate) fn run(arguments: &Runner) -> Result<Exit> {
    let _logging = logging::start(LevelFilter::INFO)?;
    multi_thread_runtime()?.block_on(work(arguments))
}

async fn work(arguments: &Runner) -> Result<Exit> {
    let project = std::env::current_dir().context("cannot read the current folder")?;
    let Some(client) = coordinator::client(arguments.coordinator.as_deref())? else {
        bail!("no coordinator URL; pass `--coordinator http://HOST:PORT` or set {URL_VARIABLE}");
    };
    let settings = Settings::read(&project, &environment)?;
    let resources = LocalResources::new(project, settings, None);
    let name = arguments.name.clone().unwrap_or_else(default_name);
    let options = WorkerOptions {
        name,
        slots: arguments.slots as usize,
        details: resources.details(),
        runner_id: None,
        claim_wait: CLAIM_WAIT,
    };
    let address = client.address().to_owned();
    resources.announce_backend(None);
    output::lines([format!(
        "slipform: running for {address} with {}",
        output::counted(options.slots, "slot")
    )]);
    let progress: Arc<dyn Progress> = Arc::new(());
    let worker = Worker::new(Arc::new(client), Arc::new(resources), progress, options);
    let closing = async {
        let _ = signals::interrupted().await;
        output::lines(["slipform: shutting down; releasing active runs".to_owned()]);
    };
    worker.run(closing).await.with_context(|| {
        format!(
            "{address} refused this runner; check that {TOKEN_VARIABLE} holds a token with scope `runner`"
        )
    })?;
    Ok(Exit::Valid)
}

/// Returns the host name and the process id, which together identify this runner in lists.
fn default_name() -> String {
    let name =
        environment(slipform_types::env::HOSTNAME).or_else(|| std::fs::read_to_string("/etc/hostname").ok());
    let name = name.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
    format!("{} ({})", name.unwrap_or_else(|| "runner".to_owned()), std::process::id())
}
