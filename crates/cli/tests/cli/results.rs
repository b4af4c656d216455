//! Commands and `GET /runs/{id}` return the result of the requested run, not of another run of its session.

use crate::support::{Project, is_server_mode, request, serve};
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

/// The members of a run that has ended, in the order of their names.
const RUN_MEMBERS: [&str; 23] = [
    "agent_name",
    "attempts",
    "backend",
    "contract",
    "created_at",
    "created_by",
    "error",
    "finished_at",
    "max_retries",
    "model",
    "receipt",
    "result",
    "result_data",
    "result_text",
    "retry_count",
    "run_id",
    "salvage",
    "schema_validation",
    "session_id",
    "started_at",
    "status",
    "type",
    "validated_output",
];

fn members(run: &Value) -> Vec<&str> {
    let mut members: Vec<&str> = run.as_object().unwrap().keys().map(String::as_str).collect();
    members.sort_unstable();
    members
}

/// The request of the schema enforcement document, as it is written there.
const ANALYZE: &str = r##"{
  "type": "start_session",
  "agent_name": "analyzer",
  "prompt": "Analyze security vulnerabilities",
  "output_schema": {
    "type": "object",
    "required": ["vulnerabilities"],
    "properties": {
      "vulnerabilities": {
        "type": "array",
        "items": { "$ref": "#/definitions/vulnerability" }
      }
    },
    "definitions": {
      "vulnerability": {
        "type": "object",
        "required": ["id", "severity", "description"],
        "properties": {
          "id": { "type": "string" },
          "severity": { "type": "string", "enum": ["low", "medium", "high", "critical"] },
          "description": { "type": "string" },
          "affected_files": { "type": "array", "items": { "type": "string" } }
        }
      }
    }
  }
}"##;

#[test]
fn run_object_has_the_same_members_everywhere_and_the_raw_text() {
    let written = "Found one:\n```json\n{\"vulnerabilities\": [{\"id\": \"V1\", \"severity\": \"high\", \
                   \"description\": \"SQL injection\",}]}\n```\n";
    let model = ScriptedServer::respond(move |_, call| match call {
        0 => {
            Step::json(&json!({"vulnerabilities": [{"id": "V1", "severity": "urgent", "description": "?"}]}))
        }
        _ => Step::text(written),
    });
    let project = Project::new("run-object")
        .backend(&model.base_url())
        .file("agents/analyzer.yaml", "name: analyzer\ndefault_output_schema_options: {correction: full}\n");
    let (_server, address) = serve(&project, &[]);
    let analyze: Value = serde_json::from_str(ANALYZE).unwrap();
    let (status, run) = request(&address, "POST", "/runs?wait=60", None, &analyze);
    assert_eq!(status, 200, "{run}");
    assert_eq!(members(&run), RUN_MEMBERS);
    let valid =
        json!({"vulnerabilities": [{"id": "V1", "severity": "high", "description": "SQL injection"}]});
    assert_eq!((&run["result_data"], &run["validated_output"]), (&valid, &valid));
    assert_eq!(run["result"], written, "{run}");
    assert_eq!(run["result_text"], Value::Null);
    assert_eq!((&run["backend"], &run["model"]), (&json!("scripted"), &json!("m")), "{run}");
    assert_eq!(run["receipt"]["rungs"][0]["model"], "m", "{run}");
    let counts = [&run["retry_count"], &run["receipt"]["retries"], &run["schema_validation"]["retry_count"]];
    assert_eq!(counts, [&json!(1); 3], "{run}");
    assert_eq!((&run["max_retries"], &run["schema_validation"]["max_retries"]), (&json!(2), &json!(2)));

    let path = format!("/runs/{}", run["run_id"].as_str().unwrap());
    for path in [path.clone(), format!("{path}/result")] {
        let (status, read) = request(&address, "GET", &path, None, &Value::Null);
        assert_eq!((status, &read), (200, &run), "{path}");
    }
    let session = format!("/sessions/{}/result", run["session_id"].as_str().unwrap());
    let (_, result) = request(&address, "GET", &session, None, &Value::Null);
    assert_eq!((&result["result"], &result["validated_output"]), (&run["result"], &valid), "{result}");

    let project = project.file("vulnerabilities.json", &analyze["output_schema"].to_string());
    let command = ["run", "analyzer", "-p", "Again", "--json", "--schema", "vulnerabilities.json"];
    for server in [vec!["--server", &address], Vec::new()] {
        if server.is_empty() && is_server_mode() {
            continue;
        }
        let printed = project.run(&[&command[..], &server].concat());
        assert_eq!(printed.status, 0, "{}", printed.all());
        assert_eq!(members(&printed.json()), RUN_MEMBERS);
    }
    let shown =
        project.run(&["runs", "show", "--json", run["run_id"].as_str().unwrap(), "--server", &address]);
    assert_eq!(shown.json(), run);
}

