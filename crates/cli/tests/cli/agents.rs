//! `slipform agents` and `slipform probe`.

use crate::support::{Project, REVIEWER, is_local_only, is_server_mode};
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

#[test]
fn validate_reports_every_problem_of_a_file() {
    let project = Project::new("validate-all").file(
        "agents/wrong.yaml",
        "\
name: wrong
sytem_prompt: Hello ${env.TOKEN}.
system_prompt: Hello ${env.TOKEN} and ${params.topic}.
tools: [fs:read, fs:raed, docs:search]
agents: [absent, resercher]
tier: smal
escalation: [small, premium]
output_schema:
  type: objekt
  required: summary
  properties:
    n: {type: integr}
",
    );
    let checked = project.run(&["agents", "validate"]);
    assert_eq!(checked.status, 2, "{}", checked.all());
    let tools = "available: fs:read, fs:list, fs:search, fs:glob, fs:write, fs:edit, fs:delete, fs:move, code:search, mind:rag-query, \
                 check:criteria, and SERVER:TOOL of the agent's mcp_servers";
    let types = "is not one of ['array', 'boolean', 'integer', 'null', 'number', 'object', 'string']";
    let expected = [
        "2: $.sytem_prompt: unknown key 'sytem_prompt'; did you mean 'system_prompt'?".to_owned(),
        "3: $.system_prompt: ${env.TOKEN} is not allowed: list TOKEN under env".to_owned(),
        "3: $.system_prompt: ${params.topic} can have no value: parameters_schema has no 'topic'".to_owned(),
        format!("4: $.tools[1]: tool `fs:raed` not found; {tools}"),
        format!("4: $.tools[2]: tool `docs:search` not found; {tools}"),
        "5: $.agents[0]: agent `absent` not found in agents/ or .kb/agents/".to_owned(),
        "5: $.agents[1]: agent `resercher` not found in agents/ or .kb/agents/; did you mean `researcher`?"
            .to_owned(),
        "6: $.tier: tier `smal` not found; did you mean `small`?".to_owned(),
        "7: $.escalation[1]: tier `premium` not found; map it to a backend under [tiers] in slipform.toml"
            .to_owned(),
        format!("9: $.output_schema.type: 'objekt' {types}"),
        "10: $.output_schema.required: must be an array, not a string ('summary')".to_owned(),
        format!("12: $.output_schema.properties.n.type: 'integr' {types}"),
    ];
    let expected: Vec<String> =
        expected.iter().map(|line| format!("agents/wrong.yaml: line {line}")).collect();
    assert_eq!(checked.stderr.lines().collect::<Vec<_>>(), expected);
    let listed = project.run(&["agents", "validate", "--json"]).json();
    assert_eq!(listed[0]["problems"].as_array().map(Vec::len), Some(expected.len()), "{listed}");
}

/// Checks that `agents validate FILE` and `run` both refuse an agent, for the same reason.
#[track_caller]
fn assert_refused(project: &Project, agent: &str, validated: &str, ran: &str) {
    let checked = project.run(&["agents", "validate", &format!("agents/{agent}.yaml")]);
    assert_eq!(checked.status, 2, "{agent}: {}", checked.all());
    assert!(checked.stderr.contains(validated), "{agent}: {}", checked.stderr);
    let run = project.run(&["run", agent, "-p", "x"]);
    assert_eq!(run.status, 2, "{agent}: {}", run.all());
    assert!(run.stderr.contains(ran), "{agent}: {}", run.stderr);
}

