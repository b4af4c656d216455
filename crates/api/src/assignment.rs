//! The assignment of a run to a runner.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use slipform_types::{
    AgentCard, Blueprint, Contract, Conversation, Event, EventBody, RunId, RunOverrides, RunType, SessionId,
};

use crate::runner::AttemptRef;

/// A claimed run with everything that a runner needs to know about it. The coordinator sends it as an
/// [`EncodedAssignment`], and the runner decodes it once.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Assignment<J = Journal> {
    /// Id of the run.
    pub run_id: RunId,
    /// Fencing token of the attempt.
    pub token: i64,
    /// Id of the session.
    pub session_id: SessionId,
    /// Working folder as the caller sent it.
    pub project_dir: Option<String>,
    /// The agents that this run may delegate to.
    pub agents: Vec<AgentCard>,
    /// Commands of all agents that the coordinator knows, sent for agents that write files. Tools do not write to their
    /// programs.
    #[serde(default = "Vec::new", skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<Vec<String>>,
    /// Time until the deadline in milliseconds, negative once it has passed; null without a time limit.
    pub time_left_ms: Option<i64>,
    /// Whether the run has been asked to stop.
    pub stop: bool,
    /// The session's journal, including earlier runs.
    pub journal: J,
    /// `seq` of the journal's last event, if more follow. The runner reads them from `POST /runner/journal`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal_next: Option<i64>,
}

/// An assignment whose journal is not decoded, so that one invalid event does not spoil the other assignments of an
/// answer.
pub type EncodedAssignment = Assignment<Vec<Box<RawValue>>>;

/// The journal of a session, with the parts that describe the assigned run.
#[derive(Debug, Clone)]
pub struct Journal {
    /// All events, oldest first.
    pub events: Vec<Event>,
    /// The start of the assigned run.
    pub start: RunStart,
    /// The session's first run, whose values fill placeholders in every run of the session.
    pub first_run: FirstRun,
}

/// The data of a `run_start` event.
#[derive(Debug, Clone, PartialEq)]
pub struct RunStart {
    /// Whether the run starts the session or resumes it.
    pub run_type: RunType,
    /// The agent, with unresolved placeholders.
    pub blueprint: Arc<Blueprint>,
    /// The resolved output contract; `None` for runs that return text.
    pub contract: Option<Arc<Contract>>,
    /// The parameters of the run, checked by the coordinator.
    pub parameters: Value,
    /// The parameters as text for the model.
    pub input: String,
    /// The settings that the caller chose for this run.
    pub overrides: RunOverrides,
    /// The conversation of a caller that keeps it; `None` for sessions of agents.
    pub conversation: Option<Arc<Conversation>>,
}

/// The first run of a session.
#[derive(Debug, Clone, PartialEq)]
pub struct FirstRun {
    /// Id of the run.
    pub run_id: RunId,
    /// Its parameters.
    pub parameters: Value,
}

/// A journal that a runner cannot work with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
    /// An event is not one that this version knows.
    #[error("event {number} is invalid: {reason}")]
    InvalidEvent {
        /// Number of the event in the journal, from 1.
        number: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// The journal does not say what the run is.
    #[error("`run_start` of {0} is missing")]
    NoStart(RunId),
}

impl<J> Assignment<J> {
    /// Returns the reference that every request of the attempt carries.
    pub fn attempt(&self) -> AttemptRef {
        AttemptRef { run_id: self.run_id.clone(), token: self.token }
    }

    /// Returns the time until the deadline; zero if it has passed, and `None` without a time limit.
    pub fn time_left(&self) -> Option<Duration> {
        self.time_left_ms.map(|left| Duration::from_millis(left.try_into().unwrap_or(0)))
    }

    fn with_journal<K>(self, journal: K) -> Assignment<K> {
        Assignment {
            run_id: self.run_id,
            token: self.token,
            session_id: self.session_id,
            project_dir: self.project_dir,
            agents: self.agents,
            commands: self.commands,
            time_left_ms: self.time_left_ms,
            stop: self.stop,
            journal,
            journal_next: self.journal_next,
        }
    }
}

