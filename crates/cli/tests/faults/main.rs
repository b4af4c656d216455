//! Faults, with real processes: coordinators and runners that are killed, stopped and sent home, a database that goes
//! away, and readers that are cut off. Whatever was acknowledged has to be there afterwards, once.
//!
//! - [`cluster`] is a project with its processes, [`model`] the model server that they ask and that counts what it is
//!   asked, [`load`] what is asked of them.
//! - [`records`] reads everything that is kept, over HTTP and from the database itself; [`verdict`] judges it.
//! - The others are the tests, one file for each kind of fault.
//!
//! The kills and their moments follow from a seed, which every failure prints. `cargo xtask torture` runs more of them:
//! `SLIPFORM_TORTURE_KILLS` and `SLIPFORM_TORTURE_SEED` say how many and which. PostgreSQL's programs are looked for in
//! `SLIPFORM_TEST_POSTGRES_BIN`, in the `PATH` and where Debian keeps them; without them its tests are skipped.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "tests")]

mod absence;
mod cluster;
mod drain;
mod followers;
mod http;
mod keys;
mod load;
mod lost;
mod model;
mod outage;
mod postgres;
mod random;
mod reader;
mod records;
mod sleeper;
mod torture;
mod verdict;
mod wait;
