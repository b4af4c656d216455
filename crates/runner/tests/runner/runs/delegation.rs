//! Parents that wait for their children.

use std::sync::Arc;

use expect_test::expect;
use serde_json::{Value, json};
use slipform_testkit::{Gate, Step};
use slipform_types::RunErrorType;
use tokio::time::Instant;

use crate::support::fakes::{scripted_rung, silent_rung};
use crate::support::fixture::{Fixture, agent, requests_of, serve_agents};
use crate::support::model::answers;
use crate::support::outcome::{completed, failed};
use crate::support::test_coordinator::{TestCoordinator, run_tree, session};

const START: &str = "start_agent_session";
const RESUME: &str = "resume_agent_session";

fn starts(name: &str, prompt: &str) -> Step {
    Step::tool(START, json!({"agent_name": name, "prompt": prompt}))
}

fn counts() -> Value {
    json!({"type": "object", "required": ["files"], "properties": {"files": {"type": "integer"}}})
}

#[tokio::test]
async fn child_uses_the_parents_schema_and_returns_indented_json() {
    for protocol in ["tools", "actions"] {
        let by_actions = protocol == "actions";
        let server = serve_agents(move |name, request| match (name, answers(request).len()) {
            ("parent", 0) if by_actions => Step::json(&json!({
                "action": "AGENT_CALL", "reasoning": "", "content": "Count the files.",
                "target_agent": "counter", "parameters": {"output_schema": counts()},
            })),
            ("parent", 0) => Step::tool(
                START,
                json!({"agent_name": "counter", "prompt": "Count the files.", "output_schema": counts()}),
            ),
            ("counter", _) => Step::text("{\"files\": 3}"),
            _ if by_actions => {
                Step::json(&json!({"action": "NORMAL_RESPONSE", "reasoning": "", "content": "Three."}))
            }
            _ => Step::text("Three."),
        });
        let agents =
            [agent("parent", &["counter"], json!({"protocol": protocol})), agent("counter", &[], json!({}))];
        let ended = run_tree(&Fixture::new(&agents, &server), "parent", "How many files?").await;
        assert_eq!(completed(ended.outcome.clone()).result_text.as_deref(), Some("Three."), "{protocol}");
        assert_eq!(answers(&server.requests()[2]), ["{\n  \"files\": 3\n}"], "{protocol}");
        let child = requests_of(&server, "counter");
        assert_eq!(child.len(), 1, "{protocol}");
        assert_eq!(child[0].body["response_format"]["json_schema"]["schema"], counts(), "{protocol}");
        assert!(child[0].prompt().contains("Count the files."), "{protocol}");
        assert_eq!(ended.statuses(&session(2)), ["completed"], "{protocol}");
    }
}

#[tokio::test]
async fn children_of_one_reply_run_concurrently_and_answer_in_order() {
    let gate = Gate::new();
    let step_gate = gate.clone();
    let server = serve_agents(move |name, request| match (name, answers(request).len()) {
        ("parent", 0) => starts("left", "l").and_tool(START, json!({"agent_name": "right", "prompt": "r"})),
        ("parent", _) => Step::text("Both."),
        (name, _) => Step::text(format!("I am {name}")).gate(&step_gate),
    });
    let agents = [
        agent("parent", &["left", "right"], json!({})),
        agent("left", &[], json!({})),
        agent("right", &[], json!({})),
    ];
    let fixture = Fixture::new(&agents, &server);
    // The model answers the children only when both have asked.
    let opening = async {
        server.wait_for_requests_async(3).await;
        gate.open();
    };
    let (ended, ()) = tokio::join!(run_tree(&fixture, "parent", "Go."), opening);
    completed(ended.outcome);
    assert_eq!(answers(&server.requests()[3]), ["I am left", "I am right"]);
    assert_eq!(server.max_in_flight(), 2);
}

