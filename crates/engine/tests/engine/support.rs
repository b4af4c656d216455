//! Cases, their execution and their expectations.

pub(crate) mod expect;
pub(crate) mod script;
