//! `slipform run` against a scripted model on a real socket.

use crate::support::{Project, REVIEWER, is_local_only, is_server_mode};
use expect_test::expect;
use serde_json::{Value, json};
use slipform_testkit::{Script, ScriptedServer, Step};

const GOOD: &str = r#"{"summary": "Fine.", "severity": "low"}"#;
const BAD: &str = r#"{"summary": "Fine.", "severity": "critical"}"#;

fn project(name: &str, server: &ScriptedServer) -> Project {
    Project::new(name).backend(&server.base_url()).file("agents/reviewer.yaml", REVIEWER)
}

#[test]
fn run_prints_result_on_stdout() {
    let server = ScriptedServer::start([Step::text(format!("Sure!\n```json\n{GOOD}\n```"))]);
    let ran = project("result", &server).run(&["run", "reviewer", "-p", "Look at this."]);
    expect![[r#"
        status 0
        --- stdout
        {
          "summary": "Fine.",
          "severity": "low"
        }
        --- stderr
    "#]]
    .assert_eq(&ran.all());
    let request = &server.requests()[0].body;
    assert_eq!(request["messages"][1], json!({"role": "user", "content": "Look at this."}));
    assert_eq!(request["response_format"]["type"], "json_schema");
    let system = request["messages"][0]["content"].as_str().unwrap();
    assert!(system.starts_with("You review changes.\n\n## Required Output Format\n"), "{system}");
}

#[test]
fn invalid_reply_is_corrected_and_counted_in_receipt() {
    let server = ScriptedServer::start([Step::text(BAD), Step::text(GOOD)]);
    let ran =
        project("retry", &server).run(&["run", "reviewer", "-p", "x", "--receipt", "--correction", "full"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let value = ran.json();
    assert_eq!(value["result"], serde_json::from_str::<Value>(GOOD).unwrap());
    assert_eq!(value["receipt"]["strategy"], "native");
    assert_eq!(value["receipt"]["calls"], 2);
    assert_eq!(value["receipt"]["retries"], 1);
    assert_eq!(value["receipt"]["tokens"], json!({"input": 20, "output": 10}));
    assert_eq!(
        value["receipt"]["rungs"],
        json!([{"tier": "default", "backend": "scripted", "model": "m", "calls": 2}])
    );
    let retry = server.requests()[1].prompt();
    for part in [
        "<output-validation-error>",
        "- $.severity: 'critical' is not one of ['low', 'medium', 'high']",
        "## Your Previous Response",
        BAD,
        "## Required Schema",
    ] {
        assert!(retry.contains(part), "{part} is missing in:\n{retry}");
    }
    expect![[r#"
        reviewer: $.severity: 'critical' is not one of ['low', 'medium', 'high']; retry 1 of 1: native json_schema, json form, correction
    "#]]
    .assert_eq(&ran.stderr);
}

#[test]
fn failed_run_is_saved_with_typed_error_and_salvage() {
    let server = ScriptedServer::start([Step::text(BAD), Step::text("no idea")]);
    let project = project("failure", &server);
    let ran = project.run(&["run", "reviewer", "-p", "x", "--strategy", "system_prompt"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (1, ""));
    assert!(
        ran.stderr.contains("Output held no JSON after 1 retry (output_schema_validation_failed)"),
        "{}",
        ran.stderr
    );
    let saved = std::fs::read_dir(project.folder.join(".slipform/failed")).unwrap().next().unwrap().unwrap();
    let run: Value = serde_json::from_slice(&std::fs::read(saved.path()).unwrap()).unwrap();
    assert_eq!(run["salvage"]["replies"], json!([BAD, "no idea"]));
    assert_eq!(run["salvage"]["best_candidate"]["severity"], "critical");
    assert_eq!(run["salvage"]["valid_parts"], json!({"summary": "Fine."}));
    assert_eq!(run["error"]["last_output"], "no idea");
    assert_eq!((&run["error"]["calls"], &run["error"]["retry_count"]), (&json!(2), &json!(1)));
}

#[test]
fn run_with_json_prints_run_object_on_success_and_failure() {
    let server = ScriptedServer::start([Step::text(BAD), Step::text(GOOD)]);
    let project = project("json", &server);
    let failed = project.run(&["run", "reviewer", "-p", "x", "--json", "--max-retries", "0"]);
    assert_eq!(failed.status, 1);
    assert_eq!(failed.json()["status"], "failed");
    assert_eq!(failed.json()["error"]["type"], "output_schema_validation_failed");
    assert_eq!(
        failed.json()["error"]["validation_errors"],
        json!(["$.severity: 'critical' is not one of ['low', 'medium', 'high']"])
    );
    let completed = project.run(&["run", "reviewer", "-p", "x", "--json"]);
    assert_eq!(completed.status, 0);
    let run = completed.json();
    assert_eq!((&run["status"], &run["agent_name"]), (&json!("completed"), &json!("reviewer")));
    assert_eq!((&run["result_text"], &run["contract"]["source"]), (&Value::Null, &json!("blueprint")));
    assert!(run["run_id"].as_str().unwrap().starts_with("run_"));
}

#[test]
fn invalid_parameters_are_refused_before_first_call() {
    let server = ScriptedServer::start(Vec::new());
    let agent = "name: scanner\nparameters_schema:\n  type: object\n  required: [path]\n  properties:\n    path: {type: string}\n    depth: {type: integer}\n";
    let project = project("parameters", &server).file("agents/scanner.yaml", agent);
    let ran = project.run(&["run", "scanner", "--param", "depth=deep"]);
    expect![[r#"
        status 2
        --- stdout
        --- stderr
        slipform: invalid parameters for agent `scanner`
        $.depth: must be an integer, not a string ('deep')
        $.path: required property is missing
    "#]]
    .assert_eq(&ran.all());
    let json = project.run(&["run", "scanner", "--json"]).json();
    assert_eq!(json["error"], "InvalidParameters");
    assert_eq!(json["details"]["validation_errors"][0]["path"], "$.path");
    assert!(server.requests().is_empty());
}

#[test]
fn parameters_from_file_flags_and_stdin_are_merged() {
    let server = ScriptedServer::start([Step::text("done")]);
    let agent = "name: scanner\nparameters_schema:\n  type: object\n  properties:\n    id: {type: string}\n    depth: {type: integer}\n    tags: {type: array}\n    prompt: {type: string}\n";
    let project = project("merged-parameters", &server)
        .file("agents/scanner.yaml", agent)
        .file("more.json", r#"{"tags": ["a", "b"], "depth": 1}"#);
    let ran = project.run_with(
        &["run", "scanner", "--params", "more.json", "--param", "id=007", "--param", "depth=3", "-p", "-"],
        "from stdin",
    );
    assert_eq!(ran.all(), "status 0\n--- stdout\ndone\n--- stderr\n");
    expect![[r#"
        <inputs>
        tags: ["a","b"]
        depth: 3
        id: 007
        </inputs>

        from stdin"#]]
    .assert_eq(server.requests()[0].body["messages"][0]["content"].as_str().unwrap());
}

#[test]
fn unreachable_or_refusing_backend_exits_with_status_3() {
    let unreachable =
        Project::new("unreachable").backend("http://127.0.0.1:9/v1").file("agents/reviewer.yaml", REVIEWER);
    let ran = unreachable.run(&["run", "reviewer", "-p", "x", "--strategy", "prompt"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (3, ""));
    assert!(ran.stderr.contains("cannot reach http://127.0.0.1:9/v1"), "{}", ran.stderr);
    assert!(ran.stderr.contains("(backend_unavailable)"), "{}", ran.stderr);

    let server = ScriptedServer::start([Step::status(401).body(r#"{"error": {"message": "no such key"}}"#)]);
    let ran = project("refused", &server).run(&["run", "reviewer", "-p", "x"]);
    assert_eq!(ran.status, 3);
    assert!(
        ran.stderr.contains("refused the request with 401: no such key (backend_rejected)"),
        "{}",
        ran.stderr
    );
}

#[test]
fn api_key_appears_in_no_output_and_no_file() {
    const CANARY: &str = "sk-canary-0123456789";
    let server = ScriptedServer::respond(|request, _| {
        let echo = format!("{:?}", request.headers);
        Step::text(format!("{{\"summary\": \"headers were {}\"}}", echo.replace(['"', '\\'], "'")))
    });
    let settings = format!(
        "[backends.scripted]\nkind = \"openai\"\nbase_url = \"{}\"\nmodel = \"m\"\napi_key_env = \"MY_KEY\"\n",
        server.base_url()
    );
    let project = Project::new("canary")
        .file("slipform.toml", &settings)
        .file("agents/reviewer.yaml", REVIEWER)
        .variable("MY_KEY", CANARY);
    for arguments in [&["run", "reviewer", "-p", "x"][..], &["run", "reviewer", "-p", "x", "--json"]] {
        let ran = project.run(arguments);
        assert_eq!(ran.status, 1);
        assert!(!ran.all().contains(CANARY), "{}", ran.all());
    }
    let sent = server.requests()[0].header("authorization").unwrap().to_owned();
    assert_eq!(sent, format!("Bearer {CANARY}"));
    assert!(project.everything_written().contains("[redacted]"));
    assert!(!project.everything_written().contains(CANARY));
}

#[test]
fn missing_key_is_reported_before_the_run_starts() {
    if is_local_only("keys belong to the runner, and the server's log names the missing variable") {
        return;
    }
    let settings = "[backends.scripted]\nkind = \"openai\"\nbase_url = \"http://127.0.0.1:9\"\nmodel = \"m\"\n\
        api_key_env = \"MY_KEY\"\n";
    let missing =
        Project::new("keyless").file("slipform.toml", settings).file("agents/reviewer.yaml", REVIEWER);
    let ran = missing.run(&["run", "reviewer", "-p", "x"]);
    assert_eq!(ran.status, 2);
    assert!(ran.stderr.contains("the variable MY_KEY is not set"), "{}", ran.stderr);
}

#[test]
fn interrupted_run_exits_with_130_and_stopped_error() {
    let server = ScriptedServer::start([Step::text(BAD), Step::hang()]);
    let project = project("interrupted", &server);
    let child = project.command(&["run", "reviewer", "-p", "x", "--json"]).spawn().unwrap();
    server.wait_for_requests(2);
    let killed = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let run: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&run["status"], &run["error"]["type"]), (&json!("stopped"), &json!("stopped")));
    assert_eq!(run["salvage"]["replies"], json!([BAD]));
    server.wait_for_abandoned(1);
}

#[test]
fn terminated_run_saves_received_replies() {
    let server = ScriptedServer::start([Step::text(BAD), Step::hang()]);
    let project = project("terminated", &server);
    let child = project.command(&["run", "reviewer", "-p", "x"]).spawn().unwrap();
    server.wait_for_requests(2);
    let killed =
        std::process::Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(130));
    assert!(project.everything_written().contains(r#"\"severity\": \"critical\""#));
}

#[test]
fn result_is_saved_when_stdout_is_full() {
    let server = ScriptedServer::start([Step::text(GOOD)]);
    let project = project("full", &server);
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = project.command(&["run", "reviewer", "-p", "x"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(project.everything_written().contains("\"result_data\""));
}

#[test]
fn placeholder_key_of_local_server_is_not_redacted() {
    let server = ScriptedServer::start([Step::text(r#"{"summary": "use ollama", "severity": "low"}"#)]);
    let project = Project::new("word").file("agents/reviewer.yaml", REVIEWER);
    let project =
        project.variable("OPENAI_BASE_URL", &server.base_url()).variable("OPENAI_API_KEY", "ollama");
    assert_eq!(project.run(&["run", "reviewer", "-p", "x"]).json()["summary"], "use ollama");
}

#[test]
fn strategy_flag_selects_request_form() {
    let request_body = |strategy: &str| {
        let is_tool = strategy == "tool";
        let step = if is_tool { Step::tool("submit_result", GOOD) } else { Step::text(GOOD) };
        let server = ScriptedServer::start([step]);
        let ran = project(&format!("strategy-{strategy}"), &server).run(&[
            "run",
            "reviewer",
            "-p",
            "x",
            "--strategy",
            strategy,
            "--receipt",
        ]);
        assert_eq!(ran.status, 0, "{strategy}: {}", ran.stderr);
        assert_eq!(ran.json()["receipt"]["strategy"], strategy);
        server.requests()[0].body.clone()
    };
    let prompt = request_body("prompt");
    assert_eq!(prompt["messages"][0]["content"], "You review changes.");
    assert!(
        prompt["messages"][1]["content"].as_str().unwrap().starts_with("x\n\n## Output Format (REQUIRED)\n")
    );
    assert!(prompt.get("response_format").is_none());
    let tool = request_body("tool");
    assert_eq!(tool["tool_choice"]["function"]["name"], "submit_result");
    assert_eq!(tool["tools"][0]["function"]["parameters"]["required"], json!(["summary", "severity"]));
    let native = request_body("native");
    assert_eq!(native["response_format"]["json_schema"]["name"], "reviewer");
    let system = request_body("system_prompt");
    assert!(system["messages"][0]["content"].as_str().unwrap().contains("## Required Output Format"));
    assert!(system.get("response_format").is_none());
}

#[test]
fn caller_schema_applies_unless_agent_has_output_schema() {
    let server = ScriptedServer::start([Step::text("[1, 2]"), Step::text("hello")]);
    let project = project("caller", &server)
        .file("agents/free.yaml", "name: free\n")
        .file("schemas/numbers.json", r#"{"type": "array", "items": {"type": "integer"}}"#);
    let ran = project.run(&["run", "free", "-p", "x", "--schema", "numbers", "--json"]);
    assert_eq!(ran.json()["result_data"], json!([1, 2]));
    assert_eq!(ran.json()["contract"]["source"], "named");
    assert_eq!(ran.json()["contract"]["options"]["max_retries"], 2);
    assert_eq!(project.run(&["run", "free", "-p", "x"]).stdout, "hello\n");
    let conflict = project.run(&["run", "reviewer", "-p", "x", "--schema", "numbers"]);
    assert_eq!(conflict.status, 2);
    assert!(conflict.stderr.contains("has its own output_schema"), "{}", conflict.stderr);
}

#[test]
fn exhausted_rung_escalates_to_next_tier() {
    let weak = ScriptedServer::start([Step::text("hm"), Step::text("hm")]);
    let strong = ScriptedServer::start([Step::text(GOOD)]);
    let settings = format!(
        "default_backend = \"weak\"\n[backends.weak]\nkind = \"openai\"\nbase_url = \"{}\"\n\
         [backends.strong]\nkind = \"anthropic\"\nmodel = \"m\"\nbase_url = \"{}\"\nstructured_output = \"prompt\"\n\
         [tiers]\nsmall = \"weak\"\nlarge = \"strong\"\n",
        weak.base_url(),
        strong.root_url()
    );
    let agent = format!("{REVIEWER}tier: small\nescalation: [small, large]\n");
    let project = Project::new("tiers").file("slipform.toml", &settings).file("agents/reviewer.yaml", &agent);
    let ran = project.run(&["run", "reviewer", "-p", "x", "--receipt"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert_eq!(
        ran.json()["receipt"]["rungs"],
        json!([
            {"tier": "small", "backend": "weak", "model": "scripted-model", "calls": 2},
            {"tier": "large", "backend": "strong", "model": "m", "calls": 1},
        ])
    );
    assert!(ran.stderr.contains("escalating from small to large"), "{}", ran.stderr);
}

#[test]
fn environment_configures_backend_without_settings_file() {
    let server = ScriptedServer::start([Step::text(GOOD)]);
    let project = Project::new("environment").file("agents/reviewer.yaml", REVIEWER);
    let project =
        project.variable("OPENAI_BASE_URL", &server.base_url()).variable("OPENAI_API_KEY", "sk-local");
    let ran = project.run(&["run", "reviewer", "-p", "x", "--json"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    if !is_server_mode() {
        let notice = "slipform: using backend `openai`, because OPENAI_BASE_URL is set; ";
        assert!(ran.stderr.starts_with(notice), "{}", ran.stderr);
    }
    // Without OPENAI_MODEL the command asks the server for its models.
    assert_eq!(server.other_requests()[0].path, "/v1/models");
    assert!(!server.requests()[0].body["model"].as_str().unwrap().is_empty());

    let server = ScriptedServer::start([Step::tool("submit_result", GOOD)]);
    let project = Project::new("environment-anthropic").file("agents/reviewer.yaml", REVIEWER);
    let project =
        project.variable("ANTHROPIC_BASE_URL", &server.root_url()).variable("ANTHROPIC_API_KEY", "sk-ant");
    let ran = project.run(&["run", "reviewer", "-p", "x", "--receipt"]);
    assert_eq!(ran.json()["receipt"]["strategy"], "tool");
    assert_eq!(server.requests()[0].path, "/v1/messages");
}

#[test]
fn unusable_agent_or_option_is_refused_before_first_call() {
    let server = ScriptedServer::start(Vec::new());
    let project = project("refusals", &server)
        .file("agents/broken.yaml", "name: broken\noutput_schema: {type: objekt}\nsytem_prompt: x\n")
        .file("agents/tooled.yaml", "name: tooled\ntools: [fs:nothing]\n");
    for (arguments, expected) in [
        (
            &["run", "absent", "-p", "x"][..],
            "agent `absent` not found; available: broken, reviewer, tooled, answer, clarity",
        ),
        (&["run", "reviewr", "-p", "x"], "agent `reviewr` not found; did you mean `reviewer`?"),
        (&["run", "broken", "-p", "x"], "unknown key 'sytem_prompt'; did you mean 'system_prompt'?"),
        (&["run", "tooled", "-p", "x"], "tool `fs:nothing` not found; available: fs:read, "),
        (&["run", "reviewer", "-p", "x", "--schema", "nope"], "no schema 'nope'"),
        (&["run", "reviewer", "-p", "x", "--max-retries", "11"], "11 is not in 0..=10"),
        (&["run", "reviewer", "-p", "x", "--param", "oops"], "invalid `--param oops`; write NAME=VALUE"),
        (
            &["run", "reviewer", "-p", "x", "--param", "prompt=y"],
            "`--prompt` and the parameter `prompt` differ",
        ),
    ] {
        let ran = project.run(arguments);
        assert_eq!((ran.status, ran.stdout.as_str()), (2, ""), "{arguments:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(expected), "{arguments:?}: {}", ran.stderr);
    }
    assert!(server.requests().is_empty());
}

#[test]
fn unusable_backend_or_setting_is_refused_before_first_call() {
    if is_local_only("backends and settings belong to the server, which does not start with bad ones") {
        return;
    }
    let server = ScriptedServer::start(Vec::new());
    let project = project("refused-settings", &server);
    let ran = project.run(&["run", "reviewer", "-p", "x", "--backend", "nope"]);
    assert_eq!(ran.status, 2);
    assert!(ran.stderr.contains("backend `nope` not found; available: embedded, scripted"), "{}", ran.stderr);
    let broken = project.file("slipform.toml", "[backends.x]\nkind = \"openai\"\ntimeout = 3\n");
    let ran = broken.run(&["run", "reviewer", "-p", "x"]);
    assert_eq!(ran.status, 2);
    assert!(ran.stderr.contains("slipform.toml, line 3: unknown field `timeout`"), "{}", ran.stderr);
    assert!(server.requests().is_empty());
}

#[test]
fn key_alone_chooses_its_backend_aloud() {
    if is_local_only("the server announces its backend") {
        return;
    }
    let project = Project::new("key-alone").file("agents/reviewer.yaml", REVIEWER);
    let project =
        project.variable("OPENAI_API_KEY", "sk-alone").variable("HTTPS_PROXY", "http://127.0.0.1:9");
    let ran = project.run(&["run", "reviewer", "-p", "x", "--max-retries", "0"]);
    let notice = "slipform: using backend `openai`, model `gpt-4.1-mini`, because OPENAI_API_KEY is set; `--backend \
                  embedded` uses the built-in model, and `default_backend` in slipform.toml settles it\n";
    assert!(ran.stderr.starts_with(notice), "{}", ran.all());
    let project = project.file("slipform.toml", "default_backend = \"embedded\"\n");
    assert!(!project.run(&["agents", "list"]).stderr.contains("using backend"));
}

#[test]
fn no_model_is_chosen_among_several() {
    let list = |names: &[&str]| {
        let models: Vec<_> = names.iter().map(|name| json!({"id": name, "object": "model"})).collect();
        Step::status(200).body(json!({"object": "list", "data": models}).to_string())
    };
    let names = ["a", "b", "c", "d", "e", "f"];
    let script = |names: &[&str]| {
        ScriptedServer::start(Script::new([Step::text(GOOD)]).route("GET", "/v1/models", list(names)))
    };
    let settings = |server: &ScriptedServer| {
        format!("[backends.local]\nkind = \"openai\"\nbase_url = \"{}\"\n", server.base_url())
    };
    let server = script(&names);
    let project = Project::new("several-models")
        .file("agents/reviewer.yaml", REVIEWER)
        .file("slipform.toml", &settings(&server));
    let refused = project.run(&["run", "reviewer", "-p", "x"]);
    let message = "backend `local` serves 6 models and none is configured: `a`, `b`, `c`, `d`, `e`, …; set `model` in \
                   slipform.toml, or OPENAI_MODEL";
    assert!(refused.stderr.contains(message), "{}", refused.all());
    assert!(server.requests().is_empty());

    let server = script(&["only"]);
    let project = project.file("slipform.toml", &settings(&server));
    let ran = project.run(&["run", "reviewer", "-p", "x", "--json"]);
    assert_eq!((ran.status, &ran.json()["model"]), (0, &json!("only")), "{}", ran.all());
}

#[test]
fn agent_that_called_none_of_its_tools_is_reported() {
    let server = ScriptedServer::start([Step::text("From memory.")]);
    let project = project("no-tool", &server).file("agents/reader.yaml", "name: reader\ntools: [fs:read]\n");
    let ran = project.run(&["run", "reader", "-p", "What is in it?"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (0, "From memory.\n"), "{}", ran.all());
    let notice =
        "slipform: the model called none of its tools, so it did not look anything up (`no_tool_called`)";
    assert!(ran.stderr.contains(notice), "{}", ran.all());
}
