//! A case driven through the engine, as a runner would do it.

use formwork_engine::{Action, ModelCall, State, next};
use formwork_types::{Body, Event, Outcome, RunId, RunStatus, SessionId};

use crate::case::Case;

/// What happened: the journal, and before each event what the engine wanted.
#[derive(Debug)]
pub(crate) struct Driven {
    pub(crate) journal: Vec<Event>,
    /// What `next` said before the event of the same index.
    pub(crate) wanted: Vec<Option<Action>>,
    pub(crate) calls: Vec<ModelCall>,
    pub(crate) outcome: Outcome,
}

/// Drives a case to its end. The error says where the engine left the script.
pub(crate) fn drive(case: &Case) -> Result<Driven, String> {
    let mut state = State::default();
    let mut driven =
        Record { journal: Vec::new(), wanted: Vec::new(), calls: Vec::new(), steps: case.steps.len() };
    for body in case.opening() {
        driven.append(&mut state, body)?;
    }
    loop {
        match next(&state) {
            Some(Action::Note(body)) => driven.append(&mut state, *body)?,
            Some(Action::Call(call)) => {
                let step = case.steps.get(driven.calls.len());
                let step =
                    step.ok_or_else(|| format!("call {} is not in the script: {}", call.number, call.asked))?;
                driven.calls.push((*call).clone());
                driven.append(&mut state, step.body(&call.asked))?;
            }
            Some(Action::Finish(outcome)) => return driven.finish(&mut state, *outcome),
            other => return Err(format!("the engine has nothing to say: {other:?}")),
        }
    }
}

struct Record {
    journal: Vec<Event>,
    wanted: Vec<Option<Action>>,
    calls: Vec<ModelCall>,
    steps: usize,
}

impl Record {
    fn append(&mut self, state: &mut State, body: Body) -> Result<(), String> {
        self.wanted.push(next(state));
        state.fold(&body).map_err(|error| format!("{error} at {body:?}"))?;
        let seq = self.journal.len() as u64 + 1;
        self.journal.push(Event {
            seq,
            session_id: SessionId::from_random([0; 6]),
            run_id: RunId::from_random([0; 6]),
            timestamp: "2026-01-01T00:00:00.000Z".to_owned(),
            body,
        });
        Ok(())
    }

    fn finish(mut self, state: &mut State, outcome: Outcome) -> Result<Driven, String> {
        for body in ending(&outcome) {
            self.append(state, body)?;
        }
        if next(state).is_some() {
            return Err("the engine goes on after run_completed".to_owned());
        }
        if self.calls.len() != self.steps {
            return Err(format!("{} of {} steps were used", self.calls.len(), self.steps));
        }
        Ok(Driven { journal: self.journal, wanted: self.wanted, calls: self.calls, outcome })
    }
}

fn ending(outcome: &Outcome) -> Vec<Body> {
    match outcome {
        Outcome::Completed(success) => vec![
            Body::Result {
                result_text: success.result_text.clone(),
                result_data: success.result_data.clone(),
                receipt: Box::new(success.receipt.clone()),
            },
            Body::RunCompleted { status: RunStatus::Completed, error: None, salvage: None },
        ],
        Outcome::Failed(failure) => vec![Body::RunCompleted {
            status: State::status(outcome),
            error: Some(Box::new(failure.error.clone())),
            salvage: Some(Box::new(failure.salvage.clone())),
        }],
    }
}
