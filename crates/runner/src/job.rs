//! A piece of work as a coordinator gives it, and whoever knows what it takes to do it.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use slipform_api::Assignment;
use slipform_types::{AgentCard, Blueprint, Contract, Event, EventBody, RunId, RunType, SessionId};

use crate::error::Error;
use crate::run_context::RunContext;

/// The answer to a job: a claim, or why there can be none.
pub type Prepared<'a> = Pin<Box<dyn Future<Output = Result<RunContext, String>> + Send + 'a>>;

/// Someone who knows backends, keys, folders and placeholders, and makes claims of jobs.
pub trait ResourceProvider: Send + Sync {
    /// Makes the claim of a job. Where that cannot be done the run fails for the reason that is given.
    fn prepare<'a>(&'a self, job: &'a Job) -> Prepared<'a>;
}

/// A run that a coordinator has given away, with all that its journal says of it.
#[derive(Debug, Clone)]
pub struct Job {
    /// The session.
    pub session_id: SessionId,
    /// The run.
    pub run_id: RunId,
    /// Whether it begins the session or goes on with it.
    pub run_type: RunType,
    /// The agent as the run's `run_start` has it, placeholders and all.
    pub blueprint: Arc<Blueprint>,
    /// What the result has to satisfy.
    pub contract: Option<Arc<Contract>>,
    /// What the caller gave.
    pub parameters: Value,
    /// The same as text for the model.
    pub input: String,
    /// What placeholders are filled from, in every run of the session.
    pub first: First,
    /// The folder that the session was given.
    pub project_dir: Option<String>,
    /// The agents that it may delegate to.
    pub agents: Vec<AgentCard>,
    /// The commands of all agents, whose programs tools do not write to.
    pub commands: Vec<Vec<String>>,
    /// How much of its time is left.
    pub time_left: Option<Duration>,
    /// The session's journal so far.
    pub journal: Vec<Event>,
}

/// The session's first run.
#[derive(Debug, Clone, PartialEq)]
pub struct First {
    /// Its id.
    pub run_id: RunId,
    /// What its caller gave.
    pub parameters: Value,
}

impl Job {
    /// Reads what a coordinator gave.
    ///
    /// # Errors
    /// When its journal holds what is no event, or does not hold the run's beginning.
    pub fn read(work: &Assignment) -> Result<Job, Error> {
        let events = work.journal.iter().zip(1..).map(|(raw, number)| {
            serde_json::from_str(raw.get())
                .map_err(|error| Error::Unreadable(format!("its event {number} is none: {error}")))
        });
        let journal = events.collect::<Result<Vec<Event>, Error>>()?;
        let missing = || Error::Unreadable(format!("it does not hold the run_start of {}", work.run_id));
        let mut starts = journal.iter().filter(|event| matches!(event.body, EventBody::RunStart { .. }));
        let first = starts.clone().next().ok_or_else(missing)?;
        let own = starts.find(|event| event.run_id == work.run_id).ok_or_else(missing)?;
        let (
            EventBody::RunStart { parameters: given, .. },
            EventBody::RunStart { run_type, blueprint, contract, parameters, input },
        ) = (&first.body, &own.body)
        else {
            return Err(missing());
        };
        Ok(Job {
            session_id: work.session_id.clone(),
            run_id: work.run_id.clone(),
            run_type: *run_type,
            blueprint: blueprint.clone(),
            contract: contract.clone(),
            parameters: parameters.clone(),
            input: input.clone(),
            first: First { run_id: first.run_id.clone(), parameters: given.clone() },
            project_dir: work.project_dir.clone(),
            agents: work.agents.clone(),
            commands: work.commands.clone(),
            // Time that is up is no time, and not a mistake.
            time_left: work.time_left_ms.map(|left| Duration::from_millis(left.try_into().unwrap_or(0))),
            journal,
        })
    }

    /// The claim as far as the journal knows it: without backends and variables, placeholders not filled in.
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

    fn work(run: u8, journal: &[Value]) -> Assignment {
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
    fn a_later_run_of_a_session_knows_what_the_first_was_given() {
        let journal = [start(1, "start_session", "First."), start(2, "resume_session", "Go on.")];
        let job = Job::read(&work(2, &journal)).unwrap();
        assert_eq!((job.run_type, job.input.as_str()), (RunType::ResumeSession, "Go on."));
        let first = First { run_id: RunId::from_random([1; 6]), parameters: json!({"prompt": "First."}) };
        assert_eq!(job.first, first);
        assert_eq!((job.time_left, job.journal.len()), (Some(Duration::from_millis(1500)), 2));
        let claim = job.context();
        assert_eq!((claim.project_dir.as_str(), claim.input.as_str()), ("/srv/one", "Go on."));
    }

    #[test]
    fn a_journal_that_is_none_is_refused_with_the_place() {
        let refused = |run, journal: &[Value]| Job::read(&work(run, journal)).unwrap_err().to_string();
        let first = start(1, "start_session", "First.");
        let spoilt = refused(1, &[first.clone(), json!({"seq": 2})]);
        assert!(spoilt.starts_with("the run's journal cannot be read: its event 2 is none: "), "{spoilt}");
        let missing = refused(2, &[first]);
        assert!(missing.ends_with("it does not hold the run_start of run_020202020202"), "{missing}");
    }
}
