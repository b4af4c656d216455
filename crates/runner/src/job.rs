//! An assignment with its parsed journal, and the provider of the resources it needs.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use slipform_api::Assignment;
use slipform_types::{AgentCard, Blueprint, Contract, Event, EventBody, RunId, RunType, SessionId};

use crate::error::Error;
use crate::run_context::RunContext;

/// The result of preparing a job: the run's context, or the reason why the run fails.
pub type Prepared<'a> = Pin<Box<dyn Future<Output = Result<RunContext, String>> + Send + 'a>>;

/// Provides backends, keys, folders and placeholder values for jobs.
pub trait ResourceProvider: Send + Sync {
    /// Prepares the context of a job. An error fails the run with this reason.
    fn prepare<'a>(&'a self, job: &'a Job) -> Prepared<'a>;
}

/// An assigned run, with everything that its journal says about it.
#[derive(Debug, Clone)]
pub struct Job {
    /// The session that the run belongs to.
    pub session_id: SessionId,
    /// The run's id.
    pub run_id: RunId,
    /// Whether the run starts the session or resumes it.
    pub run_type: RunType,
    /// The agent from the run's `run_start`, with unresolved placeholders.
    pub blueprint: Arc<Blueprint>,
    /// The resolved output contract; `None` for runs that return text.
    pub contract: Option<Arc<Contract>>,
    /// The parameters of the run, validated by the coordinator.
    pub parameters: Value,
    /// The parameters as text for the model.
    pub input: String,
    /// The session's first run, whose values fill placeholders in every run of the session.
    pub first_run: FirstRun,
    /// The folder of the session, relative to the project's root; `None` for the root.
    pub project_dir: Option<String>,
    /// The agents that this run may delegate to.
    pub agents: Vec<AgentCard>,
    /// Commands of all agents, whose programs tools do not write to.
    pub commands: Vec<Vec<String>>,
    /// Time until the run's deadline; `None` without a deadline.
    pub time_left: Option<Duration>,
    /// The session's journal, including earlier runs.
    pub journal: Vec<Event>,
}

/// The first run of a session.
#[derive(Debug, Clone, PartialEq)]
pub struct FirstRun {
    /// The first run's id.
    pub run_id: RunId,
    /// The parameters of the first run.
    pub parameters: Value,
}

impl Job {
    /// Parses the journal of an assignment.
    ///
    /// # Errors
    /// Returns an error when an event is invalid, or the run's `run_start` is missing.
    pub fn parse(assignment: &Assignment) -> Result<Job, Error> {
        let events = assignment.journal.iter().zip(1..).map(|(raw, number)| {
            serde_json::from_str(raw.get())
                .map_err(|error| Error::InvalidJournal(format!("event {number} is invalid: {error}")))
        });
        let journal = events.collect::<Result<Vec<Event>, Error>>()?;
        let missing = || Error::InvalidJournal(format!("`run_start` of {} is missing", assignment.run_id));
        let mut starts = journal.iter().filter(|event| matches!(event.body, EventBody::RunStart { .. }));
        let first = starts.clone().next().ok_or_else(missing)?;
        let own = starts.find(|event| event.run_id == assignment.run_id).ok_or_else(missing)?;
        let (
            EventBody::RunStart { parameters: first_parameters, .. },
            EventBody::RunStart { run_type, blueprint, contract, parameters, input },
        ) = (&first.body, &own.body)
        else {
            return Err(missing());
        };
        Ok(Job {
            session_id: assignment.session_id.clone(),
            run_id: assignment.run_id.clone(),
            run_type: *run_type,
            blueprint: blueprint.clone(),
            contract: contract.clone(),
            parameters: parameters.clone(),
            input: input.clone(),
            first_run: FirstRun { run_id: first.run_id.clone(), parameters: first_parameters.clone() },
            project_dir: assignment.project_dir.clone(),
            agents: assignment.agents.clone(),
            commands: assignment.commands.clone(),
            // A negative time means that the deadline has passed.
            time_left: assignment
                .time_left_ms
                .map(|left| Duration::from_millis(left.try_into().unwrap_or(0))),
            journal,
        })
    }

    /// Returns the context as far as the journal determines it: without backends and variables, with
    /// unresolved placeholders.
    pub fn context(&self) -> RunContext {
        let blank = RunContext::new(self.session_id.clone(), self.run_id.clone(), self.blueprint.clone());
        RunContext {
            run_type: self.run_type,
            contract: self.contract.clone(),
            parameters: self.parameters.clone(),
            input: self.input.clone(),
            agents: self.agents.clone(),
            project_dir: self.project_dir.clone().unwrap_or(blank.project_dir),
            ..blank
        }
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

    fn assignment(run: u8, journal: &[Value]) -> Assignment {
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
        let job = Job::parse(&assignment(2, &journal)).unwrap();
        assert_eq!((job.run_type, job.input.as_str()), (RunType::ResumeSession, "Go on."));
        let first = FirstRun { run_id: RunId::from_random([1; 6]), parameters: json!({"prompt": "First."}) };
        assert_eq!(job.first_run, first);
        assert_eq!((job.time_left, job.journal.len()), (Some(Duration::from_millis(1500)), 2));
        let context = job.context();
        assert_eq!((context.project_dir.as_str(), context.input.as_str()), ("/srv/one", "Go on."));
    }

    #[test]
    fn invalid_journal_is_refused_with_the_event_number() {
        let refused = |run, journal: &[Value]| Job::parse(&assignment(run, journal)).unwrap_err().to_string();
        let first = start(1, "start_session", "First.");
        let invalid = refused(1, &[first.clone(), json!({"seq": 2})]);
        assert!(invalid.starts_with("run journal is invalid: event 2 is invalid: "), "{invalid}");
        let missing = refused(2, &[first]);
        assert!(missing.ends_with("`run_start` of run_020202020202 is missing"), "{missing}");
    }
}