#[test]
fn raw_text_is_what_the_model_submitted_or_the_program_wrote() {
    let arguments = "{\"filed\":   true}";
    let model = ScriptedServer::respond(move |request, _| {
        if request.body["tools"].is_array() {
            Step::tool("submit_result", arguments)
        } else {
            Step::text("  Hello.\n")
        }
    });
    let project = Project::new("raw-text")
        .backend(&model.base_url())
        .file("agents/clerk.yaml", "name: clerk\n")
        .file("agents/echo.yaml", "name: echo\ntype: procedural\ncommand: [printf, '{\"n\":  1}']\nparameters_schema: {type: object}\n")
        .file("schemas/filed.json", FILED);
    let submitted =
        project.run(&["run", "clerk", "-p", "File it", "--schema", "filed", "--strategy", "tool", "--json"]);
    assert_eq!(submitted.json()["result"], arguments, "{}", submitted.all());
    assert_eq!(submitted.json()["result_data"], json!({"filed": true}));
    let text = project.run(&["run", "clerk", "-p", "Hello", "--json"]).json();
    assert_eq!((&text["result"], &text["schema_validation"]), (&json!("  Hello.\n"), &Value::Null));
    assert_eq!((&text["max_retries"], &text["validated_output"]), (&Value::Null, &Value::Null));
    let program = project.run(&["run", "echo", "--json"]);
    assert_eq!(program.json()["result"], "{\"n\":  1}", "{}", program.all());
    assert_eq!((&program.json()["backend"], &program.json()["model"]), (&Value::Null, &Value::Null));
}

#[test]
fn retry_count_backend_and_model_are_shown_while_the_run_works() {
    let gate = Gate::new();
    let waiting = gate.clone();
    let model = ScriptedServer::respond(move |_, call| match call {
        0 => Step::json(&json!({"filed": "yes"})),
        _ => Step::json(&json!({"filed": true})).gate(&waiting),
    });
    let project = Project::new("live-count")
        .backend(&model.base_url())
        .file("agents/clerk.yaml", "name: clerk\n")
        .file("schemas/filed.json", FILED);
    let (_server, address) = serve(&project, &[]);
    let start = json!({"agent_name": "clerk", "prompt": "File it", "output_schema_name": "filed"});
    let (_, created) = request(&address, "POST", "/runs", None, &start);
    model.wait_for_requests(2);
    let path = format!("/runs/{}", created["run_id"].as_str().unwrap());
    let (_, run) = request(&address, "GET", &path, None, &Value::Null);
    assert_eq!(run["status"], "running", "{run}");
    assert_eq!((&run["retry_count"], &run["max_retries"]), (&json!(1), &json!(2)), "{run}");
    assert_eq!((&run["backend"], &run["model"]), (&json!("scripted"), &json!("m")), "{run}");
    assert!(run.get("result").is_none(), "{run}");
    gate.open();
}

#[test]
fn resumed_session_keeps_its_agent_unless_asked_for_the_current_one() {
    let model = ScriptedServer::respond(|request, _| {
        Step::text(if request.body.to_string().contains("Be rude.") { "Rude." } else { "Polite." })
    });
    let project = Project::new("refresh").backend(&model.base_url());
    let project = project.file("agents/clerk.yaml", "name: clerk\nsystem_prompt: Be polite.\n");
    let first = project.run(&["run", "clerk", "-p", "Hello", "--json"]).json();
    let session = first["session_id"].as_str().unwrap();
    let project = project.file("agents/clerk.yaml", "name: clerk\nsystem_prompt: Be rude.\n");
    let resume = |more: &[&str]| {
        let arguments = [&["sessions", "resume", session, "-p", "And now?"], more].concat();
        let ran = project.run(&arguments);
        assert_eq!(ran.status, 0, "{}", ran.all());
        ran.stdout
    };
    assert_eq!(resume(&[]), "Polite.\n");
    assert_eq!(resume(&["--refresh-agent"]), "Rude.\n");
    assert_eq!(resume(&[]), "Rude.\n", "the session goes on with the agent that it was given");
    let fresh = project.run(&["run", "clerk", "-p", "Hello", "--refresh-agent"]);
    assert_eq!(fresh.status, 2, "{}", fresh.all());
}
