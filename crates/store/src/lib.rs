//! Where sessions, runs and journals are kept.
//!
//! [`Store`] has one method a verb, and every verb is one transaction: what it says has happened is on the disk,
//! and what it refuses has left no trace. There are two databases behind it, SQLite (one machine) and PostgreSQL
//! (several coordinators); they run the same verbs and one contract suite (`tests/contract`) holds them to it.
//!
//! - A run's way: [`Store::submit`], [`Store::claim`], [`Store::append`], [`Store::park`], [`Store::finish`].
//! - Every write of a runner carries its attempt's [`Fence`]. A stale one is refused with [`Stale`].
//! - Time is the database's own: leases of several machines do not depend on their clocks.
//! - [`Store::news`] is a hint that something was committed. What was committed is found by asking.
//!
//! ```
//! use slipform_store::{Options, RegistryKind, Store};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), slipform_store::Error> {
//! let store = Store::open("sqlite::memory:", &Options::default()).await?;
//! assert!(store.add(RegistryKind::Agents, "writer", r#"{"name": "writer"}"#).await?);
//! assert!(!store.add(RegistryKind::Agents, "writer", "{}").await?, "the name is taken");
//! assert_eq!(store.named(RegistryKind::Agents).await?.len(), 1);
//! # Ok(())
//! # }
//! ```
//!
//! Inside: `verb` holds the verbs, written once over `tx`, a transaction of either database; `dialect` says what the
//! two say differently; `sqlite` and `postgres` begin, commit and repeat. Tables are in `migrations`.
//!
//! Not in here: what agents, contracts and journals mean (`slipform-coordinator`, `slipform-engine`).

mod address;
mod dialect;
mod error;
mod postgres;
mod record;
mod schema;
mod sqlite;
mod store;
mod transactions;
mod tx;

pub use error::Error;
pub use record::*;
pub use store::{Options, Store};
