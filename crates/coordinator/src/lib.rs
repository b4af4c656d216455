//! The coordinator service: accepts runs, assigns them to runners, stores their journals and serves the HTTP
//! API.
//!
//! Modules, in reading order:
//! - `app`: [`App`], the operations. It resolves agents, contracts and parameters, and calls the store. It
//!   implements [`slipform_api::CallerApi`] and [`slipform_api::RunnerApi`] for callers and runners in this process.
//! - [`http`]: the HTTP API: handlers, authorization, limits and event streams.
//! - `registry`: [`Registry`], which loads and watches the project's agent and schema files.
//! - `tail`: [`Tail`], which broadcasts committed events to subscribers.
//! - `sweeper`: [`Sweeper`], which handles expired leases and deletes old sessions.
//! - `analytics`: [`Analytics`], which writes JSON Lines files for reporting.
//! - `request_log`: stores the summaries of gateway requests.
//! - `metrics`: counters for Prometheus.
//!
//! ```
//! use std::path::Path;
//! use std::sync::Arc;
//!
//! use slipform_coordinator::{App, AppOptions, Registry};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let registry = Arc::new(Registry::read(Path::new("/nonexistent")));
//! let app = App::open("sqlite::memory:", false, registry, AppOptions::default()).await?;
//! assert!(app.readiness(false).await.ready);
//! # Ok(())
//! # }
//! ```
//!
//! Not in this crate: executing runs (`slipform-runner`), models, tools and the engine; wire types
//! (`slipform-api`); SQL (`slipform-store`).

mod analytics;
mod app;
pub mod http;
mod metrics;
mod registry;
mod request_log;
mod sweeper;
mod tail;

pub use analytics::Analytics;
pub use app::{App, AppOptions, DeriveRequests, IssuedToken, Scope, TokenRequest};
pub use registry::Registry;
pub use slipform_store::{
    Error as StoreError, Options as StoreOptions, Retention, TokenRecord, address_passwords, backup,
    shown_address,
};
pub use slipform_ui::is_built as has_dashboard;
pub use sweeper::{Sweeper, SweeperOptions};
pub use tail::{Subscription, Tail};
