//! What a runner is told to do next.

use std::sync::Arc;

use formwork_types::{Body, Outcome, Request};

/// One step. The runner performs it and appends what happened to the journal.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Action {
    /// Append this event; it records a decision that follows from the journal so far.
    Note(Box<Body>),
    /// Ask a model, and append its reply as `message` or its failure as `call_failed`.
    Call(Box<ModelCall>),
    /// Append `result` and `run_completed`.
    Finish(Box<Outcome>),
}

/// A request to a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelCall {
    /// The backend's name.
    pub backend: String,
    /// Which call of how many on this rung, for people.
    pub number: u32,
    /// The most calls on this rung.
    pub of: u32,
    /// How it is asked, in a few words.
    pub asked: String,
    /// What is asked.
    pub request: Arc<Request>,
}
