//! Agents that work for other agents while those wait.

use std::sync::Arc;

use expect_test::expect;
use serde_json::{Value, json};
use slipform_testkit::{Gate, Step};
use slipform_types::RunErrorType;
use tokio::time::Instant;

use crate::support::fixture::{Fixture, agent, asked, playing};
use crate::support::model::answers;
use crate::support::parts::{silent, spoken};
use crate::support::perform::{completed, failed};
use crate::support::test_coordinator::{TestCoordinator, perform, session};

const START: &str = "start_agent_session";
const RESUME: &str = "resume_agent_session";

fn starts(name: &str, prompt: &str) -> Step {
    Step::tool(START, json!({"agent_name": name, "prompt": prompt}))
}

fn counts() -> Value {
    json!({"type": "object", "required": ["files"], "properties": {"files": {"type": "integer"}}})
}

#[tokio::test]
async fn a_child_works_under_the_schema_of_its_parent_and_is_read_as_indented_json() {
    for protocol in ["tools", "actions"] {
        let by_actions = protocol == "actions";
        let server = playing(move |name, request| match (name, answers(request).len()) {
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
        let ended = perform(&Fixture::new(&agents, &server), "parent", "How many files?").await;
        assert_eq!(completed(ended.outcome.clone()).result_text.as_deref(), Some("Three."), "{protocol}");
        assert_eq!(answers(&server.requests()[2]), ["{\n  \"files\": 3\n}"], "{protocol}");
        let child = asked(&server, "counter");
        assert_eq!(child.len(), 1, "{protocol}");
        assert_eq!(child[0].body["response_format"]["json_schema"]["schema"], counts(), "{protocol}");
        assert!(child[0].prompt().contains("Count the files."), "{protocol}");
        assert_eq!(ended.statuses(&session(2)), ["completed"], "{protocol}");
    }
}

#[tokio::test]
async fn children_of_one_reply_work_at_once_and_answer_in_their_order() {
    let gate = Gate::new();
    let door = gate.clone();
    let server = playing(move |name, request| match (name, answers(request).len()) {
        ("parent", 0) => starts("left", "l").and_tool(START, json!({"agent_name": "right", "prompt": "r"})),
        ("parent", _) => Step::text("Both."),
        (name, _) => Step::text(format!("I am {name}")).gate(&door),
    });
    let agents = [
        agent("parent", &["left", "right"], json!({})),
        agent("left", &[], json!({})),
        agent("right", &[], json!({})),
    ];
    let agency = Fixture::new(&agents, &server);
    // Neither child is answered before both have asked.
    let opening = async {
        server.wait_for_requests_async(3).await;
        gate.open();
    };
    let (ended, ()) = tokio::join!(perform(&agency, "parent", "Go."), opening);
    completed(ended.outcome);
    assert_eq!(answers(&server.requests()[3]), ["I am left", "I am right"]);
    assert_eq!(server.max_in_flight(), 2);
}

#[tokio::test]
async fn whoever_waits_holds_no_slot() {
    // Five below each other, and seven who wait at the same time, with four slots.
    let below = |name: &str| match name {
        "a" => Some("b"),
        "b" => Some("c"),
        "c" => Some("d"),
        "d" => Some("e"),
        _ => None,
    };
    let server = playing(move |name, request| match (below(name), answers(request).len()) {
        (Some(child), 0) => starts(child, "down"),
        (Some(_), _) => Step::text(format!("{name} heard {}", answers(request)[0])),
        (None, _) => Step::text("bottom"),
    });
    let chain: Vec<Value> = ["a", "b", "c", "d", "e"]
        .iter()
        .map(|name| agent(name, &below(name).into_iter().collect::<Vec<_>>(), json!({})))
        .collect();
    let ended = perform(&Fixture::new(&chain, &server), "a", "Go.").await;
    let text = completed(ended.outcome).result_text;
    assert_eq!(text.as_deref(), Some("a heard b heard c heard d heard bottom"));

    let server = playing(|name, request| match (name, answers(request).len()) {
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
    let ended = perform(&Fixture::new(&wide, &server), "root", "Go.").await;
    assert_eq!(completed(ended.outcome).result_text.as_deref(), Some("6"));
}

#[tokio::test]
async fn a_child_that_is_resumed_remembers_what_was_said() {
    let server = playing(|name, request| match (name, answers(request).len()) {
        ("parent", 0) => starts("scholar", "Think of a number."),
        ("parent", 1) => Step::tool(RESUME, json!({"agent_name": "scholar", "prompt": "Which one?"})),
        ("parent", _) => Step::text("It was seven."),
        _ if request.prompt().contains("Which one?") => Step::text("Seven."),
        _ => Step::text("I have one."),
    });
    let agents = [agent("parent", &["scholar"], json!({})), agent("scholar", &[], json!({}))];
    let ended = perform(&Fixture::new(&agents, &server), "parent", "Guess.").await;
    assert_eq!(answers(&server.requests()[4]), ["I have one.", "Seven."]);
    let child = asked(&server, "scholar");
    let said: Vec<&str> = child[1].body["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["content"].as_str().unwrap())
        .collect();
    assert_eq!(said, ["You are scholar.", "Think of a number.", "I have one.", "Which one?"]);
    assert_eq!(ended.statuses(&session(2)), ["completed", "completed"]);
}

/// What a parent hears that asks for something that cannot be had; the run goes on.
async fn refusal(agents: &[Value], asks: Value) -> String {
    let asking = asks.clone();
    let server = playing(move |name, request| match (name, answers(request).len()) {
        ("parent", 0) => Step::tool(START, asking.clone()),
        ("parent", _) => Step::text("Then not."),
        ("child", 0) => Step::tool(START, json!({"agent_name": "parent", "prompt": "back"})),
        _ => Step::text(answers(request).concat()),
    });
    let ended = perform(&Fixture::new(agents, &server), "parent", "Go.").await;
    assert_eq!(completed(ended.outcome).result_text.as_deref(), Some("Then not."), "{asks}");
    answers(asked(&server, "parent").last().unwrap()).concat()
}

#[tokio::test]
async fn what_cannot_be_had_is_told_and_the_run_goes_on() {
    let strict = json!({
        "parameters_schema": {
            "type": "object", "required": ["depth"], "properties": {"depth": {"type": "integer"}},
        },
        "output_schema": counts(),
    });
    let parent = agent("parent", &["parent", "child", "strict", "absent"], json!({}));
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
    let mut heard = String::new();
    for case in cases {
        heard.push_str(&format!("{}\n\n", refusal(&agents, case).await));
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

    "#]].assert_eq(&heard);
}

#[tokio::test]
async fn an_action_that_calls_an_agent_is_answered_by_one() {
    for target in ["stranger", "parent"] {
        let server = playing(move |_, request| match request.prompt().contains("AGENT_RETURN\"") {
            false => Step::json(&json!({
                "action": "AGENT_CALL", "reasoning": "", "content": "Who are you?", "target_agent": target,
            })),
            true => Step::json(&json!({"action": "NORMAL_RESPONSE", "reasoning": "", "content": "Nobody."})),
        });
        let agents = [
            agent("parent", &["parent", "other"], json!({"protocol": "actions"})),
            agent("other", &[], json!({})),
        ];
        completed(perform(&Fixture::new(&agents, &server), "parent", "Go.").await.outcome);
        let requests = server.requests();
        let heard: Value =
            serde_json::from_str(requests[1].body["messages"][3]["content"].as_str().unwrap()).unwrap();
        assert_eq!((&heard["action"], &heard["target_agent"]), (&json!("AGENT_RETURN"), &json!(target)));
        let error = format!("'{target}' is not one of ['other']");
        assert!(heard["content"].as_str().unwrap().contains(&error), "{heard}");
    }
}

#[tokio::test]
async fn agents_may_be_nested_only_so_deep() {
    let next = |name: &str| format!("deep{}", name[4..].parse::<u32>().unwrap() + 1);
    let server = playing(move |name, request| match answers(request).first() {
        None => starts(&next(name), "down"),
        Some(answer) => Step::text(answer.clone()),
    });
    let agents: Vec<Value> = (1..8)
        .map(|depth| agent(&format!("deep{depth}"), &[&format!("deep{}", depth + 1)], json!({})))
        .collect();
    let ended = perform(&Fixture::new(&agents, &server), "deep1", "Go.").await;
    let text = completed(ended.outcome).result_text.unwrap();
    assert_eq!(text, "Error: agents may be nested 5 deep, and 'deep6' would be one more");
    assert_eq!(server.requests().len(), 10);
}

#[tokio::test]
async fn a_run_may_start_only_so_many() {
    let server = playing(|name, request| match (name, answers(request).len()) {
        ("parent", 0) => (1..17).fold(starts("child", "0"), |step, number: u32| {
            step.and_tool(START, json!({"agent_name": "child", "prompt": number.to_string()}))
        }),
        ("parent", _) => Step::text("Enough."),
        _ => Step::text("done"),
    });
    let agents = [agent("parent", &["child"], json!({})), agent("child", &[], json!({}))];
    let ended = perform(&Fixture::new(&agents, &server), "parent", "Go.").await;
    completed(ended.outcome);
    let heard = answers(asked(&server, "parent").last().unwrap());
    assert_eq!(heard[..16], vec!["done"; 16]);
    assert_eq!(heard[16..], ["Error: one run may start no more than 16 agents, and this one has"]);
}

#[tokio::test]
async fn a_child_that_fails_is_told_and_the_run_goes_on() {
    let server = playing(|name, request| match (name, answers(request).len()) {
        ("parent", 0) => starts("child", "try"),
        ("parent", _) => Step::text("I shall do it myself."),
        _ => Step::status(401),
    });
    let agents = [agent("parent", &["child"], json!({})), agent("child", &[], json!({}))];
    let ended = perform(&Fixture::new(&agents, &server), "parent", "Go.").await;
    completed(ended.outcome.clone());
    let heard = answers(asked(&server, "parent").last().unwrap()).concat();
    assert!(heard.starts_with("Error: the agent child failed: "), "{heard}");
    assert!(heard.ends_with("(backend_rejected)"), "{heard}");
    assert_eq!(ended.statuses(&session(2)), ["failed"]);
}

#[tokio::test]
async fn a_stop_ends_parents_and_children() {
    let server = playing(|name, request| match (name, answers(request).len()) {
        ("parent", 0) => starts("left", "l").and_tool(START, json!({"agent_name": "right", "prompt": "r"})),
        _ => Step::hang(),
    });
    let agents = [
        agent("parent", &["left", "right"], json!({})),
        agent("left", &[], json!({})),
        agent("right", &[], json!({})),
    ];
    let place = TestCoordinator::open(&Fixture::new(&agents, &server)).await;
    let stopping = async {
        server.wait_for_requests_async(3).await;
        place.stop().await;
    };
    let (ended, ()) = tokio::join!(place.perform(("parent", "Go."), Arc::new(())), stopping);
    assert_eq!(failed(ended.outcome.clone()).error.kind, RunErrorType::Stopped);
    for number in 1..=3 {
        assert_eq!(ended.statuses(&session(number)), ["stopped"], "session {number}");
    }
    server.wait_for_abandoned_async(2).await;
}

#[tokio::test]
async fn a_child_has_no_more_time_than_its_parent() {
    let call = json!({"id": "a", "name": START, "arguments": "{\"agent_name\":\"child\",\"prompt\":\"x\"}"});
    let delegates = json!({"tool_calls": [call], "stop": {"reason": "tool_calls"}});
    for (parents, own, parent_ends) in [(1, 90, "failed"), (90, 1, "completed")] {
        let parent = agent("parent", &["child"], json!({"limits": {"timeout_seconds": parents}}));
        let child = agent("child", &[], json!({"limits": {"timeout_seconds": own}}));
        let agency = Fixture::of(vec![
            (parent, vec![spoken(vec![delegates.clone(), json!({"text": "Without it."})])]),
            (child, vec![silent()]),
        ]);
        let began = Instant::now();
        let ended = perform(&agency, "parent", "Go.").await;
        // The database's clock is a real one, and a second may be a long one.
        assert!((1..10).contains(&began.elapsed().as_secs()), "{own}: {:?}", began.elapsed());
        assert_eq!(ended.statuses(&session(2)), ["failed"], "{own}");
        assert_eq!(ended.statuses(&session(1)), [parent_ends], "{own}");
        if parent_ends == "failed" {
            assert_eq!(failed(ended.outcome).error.kind, RunErrorType::Timeout);
        }
    }
}
