//! Commands and `GET /runs/{id}` return the result of the requested run, not of another run of its session.

use crate::support::{Project, request, serve};
use serde_json::{Value, json};
use slipform_testkit::{Gate, ScriptedServer, Step};

const FILED: &str = r#"{"type": "object", "required": ["filed"], "properties": {"filed": {"type": "boolean"}}, "additionalProperties": false}"#;

fn other_schema() -> Value {
    json!({"type": "object", "required": ["other"], "properties": {"other": {"type": "integer"}}, "additionalProperties": false})
}

/// Starts a model that answers by prompt. The reply to `FIRST` waits for the gate.
fn model(gate: &Gate) -> ScriptedServer {
    let gate = gate.clone();
    ScriptedServer::respond(move |request, _| {
        let prompt = request.prompt();
        if prompt.contains("SECOND") {
            Step::json(&json!({"other": 2}))
        } else if prompt.contains("FIRST") {
            Step::json(&json!({"filed": true})).gate(&gate)
        } else {
            Step::text("Hello.")
        }
    })
}

#[test]
fn run_prints_its_own_result_while_another_run_is_queued() {
    let gate = Gate::new();
    let model = model(&gate);
    let project = Project::new("own-result")
        .backend(&model.base_url())
        .file("agents/clerk.yaml", "name: clerk\n")
        .file("schemas/filed.json", FILED);
    let (_server, address) = serve(&project, &[]);
    let start = json!({"type": "start_session", "agent_name": "clerk", "prompt": "hello"});
    let (_, run) = request(&address, "POST", "/runs?wait=60", None, &start);
    let session = run["session_id"].as_str().unwrap().to_owned();

    let arguments =
        ["run", "clerk", "--session", &session, "--schema", "filed", "-p", "FIRST", "--server", &address];
    let command = project.command(&arguments).spawn().unwrap();
    model.wait_for_requests(2);
    let resume = json!({
        "type": "resume_session", "session_id": session, "prompt": "SECOND", "queue": true,
        "output_schema": other_schema(),
    });
    let (status, queued) = request(&address, "POST", "/runs", None, &resume);
    assert_eq!(status, 201, "{queued}");
    gate.open();
    let output = command.wait_with_output().unwrap();
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(printed, json!({"filed": true}));
    assert_eq!(output.status.code(), Some(0));

    let (_, second) = request(
        &address,
        "POST",
        "/runs?wait=60",
        None,
        &json!({
            "type": "resume_session", "session_id": session, "prompt": "SECOND", "queue": true,
            "output_schema": other_schema(),
        }),
    );
    assert_eq!(second["result_data"], json!({"other": 2}), "{second}");
    assert_eq!(second["schema_validation"]["valid"], true, "{second}");
}

#[test]
fn run_keeps_its_result_after_later_runs_of_its_session() {
    let gate = Gate::new();
    gate.open();
    let model = model(&gate);
    let project = Project::new("result-by-run")
        .backend(&model.base_url())
        .file("agents/clerk.yaml", "name: clerk\n")
        .file("schemas/filed.json", FILED);
    let (_server, address) = serve(&project, &[]);
    let first = json!({
        "type": "start_session", "agent_name": "clerk", "prompt": "FIRST", "output_schema_name": "filed",
    });
    let (_, first) = request(&address, "POST", "/runs?wait=60", None, &first);
    let second = json!({
        "type": "resume_session", "session_id": first["session_id"], "prompt": "SECOND",
        "output_schema": other_schema(),
    });
    let (_, second) = request(&address, "POST", "/runs?wait=60", None, &second);
    for path in [String::new(), "/result".to_owned()] {
        let run = |run: &Value| format!("/runs/{}{path}", run["run_id"].as_str().unwrap());
        let (_, shown) = request(&address, "GET", &run(&first), None, &Value::Null);
        assert_eq!(shown["result_data"], json!({"filed": true}), "{shown}");
        assert_eq!(shown["result_text"], Value::Null, "{shown}");
        assert_eq!(shown["validated_output"], json!({"filed": true}), "{shown}");
        assert_eq!(shown["schema_validation"]["schema_name"], "filed", "{shown}");
        assert_eq!(shown["receipt"]["calls"], 1, "{shown}");
        assert!(shown["result"].is_string(), "{shown}");
        let (_, shown) = request(&address, "GET", &run(&second), None, &Value::Null);
        assert_eq!(shown["result_data"], json!({"other": 2}), "{shown}");
    }
    let (_, list) = request(&address, "GET", "/runs", None, &Value::Null);
    for run in list["runs"].as_array().unwrap() {
        for key in ["contract", "result_data", "result_text", "result", "receipt", "salvage"] {
            assert!(run.get(key).is_none(), "{key}: {run}");
        }
    }
}
