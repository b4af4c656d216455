//! What a model had written when nobody waited any longer.

use serde_json::json;
use slipform_model::{Backend, Call, CallFuture, Watch};
use slipform_runner::{LadderRung, Progress, StopSignal, perform};
use slipform_testkit::{ScriptedServer, Step};
use slipform_types::{BackendKind, EventBody, RunErrorType, StructuredOutput};

use crate::support::contexts::{claim, journal, rung};
use crate::support::parts::silent;
use crate::support::perform::{failed, names, run};

/// Stops the run once anything is written.
#[derive(Default)]
struct Stopping(StopSignal);

impl Watch for Stopping {
    fn text(&self, _: &str) {
        self.0.request();
    }
}

impl Progress for Stopping {}

#[tokio::test]
async fn a_stop_in_the_middle_of_a_reply_keeps_what_was_written() {
    for kind in [BackendKind::OpenAi, BackendKind::Completions, BackendKind::Anthropic] {
        let text = "Once upon a time there was a run, and it was stopped.";
        let server = ScriptedServer::start(Step::text(text).stall_after(4));
        let ladder = vec![rung("default", kind, &server, StructuredOutput::Auto)];
        let claim = claim(&json!({"name": "teller"}), "Tell.", json!({}), ladder);
        let (journal, stopping) = (journal(), Stopping::default());
        let outcome = perform(&claim, &journal, &stopping.0, &stopping).await;
        let failure = failed(outcome.unwrap());
        assert_eq!(failure.error.kind, RunErrorType::Stopped, "{kind:?}");
        let [kept] = &failure.salvage.replies[..] else { panic!("{kind:?}: {:?}", failure.salvage) };
        assert!(kept.len() < text.len() && text.starts_with(kept.as_str()), "{kind:?}: {kept}");
        assert_eq!(failure.error.last_output.as_ref(), Some(kept), "{kind:?}");
        assert_eq!((failure.error.calls, failure.receipt.calls), (1, 1), "{kind:?}");
        let events = journal.events();
        assert_eq!(names(&events)[2..], ["stop_requested", "run_completed"], "{kind:?}");
        assert_eq!(events[2].body, EventBody::StopRequested { partial: Some(kept.clone()) }, "{kind:?}");
    }
}

/// A backend that begins and never ends.
#[derive(Debug)]
struct Rambling;

impl Backend for Rambling {
    fn call<'a>(&'a self, call: Call<'a>) -> CallFuture<'a> {
        call.watch.text("{\"key\": \"hunter2-hunter2\", ");
        call.watch.text("\"n\": 1");
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn the_deadline_in_the_middle_of_a_reply_keeps_it_without_the_agents_secrets() {
    let agent = json!({
        "name": "teller", "limits": {"timeout_seconds": 5},
        "output_schema": {"type": "object", "required": ["n", "m"], "properties": {"n": {"type": "integer"}}},
    });
    let ladder = vec![LadderRung { backend: std::sync::Arc::new(Rambling), ..silent() }];
    let mut claim = claim(&agent, "Tell.", json!({}), ladder);
    claim.environment = vec![("API_KEY".to_owned(), "hunter2-hunter2".to_owned())].into();
    let (outcome, journal) = run(&claim).await;
    let failure = failed(outcome);
    assert_eq!(failure.error.kind, RunErrorType::Timeout);
    assert_eq!(failure.salvage.replies, ["{\"key\": \"[redacted]\", \"n\": 1"]);
    assert_eq!(failure.salvage.best_candidate, Some(json!({"key": "[redacted]", "n": 1})));
    assert!(!format!("{:?}", journal.events()).contains("hunter2"));
}
