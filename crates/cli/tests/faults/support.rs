//! Clusters of processes, their clients, and checks of what they stored.

pub(crate) mod clock;
pub(crate) mod cluster;
pub(crate) mod consistency;
pub(crate) mod http;
pub(crate) mod load;
pub(crate) mod model;
pub(crate) mod proxy;
pub(crate) mod random;
pub(crate) mod reader;
pub(crate) mod records;
