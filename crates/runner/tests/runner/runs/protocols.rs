//! Runs one agent and one task under both protocols on every kind of backend, with the same result.

use serde_json::{Value, json};
use slipform_runner::LadderRung;
use slipform_testkit::{Protocol, Recorded, ScriptedServer, Step};
use slipform_types::{BackendKind, StructuredOutput, Support};

use crate::support::contexts::{TestRun, rung, test_run};
use crate::support::fakes::command_rung;
use crate::support::folder::Folder;
use crate::support::model::{ModelTurn, answers, calls_tools};
use crate::support::outcome::{completed, names, run};

const KINDS: [BackendKind; 3] = [BackendKind::OpenAi, BackendKind::Anthropic, BackendKind::Completions];

pub(crate) const FILES: [(&str, &str); 3] = [
    ("src/main.rs", "fn main() {\n    run();\n}\n"),
    ("src/run.rs", "pub fn run() {\n    // TODO: everything\n}\n"),
    ("README.md", "Nothing yet.\n"),
];

/// Returns an agent with just enough steps: it is reminded half way and has to answer in the last one.
pub(crate) fn reviewer(protocol: &str) -> Value {
    json!({
        "name": "reviewer", "system_prompt": "You look for what is left to do.", "protocol": protocol,
        "tools": ["fs:read", "fs:list", "fs:search"], "limits": {"max_steps": 4},
        "output_schema": {
            "type": "object", "required": ["files", "path", "line", "text"],
            "properties": {
                "files": {"type": "integer"}, "path": {"type": "string"}, "line": {"type": "integer"},
                "text": {"type": "string"},
            },
        },
    })
}

/// Returns the result, which depends on the answers of all three tools.
fn expected() -> Value {
    json!({"files": 3, "path": "src/run.rs", "line": 2, "text": "// TODO: everything"})
}

/// Plays the model: lists, searches, reads the match and submits what it read.
pub(crate) fn review(request: &Recorded) -> ModelTurn {
    let seen: Vec<Value> =
        answers(request).iter().map(|answer| serde_json::from_str(answer).unwrap()).collect();
    match &seen[..] {
        [] => ModelTurn::call("fs:list", json!({"depth": 2})),
        [_] => ModelTurn::call("fs:search", json!({"pattern": "TODO"})),
        [_, found] => {
            let Value::Object(first) = &found["matches"][0] else { panic!("nothing was found: {found}") };
            let arguments = json!({"path": first["path"], "offset": first["line"], "limit": 1});
            ModelTurn::call("fs:read", arguments)
        }
        [listed, found, read, ..] => {
            let entries = listed["entries"].as_array().unwrap();
            let first = &found["matches"][0];
            ModelTurn::Submit(json!({
                "files": entries.iter().filter(|entry| entry["kind"] == "file").count(),
                "path": first["path"], "line": first["line"],
                "text": read["content"].as_str().unwrap().trim(),
            }))
        }
    }
}

pub(crate) fn model() -> ScriptedServer {
    ScriptedServer::respond(|request, _| review(request).step(request))
}

pub(crate) fn reviewing(protocol: &str, folder: &Folder, ladder: Vec<LadderRung>) -> TestRun {
    let context = test_run(&reviewer(protocol), "What is left to do?", json!({}), ladder);
    TestRun { project_dir: folder.path(), ..context }
}

