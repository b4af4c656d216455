//! Runs that delegate to children.

use serde_json::{Value, json};
use slipform_api::ChildAnswer;
use slipform_types::{AgentCard, ChildEnd, EventBody, ExecutionMode, RunStatus};

use crate::support::fake_api::{FakeApi, run, session};
use crate::support::fakes::scripted_rung;
use crate::support::worker::{FakeResources, start};

/// Submits a parent that may delegate to `helper`.
fn submit(api: &FakeApi) {
    api.submit(1, json!({"name": "parent", "agents": ["helper"]}), None);
    let card = AgentCard { name: "helper".to_owned(), ..AgentCard::default() };
    api.state().runs.get_mut(&run(1)).unwrap().agents = vec![card];
}

fn calls(tool: &str, arguments: &Value) -> Value {
    let call = json!({"id": "a", "name": tool, "arguments": arguments.to_string()});
    json!({"tool_calls": [call], "stop": {"reason": "tool_calls"}})
}

fn helping(arguments: Value) -> std::sync::Arc<dyn slipform_runner::ResourceProvider> {
    FakeResources::ladder(move |assignment| {
        let replied =
            assignment.journal.events.iter().any(|event| matches!(event.body, EventBody::Message { .. }));
        let asks = calls("start_agent_session", &arguments);
        let answer = json!({"text": "Helped."});
        vec![scripted_rung(if replied { vec![answer] } else { vec![asks, answer] })]
    })
}

#[tokio::test(start_paused = true)]
async fn parent_is_parked_until_its_child_has_ended() {
    let api = FakeApi::new();
    submit(&api);
    let answer = ChildAnswer::Accepted { session_id: session(7), run_id: run(7) };
    api.state().child_answer = Some(answer);
    let schema = json!({"type": "object"});
    let worker =
        start(&api, helping(json!({"agent_name": "helper", "prompt": "Help.", "output_schema": schema})), 1);
    api.until("the park", |state| state.calls.iter().any(|call| call.starts_with("park"))).await;
    let asked = api.state().children.clone();
    assert_eq!(asked.len(), 1);
    assert_eq!((&asked[0].run_id, asked[0].token), (&run(1), 1));
    assert_eq!((asked[0].agent_name.as_str(), &asked[0].session_id), ("helper", &None));
    assert_eq!(asked[0].parameters, json!({"prompt": "Help."}));
    assert_eq!((asked[0].execution_mode, &asked[0].output_schema), (ExecutionMode::Sync, &Some(schema)));
    assert_eq!(api.names(1).last().unwrap(), "child_started");
    // Its slot is free while it waits.
    api.submit(2, json!({"name": "other"}), None);
    api.until("another attempt", |state| state.runs[&run(2)].events.len() > 1).await;
    let end = ChildEnd {
        agent_name: "helper".to_owned(),
        child_session_id: session(7),
        child_run_id: run(7),
        status: RunStatus::Completed,
        result_text: Some("Here.".to_owned()),
        result_data: None,
        error: None,
    };
    api.write(&run(1), vec![EventBody::ChildCompleted(Box::new(end))]);
    api.queue(1);
    let ended = api.ended(1).await;
    assert!(matches!(ended, EventBody::RunCompleted { status: RunStatus::Completed, .. }), "{ended:?}");
    worker.shut_down().await;
    let count = |name: &str| api.names(1).iter().filter(|other| *other == name).count();
    assert_eq!((count("message"), count("attempt_started"), count("child_started")), (2, 2, 1));
}

#[tokio::test(start_paused = true)]
async fn refused_delegation_reaches_the_model_and_an_outage_is_retried() {
    let api = FakeApi::new();
    submit(&api);
    api.state().child_answer = Some(ChildAnswer::Refused { reason: "no runner is free".to_owned() });
    api.fail("delegate", slipform_api::Code::Unavailable, false);
    let worker = start(&api, helping(json!({"agent_name": "helper", "prompt": "Help."})), 1);
    let ended = api.ended(1).await;
    assert!(matches!(ended, EventBody::RunCompleted { status: RunStatus::Completed, .. }), "{ended:?}");
    worker.shut_down().await;
    assert_eq!(api.calls("delegate").len(), 2);
    let events = api.state().runs[&run(1)].events.clone();
    let refusal = events.iter().find_map(|event| match &event.body {
        EventBody::PostTool { error, .. } => error.clone(),
        _ => None,
    });
    assert_eq!(refusal.as_deref(), Some("no runner is free"));
}

#[tokio::test(start_paused = true)]
async fn resumed_child_is_identified_by_its_session() {
    let api = FakeApi::new();
    submit(&api);
    api.state().child_answer = Some(ChildAnswer::Accepted { session_id: session(7), run_id: run(7) });
    let worker = start(
        &api,
        FakeResources::ladder(|_| {
            let starts = json!({"agent_name": "helper", "prompt": "Help.", "mode": "callback"});
            let resumes = json!({"agent_name": "helper", "prompt": "More.", "mode": "callback"});
            vec![scripted_rung(vec![
                calls("start_agent_session", &starts),
                calls("resume_agent_session", &resumes),
                json!({"text": "Asked."}),
            ])]
        }),
        1,
    );
    api.ended(1).await;
    worker.shut_down().await;
    let asked = api.state().children.clone();
    assert_eq!(asked.len(), 2);
    assert_ne!(asked[0].call_id, asked[1].call_id);
    assert_eq!(asked[1].session_id, Some(session(7)));
    assert_eq!(asked[1].parameters, json!({"prompt": "More."}));
    assert_eq!(asked[1].execution_mode, ExecutionMode::AsyncCallback);
    assert_eq!(api.calls("park"), [""; 0], "the parent does not wait");
}
