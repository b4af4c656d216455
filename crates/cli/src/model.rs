//! `slipform model`: fetches and lists the weights of the embedded model.

mod display;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result};
use slipform_embedded::weights::{self, DEFAULT, Error, MODEL_VARIABLE, Model as Weights, Options, Pulled};
use tokio::signal::unix::{SignalKind, signal};

use crate::arguments::{Model, ModelCommand};
use crate::exit::Exit;
use crate::{backends, output};
use display::Display;

pub(crate) fn run(arguments: &Model) -> Result<Exit> {
    match &arguments.command {
        ModelCommand::Pull { force } => pull(*force),
        ModelCommand::List { json } => list(*json),
    }
}

fn pull(force: bool) -> Result<Exit> {
    let store = weights::folder(&weights::environment)?;
    let outcome = backends::runtime()?.block_on(stoppable(move |stop| {
        let mut display = Display::new(output::is_terminal());
        let options = Options { force, stop: Some(stop), ..Options::default() };
        let outcome = weights::pull(&store, &DEFAULT, &options, &mut |progress| display.show(progress));
        display.clear();
        outcome
    }))?;
    match outcome {
        Ok(pulled) => report(&pulled),
        Err(error) if error.is_unreachable() => {
            output::lines([format!("slipform: {error}")]);
            Ok(Exit::Backend)
        }
        Err(error @ Error::Stopped) => {
            output::lines([format!("slipform: {error}")]);
            Ok(Exit::Interrupted)
        }
        Err(error) => Err(error.into()),
    }
}

/// Runs the pull on its own thread and sets its stop flag on Ctrl-C or SIGTERM.
async fn stoppable(
    work: impl FnOnce(&AtomicBool) -> Result<Pulled, Error> + Send + 'static,
) -> Result<Result<Pulled, Error>> {
    let stop = Arc::new(AtomicBool::new(false));
    let mut terminated = signal(SignalKind::terminate()).context("cannot listen for signals")?;
    let stop_flag = stop.clone();
    let mut pulling = tokio::task::spawn_blocking(move || work(&stop_flag));
    tokio::select! {
        outcome = &mut pulling => return outcome.context("cannot pull the weights"),
        _ = tokio::signal::ctrl_c() => {}
        _ = terminated.recv() => {}
    }
    stop.store(true, Ordering::Relaxed);
    pulling.await.context("cannot pull the weights")
}

fn report(pulled: &Pulled) -> Result<Exit> {
    if !pulled.fetched {
        output::lines(["the weights are already present and match the published checksum".to_owned()]);
    }
    if let Some(chosen) = weights::environment(MODEL_VARIABLE).filter(|value| !value.is_empty()) {
        let chosen = Path::new(&chosen).display().to_string();
        output::lines([format!("note: runs use {chosen} because {MODEL_VARIABLE} is set")]);
    }
    output::text(&pulled.path.display().to_string())?;
    Ok(Exit::Valid)
}

fn list(as_json: bool) -> Result<Exit> {
    let store = weights::folder(&weights::environment)?;
    let models = weights::list(&store, &DEFAULT, &weights::environment)?;
    if !models.iter().any(|model| model.used) {
        output::lines([format!(
            "no usable weights in {}; run `slipform model pull` to fetch the default ones",
            store.display()
        )]);
    }
    if as_json {
        output::data(&serde_json::to_value(models)?)?;
    } else if !models.is_empty() {
        table(&models)?;
    }
    Ok(Exit::Valid)
}

fn table(models: &[Weights]) -> Result<()> {
    let width = models.iter().map(|model| model.name.chars().count()).max().unwrap_or(0).max("name".len());
    output::text(&format!("  {:width$}      MB  source          verified  path", "name"))?;
    for model in models {
        output::text(&format!(
            "{} {:width$}  {:6.1}  {:14}  {:8}  {}",
            if model.used { "*" } else { " " },
            model.name,
            display::megabytes(model.bytes),
            model.source.name(),
            if model.verified { "yes" } else { "no" },
            model.path.display(),
        ))?;
    }
    Ok(())
}
