//! Runs to their ends.

use std::time::Duration;

use slipform_runner::{Memory, RunContext, StopSignal, perform};
use slipform_types::{Event, EventBody, Failure, Outcome, Success};

use crate::support::contexts::journal;

pub(crate) fn completed(outcome: Outcome) -> Success {
    match outcome {
        Outcome::Completed(success) => *success,
        Outcome::Failed(failure) => panic!("the run failed: {:?}", failure.error),
    }
}

pub(crate) fn failed(outcome: Outcome) -> Failure {
    match outcome {
        Outcome::Failed(failure) => *failure,
        Outcome::Completed(success) => panic!("the run completed: {success:?}"),
    }
}

/// How long a run may take that ends by itself; beyond it something waits for what never comes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Drives a run to its end.
pub(crate) async fn run(claim: &RunContext) -> (Outcome, Memory) {
    let journal = journal();
    let stop = StopSignal::default();
    let running = perform(claim, &journal, &stop, &());
    let outcome = tokio::time::timeout(PATIENCE, running).await.expect("the run ends").unwrap();
    (outcome, journal)
}

/// What happened, by the names of events; tools with theirs.
pub(crate) fn names(events: &[Event]) -> Vec<String> {
    let name = |event: &Event| match &event.body {
        EventBody::PreTool { tool_name, .. } => format!("pre_tool {tool_name}"),
        EventBody::PostTool { tool_name, error: None, .. } => format!("post_tool {tool_name}"),
        EventBody::PostTool { tool_name, .. } => format!("post_tool {tool_name} failed"),
        body => serde_json::to_value(body).unwrap()["event_type"].as_str().unwrap().to_owned(),
    };
    events.iter().map(name).collect()
}
