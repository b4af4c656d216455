//! How words of the vocabulary stand in the tables: as they do in the journal.

use formwork_types::{Body, ExecutionMode, RunStatus, RunType};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::Error;

/// Every status, with its name.
const STATUSES: [(RunStatus, &str); 8] = [
    (RunStatus::Pending, "pending"),
    (RunStatus::Claimed, "claimed"),
    (RunStatus::Running, "running"),
    (RunStatus::Waiting, "waiting"),
    (RunStatus::Stopping, "stopping"),
    (RunStatus::Completed, "completed"),
    (RunStatus::Failed, "failed"),
    (RunStatus::Stopped, "stopped"),
];

pub(crate) fn status(status: RunStatus) -> &'static str {
    STATUSES.iter().find(|(known, _)| *known == status).map_or("", |(_, name)| name)
}

pub(crate) fn read_status(name: &str) -> Result<RunStatus, Error> {
    let found = STATUSES.iter().find(|(_, known)| *known == name);
    found.map(|(status, _)| *status).ok_or_else(|| Error::Damaged(format!("'{name}' is no status of a run")))
}

pub(crate) fn run_type(run_type: RunType) -> &'static str {
    match run_type {
        RunType::StartSession => "start_session",
        RunType::ResumeSession => "resume_session",
    }
}

pub(crate) fn read_run_type(name: &str) -> RunType {
    match name {
        "start_session" => RunType::StartSession,
        _ => RunType::ResumeSession,
    }
}

pub(crate) fn mode(mode: ExecutionMode) -> &'static str {
    match mode {
        ExecutionMode::Sync => "sync",
        ExecutionMode::AsyncPoll => "async_poll",
        ExecutionMode::AsyncCallback => "async_callback",
    }
}

/// What is kept, as JSON.
pub(crate) fn to_json(value: &impl Serialize) -> Result<String, Error> {
    serde_json::to_string(value)
        .map_err(|error| Error::Damaged(format!("it cannot be written as JSON: {error}")))
}

/// Events as they are kept.
pub(crate) fn texts(bodies: &[Body]) -> Result<Vec<String>, Error> {
    bodies.iter().map(to_json).collect()
}

/// What was kept as JSON.
pub(crate) fn from_json<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    serde_json::from_str(text)
        .map_err(|error| Error::Damaged(format!("what was kept cannot be read: {error}")))
}
