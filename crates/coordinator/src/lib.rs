//! The coordinator: takes runs on, hands them to runners, keeps their journals, and tells everyone who asks.
//!
//! - [`App`] has the verbs. It resolves agents, contracts and parameters, and leaves the rest to the store.
//! - [`App`] is also the runners' door ([`slipform_api::RunnerApi`]), for those in the same process.
//! - [`Registry`] knows the agents and schemas of a project's files, and watches them.
//! - [`Tail`] tells what was committed to whoever follows a journal.
//! - [`http`] is the API: the verbs, for everyone else.
//! - [`Analytics`] writes files for those who count.
//! - [`Sweeper`] puts back what runners lost, and deletes what is too old.
//!
//! It never runs anything itself, and knows no model, no tool and no engine.

mod analytics;
mod app;
pub mod http;
mod metrics;
mod registry;
mod sweeper;
mod tail;

pub use analytics::Analytics;
pub use app::{App, AppOptions, IssuedToken, Scope};
pub use registry::Registry;
pub use slipform_store::{Error as StoreError, StatsFilter, Page, Retention, RunFilter};
pub use sweeper::{Sweeper, SweeperOptions};
pub use tail::{Following, Tail};
