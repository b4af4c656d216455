//! Derives the requests of model calls from a journal, which does not hold them.

use slipform_engine::{Action, State, next};
use slipform_types::{Event, EventBody, Request, RunId};

/// Returns the requests of a run's model calls, each with the `seq` of the event that holds its reply or failure.
///
/// The engine builds requests from the journal, so folding it again gives the same ones. Values of environment variables
/// in prompts are not in the journal, and appear as placeholders. Returns the requests up to an event that the engine
/// cannot fold, and whose texts have at most `bytes` together: each request repeats the conversation before it.
pub fn derive_requests(events: &[Event], run: &RunId, bytes: usize) -> Vec<(u64, Request)> {
    let (mut state, mut requests, mut left) = (State::default(), Vec::new(), bytes);
    for event in events {
        let is_answer = matches!(event.body, EventBody::Message { .. } | EventBody::CallFailed { .. });
        if is_answer
            && event.run_id == *run
            && let Some(Action::Call(call)) = next(&state)
        {
            let Some(rest) = left.checked_sub(text_bytes(&call.request)) else { break };
            left = rest;
            requests.push((event.seq, (*call.request).clone()));
        }
        if state.fold(&event.body).is_err() {
            break;
        }
    }
    requests
}

/// Returns the length of a request's texts.
fn text_bytes(request: &Request) -> usize {
    let messages = request.messages.iter().map(|message| {
        let calls = message.tool_calls.iter().map(|call| call.arguments.len());
        message.content.len() + calls.sum::<usize>()
    });
    request.system.as_ref().map_or(0, String::len) + messages.sum::<usize>()
}
