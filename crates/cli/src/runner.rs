//! `slipform runner`: works for a coordinator elsewhere.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use slipform_runner::{Progress, Worker, WorkerOptions};
use tracing_subscriber::filter::LevelFilter;

use crate::arguments::Runner;
use crate::backends::{busy_runtime, environment};
use crate::coordinator::{TOKEN_VARIABLE, URL_VARIABLE};
use crate::exit::Exit;
use crate::local_resources::LocalResources;
use crate::settings::Settings;
use crate::{coordinator, logging, output, signals};

/// How long it waits for work at a time.
const CLAIM_WAIT: Duration = Duration::from_secs(4);

pub(crate) fn run(arguments: &Runner) -> Result<Exit> {
    let _logging = logging::start(LevelFilter::INFO)?;
    busy_runtime()?.block_on(work(arguments))
}

async fn work(arguments: &Runner) -> Result<Exit> {
    let project = std::env::current_dir().context("the current folder cannot be read")?;
    let Some(client) = coordinator::client(arguments.coordinator.as_deref())? else {
        bail!("say where the coordinator is: --coordinator http://HOST:PORT, or {URL_VARIABLE}");
    };
    let settings = Settings::read(&project, &environment)?;
    let resources = LocalResources::new(project, settings, None);
    let name = arguments.name.clone().unwrap_or_else(name_of_machine);
    let options = WorkerOptions {
        name,
        slots: arguments.slots as usize,
        details: resources.details(),
        runner_id: None,
        claim_wait: CLAIM_WAIT,
    };
    let address = client.address().to_owned();
    output::lines([format!("slipform: working for {address}, {} runs at a time", arguments.slots)]);
    let progress: Arc<dyn Progress> = Arc::new(());
    let worker = Worker::new(Arc::new(client), Arc::new(resources), progress, options);
    let closing = async {
        let _ = signals::interrupted().await;
        output::lines(["slipform: going home; what is being worked on is given back".to_owned()]);
    };
    worker.run(closing).await.with_context(|| {
        format!(
            "{address} does not take this runner; it may want a token of scope 'runner' in {TOKEN_VARIABLE}"
        )
    })?;
    Ok(Exit::Valid)
}

fn name_of_machine() -> String {
    let name =
        environment(slipform_types::env::HOSTNAME).or_else(|| std::fs::read_to_string("/etc/hostname").ok());
    let name = name.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
    format!("{} ({})", name.unwrap_or_else(|| "runner".to_owned()), std::process::id())
}
