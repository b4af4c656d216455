//! Stores sessions, runs and journals in SQLite (one machine) or PostgreSQL (several coordinators).
//!
//! Each method of [`Store`] is one transaction: a successful operation is durable, a refused one changes
//! nothing. Both databases run the same operations, and one contract suite (`tests/contract`) checks them.
//!
//! Modules, in reading order:
//! - `store`: [`Store`], with one method per operation.
//! - `record`: the types that operations take and return.
//! - `transactions`: the operations, written once over `tx`.
//! - `tx`: a transaction of either database; statements, parameters and rows.
//! - `dialect`: the SQL fragments that differ between the databases.
//! - `sqlite`: one writer thread with group commit, reader threads, and WAL checkpoints.
//! - `postgres`: addresses and passwords, TLS, the connection pool, retries, and `LISTEN`/`NOTIFY` between
//!   coordinators.
//! - `schema`: the migrations (SQL in `migrations/`).
//! - `address`, `clock`, `error`: store URLs, the machine's clocks, and [`Error`].
//!
//! Concepts:
//! - A run passes through [`Store::submit`], [`Store::claim`], [`Store::append`], [`Store::park`] and
//!   [`Store::finish`].
//! - Every write of a runner carries its attempt's [`Fence`]. The store refuses a stale one with [`Stale`].
//! - All timestamps come from the database's clock, so leases do not depend on the machines' clocks. A SQLite database
//!   has the machine's clock, and a jump of it moves leases and deadlines along.
//! - [`Store::notifications`] signals that something was committed; subscribers then query for it.
//!
//! ```
//! use slipform_store::{Options, RegistryKind, Store};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), slipform_store::Error> {
//! let store = Store::open("sqlite::memory:", &Options::default()).await?;
//! assert!(store.add(RegistryKind::Agents, "writer", r#"{"name": "writer"}"#).await?);
//! assert!(!store.add(RegistryKind::Agents, "writer", "{}").await?, "the name is taken");
//! assert_eq!(store.entries(RegistryKind::Agents).await?.len(), 1);
//! # Ok(())
//! # }
//! ```
//!
//! Not in this crate: the meaning of agents, contracts and journals (`slipform-coordinator`,
//! `slipform-engine`), and the HTTP API (`slipform-api`).

mod address;
mod clock;
mod dialect;
mod error;
mod postgres;
mod record;
mod schema;
mod sqlite;
mod store;
mod transactions;
mod tx;

pub use address::{address_passwords, shown_address};
pub use clock::Clock;
pub use error::Error;
pub use record::*;
pub use store::{Options, Store, backup};