#[tokio::test]
async fn waiting_run_holds_no_slot() {
    // Five nested runs, and seven that wait at the same time, with four slots.
    let below = |name: &str| match name {
        "a" => Some("b"),
        "b" => Some("c"),
        "c" => Some("d"),
        "d" => Some("e"),
        _ => None,
    };
    let server = serve_agents(move |name, request| match (below(name), answers(request).len()) {
        (Some(child), 0) => starts(child, "down"),
        (Some(_), _) => Step::text(format!("{name} heard {}", answers(request)[0])),
        (None, _) => Step::text("bottom"),
    });
    let chain: Vec<Value> = ["a", "b", "c", "d", "e"]
        .iter()
        .map(|name| agent(name, &below(name).into_iter().collect::<Vec<_>>(), json!({})))
        .collect();
    let ended = run_tree(&Fixture::new(&chain, &server), "a", "Go.").await;
    let text = completed(ended.outcome).result_text;
    assert_eq!(text.as_deref(), Some("a heard b heard c heard d heard bottom"));

    let server = serve_agents(|name, request| match (name, answers(request).len()) {
        ("root", 0) => (1..6).fold(starts("middle", "0"), |step, number: u32| {
            step.and_tool(START, json!({"agent_name": "middle", "prompt": number.to_string()}))
        }),
        ("middle", 0) => starts("leaf", "down"),
        ("root", answered) => Step::text(answered.to_string()),
        _ => Step::text("done"),
    });
    let wide = [
        agent("root", &["middle"], json!({})),
        agent("middle", &["leaf"], json!({})),
        agent("leaf", &[], json!({})),
    ];
    let ended = run_tree(&Fixture::new(&wide, &server), "root", "Go.").await;
    assert_eq!(completed(ended.outcome).result_text.as_deref(), Some("6"));
}

