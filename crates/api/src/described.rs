//! Words of `formwork-types`, described for other languages. That crate knows nothing of descriptions; a test holds
//! these to it.

use utoipa::ToSchema;

/// The id of a run.
#[derive(Debug, ToSchema)]
#[schema(as = RunId, value_type = String, pattern = "^run_[0-9a-f]{12}$", examples("run_0123456789ab"))]
pub struct RunIdText(pub String);

/// The id of a session.
#[derive(Debug, ToSchema)]
#[schema(as = SessionId, value_type = String, pattern = "^ses_[0-9a-f]{12}$", examples("ses_0123456789ab"))]
pub struct SessionIdText(pub String);

/// How a run stands.
#[derive(Debug, ToSchema)]
#[schema(as = RunStatus, rename_all = "snake_case")]
pub enum RunStatusName {
    /// It waits for a runner.
    Pending,
    /// A runner has it.
    Claimed,
    /// A runner works on it.
    Running,
    /// It waits for a child and holds no slot.
    Waiting,
    /// It was asked to stop.
    Stopping,
    /// It has a result.
    Completed,
    /// It has none.
    Failed,
    /// It was stopped.
    Stopped,
}

/// Whether a run begins a session or goes on with one.
#[derive(Debug, ToSchema)]
#[schema(as = RunType, rename_all = "snake_case")]
pub enum RunTypeName {
    /// It begins one.
    StartSession,
    /// It goes on with one.
    ResumeSession,
}

/// How whoever starts a run learns of its end.
#[derive(Debug, ToSchema)]
#[schema(as = ExecutionMode, rename_all = "snake_case")]
pub enum ExecutionModeName {
    /// It waits.
    Sync,
    /// It asks.
    AsyncPoll,
    /// Its session is resumed.
    AsyncCallback,
}
