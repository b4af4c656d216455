//! What can keep a runner from its work.

/// Why a run could not be driven to its end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The journal cannot be folded.
    #[error("the run's journal cannot be used")]
    Engine(#[from] formwork_engine::Error),
    /// The coordinator does not take the event.
    #[error("the coordinator refused an event: {0}")]
    Refused(String),
    /// The engine asks a backend that the claim does not hold.
    #[error("the run asks for the backend '{0}', which its claim does not hold")]
    NoBackend(String),
    /// The run waits for a child, and nobody is there to wait with it.
    #[error("the run waits for another agent, and nobody here starts agents")]
    Parked,
    /// A tool broke in a way that tools never do.
    #[error("a tool broke off: {0}")]
    Tool(String),
    /// The engine has nothing to say although the run goes on.
    #[error("the run cannot go on: its journal holds no attempt")]
    Stuck,
}