#[tokio::test]
async fn every_backend_under_both_protocols_gives_the_same_result() {
    for kind in KINDS {
        for protocol in ["tools", "actions"] {
            let what = format!("{} by {protocol}", kind.name());
            let folder = Folder::with("same", &FILES);
            let server = model();
            let ladder = vec![rung("default", kind, &server, StructuredOutput::Auto)];
            let (outcome, journal) = run(&reviewing(protocol, &folder, ladder)).await;
            let success = completed(outcome);
            assert_eq!(success.result_data, Some(expected()), "{what}");
            assert_eq!((success.receipt.calls, success.receipt.retries), (4, 0), "{what}");
            let called = [
                "pre_tool fs:list",
                "post_tool fs:list",
                "pre_tool fs:search",
                "post_tool fs:search",
                "pre_tool fs:read",
                "post_tool fs:read",
            ];
            let happened = names(&journal.events());
            let tools: Vec<&String> = happened.iter().filter(|name| name.contains("tool")).collect();
            assert_eq!(tools, called.iter().collect::<Vec<_>>(), "{what}");
            let by_calling = protocol == "tools" && kind != BackendKind::Completions;
            for request in server.requests() {
                assert_eq!(calls_tools(&request), by_calling, "{what}");
                assert_eq!(request.prompt().contains("## Actions"), !by_calling, "{what}");
            }
        }
    }
}

#[tokio::test]
async fn every_strategy_gives_the_same_result() {
    for kind in [BackendKind::OpenAi, BackendKind::Anthropic] {
        for strategy in ["prompt", "system_prompt", "tool", "native"] {
            for protocol in ["tools", "actions"] {
                let what = format!("{} by {protocol} and {strategy}", kind.name());
                let folder = Folder::with("strategies", &FILES);
                let server = model();
                let ladder = vec![rung("default", kind, &server, StructuredOutput::Auto)];
                let options = json!({"strategy": strategy});
                let context = test_run(&reviewer(protocol), "What is left to do?", options, ladder);
                let (outcome, _) = run(&TestRun { project_dir: folder.path(), ..context }).await;
                let success = completed(outcome);
                assert_eq!(success.result_data, Some(expected()), "{what}");
                assert_eq!((success.receipt.calls, success.receipt.retries), (4, 0), "{what}");
                let last = server.requests().pop().unwrap();
                let choice = match (protocol, strategy, kind) {
                    ("actions", ..) => Value::Null,
                    (_, "tool", BackendKind::Anthropic) => json!({"type": "tool", "name": "submit_result"}),
                    (_, "tool", _) => json!({"type": "function", "function": {"name": "submit_result"}}),
                    (_, _, BackendKind::Anthropic) => json!({"type": "none"}),
                    _ => json!("none"),
                };
                assert_eq!(last.body["tool_choice"], choice, "{what}");
            }
        }
    }
}

#[tokio::test]
async fn executor_without_tool_calling_gives_the_same_result() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/executors/executor.py");
    for protocol in ["tools", "actions"] {
        let folder = Folder::with(&format!("executor-{protocol}"), &FILES);
        let memory = Folder::new(&format!("memory-{protocol}"));
        let ladder = vec![command_rung("default", &["python3", script, &memory.path()])];
        let (outcome, _) = run(&reviewing(protocol, &folder, ladder)).await;
        let success = completed(outcome);
        assert_eq!(success.result_data, Some(expected()), "{protocol}");
        assert_eq!(success.receipt.calls, 4, "{protocol}");
    }
}

#[tokio::test]
async fn executor_that_takes_over_receives_earlier_tool_results() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/executors/successor.py");
    let folder = Folder::with("successor", &FILES);
    // The first backend calls one tool and fails then.
    let server = ScriptedServer::respond(|request, _| match answers(request).len() {
        0 => review(request).step(request),
        _ => Step::status(503),
    });
    let ladder = vec![
        rung("small", BackendKind::Completions, &server, StructuredOutput::Auto),
        command_rung("large", &["python3", script]),
    ];
    let success = completed(run(&reviewing("actions", &folder, ladder)).await.0);
    assert_eq!(success.result_data.unwrap()["files"], 3);
}

/// The parts of a request that belong to tools.
struct Wire {
    offered: Vec<(String, Value)>,
    choice: Value,
    /// Ids of the calls in the conversation, and of the answers to them.
    made: Vec<String>,
    answered: Vec<String>,
    roles: Vec<String>,
}

