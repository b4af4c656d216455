//! Workers against a fake coordinator on a paused clock.

mod attempts;
mod children;
mod failures;
mod heartbeats;
mod outage;
mod registration;
mod shutdown;
mod slots;
