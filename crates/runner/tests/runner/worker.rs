//! Workers against a scripted coordinator in memory, on a paused clock.

mod attempts;
mod away;
mod beats;
mod children;
mod draining;
mod registration;
mod slots;
mod troubles;
