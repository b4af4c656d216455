//! What can keep a runner from its work.

/// Why a run could not be driven to its end, or a worker could not work.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The journal cannot be folded.
    #[error("the run's journal cannot be used")]
    Engine(#[from] slipform_engine::Error),
    /// The journal that came with a piece of work is none.
    #[error("the run's journal cannot be read: {0}")]
    Unreadable(String),
    /// The coordinator does not take what is said to it, or was away for too long.
    #[error("the coordinator does not take it")]
    Coordinator(#[source] slipform_api::Error),
    /// The run is somebody else's by now: nothing more may be said about it.
    #[error("the attempt is no longer the run's latest")]
    Stale,
    /// The coordinator finds that the result does not satisfy the contract. The run has ended as a failure.
    #[error("the coordinator refused the result: {0}")]
    InvalidResult(String),
    /// The way to the coordinator broke in a way that it never does.
    #[error("the worker broke off: {0}")]
    Broken(String),
    /// The engine asks a backend that the claim does not hold.
    #[error("the run asks for the backend '{0}', which its claim does not hold")]
    NoBackend(String),
    /// The run waits for a child, and nobody is there to wait with it.
    #[error("the run waits for another agent, and nobody here starts agents")]
    Parked,
    /// The engine has nothing to say although the run goes on.
    #[error("the run cannot go on: its journal holds no attempt")]
    Stuck,
}

impl Error {
    /// The error with all its causes, on one line for logs.
    pub(crate) fn whole(&self) -> String {
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