fn wire(request: &Recorded) -> Wire {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let messages = request.body["messages"].as_array().unwrap();
    let roles = messages.iter().map(|message| text(&message["role"])).collect();
    let choice = request.body["tool_choice"].clone();
    let tools = request.body["tools"].as_array().unwrap().iter();
    if request.protocol() == Some(Protocol::Messages) {
        let blocks: Vec<&Value> =
            messages.iter().filter_map(|message| message["content"].as_array()).flatten().collect();
        let ids = |kind: &str, name: &str| {
            blocks.iter().filter(|block| block["type"] == kind).map(|block| text(&block[name])).collect()
        };
        return Wire {
            offered: tools.map(|tool| (text(&tool["name"]), tool["input_schema"].clone())).collect(),
            choice,
            made: ids("tool_use", "id"),
            answered: ids("tool_result", "tool_use_id"),
            roles,
        };
    }
    let functions = tools.map(|tool| &tool["function"]);
    let made = messages.iter().filter_map(|message| message["tool_calls"].as_array()).flatten();
    let answered = messages.iter().filter(|message| message["role"] == "tool");
    Wire {
        offered: functions.map(|tool| (text(&tool["name"]), tool["parameters"].clone())).collect(),
        choice,
        made: made.map(|call| text(&call["id"])).collect(),
        answered: answered.map(|message| text(&message["tool_call_id"])).collect(),
        roles,
    }
}

#[tokio::test]
async fn server_receives_tools_answers_and_finally_a_forced_submit() {
    for kind in [BackendKind::OpenAi, BackendKind::Anthropic] {
        let folder = Folder::with("wire", &FILES);
        let server = model();
        let ladder = vec![rung("default", kind, &server, StructuredOutput::Auto)];
        completed(run(&reviewing("tools", &folder, ladder)).await.0);
        let seen: Vec<Wire> = server.requests().iter().map(|request| wire(request)).collect();
        for (index, wire) in seen.iter().enumerate() {
            let what = format!("{}, request {index}", kind.name());
            let names: Vec<&str> = wire.offered.iter().map(|(name, _)| name.as_str()).collect();
            assert_eq!(names, ["fs_read", "fs_list", "fs_search", "submit_result"], "{what}");
            assert_eq!(wire.offered[0].1["required"], json!(["path"]), "{what}");
            assert_eq!(wire.offered[3].1, reviewer("tools")["output_schema"], "{what}");
            assert_eq!(wire.made.len(), index, "{what}");
            assert_eq!(wire.made, wire.answered, "{what}");
            let is_last = index == 3;
            let choice = match (is_last, kind) {
                (false, _) => Value::Null,
                (true, BackendKind::Anthropic) => json!({"type": "tool", "name": "submit_result"}),
                (true, _) => json!({"type": "function", "function": {"name": "submit_result"}}),
            };
            assert_eq!(wire.choice, choice, "{what}");
        }
        let roles = match kind {
            // Anthropic has no system message, and tool results belong to the user.
            BackendKind::Anthropic => vec!["user", "assistant", "user"],
            _ => vec!["system", "user", "assistant", "tool"],
        };
        assert_eq!(seen[1].roles, roles);
        let reminded = |index: usize, words: &str| server.requests()[index].prompt().contains(words);
        assert!(!reminded(1, "steps"), "{}", kind.name());
        assert!(reminded(2, "2 of 4 steps"), "{}: {}", kind.name(), server.requests()[2].prompt());
    }
}

