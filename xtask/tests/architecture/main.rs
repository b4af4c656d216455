//! ARCHITECTURE.md describes the workspace as it is.
#![allow(clippy::unwrap_used, reason = "tests")]

mod dependencies;
mod paths;
mod support;
