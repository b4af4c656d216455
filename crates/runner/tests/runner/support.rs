//! Fixtures and fakes that the suites share.

pub(crate) mod contexts;
pub(crate) mod fake_api;
pub(crate) mod fakes;
pub(crate) mod fixture;
pub(crate) mod folder;
pub(crate) mod model;
pub(crate) mod outcome;
pub(crate) mod test_coordinator;
pub(crate) mod worker;
