//! The verbs: what callers and runners ask for, resolved and handed to the store.

mod agents;
mod authority;
mod check;
mod errors;
mod lease_grace;
mod operations;
mod reading;
mod run_start_cache;
mod runner;
mod runs;
mod schemas;
mod sessions;
mod submit;
mod throttle;
mod tokens;
mod views;
mod work_signal;

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use slipform_agents::contract::EnvironmentDefaults;
use slipform_schema::Cache;
use slipform_store::{Store, Swept};
use tokio::time::Instant;

use crate::metrics::Metrics;
use crate::registry::Registry;
use crate::tail::Tail;

use authority::Authority;
use lease_grace::LeaseGrace;
use run_start_cache::RunStartCache;
use throttle::Throttle;
use work_signal::WorkSignal;

pub(crate) use reading::{AllReader, Events, SessionReader};
pub use tokens::{IssuedToken, Scope};
pub(crate) use views::event as event_text;

/// Whether a name is that of a verb in the addresses of agents and schemas: what is called so could not be reached.
fn is_verb(name: &str) -> bool {
    name == "validate"
}

/// How an app works.
#[derive(Debug, Clone)]
pub struct AppOptions {
    /// What the environment says about contracts.
    pub defaults: EnvironmentDefaults,
    /// How long an attempt lasts without being heard of.
    pub lease: Duration,
    /// How often runners should be heard of.
    pub heartbeat: Duration,
    /// The only runner that gets what is submitted here; any where there is none.
    pub pinned_to: Option<String>,
    /// Takes the secrets that this process knows out of parameters before they are stored. A coordinator without keys
    /// has none.
    pub redact: Option<fn(Value) -> Value>,
}

impl Default for AppOptions {
    fn default() -> Self {
        AppOptions {
            defaults: EnvironmentDefaults::default(),
            lease: Duration::from_secs(15),
            heartbeat: Duration::from_secs(1),
            pinned_to: None,
            redact: None,
        }
    }
}

/// The coordinator's verbs. Cloning it gives another handle to the same.
#[derive(Debug, Clone)]
pub struct App {
    inner: Arc<Inner>,
    authority: Authority,
}

#[derive(Debug)]
struct Inner {
    store: Store,
    registry: Arc<Registry>,
    tail: Arc<Tail>,
    options: AppOptions,
    /// Compiled contracts, by hash: results are held against them at the api.
    schemas: Cache,
    /// What the runs that are worked on began with.
    run_start_cache: RunStartCache,
    /// Somebody may find work.
    work: WorkSignal,
    metrics: Metrics,
    lease_grace: LeaseGrace,
    /// When the database was last asked whether it answers, and what it said.
    pinged: tokio::sync::Mutex<Option<(Instant, Result<(), String>)>>,
    /// When it was last looked for what is kept for runners that are gone.
    adopted: Throttle,
}

impl App {
    /// An app over a store and a project's files.
    pub fn new(store: Store, registry: Arc<Registry>, options: AppOptions) -> App {
        let tail = Arc::new(Tail::new(store.clone()));
        let (schemas, run_start_cache) = (Cache::default(), RunStartCache::default());
        let (work, metrics) = (WorkSignal::default(), Metrics::default());
        let (lease_grace, adopted) = (LeaseGrace::default(), Throttle::default());
        let pinged = tokio::sync::Mutex::default();
        App {
            inner: Arc::new(Inner {
                store,
                registry,
                tail,
                options,
                schemas,
                run_start_cache,
                work,
                metrics,
                lease_grace,
                pinged,
                adopted,
            }),
            authority: Authority::Admin,
        }
    }

    /// An app over the store at an address: `sqlite:PATH`, `sqlite::memory:` or `postgres://…`.
    ///
    /// # Errors
    /// When the store cannot be opened, or is somebody else's and `is_exclusive`.
    pub async fn open(
        address: &str,
        is_exclusive: bool,
        registry: Arc<Registry>,
        options: AppOptions,
    ) -> Result<App, slipform_store::Error> {
        let store = Store::open(address, &slipform_store::Options { is_exclusive }).await?;
        Ok(App::new(store, registry, options))
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.inner.store
    }

    /// The project's files.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.inner.registry
    }

    /// What is told to those who follow journals; somebody has to poll its `run`.
    pub fn tail(&self) -> &Arc<Tail> {
        &self.inner.tail
    }

    /// Notes what the sweeper did.
    pub(crate) fn swept(&self, swept: &Swept) {
        if *swept != Swept::default() {
            self.inner.metrics.swept(swept);
            let Swept { returned, lost, stopped, overdue } = swept;
            self.inner.work.notify(returned + lost + stopped + overdue);
        }
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.inner.metrics
    }

    fn options(&self) -> &AppOptions {
        &self.inner.options
    }
}