#[tokio::test]
async fn resumed_child_keeps_its_conversation() {
    let server = serve_agents(|name, request| match (name, answers(request).len()) {
        ("parent", 0) => starts("scholar", "Think of a number."),
        ("parent", 1) => Step::tool(RESUME, json!({"agent_name": "scholar", "prompt": "Which one?"})),
        ("parent", _) => Step::text("It was seven."),
        _ if request.prompt().contains("Which one?") => Step::text("Seven."),
        _ => Step::text("I have one."),
    });
    let agents = [agent("parent", &["scholar"], json!({})), agent("scholar", &[], json!({}))];
    let ended = run_tree(&Fixture::new(&agents, &server), "parent", "Guess.").await;
    assert_eq!(answers(&server.requests()[4]), ["I have one.", "Seven."]);
    let child = requests_of(&server, "scholar");
    let texts: Vec<&str> = child[1].body["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["content"].as_str().unwrap())
        .collect();
    assert_eq!(texts, ["You are scholar.", "Think of a number.", "I have one.", "Which one?"]);
    assert_eq!(ended.statuses(&session(2)), ["completed", "completed"]);
}

/// Returns the error that a parent receives for an impossible request, after which its run continues.
async fn refusal(agents: &[Value], asks: Value) -> String {
    let asking = asks.clone();
    let server = serve_agents(move |name, request| match (name, answers(request).len()) {
        ("parent", 0) => Step::tool(START, asking.clone()),
        ("parent", _) => Step::text("Then not."),
        ("child", 0) => Step::tool(START, json!({"agent_name": "parent", "prompt": "back"})),
        _ => Step::text(answers(request).concat()),
    });
    let ended = run_tree(&Fixture::new(agents, &server), "parent", "Go.").await;
    assert_eq!(completed(ended.outcome).result_text.as_deref(), Some("Then not."), "{asks}");
    answers(requests_of(&server, "parent").last().unwrap()).concat()
}

#[tokio::test]
async fn refused_delegation_is_reported_and_the_run_continues() {
    let strict = json!({
        "parameters_schema": {
            "type": "object", "required": ["depth"], "properties": {"depth": {"type": "integer"}},
        },
        "output_schema": counts(),
    });
    let parent = agent("parent", &["parent", "child", "strict"], json!({}));
    let agents = [parent, agent("child", &["parent"], json!({})), agent("strict", &[], strict)];
    let cases = [
        json!({"agent_name": "parent", "prompt": "me"}),
        json!({"agent_name": "child", "prompt": "calls me"}),
        json!({"agent_name": "stranger", "prompt": "who?"}),
        json!({"agent_name": "absent", "prompt": "where?"}),
        json!({"agent_name": "strict", "parameters": {"depth": "deep"}}),
        json!({"agent_name": "strict", "parameters": {"depth": 1}, "output_schema": {"type": "array"}}),
        json!({"agent_name": "child", "prompt": "x", "parameters": {"prompt": "y"}}),
        json!({"prompt": "nobody"}),
    ];
    let mut received = String::new();
    for case in cases {
        received.push_str(&format!("{}\n\n", refusal(&agents, case).await));
    }
    expect![[r#"
        Error: The arguments of start_agent_session are wrong, and it was not called:
        - $.agent_name: 'parent' is not one of ['child', 'strict']
        Call it again with arguments that match its schema.

        Error: the agent 'parent' is already at work above this one (parent > child): it cannot be called

        Error: The arguments of start_agent_session are wrong, and it was not called:
        - $.agent_name: 'stranger' is not one of ['child', 'strict']
        Call it again with arguments that match its schema.

        Error: The arguments of start_agent_session are wrong, and it was not called:
        - $.agent_name: 'absent' is not one of ['child', 'strict']
        Call it again with arguments that match its schema.

        Error: the agent 'strict' does not take these parameters: $.depth: must be an integer, not a string ('deep')

        Error: the agent 'strict' has its own output_schema, which a request cannot replace; send the request without a schema, or use an agent with a default_output_schema

        Error: The prompt is given twice, and the two differ. Give it once.

        Error: The arguments of start_agent_session are wrong, and it was not called:
        - $.agent_name: required property is missing
        Call it again with arguments that match its schema.

    "#]].assert_eq(&received);
}

#[tokio::test]
async fn refused_agent_call_action_is_answered() {
    for target in ["stranger", "parent"] {
        let server = serve_agents(move |_, request| {
            if request.prompt().contains("AGENT_RETURN\"") {
                Step::json(&json!({"action": "NORMAL_RESPONSE", "reasoning": "", "content": "Nobody."}))
            } else {
                Step::json(&json!({
                    "action": "AGENT_CALL", "reasoning": "", "content": "Who are you?", "target_agent": target,
                }))
            }
        });
        let agents = [
            agent("parent", &["parent", "other"], json!({"protocol": "actions"})),
            agent("other", &[], json!({})),
        ];
        completed(run_tree(&Fixture::new(&agents, &server), "parent", "Go.").await.outcome);
        let requests = server.requests();
        let received: Value =
            serde_json::from_str(requests[1].body["messages"][3]["content"].as_str().unwrap()).unwrap();
        assert_eq!(
            (&received["action"], &received["target_agent"]),
            (&json!("AGENT_RETURN"), &json!(target))
        );
        let error = format!("'{target}' is not one of ['other']");
        assert!(received["content"].as_str().unwrap().contains(&error), "{received}");
    }
}

#[tokio::test]
async fn nesting_depth_of_agents_is_limited() {
    let next = |name: &str| format!("deep{}", name[4..].parse::<u32>().unwrap() + 1);
    let server = serve_agents(move |name, request| match answers(request).first() {
        None => starts(&next(name), "down"),
        Some(answer) => Step::text(answer.clone()),
    });
    let delegating =
        (1..8).map(|depth| agent(&format!("deep{depth}"), &[&format!("deep{}", depth + 1)], json!({})));
    let agents: Vec<Value> = delegating.chain([agent("deep8", &[], json!({}))]).collect();
    let ended = run_tree(&Fixture::new(&agents, &server), "deep1", "Go.").await;
    let text = completed(ended.outcome).result_text.unwrap();
    assert_eq!(text, "Error: agents may be nested 5 deep, and 'deep6' would be one more");
    assert_eq!(server.requests().len(), 10);
}

#[tokio::test]
async fn number_of_children_of_a_run_is_limited() {
    let server = serve_agents(|name, request| match (name, answers(request).len()) {
        ("parent", 0) => (1..17).fold(starts("child", "0"), |step, number: u32| {
            step.and_tool(START, json!({"agent_name": "child", "prompt": number.to_string()}))
        }),
        ("parent", _) => Step::text("Enough."),
        _ => Step::text("done"),
    });
    let agents = [agent("parent", &["child"], json!({})), agent("child", &[], json!({}))];
    let ended = run_tree(&Fixture::new(&agents, &server), "parent", "Go.").await;
    completed(ended.outcome);
    let received = answers(requests_of(&server, "parent").last().unwrap());
    assert_eq!(received[..16], vec!["done"; 16]);
    assert_eq!(received[16..], ["Error: one run may start no more than 16 agents, and this one has"]);
}

#[tokio::test]
async fn failed_child_is_reported_and_the_run_continues() {
    let server = serve_agents(|name, request| match (name, answers(request).len()) {
        ("parent", 0) => starts("child", "try"),
        ("parent", _) => Step::text("I shall do it myself."),
        _ => Step::status(401),
    });
    let agents = [agent("parent", &["child"], json!({})), agent("child", &[], json!({}))];
    let ended = run_tree(&Fixture::new(&agents, &server), "parent", "Go.").await;
    completed(ended.outcome.clone());
    let received = answers(requests_of(&server, "parent").last().unwrap()).concat();
    assert!(received.starts_with("Error: the agent child failed: "), "{received}");
    assert!(received.ends_with("(backend_rejected)"), "{received}");
    assert_eq!(ended.statuses(&session(2)), ["failed"]);
}

#[tokio::test]
async fn stop_ends_parent_and_children() {
    let server = serve_agents(|name, request| match (name, answers(request).len()) {
        ("parent", 0) => starts("left", "l").and_tool(START, json!({"agent_name": "right", "prompt": "r"})),
        _ => Step::hang(),
    });
    let agents = [
        agent("parent", &["left", "right"], json!({})),
        agent("left", &[], json!({})),
        agent("right", &[], json!({})),
    ];
    let coordinator = TestCoordinator::open(&Fixture::new(&agents, &server)).await;
    let stopping = async {
        server.wait_for_requests_async(3).await;
        coordinator.stop().await;
    };
    let (ended, ()) = tokio::join!(coordinator.run_tree(("parent", "Go."), Arc::new(())), stopping);
    assert_eq!(failed(ended.outcome.clone()).error.kind, RunErrorType::Stopped);
    for number in 1..=3 {
        assert_eq!(ended.statuses(&session(number)), ["stopped"], "session {number}");
    }
    server.wait_for_abandoned_async(2).await;
}

#[tokio::test]
async fn deadline_of_the_parent_limits_its_child() {
    let call = json!({"id": "a", "name": START, "arguments": "{\"agent_name\":\"child\",\"prompt\":\"x\"}"});
    let delegates = json!({"tool_calls": [call], "stop": {"reason": "tool_calls"}});
    for (parents, own, parent_ends) in [(1, 90, "failed"), (90, 1, "completed")] {
        let parent = agent("parent", &["child"], json!({"limits": {"timeout_seconds": parents}}));
        let child = agent("child", &[], json!({"limits": {"timeout_seconds": own}}));
        let fixture = Fixture::of(vec![
            (parent, vec![scripted_rung(vec![delegates.clone(), json!({"text": "Without it."})])]),
            (child, vec![silent_rung()]),
        ]);
        let began = Instant::now();
        let ended = run_tree(&fixture, "parent", "Go.").await;
        // The database uses the real clock, so a second may take longer under load.
        assert!((1..10).contains(&began.elapsed().as_secs()), "{own}: {:?}", began.elapsed());
        assert_eq!(ended.statuses(&session(2)), ["failed"], "{own}");
        assert_eq!(ended.statuses(&session(1)), [parent_ends], "{own}");
        if parent_ends == "failed" {
            assert_eq!(failed(ended.outcome).error.kind, RunErrorType::Timeout);
        }
    }
}
