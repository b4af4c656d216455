//! Universal responses: printed for people, read by programs that know no other schema, and returned by servers
//! that enforce no other schema.

use crate::support::{CommandOutput, Project, REVIEWER};
use expect_test::expect;
use serde_json::{Value, json};
use slipform_schema::universal;
use slipform_testkit::{ScriptedServer, Step};

fn planner() -> String {
    let schema = universal::schema().unwrap().source();
    json!({
        "name": "planner", "system_prompt": "You are a Planning Agent.", "response_type": "planning",
        "output_schema": schema, "limits": {"max_tokens": 1000},
    })
    .to_string()
}

fn project(name: &str, server: &ScriptedServer) -> Project {
    Project::new(name).backend(&server.base_url()).file("agents/planner.json", &planner())
}

fn plan() -> Value {
    json!({
        "response_type": "planning", "status": "success", "message": "Created login implementation plan",
        "planning_data": {
            "summary": "Sessions in a cookie.",
            "steps": [
                {"step_number": 1, "action": "Add a table", "details": "For users.", "estimated_minutes": 20},
                {"step_number": 2, "action": "Add a form", "details": "With two fields."},
            ],
        },
    })
}

/// Parses stdout as a consumer that knows only universal responses, and checks every rule of such a response.
fn read(ran: &CommandOutput) -> Value {
    let response = ran.json();
    let schema = universal::schema().unwrap();
    assert_eq!(schema.violations(&response).lines(), [""; 0], "{response}");
    assert_eq!(universal::pairing_violations(&response, Some("planning")).lines(), [""; 0], "{response}");
    response
}