#[test]
fn validate_refuses_what_run_refuses() {
    if is_local_only("the runner of a server finds some of it out during the run") {
        return;
    }
    let server = ScriptedServer::start([Step::text("never")]);
    let project = Project::new("validate-run")
        .backend(&server.base_url())
        .file("agents/tiered.yaml", "name: tiered\ntier: huge\n")
        .file("agents/climber.yaml", "name: climber\nescalation: [small, hgue]\n")
        .file("agents/scored.yaml", "name: scored\nclarity: {agent: judge}\n")
        .file("agents/lead.yaml", "name: lead\nagents: [middle]\n")
        .file("agents/middle.yaml", "name: middle\nagents: [worker]\n")
        .file("agents/worker.yaml", "name: worker\ntools: [fs:fly]\n")
        .file("agents/keyed.yaml", "name: keyed\nenv: [ABSENT_KEY]\nsystem_prompt: Use ${env.ABSENT_KEY}.\n")
        .file(
            "agents/fine.yaml",
            "name: fine\nagents: [researcher]\ntier: medium\nescalation: [medium, large]\n",
        );
    let huge = "tier `huge` not found; map it to a backend under [tiers] in slipform.toml";
    assert_refused(&project, "tiered", &format!("$.tier: {huge}"), huge);
    assert_refused(&project, "climber", "$.escalation[1]: tier `hgue` not found", "tier `hgue` not found");
    assert_refused(&project, "scored", "$.clarity.agent: agent `judge` not found", "agent `judge` not found");
    assert_refused(&project, "worker", "$.tools[0]: tool `fs:fly` not found", "tool `fs:fly` not found");
    let invalid = "$.agents[0]: agent `worker` is invalid: line 2: $.tools[0]: tool `fs:fly` not found";
    assert_refused(&project, "lead", invalid, "tool `fs:fly` not found");
    let unset = "the environment variable ABSENT_KEY is not set";
    assert_refused(
        &project,
        "keyed",
        &format!("$.system_prompt: ${{env.ABSENT_KEY}} has no value: {unset}"),
        unset,
    );
    let checked = project.run(&["agents", "validate", "agents/fine.yaml"]);
    assert_eq!((checked.status, checked.stderr.as_str()), (0, "1 agent is valid\n"));
    assert!(server.requests().is_empty());
}

#[test]
fn validate_refuses_bad_backends_and_settings() {
    if is_local_only("the backends of a server are its own") {
        return;
    }
    let settings = "default_backend = \"a\"\n[backends.a]\nkind = \"openai\"\nbase_url = \"http://127.0.0.1:9\"\n\
                    api_key_env = \"ABSENT_KEY\"\n[backends.b]\nkind = \"replay\"\nreplies = \"absent.jsonl\"\n\
                    [tiers]\nrecorded = \"b\"\n";
    let project = Project::new("validate-backends")
        .file("slipform.toml", settings)
        .file("agents/plain.yaml", "name: plain\n")
        .file("agents/replayed.yaml", "name: replayed\ntier: recorded\n")
        .file("agents/program.yaml", "name: program\ntype: procedural\ncommand: [\"true\"]\n");
    let key = "backends.a.api_key_env: the variable ABSENT_KEY is not set";
    assert_refused(&project, "plain", &format!("agents/plain.yaml: line 1: $: {key}"), key);
    assert_refused(&project, "replayed", "$.tier: ", "absent.jsonl");
    // A program needs no backend.
    assert_eq!(project.run(&["agents", "validate", "agents/program.yaml"]).status, 0);
    let project = project.file("slipform.toml", "[backends.a]\nkind = \"opnai\"\n");
    let line = "slipform.toml, line 2: unknown variant `opnai`";
    assert_refused(&project, "plain", line, line);
}

#[test]
fn impossible_schemas_of_agents_are_warnings() {
    let project = Project::new("validate-impossible")
        .file("agents/never.yaml", "name: never\noutput_schema: false\n")
        .file(
            "agents/contradictory.yaml",
            "name: contradictory\ndefault_output_schema:\n  type: object\n  required: [n]\n  properties:\n    n: \
             {type: integer, minimum: 5, maximum: 1}\n",
        );
    let checked = project.run(&["agents", "validate"]);
    assert_eq!(checked.status, 0, "{}", checked.all());
    let reason = |part: &str| {
        format!("no value satisfies the schema: {part} allows nothing, so every run fails; correct it")
    };
    for warning in [
        format!("agents/never.yaml: warning: line 2: $.output_schema: {}", reason("$")),
        "agents/contradictory.yaml: warning: line 6: $.default_output_schema.properties.n.minimum: 'minimum' 5 and \
         'maximum' 1 contradict each other: no value can satisfy both"
            .to_owned(),
    ] {
        assert!(checked.stderr.contains(&warning), "{warning} is not in {}", checked.stderr);
    }
    let listed = project.run(&["agents", "list"]);
    assert!(listed.stderr.contains(&reason("$")), "{}", listed.stderr);
}

/// The file of the specification's researcher, at the place where the specification has it.
const KB_FILE: &str = ".kb/agents/researcher/agent.yml";

