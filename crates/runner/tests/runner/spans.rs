//! Tests the spans of a run with a tool, as a collector sees them.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::json;
use slipform_runner::Resources;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::support::contexts::resources;
use crate::support::fake_api::{FakeApi, run, session};
use crate::support::fakes::{FakeTool, scripted_rung, toolbox};
use crate::support::worker::{FakeResources, ager, start};

#[derive(Debug, Clone, Default)]
struct RecordedSpan {
    name: String,
    parent: Option<String>,
    fields: BTreeMap<String, String>,
}

impl Visit for RecordedSpan {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.fields.insert(field.name().to_owned(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.insert(field.name().to_owned(), value.to_owned());
    }
}

/// A subscriber that records everything.
#[derive(Clone, Default)]
struct Collector {
    spans: Arc<Mutex<BTreeMap<u64, RecordedSpan>>>,
    entered: Arc<Mutex<Vec<u64>>>,
    events: Arc<Mutex<Vec<String>>>,
    next: Arc<AtomicU64>,
}

impl Subscriber for Collector {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("slipform_runner")
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let id = self.next.fetch_add(1, Ordering::SeqCst) + 1;
        let mut spans = self.spans.lock().unwrap();
        let parent = self.entered.lock().unwrap().last().map(|parent| spans[parent].name.clone());
        let mut span =
            RecordedSpan { name: attributes.metadata().name().to_owned(), parent, ..RecordedSpan::default() };
        attributes.record(&mut span);
        spans.insert(id, span);
        Id::from_u64(id)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        values.record(self.spans.lock().unwrap().get_mut(&span.into_u64()).unwrap());
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut span = RecordedSpan::default();
        event.record(&mut span);
        self.events.lock().unwrap().push(span.fields["message"].clone());
    }

    fn enter(&self, span: &Id) {
        self.entered.lock().unwrap().push(span.into_u64());
    }

    fn exit(&self, _: &Id) {
        self.entered.lock().unwrap().pop();
    }
}

/// Tells the test that it runs in a process of its own.
const IS_ALONE: &str = "SLIPFORM_TEST_SPANS_ALONE";

#[test]
fn spans_of_run_calls_and_tools_contain_no_content() {
    // `tracing` remembers for the whole process which call sites are recorded, and asks the thread that reaches a call site
    // first. A test on another thread, which records nothing, would switch the spans off.
    if std::env::var_os(IS_ALONE).is_some() {
        return record_spans();
    }
    let own_name = "spans::spans_of_run_calls_and_tools_contain_no_content";
    let mut alone = Command::new(std::env::current_exe().unwrap());
    let run = alone.args(["--exact", own_name, "--nocapture"]).env(IS_ALONE, "1").output().unwrap();
    let printed = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{printed}{}", String::from_utf8_lossy(&run.stderr));
    assert!(printed.contains("1 passed"), "{printed}");
}

#[tokio::main(flavor = "current_thread")]
async fn record_spans() {
    tokio::time::pause();
    let collector = Collector::default();
    let _guard = tracing::subscriber::set_default(collector.clone());
    let api = FakeApi::new();
    let (mut agent, contract) = ager();
    agent["tools"] = json!(["echo"]);
    api.submit(1, agent, Some(contract));
    let resources = FakeResources::with(|assignment| {
        let call = json!({"id": "a", "name": "echo", "arguments": "{\"word\": \"hush\"}"});
        let result = json!({"id": "b", "name": "submit_result", "arguments": "{\"age\": 7}"});
        let usage = json!({"input": 11, "output": 3});
        let says = |call| json!({"tool_calls": [call], "stop": {"reason": "tool_calls"}, "usage": usage});
        let ladder = vec![scripted_rung(vec![says(call), says(result)])];
        Ok(Resources { ladder, tools: toolbox(&[FakeTool::echo("echo")]), ..resources(assignment) })
    });
    let worker = start(&api, resources, 1);
    api.ended(1).await;
    worker.shut_down().await;
    let spans: Vec<RecordedSpan> = collector.spans.lock().unwrap().values().cloned().collect();
    let names: Vec<(&str, Option<&str>)> =
        spans.iter().map(|span| (span.name.as_str(), span.parent.as_deref())).collect();
    let within = Some("invoke_agent");
    assert_eq!(names, [("invoke_agent", None), ("chat", within), ("execute_tool", within), ("chat", within)]);
    let fields = |index: usize| serde_json::to_value(&spans[index].fields).unwrap();
    assert_eq!(
        fields(0),
        json!({
            "otel.name": "invoke_agent ager", "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "ager",
            "gen_ai.conversation.id": session(1).as_str(), "gen_ai.output.type": "json",
            "slipform.run_id": run(1).as_str(),
        })
    );
    assert_eq!(
        fields(1),
        json!({
            "otel.name": "chat m", "otel.kind": "client", "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai", "gen_ai.request.model": "m",
            "gen_ai.usage.input_tokens": "11", "gen_ai.usage.output_tokens": "3",
        })
    );
    let call_id = spans[2].fields["gen_ai.tool.call.id"].clone();
    assert_eq!(
        fields(2),
        json!({
            "otel.name": "execute_tool echo", "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "echo",
            "gen_ai.tool.call.id": call_id,
        })
    );
    assert!(!format!("{spans:?}").contains("hush"), "{spans:?}");
    let events = collector.events.lock().unwrap().clone();
    assert!(events.contains(&"registered".to_owned()), "{events:?}");
}
