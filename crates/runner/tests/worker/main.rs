//! Workers against a coordinator that is scripted, in memory, and on a clock that only moves when everyone waits.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

#[allow(dead_code, reason = "shared with tests that have servers")]
#[path = "../play/claims.rs"]
mod claims;
mod door;
#[allow(dead_code, reason = "shared with tests of whole runs")]
#[path = "../play/folder.rs"]
mod folder;
#[allow(dead_code, reason = "shared with tests of whole runs")]
#[path = "../play/parts.rs"]
mod parts;
mod play;

mod attempts;
mod away;
mod beats;
mod children;
mod draining;
mod registration;
mod slots;
mod troubles;
