//! A piece of work as a coordinator gives it, and whoever knows what it takes to do it.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use formwork_api::Work;
use formwork_types::{AgentCard, Blueprint, Body, Contract, Event, RunId, RunType, SessionId};
use serde_json::Value;

use crate::claim::Claim;
use crate::error::Error;

/// The answer to a job: a claim, or why there can be none.
pub type Equipped<'a> = Pin<Box<dyn Future<Output = Result<Claim, String>> + Send + 'a>>;

/// Someone who knows backends, keys, folders and placeholders, and makes claims of jobs.
pub trait Outfitter: Send + Sync {
    /// Makes the claim of a job. Where that cannot be done the run fails for the reason that is given.
    fn equip<'a>(&'a self, job: &'a Job) -> Equipped<'a>;
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
    pub fn read(work: &Work) -> Result<Job, Error> {
        let events = work.journal.iter().zip(1..).map(|(raw, number)| {
            serde_json::from_str(raw.get())
                .map_err(|error| Error::Unreadable(format!("its event {number} is none: {error}")))
        });
        let journal = events.collect::<Result<Vec<Event>, Error>>()?;
        let missing = || Error::Unreadable(format!("it does not hold the run_start of {}", work.run_id));
        let mut starts = journal.iter().filter(|event| matches!(event.body, Body::RunStart { .. }));
        let first = starts.clone().next().ok_or_else(missing)?;
        let own = starts.find(|event| event.run_id == work.run_id).ok_or_else(missing)?;
        let (
            Body::RunStart { parameters: given, .. },
            Body::RunStart { run_type, blueprint, contract, parameters, input },
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
            // Time that is up is no time, and not a mistake.
            time_left: work.time_left_ms.map(|left| Duration::from_millis(left.try_into().unwrap_or(0))),
            journal,
        })
    }

    /// The claim as far as the journal knows it: without backends and variables, placeholders not filled in.
    pub fn claim(&self) -> Claim {
        let blank = Claim::new(self.session_id.clone(), self.run_id.clone(), self.blueprint.clone());
        Claim {
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
