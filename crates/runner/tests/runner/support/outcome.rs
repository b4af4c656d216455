//! Drives runs to their end and unwraps their outcomes.

use std::time::Duration;

use slipform_runner::{MemoryJournal, StopSignal};
use slipform_types::{Event, EventBody, Failure, Outcome, Success};

use crate::support::contexts::{TestRun, drive_to_end, journal};

pub(crate) fn completed(outcome: Outcome) -> Success {
    match outcome {
        Outcome::Completed(success) => *success,
        Outcome::Failed(failure) => panic!("the run failed: {:?}", failure.error),
        Outcome::ToolCalls(ended) => panic!("the run ended with calls: {:?}", ended.calls),
    }
}

pub(crate) fn failed(outcome: Outcome) -> Failure {
    match outcome {
        Outcome::Failed(failure) => *failure,
        Outcome::Completed(success) => panic!("the run completed: {success:?}"),
        Outcome::ToolCalls(ended) => panic!("the run ended with calls: {:?}", ended.calls),
    }
}

/// Time limit of a run that ends by itself; beyond it the test fails.
const TIME_MAX: Duration = Duration::from_secs(60);

/// Drives a run to its end.
pub(crate) async fn run(context: &TestRun) -> (Outcome, MemoryJournal) {
    let journal = journal();
    let stop = StopSignal::default();
    let running = drive_to_end(context, &journal, &stop, &());
    let outcome = tokio::time::timeout(TIME_MAX, running).await.expect("the run ends").unwrap();
    (outcome, journal)
}

/// Returns the names of events, those of tool events with the tool's name.
pub(crate) fn names(events: &[Event]) -> Vec<String> {
    let name = |event: &Event| match &event.body {
        EventBody::PreTool { tool_name, .. } => format!("pre_tool {tool_name}"),
        EventBody::PostTool { tool_name, error: None, .. } => format!("post_tool {tool_name}"),
        EventBody::PostTool { tool_name, .. } => format!("post_tool {tool_name} failed"),
        body => serde_json::to_value(body).unwrap()["event_type"].as_str().unwrap().to_owned(),
    };
    events.iter().map(name).collect()
}
