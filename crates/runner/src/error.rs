//! Errors of runs and workers.

/// A run that could not be driven to its end, or a worker that failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The journal cannot be folded into a state.
    #[error("run journal cannot be replayed")]
    Engine(#[from] slipform_engine::Error),
    /// The journal of an assignment contains an invalid event, or lacks the run's start.
    #[error("run journal is invalid")]
    InvalidJournal(#[from] slipform_api::JournalError),
    /// The coordinator rejected a request, or was unreachable for too long.
    #[error("request to the coordinator failed")]
    Coordinator(#[source] slipform_api::Error),
    /// Another attempt owns the run. This one must not append anything.
    #[error("attempt is stale; another attempt owns the run")]
    Stale,
    /// The result does not satisfy the stored contract. The run has ended as a failure.
    #[error("coordinator rejected the result: {0}")]
    InvalidResult(String),
    /// A background task of the worker panicked.
    #[error("worker task failed: {0}")]
    TaskFailed(String),
    /// The engine calls a backend that this runner did not prepare for the run.
    #[error("backend `{0}` is not available on this runner")]
    NoBackend(String),
    /// The run waits for a child, but the caller expected it to end.
    #[error("run waits for a child agent, which cannot be started here")]
    Parked,
    /// The engine returns no action although the run has not ended.
    #[error("engine returned no action for a run that has not ended")]
    NoNextAction,
}

impl Error {
    /// Returns the error with all its sources, on one line for logs.
    pub(crate) fn with_sources(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            text = format!("{text}: {error}");
            cause = error.source();
        }
        text
    }
}

impl From<slipform_api::Error> for Error {
    fn from(error: slipform_api::Error) -> Error {
        match error.code {
            slipform_api::Code::StaleAttempt => Error::Stale,
            _ => Error::Coordinator(error),
        }
    }
}
