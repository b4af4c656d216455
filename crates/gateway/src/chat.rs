//! Chat completions: parses requests, builds and streams responses.

mod body;
mod forms;
pub(crate) mod messages;
pub(crate) mod request;
pub(crate) mod response;
mod schemas;
pub(crate) mod stream;