impl EncodedAssignment {
    /// Decodes the journal.
    ///
    /// # Errors
    /// Returns an error if an event is invalid, or the journal lacks the run's `run_start`.
    pub fn decode(self) -> Result<Assignment, JournalError> {
        let events = self.journal.iter().zip(1..).map(|(raw, number)| {
            serde_json::from_str(raw.get())
                .map_err(|error| JournalError::InvalidEvent { number, reason: error.to_string() })
        });
        let journal = Journal::new(&self.run_id, events.collect::<Result<_, _>>()?)?;
        Ok(self.with_journal(journal))
    }
}

impl Journal {
    /// Finds the start of a run, and of the first run, in a session's events.
    ///
    /// # Errors
    /// Returns an error if the journal lacks the run's `run_start`.
    pub fn new(run: &RunId, events: Vec<Event>) -> Result<Journal, JournalError> {
        let missing = || JournalError::NoStart(run.clone());
        let mut starts = events.iter().filter_map(|event| Some((&event.run_id, run_start(&event.body)?)));
        let (first_id, first) = starts.clone().next().ok_or_else(missing)?;
        let (_, start) = starts.find(|(id, _)| *id == run).ok_or_else(missing)?;
        let first_run = FirstRun { run_id: first_id.clone(), parameters: first.parameters };
        Ok(Journal { start, first_run, events })
    }
}

fn run_start(body: &EventBody) -> Option<RunStart> {
    let EventBody::RunStart { run_type, blueprint, contract, parameters, input, overrides, conversation } =
        body
    else {
        return None;
    };
    Some(RunStart {
        run_type: *run_type,
        blueprint: blueprint.clone(),
        contract: contract.clone(),
        parameters: parameters.clone(),
        input: input.clone(),
        overrides: overrides.clone(),
        conversation: conversation.clone(),
    })
}

impl From<RunStart> for EventBody {
    fn from(start: RunStart) -> EventBody {
        let RunStart { run_type, blueprint, contract, parameters, input, overrides, conversation } = start;
        EventBody::RunStart { run_type, blueprint, contract, parameters, input, overrides, conversation }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn start(run: u8, run_type: &str, prompt: &str) -> Value {
        json!({
            "seq": run, "session_id": SessionId::from_random([9; 6]), "run_id": RunId::from_random([run; 6]),
            "timestamp": "2026-01-01T00:00:00.000Z", "event_type": "run_start", "type": run_type,
            "blueprint": {"name": "a"}, "contract": null, "parameters": {"prompt": prompt}, "input": prompt,
        })
    }

    fn assignment(run: u8, journal: &[Value]) -> EncodedAssignment {
        serde_json::from_str(
            &json!({
                "run_id": RunId::from_random([run; 6]), "token": 1, "session_id": SessionId::from_random([9; 6]),
                "project_dir": "/srv/one", "agents": [], "time_left_ms": 1500, "stop": false, "journal": journal,
            })
            .to_string(),
        )
        .unwrap()
    }

    #[test]
    fn later_run_of_a_session_has_the_parameters_of_the_first() {
        let journal = [start(1, "start_session", "First."), start(2, "resume_session", "Go on.")];
        let assignment = assignment(2, &journal).decode().unwrap();
        assert_eq!(assignment.time_left(), Some(Duration::from_millis(1500)));
        let Journal { events, start, first_run } = assignment.journal;
        assert_eq!((start.run_type, start.input.as_str()), (RunType::ResumeSession, "Go on."));
        let first = FirstRun { run_id: RunId::from_random([1; 6]), parameters: json!({"prompt": "First."}) };
        assert_eq!((first_run, events.len()), (first, 2));
    }

    #[test]
    fn invalid_journal_is_refused_with_the_event_number() {
        let refused = |run, journal: &[Value]| assignment(run, journal).decode().unwrap_err().to_string();
        let first = start(1, "start_session", "First.");
        let invalid = refused(1, &[first.clone(), json!({"seq": 2})]);
        assert!(invalid.starts_with("event 2 is invalid: "), "{invalid}");
        assert_eq!(refused(2, &[first]), "`run_start` of run_020202020202 is missing");
    }

    #[test]
    fn deadline_that_has_passed_leaves_no_time() {
        let late = EncodedAssignment { time_left_ms: Some(-1), ..assignment(1, &[]) };
        assert_eq!(late.time_left(), Some(Duration::ZERO));
    }
}