#[tokio::test]
async fn server_without_tools_receives_envelopes() {
    let folder = Folder::with("envelopes", &FILES);
    let server = model();
    let ladder = vec![rung("default", BackendKind::OpenAi, &server, StructuredOutput::Auto)];
    completed(run(&reviewing("actions", &folder, ladder)).await.0);
    let requests = server.requests();
    let messages = requests[1].body["messages"].as_array().unwrap();
    let roles: Vec<&str> = messages.iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "user"]);
    let system = messages[0]["content"].as_str().unwrap();
    for part in ["#### fs:read", "#### fs:list", "#### fs:search", "USE_TOOL", "\"TODO\"", "AGENT_CALL"] {
        let is_there = !matches!(part, "\"TODO\"" | "AGENT_CALL");
        assert_eq!(system.contains(part), is_there, "{part}: {system}");
    }
    assert!(system.contains("## Required Output Format"), "{system}");
    let sent: Value = serde_json::from_str(messages[2]["content"].as_str().unwrap()).unwrap();
    assert_eq!((&sent["action"], &sent["tool"]), (&json!("USE_TOOL"), &json!("fs:list")));
    let received: Value = serde_json::from_str(messages[3]["content"].as_str().unwrap()).unwrap();
    assert_eq!((&received["action"], &received["tool"]), (&json!("TOOL_RETURN"), &json!("fs:list")));
}

#[tokio::test]
async fn server_that_refuses_tools_is_asked_for_actions() {
    let folder = Folder::with("refused", &FILES);
    let server = ScriptedServer::respond(|request, _| {
        if calls_tools(request) { Step::status(400) } else { review(request).step(request) }
    });
    let ladder = vec![rung("default", BackendKind::OpenAi, &server, StructuredOutput::Auto)];
    let success = completed(run(&reviewing("tools", &folder, ladder)).await.0);
    assert_eq!(success.result_data, Some(expected()));
    assert_eq!((success.receipt.calls, success.receipt.retries), (5, 1));
}

#[tokio::test]
async fn server_that_ignores_tools_is_asked_for_actions() {
    let folder = Folder::with("ignored", &FILES);
    let server = ScriptedServer::respond(|request, _| {
        if calls_tools(request) {
            Step::text("I would look at the files, if I could.")
        } else {
            review(request).step(request)
        }
    });
    let ladder = vec![rung("default", BackendKind::OpenAi, &server, StructuredOutput::Auto)];
    let success = completed(run(&reviewing("tools", &folder, ladder)).await.0);
    assert_eq!(success.result_data, Some(expected()));
    assert_eq!((success.receipt.calls, success.receipt.retries), (5, 1));
}

/// Returns a rung whose backend was probed to enforce schemas.
fn enforcing(server: &ScriptedServer) -> LadderRung {
    let mut rung = rung("default", BackendKind::OpenAi, server, StructuredOutput::Auto);
    rung.tier.backend.capabilities.json_schema = Support::Enforced;
    rung
}

#[tokio::test]
async fn server_that_enforces_schemas_receives_a_schema_per_action() {
    let folder = Folder::with("enforced", &FILES);
    let server = model();
    let success = completed(run(&reviewing("actions", &folder, vec![enforcing(&server)])).await.0);
    assert_eq!(success.result_data, Some(expected()));
    let requests = server.requests();
    let actions = |index: usize| -> Vec<Value> {
        let forms = &requests[index].body["response_format"]["json_schema"]["schema"]["anyOf"];
        let action = |form: &Value| {
            json!([form["properties"]["action"]["const"], form["properties"]["tool"]["const"]])
        };
        forms.as_array().unwrap().iter().map(action).collect()
    };
    let tool = |name: &str| json!(["USE_TOOL", name]);
    let end = json!(["NORMAL_RESPONSE", null]);
    assert_eq!(actions(0), [tool("fs:read"), tool("fs:list"), tool("fs:search"), end.clone()]);
    // The last step offers no tools.
    assert_eq!(actions(3), [end]);
}

#[tokio::test]
async fn server_that_refuses_action_schemas_is_asked_by_prompt() {
    let folder = Folder::with("forms", &FILES);
    let server = ScriptedServer::respond(|request, _| match request.body.get("response_format") {
        Some(_) => Step::status(400),
        None => review(request).step(request),
    });
    let success = completed(run(&reviewing("actions", &folder, vec![enforcing(&server)])).await.0);
    assert_eq!(success.result_data, Some(expected()));
    assert_eq!((success.receipt.calls, success.receipt.retries), (5, 1));
}
