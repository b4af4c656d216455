//! The operations that callers and runners request.

mod agents;
mod authority;
mod callable_agents;
mod caller;
mod calls;
mod check;
mod check_pool;
mod claim;
mod delegate;
mod errors;
mod extraction;
mod fencing;
mod gateway;
mod lease_grace;
mod operations;
mod paging;
mod reading;
mod run_start_cache;
mod runner;
mod runner_ids;
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
use slipform_types::{Event, Request, RunId};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::metrics::Metrics;
use crate::registry::Registry;
use crate::request_log::PendingRequests;
use crate::tail::Tail;

use authority::Authority;
use check_pool::CheckPool;
use lease_grace::LeaseGrace;
use run_start_cache::RunStartCache;
use runner_ids::RunnerIds;
use throttle::Throttle;
use work_signal::WorkSignal;

pub(crate) use paging::event_number;
pub(crate) use reading::{AllReader, Events, SessionReader};
pub(crate) use tokens::{Grant, Invalid};
pub use tokens::{IssuedToken, Scope, TokenRequest};
pub(crate) use views::event as event_text;
pub(crate) use views::event_summary;

/// Whether a name is reserved because `POST /agents/{name}` or `POST /schemas/{name}` with it is another
/// operation.
fn is_reserved_name(name: &str) -> bool {
    name == "validate"
}

/// Options of an [`App`].
#[derive(Debug, Clone)]
pub struct AppOptions {
    /// Contract defaults from environment variables.
    pub defaults: EnvironmentDefaults,
    /// Duration of an attempt's lease.
    pub lease: Duration,
    /// Interval at which runners should send heartbeats.
    pub heartbeat: Duration,
    /// Pins submitted runs to this runner, and limits claims to pinned runs. `None` allows all runners.
    pub pinned_to: Option<String>,
    /// Takes the secrets that this process knows out of parameters and blueprints before they are stored. A coordinator without keys
    /// has none.
    pub redact: Option<fn(Value) -> Value>,
    /// Derives the requests of a run's model calls from a session's journal, each with the `seq` of its reply, up to a
    /// number of bytes. The engine can, which the coordinator does not contain.
    pub derive_requests: Option<DeriveRequests>,
}

/// See [`AppOptions::derive_requests`].
pub type DeriveRequests = fn(&[Event], &RunId, usize) -> Vec<(u64, Request)>;

impl Default for AppOptions {
    fn default() -> Self {
        AppOptions {
            defaults: EnvironmentDefaults::default(),
            lease: Duration::from_secs(15),
            heartbeat: Duration::from_secs(1),
            pinned_to: None,
            redact: None,
            derive_requests: None,
        }
    }
}

/// The coordinator's operations. Clones share the same state.
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
    /// Compiled schemas by hash: of parameters and contracts at submission, of results when runs finish.
    schemas: Cache,
    /// Threads for compiling schemas and checking texts.
    check_pool: CheckPool,
    /// Permits for lists of model calls.
    call_lists: Semaphore,
    /// Threads for the same work of runners, so that many callers cannot delay them.
    runner_pool: CheckPool,
    /// The `run_start` data of claimed runs.
    run_start_cache: RunStartCache,
    /// Wakes runners that wait for runs.
    work_signal: WorkSignal,
    metrics: Metrics,
    lease_grace: LeaseGrace,
    /// The last database ping and its result.
    last_ping: tokio::sync::Mutex<Option<(Instant, Result<(), String>)>>,
    /// Limits how often claims look for runs of dead runners.
    adoption: Throttle,
    /// The runners that API tokens have registered.
    runner_ids: RunnerIds,
    /// The summaries of gateway requests that are not stored yet.
    pending_requests: PendingRequests,
}

impl App {
    /// Creates an app with the authority of an administrator.
    pub fn new(store: Store, registry: Arc<Registry>, options: AppOptions) -> App {
        let tail = Arc::new(Tail::new(store.clone()));
        let (schemas, run_start_cache) = (Cache::default(), RunStartCache::default());
        let (work_signal, metrics) = (WorkSignal::default(), Metrics::default());
        let (lease_grace, adoption) = (LeaseGrace::default(), Throttle::default());
        let last_ping = tokio::sync::Mutex::default();
        App {
            inner: Arc::new(Inner {
                store,
                registry,
                tail,
                options,
                schemas,
                check_pool: CheckPool::default(),
                call_lists: Semaphore::new(calls::LISTS_MAX),
                runner_pool: CheckPool::default(),
                run_start_cache,
                work_signal,
                metrics,
                lease_grace,
                last_ping,
                adoption,
                runner_ids: RunnerIds::default(),
                pending_requests: PendingRequests::default(),
            }),
            authority: Authority::Process,
        }
    }

    /// Opens the store at `sqlite:PATH`, `sqlite::memory:` or `postgres://…` and creates an app.
    ///
    /// # Errors
    /// Fails if the store cannot be opened, or if `is_exclusive` is set and another process holds it.
    pub async fn open(
        address: &str,
        is_exclusive: bool,
        registry: Arc<Registry>,
        options: AppOptions,
    ) -> Result<App, slipform_store::Error> {
        let store = slipform_store::Options { is_exclusive, ..slipform_store::Options::default() };
        App::open_with(address, &store, registry, options).await
    }

    /// As [`App::open`], with all options of the store.
    ///
    /// # Errors
    /// Fails if the store cannot be opened.
    pub async fn open_with(
        address: &str,
        store: &slipform_store::Options,
        registry: Arc<Registry>,
        options: AppOptions,
    ) -> Result<App, slipform_store::Error> {
        let store = Store::open(address, store).await?;
        Ok(App::new(store, registry, options))
    }

    /// Returns the store.
    pub fn store(&self) -> &Store {
        &self.inner.store
    }

    /// Returns the registry of the project's files.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.inner.registry
    }

    /// Returns the event tail. The caller must poll [`Tail::run`] for streams to work.
    pub fn tail(&self) -> &Arc<Tail> {
        &self.inner.tail
    }

    /// Records the changes of a sweep and wakes runners.
    pub(crate) fn swept(&self, swept: &Swept) {
        if *swept != Swept::default() {
            self.inner.metrics.swept(swept);
            let Swept { returned, lost, stopped, overdue } = swept;
            tracing::info!(
                returned,
                lost,
                stopped,
                overdue,
                "recovered runs whose lease, stop or deadline was due"
            );
            self.inner.work_signal.notify(returned + lost + stopped + overdue);
        }
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.inner.metrics
    }

    pub(crate) fn pending_requests(&self) -> &PendingRequests {
        &self.inner.pending_requests
    }

    fn options(&self) -> &AppOptions {
        &self.inner.options
    }
}
