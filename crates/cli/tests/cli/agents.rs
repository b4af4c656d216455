//! `slipform agents` and `slipform probe`.

use crate::support::{Project, REVIEWER};
use expect_test::expect;
use serde_json::json;
use slipform_testkit::{ScriptedServer, Step};

/// An agent file in the `kb.agent/1` format.
const KB: &str = "\
schema: 'kb.agent/1'
id: researcher
name: Code Researcher
context:
  static:
    system: You research code.
limits: {maxSteps: 10}
llm: {tier: small}
output:
  schema:
    type: object
    required: [summary]
    properties:
      summary: {type: string, minLength: 5}
";

#[test]
fn agents_list_reports_invalid_files() {
    let project = Project::new("list")
        .file("agents/reviewer.yaml", REVIEWER)
        .file("agents/researcher/agent.yml", KB)
        .file("agents/chat.json", r#"{"name": "chat", "description": "Talks"}"#)
        .file("agents/bad.yaml", "name: bad\noutput_schema:\n  type: objekt\n");
    let ran = project.run(&["agents", "list"]);
    let own: Vec<&str> = ran.stdout.lines().filter(|line| !line.contains("  shipped  ")).collect();
    expect![[r#"
        chat          text      file     Talks
        researcher    contract  file
        reviewer      contract  file     Reviews a change"#]]
    .assert_eq(&own.join("\n"));
    assert!(ran.stdout.contains("\ntester        contract  shipped  "), "{}", ran.stdout);
    expect!["agents/bad.yaml: line 3: $.output_schema.type: 'objekt' is not one of ['array', 'boolean', 'integer', 'null', 'number', 'object', 'string']\n"]
        .assert_eq(&ran.stderr);
    assert_eq!(ran.status, 2);
    let list = project.run(&["agents", "list", "--json"]).json();
    let own = list.as_array().unwrap().iter().filter(|agent| agent["source"] == "file");
    assert_eq!(own.count(), 4);
    assert_eq!((&list[0]["name"], &list[0]["valid"]), (&json!("bad"), &json!(false)));
}

#[test]
fn agents_show_prints_parameters_and_output_schema() {
    let project = Project::new("show").file("agents/researcher/agent.yml", KB);
    expect![[r#"
        status 0
        --- stdout
        researcher (agents/researcher/agent.yml)

        parameters:
        {
          "prompt": string (at least 1 characters)
        }

        result:
        {
          "summary": string (at least 5 characters)
        }
        --- stderr
    "#]]
    .assert_eq(&project.run(&["agents", "show", "researcher"]).all());
    let blueprint = project.run(&["agents", "show", "researcher", "--json"]).json();
    assert_eq!((&blueprint["tier"], &blueprint["limits"]["max_steps"]), (&json!("small"), &json!(10)));
}

#[test]
fn agents_init_creates_valid_runnable_agent() {
    let server = ScriptedServer::start([Step::text(r#"{"summary": "Disk full.", "urgency": "high"}"#)]);
    let project = Project::new("init").backend(&server.base_url());
    let made = project.run(&["agents", "init", "triage"]);
    assert_eq!(made.status, 0, "{}", made.stderr);
    assert_eq!(
        project.run(&["agents", "validate"]).all(),
        "status 0\n--- stdout\n--- stderr\n1 agent is valid\n"
    );
    let again = project.run(&["agents", "init", "triage"]);
    assert_eq!(again.status, 2);
    assert!(again.stderr.contains("agents/triage.yaml exists"), "{}", again.stderr);
    let ran = project.run(&["run", "triage", "-p", "The disk is full."]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert_eq!(project.run(&["agents", "init", "no good"]).status, 2);
}

/// Starts a server that enforces forced tools, refuses JSON schemas and ignores everything else.
fn only_forced_tools() -> ScriptedServer {
    ScriptedServer::respond(|request, _| {
        let name = request.body["tool_choice"]["function"]["name"].as_str().unwrap_or_default();
        match name {
            "describe_paint" => Step::tool(name, json!({"colour": "red", "rating": 4})),
            "submit_result" => Step::tool(name, json!({"summary": "Fine.", "severity": "low"})),
            _ if request.body["response_format"]["type"] == "json_schema" => {
                Step::status(400).body(r#"{"error": {"message": "response_format is not supported"}}"#)
            }
            _ => Step::text(r#"{"colour": "ultraviolet", "rating": 99, "note": "hello"}"#),
        }
    })
}

#[test]
fn probe_verdicts_select_auto_strategy() {
    let server = only_forced_tools();
    let project = Project::new("probe").backend(&server.base_url()).file("agents/reviewer.yaml", REVIEWER);
    expect![[r#"
        status 0
        --- stdout
        scripted · m
        feature       verdict   enum    extra property  number bound  answer
        json_schema   refused   -       -               -             the backend refused the request with 400: response_format is
        json_object   accepted  broken  broken          broken        {"colour": "ultraviolet", "rating": 99, "note": "hello"}
        tools         ignored   -       -               -             {"colour": "ultraviolet", "rating": 99, "note": "hello"}
        forced_tools  enforced  held    held            held          {"colour":"red","rating":4}
        --- stderr
    "#]]
    .assert_eq(&project.run(&["probe"]).all());
    let ran = project.run(&["run", "reviewer", "-p", "x", "--receipt"]);
    assert_eq!(
        (&ran.json()["receipt"]["strategy"], &ran.json()["receipt"]["calls"]),
        (&json!("tool"), &json!(1))
    );
    let json = project.run(&["probe", "scripted", "--json"]).json();
    assert_eq!(json["capabilities"]["forced_tools"], "enforced");
}

#[test]
fn probe_of_unreachable_backend_exits_with_status_3() {
    let project = Project::new("probe-unreachable").backend("http://127.0.0.1:9/v1");
    let ran = project.run(&["probe"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (3, ""));
    assert!(ran.stderr.contains("cannot reach http://127.0.0.1:9/v1"), "{}", ran.stderr);
    assert_eq!(project.run(&["probe", "nobody"]).status, 2);
}