#[test]
fn run_with_pretty_formats_response_by_type() {
    let server = ScriptedServer::start([Step::json(&plan())]);
    let project = project("pretty", &server);
    let ran = project.run(&["run", "planner", "-p", "Plan a login.", "--pretty"]);
    expect![[r#"
        status 0
        --- stdout
        Plan

        Created login implementation plan

        Sessions in a cookie.

          1. Add a table (20 min)
             For users.
          2. Add a form
             With two fields.

        Total: 20 min, and 1 step without an estimate
        --- stderr
    "#]]
    .assert_eq(&ran.all());
    let listed = project.run(&["sessions", "list"]).stdout;
    let session = listed.split_whitespace().next().unwrap();
    let again = project.run(&["sessions", "result", session, "--pretty"]);
    assert_eq!(again.stdout, ran.stdout);
}

#[test]
fn escape_sequences_in_results_are_printed_escaped() {
    let mut evil = plan();
    evil["message"] = json!("\u{1b}]0;owned\u{7}Done.");
    let server = ScriptedServer::start([Step::json(&evil), Step::text("\u{1b}[2JHello.")]);
    let project = project("hostile", &server).file("agents/talker.json", r#"{"name": "talker"}"#);
    for (agent, shown) in [("planner", "\\u{1b}]0;owned\\u{7}Done."), ("talker", "\\u{1b}[2JHello.")] {
        let ran = project.run(&["run", agent, "-p", "x", "--pretty"]);
        assert!(ran.stdout.contains(shown) && !ran.stdout.contains('\u{1b}'), "{}", ran.all());
    }
}

#[test]
fn run_with_pretty_prints_other_results_as_outline() {
    let server = ScriptedServer::start([Step::text(r#"{"summary": "Fine.", "severity": "low"}"#)]);
    let project = project("outline", &server).file("agents/reviewer.yaml", REVIEWER);
    let ran = project.run(&["run", "reviewer", "-p", "x", "--pretty"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (0, "summary: Fine.\nseverity: low\n"));
    let both = project.run(&["run", "reviewer", "-p", "x", "--pretty", "--json"]);
    assert_eq!(both.status, 2, "{}", both.stderr);
}

#[test]
fn failed_run_returns_error_response_in_every_output_form() {
    let server = ScriptedServer::start([Step::refusal("I will not."), Step::refusal("I will not.")]);
    let project = project("failure-response", &server);
    let ran = project.run(&["run", "planner", "-p", "x"]);
    assert_eq!(ran.status, 1);
    assert!(ran.stderr.contains("slipform: I will not. (refused)"), "{}", ran.stderr);
    let response = read(&ran);
    assert_eq!(
        response,
        json!({
            "response_type": "error", "status": "error", "message": "I will not.",
            "error_details": {
                "error_code": "refused", "error_message": "I will not.",
                "suggested_action": "Reword the request, or run it with another model.",
            },
        })
    );
    let listed = project.run(&["sessions", "list"]).stdout;
    let session = listed.split_whitespace().next().unwrap();
    let again = project.run(&["sessions", "result", session]);
    assert_eq!((again.status, read(&again)), (1, response.clone()));
    let whole = project.run(&["sessions", "result", session, "--json"]).json();
    assert_eq!(whole["error"]["response"], response);
    let events = project.run(&["sessions", "events", session, "--json"]).stdout;
    let last: Value = serde_json::from_str(events.lines().last().unwrap()).unwrap();
    assert_eq!(last["error"]["response"], response);
    let pretty = project.run(&["run", "planner", "-p", "x", "--pretty"]);
    expect![[r#"
        Error: refused

        I will not.

        What to do: Reword the request, or run it with another model.
    "#]]
    .assert_eq(&pretty.stdout);
}

#[test]
fn unreachable_backend_returns_error_response() {
    let server = ScriptedServer::start([Step::close(), Step::close(), Step::close()]);
    let settings = format!(
        "[backends.gone]\nkind = \"openai\"\nbase_url = \"{}\"\nretries = 0\nstructured_output = \"prompt\"\n",
        server.base_url()
    );
    let project = project("gone-response", &server).file("slipform.toml", &settings);
    let ran = project.run(&["run", "planner", "-p", "x"]);
    assert_eq!((ran.status, &read(&ran)["error_details"]["error_code"]), (3, &json!("backend_unavailable")));
    let whole = project.run(&["run", "planner", "-p", "x", "--json"]);
    assert_eq!(whole.json()["error"]["response"]["response_type"], "error", "{}", whole.stdout);
    let receipt = project.run(&["run", "planner", "-p", "x", "--receipt"]).json();
    assert_eq!((&receipt["result"]["status"], &receipt["receipt"]["calls"]), (&json!("error"), &json!(1)));
}

#[test]
fn failed_run_of_other_contract_prints_nothing_on_stdout() {
    let server = ScriptedServer::start([Step::refusal("I will not.")]);
    let project = project("silent", &server).file("agents/reviewer.yaml", REVIEWER);
    let ran = project.run(&["run", "reviewer", "-p", "x", "--pretty"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (1, ""));
}

#[test]
fn server_with_universal_schema_serves_agents_with_other_schemas() {
    let custom = |fields: Value| {
        let message = "About seven.";
        let reply = json!({"response_type": "custom", "status": "success", "message": message, "custom_fields": fields});
        assert!(universal::schema().unwrap().is_valid(&reply));
        Step::json(&reply)
    };
    let good = json!({"summary": "Fine.", "severity": "low"});
    let bad = json!({"summary": "Fine.", "severity": "bad"});
    let replies = [custom(bad), custom(good.clone()), Step::json(&plan()), custom(json!({}))];
    let server = ScriptedServer::start(replies);
    let settings = format!(
        "[backends.studio]\nkind = \"openai\"\nbase_url = \"{}\"\nstructured_output = \"universal\"\n",
        server.base_url()
    );
    let project = project("one-schema", &server)
        .file("slipform.toml", &settings)
        .file("agents/reviewer.yaml", REVIEWER)
        .file("agents/talker.json", r#"{"name": "talker"}"#);
    let reviewed = project.run(&["run", "reviewer", "-p", "x"]);
    assert_eq!((reviewed.status, reviewed.json()), (0, good), "{}", reviewed.stderr);
    assert!(reviewed.stderr.contains("$.severity: 'bad' is not one of"), "{}", reviewed.stderr);
    assert_eq!(read(&project.run(&["run", "planner", "-p", "x"])), plan());
    assert_eq!(project.run(&["run", "talker", "-p", "x"]).stdout, "About seven.\n");
    assert_eq!(server.unexpected(), 0);
}

#[test]
fn completions_server_receives_universal_schema_in_prompt() {
    let thinking = format!("<think>\nA login needs users.\n</think>\n{}", plan());
    let server = ScriptedServer::start([Step::text("Here is a plan."), Step::text(thinking)]);
    let settings = format!(
        "[backends.studio]\nkind = \"completions\"\nbase_url = \"{}\"\nmodel = \"ministral\"\ntemperature = 0.2\n",
        server.base_url()
    );
    let project = project("completions", &server).file("slipform.toml", &settings);
    let ran = project.run(&["run", "planner", "-p", "Create a plan to add user login."]);
    assert_eq!((ran.status, read(&ran)), (0, plan()), "{}", ran.stderr);
    let requests = server.requests();
    assert_eq!(requests.len(), 2);
    for request in &requests {
        assert_eq!(request.path, "/v1/completions");
        let body = &request.body;
        assert_eq!((&body["model"], &body["max_tokens"]), (&json!("ministral"), &json!(1000)));
        assert_eq!(body["temperature"], 0.2);
        let prompt = body["prompt"].as_str().unwrap();
        for part in ["You are a Planning Agent.", "Create a plan to add user login.", "\"planning_data\""] {
            assert!(prompt.contains(part), "{part} is missing in:\n{prompt}");
        }
    }
    assert!(requests[1].prompt().contains("no JSON output found"), "{}", requests[1].prompt());
}