#[test]
fn agents_of_the_kb_folder_are_read_and_can_run() {
    let server = ScriptedServer::start([Step::text(r#"{"summary": "Found it."}"#)]);
    let project = Project::new("kb-folder").backend(&server.base_url()).file(KB_FILE, KB);
    let shown = project.run(&["agents", "show", "researcher"]);
    assert!(shown.stdout.starts_with(&format!("researcher ({KB_FILE})")), "{}", shown.all());
    let checked = project.run(&["agents", "validate"]);
    assert_eq!((checked.status, checked.stderr.as_str()), (0, "1 agent is valid\n"));
    let ran = project.run(&["run", "researcher", "-p", "x"]);
    assert_eq!((ran.status, ran.json()), (0, json!({"summary": "Found it."})), "{}", ran.stderr);
    assert!(server.requests()[0].prompt().contains("You research code."));
    let project =
        project.file(KB_FILE, "schema: 'kb.agent/1'\nid: researcher\nllm: {tier: tiny}\ntools: [git:log]\n");
    let checked = project.run(&["agents", "validate"]);
    assert_eq!(checked.status, 2, "{}", checked.all());
    assert!(
        checked.stderr.contains(&format!("{KB_FILE}: line 3: $.llm.tier: tier `tiny` not found")),
        "{}",
        checked.stderr
    );
    assert!(
        checked.stderr.contains(&format!("{KB_FILE}: line 4: $.tools[0]: tool `git:log` not found")),
        "{}",
        checked.stderr
    );
}

#[test]
fn agents_folder_takes_precedence_over_kb_folder_with_a_warning() {
    let server = ScriptedServer::start([Step::text("Mine.")]);
    let project = Project::new("kb-precedence")
        .backend(&server.base_url())
        .file(KB_FILE, KB)
        .file(".kb/agents/other.yml", "schema: 'kb.agent/1'\nid: other\n")
        .file("agents/researcher.yaml", "name: researcher\nsystem_prompt: I am the project's own.\n");
    let warning = format!(
        "agents/researcher.yaml: warning: $: {KB_FILE} defines the agent `researcher` too and is not used; agents/ \
         takes precedence"
    );
    let checked = project.run(&["agents", "validate"]);
    assert_eq!(checked.status, 0, "{}", checked.all());
    assert_eq!(checked.stderr, format!("{warning}\n2 agents are valid\n"));
    let listed = project.run(&["agents", "list"]);
    assert_eq!((listed.status, listed.stderr), (0, format!("{warning}\n")));
    let ran = project.run(&["run", "researcher", "-p", "x"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (0, "Mine.\n"), "{}", ran.stderr);
    if !is_server_mode() {
        let replaced = format!("agent `researcher` is read from agents/researcher.yaml, not from {KB_FILE}");
        assert!(ran.stderr.contains(&replaced), "{}", ran.stderr);
    }
}

#[test]
fn agents_init_warns_about_replaced_agents_and_refuses_reserved_names() {
    let project =
        Project::new("init-names").file(".kb/agents/scout.yml", "schema: 'kb.agent/1'\nid: scout\n");
    let made = project.run(&["agents", "init", "researcher"]);
    assert_eq!(made.status, 0, "{}", made.all());
    assert!(made.stderr.contains("warning: `researcher` replaces the shipped agent"), "{}", made.stderr);
    let made = project.run(&["agents", "init", "scout"]);
    assert!(
        made.stderr.contains("warning: `scout` replaces the agent in .kb/agents/scout.yml"),
        "{}",
        made.stderr
    );
    let made = project.run(&["agents", "init", "plain"]);
    assert!(!made.stderr.contains("warning"), "{}", made.stderr);
    for name in ["validate", "agent"] {
        let refused = project.run(&["agents", "init", name]);
        assert_eq!(refused.status, 2, "{}", refused.all());
        assert!(refused.stderr.contains("is a reserved name; choose another"), "{}", refused.stderr);
        assert!(!project.folder.join(format!("agents/{name}.yaml")).exists());
    }
}

#[test]
fn schema_that_replaces_a_shipped_one_is_a_warning() {
    let server = ScriptedServer::start([Step::text(r#"{"mine": true}"#)]);
    let project = Project::new("schema-shadow")
        .backend(&server.base_url())
        .file("agents/plain.yaml", "name: plain\n")
        .file("schemas/universal-agent-response.json", r#"{"type": "object", "required": ["mine"]}"#);
    let warning = "overrides a different schema `universal-agent-response` that comes with the program";
    let checked = project.run(&["agents", "validate"]);
    assert_eq!(checked.status, 0, "{}", checked.all());
    let file = "schemas/universal-agent-response.json: warning: ";
    assert!(checked.stderr.contains(&format!("{file}{warning}")), "{}", checked.stderr);
    let ran = project.run(&["run", "plain", "-p", "x", "--schema", "universal-agent-response"]);
    assert_eq!((ran.status, ran.json()), (0, json!({"mine": true})), "{}", ran.stderr);
    // A server warns when it starts.
    assert!(is_server_mode() || ran.stderr.contains(warning), "{}", ran.stderr);
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
