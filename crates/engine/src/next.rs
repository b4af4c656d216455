//! The next action that follows from the state of a run.

use crate::action::{Action, ModelCall};
use crate::state::State;

/// Returns the next action, or `None` if the run has ended or no attempt has begun.
pub fn next(state: &State) -> Option<Action> {
    if state.decisions.has_ended() {
        return None;
    }
    if let Some(note) = state.decisions.next_note() {
        return Some(Action::Note(Box::new(note.clone())));
    }
    if let Some(outcome) = state.decisions.outcome() {
        return Some(Action::Finish(Box::new(outcome.clone())));
    }
    if let Some(paths) = state.acceptance.paths_to_check() {
        return Some(Action::VerifyPaths(paths.to_vec()));
    }
    if let Some(call) = state.acceptance.criteria_to_check() {
        return Some(Action::Tools(vec![call.clone()]));
    }
    if let Some(program) = &state.tools.program {
        return Some(Action::Execute(program.clone()));
    }
    if let Some(action) = state.children.action() {
        return Some(action);
    }
    if let Some(step) = &state.tools.step {
        return Some(step.action());
    }
    next_call(state).map(|call| Action::Call(Box::new(call)))
}

/// Returns the planned model call with its request.
fn next_call(state: &State) -> Option<ModelCall> {
    let (context, planned) = (state.request_context()?, state.ladder.call.as_ref()?);
    let (number, of) = if state.tools.callables.is_empty() {
        let most = state.retries_max() + 1;
        ((state.usage.calls_on_rung() + 1).min(most), most)
    } else {
        ((state.tools.steps() + 1).min(state.tools.limits.steps), state.tools.limits.steps)
    };
    Some(ModelCall {
        backend: context.backend.name.clone(),
        number,
        of,
        asked: planned.plan.describe(),
        request: planned.prepared(&context).request.clone(),
    })
}
