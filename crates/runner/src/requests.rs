//! Derives the requests of model calls from a journal, which does not hold them.

use slipform_engine::{Action, State, next};
use slipform_types::{Event, EventBody, Request, RunId};

/// Returns the requests of a run's model calls, each with the `seq` of the event that holds its reply or failure.
///
/// The engine builds requests from the journal, so folding it again gives the same ones. Values of environment variables
/// in prompts are not in the journal, and appear as placeholders. Returns the requests up to an event that the engine
/// cannot fold.
pub fn derive_requests(events: &[Event], run: &RunId) -> Vec<(u64, Request)> {
    let (mut state, mut requests) = (State::default(), Vec::new());
    for event in events {
        let is_answer = matches!(event.body, EventBody::Message { .. } | EventBody::CallFailed { .. });
        if is_answer
            && event.run_id == *run
            && let Some(Action::Call(call)) = next(&state)
        {
            requests.push((event.seq, (*call.request).clone()));
        }
        if state.fold(&event.body).is_err() {
            break;
        }
    }
    requests
}
