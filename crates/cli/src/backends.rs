//! Connects the backends of a command and applies the stored probe verdicts.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use slipform_model::probe::Verdict;
use slipform_model::{Backend, BackendConfig, connect};
use slipform_types::{BackendInfo, BackendKind, env};

/// The first characters of the name of the default weights, which have 135 million parameters.
const BUILT_IN_MODEL: &str = "SmolLM2-135M";

/// The number of models that an error names.
const MODELS_SHOWN: usize = 5;

/// The stored verdicts of `slipform probe`, by backend kind, URL and model.
#[derive(Debug)]
pub(crate) struct Verdicts {
    path: PathBuf,
    known: BTreeMap<String, Verdict>,
}

impl Verdicts {
    /// Reads the verdicts of a project. An unreadable file counts as empty, because verdicts only save calls.
    pub(crate) fn read(project: &Path) -> Verdicts {
        let path = project.join(".slipform/probe.json");
        let known =
            fs::read(&path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
        Verdicts { path, known }
    }

    pub(crate) fn of(&self, config: &BackendConfig) -> Option<&Verdict> {
        self.known.get(&key(config))
    }

    pub(crate) fn save(&mut self, config: &BackendConfig, verdict: Verdict) -> Result<()> {
        self.known.insert(key(config), verdict);
        let text = serde_json::to_string_pretty(&self.known)? + "\n";
        let folder = self.path.parent().unwrap_or(Path::new("."));
        // A rename is atomic, so concurrent readers never see a partial file.
        let draft = self.path.with_extension(format!("{}.tmp", std::process::id()));
        crate::coordinator::make_folder(folder)
            .and_then(|()| fs::write(&draft, text))
            .and_then(|()| fs::rename(&draft, &self.path))
            .with_context(|| format!("cannot write {}", self.path.display()))
    }
}

/// Returns the key of a verdict, which is valid for one backend kind, URL and model.
fn key(config: &BackendConfig) -> String {
    let address = config.base_url.as_deref().unwrap_or_default();
    format!("{} {address} {}", config.kind.name(), config.model.as_deref().unwrap_or_default())
}

/// Starts a multi-threaded runtime for `serve` and `runner`.
pub(crate) fn multi_thread_runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start the async runtime")
}

/// Starts a single-threaded runtime, which is enough for one run.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the async runtime")
}

pub(crate) fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Connects a backend. Without a configured model, an OpenAI-compatible server is asked for the one that it serves.
pub(crate) async fn open(config: &BackendConfig) -> Result<(BackendConfig, Arc<dyn Backend>)> {
    if config.kind == BackendKind::Embedded {
        return embedded(config);
    }
    let backend = connect(config, &environment)?;
    if config.model.is_some() || config.kind != BackendKind::OpenAi {
        return Ok((config.clone(), backend));
    }
    let about = backend.about().await.unwrap_or_default();
    let listed = about["data"].as_array().into_iter().flatten().filter_map(|model| model["id"].as_str());
    let listed: Vec<&str> = listed.collect();
    let model = match listed.as_slice() {
        [] => return Ok((config.clone(), backend)),
        [model] => (*model).to_owned(),
        several => bail!(
            "backend `{}` serves {} models and none is configured: {}{}; set `model` in slipform.toml, or {}",
            config.name,
            several.len(),
            several
                .iter()
                .take(MODELS_SHOWN)
                .map(|model| format!("`{model}`"))
                .collect::<Vec<_>>()
                .join(", "),
            if several.len() > MODELS_SHOWN { ", …" } else { "" },
            if config.name == "ollama" { env::OLLAMA_MODEL } else { env::OPENAI_MODEL }
        ),
    };
    let config = BackendConfig { model: Some(model), ..config.clone() };
    let backend = connect(&config, &environment)?;
    Ok((config, backend))
}

/// Returns the name of a backend's model as receipts show it; `None` if only the server knows it.
pub(crate) fn model_name(config: &BackendConfig) -> Option<String> {
    if config.kind == BackendKind::Embedded { embedded_model(config) } else { config.model.clone() }
}

#[cfg(feature = "embedded")]
fn embedded_model(config: &BackendConfig) -> Option<String> {
    use slipform_embedded::weights;
    let path =
        config.model.as_ref().map(PathBuf::from).or_else(|| weights::locate(&weights::environment).ok());
    let name = path.map(|path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned());
    Some(name.unwrap_or_else(|| weights::DEFAULT.name.into_owned()))
}

#[cfg(not(feature = "embedded"))]
fn embedded_model(config: &BackendConfig) -> Option<String> {
    config.model.clone()
}

/// Whether a backend is the built-in model with its default weights.
pub(crate) fn is_built_in(backend: &BackendInfo) -> bool {
    backend.kind == BackendKind::Embedded && backend.model.starts_with(BUILT_IN_MODEL)
}

/// Opens the embedded model with the weights from the settings, otherwise from the environment or the default ones.
#[cfg(feature = "embedded")]
fn embedded(config: &BackendConfig) -> Result<(BackendConfig, Arc<dyn Backend>)> {
    use slipform_embedded::{Embedded, weights};
    if let Some(problem) = config.problems().into_iter().next() {
        anyhow::bail!(problem);
    }
    let path = match &config.model {
        Some(model) => {
            let path = PathBuf::from(model);
            weights::check(&path, &format!("backends.{}.model", config.name), "remove the line")?;
            path
        }
        None => weights::locate(&weights::environment)?,
    };
    let model = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let backend = Embedded::new(path, config);
    Ok((BackendConfig { model, ..config.clone() }, Arc::new(backend)))
}

#[cfg(not(feature = "embedded"))]
fn embedded(config: &BackendConfig) -> Result<(BackendConfig, Arc<dyn Backend>)> {
    Ok((config.clone(), connect(config, &environment)?))
}

/// Returns the verdict with its backend and model, for `--json`.
pub(crate) fn verdict_value(config: &BackendConfig, verdict: &Verdict) -> Result<Value> {
    let mut value = serde_json::to_value(verdict)?;
    value["backend"] = Value::String(config.name.clone());
    value["model"] = Value::String(config.model.clone().unwrap_or_default());
    Ok(value)
}
