//! Runs that give work to others.

use serde_json::{Value, json};
use slipform_api::ChildAnswer;
use slipform_types::{AgentCard, ChildEnd, EventBody, ExecutionMode, RunStatus};

use crate::support::fake_api::{FakeApi, run, session};
use crate::support::parts::spoken;
use crate::support::worker::{FakeResources, start};

/// A parent that asks for a child with these arguments of a tool, and then says what it heard.
fn submit(door: &FakeApi) {
    door.submit(1, json!({"name": "parent", "agents": ["helper"]}), None);
    let card = AgentCard { name: "helper".to_owned(), ..AgentCard::default() };
    door.book().runs.get_mut(&run(1)).unwrap().agents = vec![card];
}

fn calls(tool: &str, arguments: &Value) -> Value {
    let call = json!({"id": "a", "name": tool, "arguments": arguments.to_string()});
    json!({"tool_calls": [call], "stop": {"reason": "tool_calls"}})
}

fn helping(arguments: Value) -> std::sync::Arc<dyn slipform_runner::ResourceProvider> {
    FakeResources::ladder(move |job| {
        let replied = job.journal.iter().any(|event| matches!(event.body, EventBody::Message { .. }));
        let asks = calls("start_agent_session", &arguments);
        let answer = json!({"text": "Helped."});
        vec![spoken(if replied { vec![answer] } else { vec![asks, answer] })]
    })
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_for_a_child_is_parked_and_goes_on_when_it_has_ended() {
    let door = FakeApi::new();
    submit(&door);
    let answer = ChildAnswer::Accepted { session_id: session(7), run_id: run(7) };
    door.book().child_answer = Some(answer);
    let schema = json!({"type": "object"});
    let working =
        start(&door, helping(json!({"agent_name": "helper", "prompt": "Help.", "output_schema": schema})), 1);
    door.until("it is parked", |book| book.said.iter().any(|said| said.starts_with("park"))).await;
    let asked = door.book().children.clone();
    assert_eq!(asked.len(), 1);
    assert_eq!((&asked[0].run_id, asked[0].token), (&run(1), 1));
    assert_eq!((asked[0].agent_name.as_str(), &asked[0].session_id), ("helper", &None));
    assert_eq!(asked[0].parameters, json!({"prompt": "Help."}));
    assert_eq!((asked[0].execution_mode, &asked[0].output_schema), (ExecutionMode::Sync, &Some(schema)));
    assert_eq!(door.names(1).last().unwrap(), "child_started");
    // Its slot is free meanwhile.
    door.submit(2, json!({"name": "other"}), None);
    door.until("another begins", |book| book.runs[&run(2)].events.len() > 1).await;
    let end = ChildEnd {
        agent_name: "helper".to_owned(),
        child_session_id: session(7),
        child_run_id: run(7),
        status: RunStatus::Completed,
        result_text: Some("Here.".to_owned()),
        result_data: None,
        error: None,
    };
    door.write(&run(1), vec![EventBody::ChildCompleted(Box::new(end))]);
    door.queue(1);
    let ended = door.ended(1).await;
    assert!(matches!(ended, EventBody::RunCompleted { status: RunStatus::Completed, .. }), "{ended:?}");
    working.go_home().await;
    let count = |name: &str| door.names(1).iter().filter(|other| *other == name).count();
    assert_eq!((count("message"), count("attempt_started"), count("child_started")), (2, 2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_told_to_the_model_and_an_outage_is_waited_for() {
    let door = FakeApi::new();
    submit(&door);
    door.book().child_answer = Some(ChildAnswer::Refused { reason: "nobody is free".to_owned() });
    door.fail("delegate", slipform_api::Code::Unavailable, false);
    let working = start(&door, helping(json!({"agent_name": "helper", "prompt": "Help."})), 1);
    let ended = door.ended(1).await;
    assert!(matches!(ended, EventBody::RunCompleted { status: RunStatus::Completed, .. }), "{ended:?}");
    working.go_home().await;
    assert_eq!(door.said("delegate").len(), 2);
    let events = door.book().runs[&run(1)].events.clone();
    let refusal = events.iter().find_map(|event| match &event.body {
        EventBody::PostTool { error, .. } => error.clone(),
        _ => None,
    });
    assert_eq!(refusal.as_deref(), Some("nobody is free"));
}

#[tokio::test(start_paused = true)]
async fn a_child_that_is_gone_on_with_is_asked_for_by_its_session() {
    let door = FakeApi::new();
    submit(&door);
    door.book().child_answer = Some(ChildAnswer::Accepted { session_id: session(7), run_id: run(7) });
    let working = start(
        &door,
        FakeResources::ladder(|_| {
            let starts = json!({"agent_name": "helper", "prompt": "Help.", "mode": "callback"});
            let resumes = json!({"agent_name": "helper", "prompt": "More.", "mode": "callback"});
            vec![spoken(vec![
                calls("start_agent_session", &starts),
                calls("resume_agent_session", &resumes),
                json!({"text": "Asked."}),
            ])]
        }),
        1,
    );
    door.ended(1).await;
    working.go_home().await;
    let asked = door.book().children.clone();
    assert_eq!(asked.len(), 2);
    assert_ne!(asked[0].call_id, asked[1].call_id);
    assert_eq!(asked[1].session_id, Some(session(7)));
    assert_eq!(asked[1].parameters, json!({"prompt": "More."}));
    assert_eq!(asked[1].execution_mode, ExecutionMode::AsyncCallback);
    assert_eq!(door.said("park"), [""; 0], "nobody waits");
}
