//! Connections to backends, which the runs of this process share.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Result, bail};
use slipform_model::{Backend, BackendConfig, Call, CallFuture, CallSlots};
use slipform_runner::LadderRung;
use slipform_types::{BackendKind, TierBackend};
use tokio::sync::OnceCell;
use tokio::time::Instant;

use crate::backends::{self, Verdicts};

/// The most connections that are kept. Clients of the gateway may name any model; the one that was used least recently makes
/// room.
const KEPT_MAX: usize = 256;

/// The longest wait for a backend of a route that is used only if those before it fail.
const FALLBACK_OPEN_TIME_MAX: Duration = Duration::from_secs(2);

/// The time after which such a backend is tried again if it could not be opened. Until then requests do without it.
const FALLBACK_PAUSE: Duration = Duration::from_secs(10);

/// Connected backends. Runs share their connections, concurrency limits and loaded weights.
pub(crate) struct Connections {
    project: PathBuf,
    /// Connections by the name of the backend, or `BACKEND/MODEL`.
    kept: Mutex<KeptConnections>,
    /// Limits of concurrent calls to models that callers name, by backend.
    model_slots: Mutex<HashMap<String, Arc<CallSlots>>>,
    /// When fallbacks that could not be opened are tried again, by the name of the backend.
    unreachable: Mutex<HashMap<String, Instant>>,
}

#[derive(Default)]
struct KeptConnections {
    by_name: HashMap<String, Kept>,
    /// The number of uses of all connections, as the time of a connection's last use.
    uses: u64,
}

/// A connection that is open, or being opened.
#[derive(Default)]
struct Kept {
    cell: Arc<OnceCell<LadderRung>>,
    used_at: u64,
}

impl KeptConnections {
    /// Returns the connection of a name, which may still have to be opened.
    fn entry(&mut self, name: &str) -> Arc<OnceCell<LadderRung>> {
        if self.by_name.len() >= KEPT_MAX && !self.by_name.contains_key(name) {
            let models = self.by_name.iter().filter(|(name, _)| name.contains('/'));
            let oldest = models.min_by_key(|(_, kept)| kept.used_at).map(|(name, _)| name.clone());
            oldest.and_then(|name| self.by_name.remove(&name));
        }
        self.uses += 1;
        let entry = self.by_name.entry(name.to_owned()).or_default();
        entry.used_at = self.uses;
        entry.cell.clone()
    }
}

impl Connections {
    pub(crate) fn new(project: PathBuf) -> Connections {
        Connections {
            project,
            kept: Mutex::default(),
            model_slots: Mutex::default(),
            unreachable: Mutex::default(),
        }
    }

    /// Returns the backend of a tier as one rung of the escalation ladder, connected once.
    pub(crate) async fn rung(&self, tier: &str, config: &BackendConfig) -> Result<LadderRung> {
        let rung = self.kept(&config.name, async {
            let (config, backend) = backends::open(config).await?;
            Ok(LadderRung { tier: self.tier(&config), backend })
        });
        let rung = rung.await?;
        let tier = TierBackend { tier: tier.to_owned(), ..rung.tier.clone() };
        Ok(LadderRung { tier, ..rung })
    }

    /// Returns a backend with another model. Its calls share the concurrency limit of the backend.
    pub(crate) async fn with_model(&self, backend: &BackendConfig, model: &str) -> Result<LadderRung> {
        let slots = {
            let mut slots = self.model_slots.lock().unwrap_or_else(PoisonError::into_inner);
            let limit = || Arc::new(CallSlots::new(backend.max_concurrency));
            slots.entry(backend.name.clone()).or_insert_with(limit).clone()
        };
        let (config, connected) = backends::open(&with_model(backend, model)?).await?;
        Ok(LadderRung { tier: self.tier(&config), backend: Arc::new(Limited { backend: connected, slots }) })
    }

    /// Returns a backend with another model, connected once.
    pub(crate) async fn with_kept_model(&self, backend: &BackendConfig, model: &str) -> Result<LadderRung> {
        if backend.model.as_deref() == Some(model) {
            return self.rung("default", backend).await;
        }
        let key = format!("{}/{model}", backend.name);
        self.kept(&key, self.with_model(backend, model)).await
    }

    /// Opens a backend that is used only if those before it fail, so it must not delay every request. Returns `None` while it is
    /// known to be unreachable.
    pub(crate) async fn fallback(
        &self,
        backend: &str,
        opening: impl Future<Output = Result<LadderRung>>,
    ) -> Option<Result<LadderRung>> {
        let unreachable = || self.unreachable.lock().unwrap_or_else(PoisonError::into_inner);
        if unreachable().get(backend).is_some_and(|again| Instant::now() < *again) {
            return None;
        }
        let opened = tokio::time::timeout(FALLBACK_OPEN_TIME_MAX, opening).await;
        let opened = opened.unwrap_or_else(|_| Err(anyhow::anyhow!("it did not answer in time")));
        match &opened {
            Ok(_) => unreachable().remove(backend),
            Err(_) => unreachable().insert(backend.to_owned(), Instant::now() + FALLBACK_PAUSE),
        };
        Some(opened)
    }

    /// Returns a kept connection, or opens it. Only requests for the same connection wait for that.
    async fn kept(&self, key: &str, open: impl Future<Output = Result<LadderRung>>) -> Result<LadderRung> {
        let kept = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let cell = kept().entry(key);
        let rung = cell.get_or_try_init(|| open).await?.clone();
        // A server without a loaded model is asked again.
        if rung.tier.backend.model.is_empty() && rung.tier.backend.kind == BackendKind::OpenAi {
            kept().by_name.remove(key);
        }
        Ok(rung)
    }

    /// Returns the tier `default` with a backend, as its settings and its probe describe it.
    fn tier(&self, config: &BackendConfig) -> TierBackend {
        let verdicts = Verdicts::read(&self.project);
        let verdict = verdicts.of(config);
        let capabilities = verdict.map(|verdict| verdict.capabilities).unwrap_or_default();
        let dialect = verdict.and_then(|verdict| verdict.dialect.as_deref()?.parse().ok());
        TierBackend::new("default", config.info(capabilities, dialect))
    }
}

/// A backend that shares a limit of concurrent calls with others.
#[derive(Debug)]
struct Limited {
    backend: Arc<dyn Backend>,
    slots: Arc<CallSlots>,
}

impl Backend for Limited {
    fn call<'a>(&'a self, call: Call<'a>) -> CallFuture<'a> {
        Box::pin(async move {
            let _slot = self.slots.acquire(call.patience).await?;
            self.backend.call(call).await
        })
    }

    fn features(&self) -> &'static [&'static str] {
        self.backend.features()
    }

    fn sampling(&self) -> &'static [&'static str] {
        self.backend.sampling()
    }
}

/// Returns a backend with another model.
fn with_model(backend: &BackendConfig, model: &str) -> Result<BackendConfig> {
    if matches!(backend.kind, BackendKind::Embedded | BackendKind::Command) {
        bail!(
            "the model of backend `{}` is fixed by slipform.toml; name another backend, or omit the model",
            backend.name
        );
    }
    Ok(BackendConfig { model: Some(model.to_owned()), ..backend.clone() })
}
