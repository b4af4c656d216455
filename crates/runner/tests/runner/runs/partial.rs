//! Interrupted replies: the text so far is kept.

use serde_json::json;
use slipform_model::{Backend, Call, CallFuture, Watch};
use slipform_runner::{LadderRung, Progress, StopSignal};
use slipform_testkit::{ScriptedServer, Step};
use slipform_types::{BackendKind, EventBody, RunErrorType, StructuredOutput};

use crate::support::contexts::{drive_to_end, journal, rung, test_run};
use crate::support::fakes::silent_rung;
use crate::support::outcome::{failed, names, run};

/// Stops the run at the first text.
#[derive(Default)]
struct StopOnText(StopSignal);

impl Watch for StopOnText {
    fn text(&self, _: &str) {
        self.0.request();
    }
}

impl Progress for StopOnText {}

#[tokio::test]
async fn stop_during_a_reply_keeps_its_text() {
    for kind in [BackendKind::OpenAi, BackendKind::Completions, BackendKind::Anthropic] {
        let text = "Once upon a time there was a run, and it was stopped.";
        let server = ScriptedServer::start(Step::text(text).stall_after(4));
        let ladder = vec![rung("default", kind, &server, StructuredOutput::Auto)];
        let context = test_run(&json!({"name": "teller"}), "Tell.", json!({}), ladder);
        let (journal, stopping) = (journal(), StopOnText::default());
        let outcome = drive_to_end(&context, &journal, &stopping.0, &stopping).await;
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

/// A backend that starts a reply and never ends it.
#[derive(Debug)]
struct EndlessBackend;

impl Backend for EndlessBackend {
    fn call<'a>(&'a self, call: Call<'a>) -> CallFuture<'a> {
        call.watch.text("{\"key\": \"hunter2-hunter2\", ");
        call.watch.text("\"n\": 1");
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn deadline_during_a_reply_keeps_its_text_without_secrets() {
    let agent = json!({
        "name": "teller", "limits": {"timeout_seconds": 5},
        "output_schema": {"type": "object", "required": ["n", "m"], "properties": {"n": {"type": "integer"}}},
    });
    let ladder = vec![LadderRung { backend: std::sync::Arc::new(EndlessBackend), ..silent_rung() }];
    let mut context = test_run(&agent, "Tell.", json!({}), ladder);
    context.environment = vec![("API_KEY".to_owned(), "hunter2-hunter2".to_owned())].into();
    let (outcome, journal) = run(&context).await;
    let failure = failed(outcome);
    assert_eq!(failure.error.kind, RunErrorType::Timeout);
    assert_eq!(failure.salvage.replies, ["{\"key\": \"[redacted]\", \"n\": 1"]);
    assert_eq!(failure.salvage.best_candidate, Some(json!({"key": "[redacted]", "n": 1})));
    assert!(!format!("{:?}", journal.events()).contains("hunter2"));
}
