//! Values of secret variables reach only the programs and prompts that use them: no journal, log or output.

use crate::support::{Project, is_local_only, request, serve};
use serde_json::{Value, json};
use slipform_testkit::{ScriptedServer, Step};

const SECRET: &str = "sk-test-0123456789abcdef";

#[test]
fn key_in_command_reaches_only_its_program() {
    let agent = r#"
name: caller
type: procedural
env: [SERVICE_TOKEN]
parameters_as: placeholders
command: [sh, -c, 'test "$1" = "$SERVICE_TOKEN" && echo "used $1" >&2 && exit 3', sh, "${env.SERVICE_TOKEN}"]
"#;
    let project =
        Project::new("secret-command").file("agents/caller.yaml", agent).variable("SERVICE_TOKEN", SECRET);
    let ran = project.run(&["run", "caller", "-p", "x", "--json"]);
    // Status 3 shows that the program received the key.
    assert_eq!(ran.json()["error"]["type"], "tool_failed", "{}", ran.all());
    assert!(ran.stderr.contains("exit status: 3"), "{}", ran.stderr);
    assert!(!ran.all().contains(SECRET), "{}", ran.all());
}

#[test]
fn agent_cannot_write_agent_files_or_settings() {
    let write = |path: &str| {
        let content = "name: counter\ntype: procedural\ncommand: [sh, -c, 'echo \"{}\"']\n";
        Step::tool("fs_write", json!({"path": path, "content": content}))
    };
    let server = ScriptedServer::start([
        write("agents/counter.yaml"),
        write("slipform.toml"),
        write("notes.txt"),
        Step::tool("start_agent_session", json!({"agent_name": "counter", "prompt": "count"})),
        Step::text("I am the counter of the file."),
        Step::text("Done."),
    ]);
    let project = Project::new("escalation")
        .backend(&server.base_url())
        .file("agents/writer.yaml", "name: writer\ntools: [fs:write]\nagents: [counter]\n")
        .file("agents/counter.yaml", "name: counter\n");
    let ran = project.run(&["run", "writer", "-p", "go"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (0, "Done.\n"), "{}", ran.stderr);
    let refused = "says which programs and keys agents may use";
    assert_eq!(ran.stderr.matches(refused).count(), 2, "{}", ran.stderr);
    let content = std::fs::read_to_string(project.folder.join("agents/counter.yaml")).unwrap();
    assert_eq!(content, "name: counter\n");
    assert!(project.folder.join("notes.txt").is_file());
}

#[test]
fn api_key_in_settings_is_refused_without_printing_it() {
    if is_local_only("the server does not start with such settings") {
        return;
    }
    for (line, advice) in [
        (format!("api_key = \"{SECRET}\""), "api_key_env"),
        (format!("apikey = \"{SECRET}\""), "api_key_env"),
        (format!("api_key_env = \"{SECRET}\""), "name of a variable"),
        (format!("timeout_seconds = \"{SECRET}\""), "line 4"),
        (format!("model = \"m\" \"{SECRET}\""), "line 4"),
        (format!("structured_output = \"{SECRET}\""), "line 4"),
    ] {
        let settings =
            format!("[backends.a]\nkind = \"openai\"\nbase_url = \"http://127.0.0.1:9\"\n{line}\n");
        let project = Project::new("key-in-settings").file("slipform.toml", &settings);
        for arguments in [&["run", "answer", "-p", "x"][..], &["serve"], &["probe"]] {
            let ran = project.run(arguments);
            assert_eq!(ran.status, 2, "{line}: {}", ran.all());
            assert!(!ran.all().contains(SECRET), "{line}: {}", ran.all());
            assert!(ran.stderr.contains(advice), "{line}: {}", ran.all());
        }
    }
}

#[test]
fn variables_in_prompts_reach_model_but_not_journal() {
    let model = ScriptedServer::start([
        Step::text(format!("You said {SECRET} and blue-whale.")),
        Step::text("Again."),
    ]);
    let agent = "\
name: caller
description: Calls with ${env.SERVICE_TOKEN}
system_prompt: Use ${env.SERVICE_TOKEN} for ${env.PROJECT} and $${env.PROJECT}.
env: [SERVICE_TOKEN, PROJECT]
";
    let project = Project::new("secret-prompt")
        .backend(&model.base_url())
        .file("agents/caller.yaml", agent)
        .variable("SERVICE_TOKEN", SECRET)
        .variable("PROJECT", "blue-whale");
    let ran = project.run(&["run", "caller", "-p", "literally ${env.SERVICE_TOKEN}", "--json"]);
    assert_eq!(ran.status, 0, "{}", ran.all());
    assert_eq!(ran.json()["result_text"], "You said [redacted] and blue-whale.", "{}", ran.all());
    let session = ran.json()["session_id"].as_str().unwrap().to_owned();
    let again = project.run(&["run", "caller", "--session", &session, "-p", "again"]);
    assert_eq!(again.stdout, "Again.\n", "{}", again.all());
    let systems: Vec<Value> =
        model.requests().iter().map(|request| request.body["messages"][0]["content"].clone()).collect();
    let expected = format!("Use {SECRET} for blue-whale and ${{env.PROJECT}}.");
    assert_eq!(systems, [json!(expected), json!(expected)]);
    // Placeholders in the caller's prompt are plain text.
    let prompt = model.requests()[0].body["messages"][1]["content"].clone();
    assert_eq!(prompt, "literally ${env.SERVICE_TOKEN}");
    let events = project.run(&["sessions", "events", &session, "--json"]);
    assert!(events.stdout.contains("Use ${env.SERVICE_TOKEN} for ${env.PROJECT}"), "{}", events.stdout);
    assert!(!events.stdout.contains("Use blue-whale"), "{}", events.stdout);
    assert!(!project.everything_written().contains(SECRET));
}

/// The key is in a file that a tool reads, in a program's stderr and in a model reply.
#[test]
fn backend_keys_are_redacted_in_tool_results_programs_replies_and_logs() {
    let model = ScriptedServer::start([
        Step::tool("fs_read", json!({"path": "notes.txt"})),
        Step::tool("start_agent_session", json!({"agent_name": "failing", "prompt": "go"})),
        Step::text(format!("The key is {SECRET}.")),
    ]);
    let settings = format!(
        "default_backend = \"scripted\"\n[backends.scripted]\nkind = \"openai\"\nbase_url = \"{}\"\nmodel = \"m\"\n\
         [backends.other]\nkind = \"openai\"\nmodel = \"m\"\napi_key_env = \"OTHER_KEY\"\n",
        model.base_url()
    );
    let failing = "name: failing\ntype: procedural\ncommand: [sh, -c, 'cat notes.txt >&2; exit 1']\n";
    let project = Project::new("backend-key")
        .file("slipform.toml", &settings)
        .file("agents/reader.yaml", "name: reader\ntools: [fs:read]\nagents: [failing]\n")
        .file("agents/failing.yaml", failing)
        .file("notes.txt", "nothing here\n")
        .variable("OTHER_KEY", SECRET)
        .variable("SLIPFORM_LOG", "trace");
    let outside = project.folder.with_extension("outside");
    std::fs::write(&outside, format!("key: {SECRET}\n")).unwrap();
    std::fs::remove_file(project.folder.join("notes.txt")).unwrap();
    std::fs::hard_link(&outside, project.folder.join("notes.txt")).unwrap();
    let ran = project.run(&["run", "reader", "-p", "go", "--json"]);
    assert_eq!(ran.json()["result_text"], "The key is [redacted].", "{}", ran.all());
    assert!(!ran.all().contains(SECRET), "{}", ran.all());
    let sent = model.requests().iter().map(|request| request.body.to_string()).collect::<String>();
    assert!(!sent.contains(SECRET) && sent.contains("key: [redacted]"), "{sent}");
    std::fs::remove_file(project.folder.join("notes.txt")).unwrap();
    assert!(!project.everything_written().contains(SECRET));
}

/// The error of an MCP server that does not start contains the server's stderr.
#[test]
fn backend_keys_are_redacted_in_startup_failures() {
    let model = ScriptedServer::start([Step::text("never")]);
    let settings = format!(
        "[backends.scripted]\nkind = \"openai\"\nbase_url = \"{}\"\nmodel = \"m\"\napi_key_env = \"OTHER_KEY\"\n",
        model.base_url()
    );
    let agent =
        format!("name: broken\nmcp_servers: {{docs: {{command: [sh, -c, 'echo {SECRET} >&2; exit 1']}}}}\n");
    let project = Project::new("early-key")
        .file("slipform.toml", &settings)
        .file("agents/broken.yaml", &agent)
        .variable("OTHER_KEY", SECRET);
    let (_server, address) = serve(&project, &[]);
    let body = json!({"type": "start_session", "agent_name": "broken", "prompt": "go"});
    let (_, run) = request(&address, "POST", "/runs?wait=60", None, &body);
    assert_eq!(run["error"]["type"], "tool_failed", "{run}");
    assert!(!run["error"].to_string().contains(SECRET), "{run}");
}

/// Every attempt fills in the variables of prompts and opening calls, though the journal has only their names.
#[test]
fn variables_reach_the_model_after_the_run_was_parked_and_stay_out_of_calls_in_the_journal() {
    let model = ScriptedServer::respond(|request, number| match number {
        0 => Step::tool("start_agent_session", json!({"agent_name": "helper", "prompt": "go"})),
        _ if request.prompt().contains("You help") => Step::text("Helped."),
        _ => Step::text("Done."),
    });
    let agent = "\
name: boss
system_prompt: Work for ${env.TENANT} with ${env.SERVICE_TOKEN}.
env: [TENANT, SERVICE_TOKEN]
tools: [fs:search]
agents: [helper]
opening:
  - {tool: fs:search, arguments: {pattern: \"${env.TENANT}\", literal: true}}
";
    let project = Project::new("secret-parked")
        .backend(&model.base_url())
        .file("agents/boss.yaml", agent)
        .file("agents/helper.yaml", "name: helper\nsystem_prompt: You help.\n")
        .file("tenants.txt", "blue-whale-tenant\n")
        .variable("TENANT", "blue-whale-tenant")
        .variable("SERVICE_TOKEN", SECRET);
    let ran = project.run(&["run", "boss", "-p", "go", "--json"]);
    assert_eq!(ran.status, 0, "{}", ran.all());
    let systems: Vec<String> = model
        .requests()
        .iter()
        .map(|request| request.body["messages"][0]["content"].as_str().unwrap_or_default().to_owned())
        .filter(|system| system.starts_with("Work for"))
        .collect();
    let expected = format!("Work for blue-whale-tenant with {SECRET}.");
    assert_eq!(systems.len(), 2, "{systems:?}");
    assert!(systems.iter().all(|system| system.starts_with(&expected)), "{systems:?}");
    let shown = model.requests()[0].body.to_string();
    assert!(shown.contains("tenants.txt"), "the opening call searched for the value: {shown}");
    let session = ran.json()["session_id"].as_str().unwrap().to_owned();
    let events = project.run(&["sessions", "events", &session, "--json"]);
    let call = events.stdout.lines().find(|line| line.contains("pre_tool")).unwrap();
    assert!(call.contains("${env.TENANT}") && !call.contains("blue-whale"), "{call}");
}

#[test]
fn key_in_a_prompt_is_redacted_before_it_is_stored() {
    let model = ScriptedServer::start([Step::text("Fine.")]);
    let settings = format!(
        "[backends.scripted]\nkind = \"openai\"\nbase_url = \"{}\"\nmodel = \"m\"\napi_key_env = \"OTHER_KEY\"\n",
        model.base_url()
    );
    let project = Project::new("key-in-prompt")
        .file("slipform.toml", &settings)
        .file("agents/plain.yaml", "name: plain\n")
        .variable("OTHER_KEY", SECRET);
    let (_server, address) = serve(&project, &[]);
    let body =
        json!({"type": "start_session", "agent_name": "plain", "prompt": format!("My key is {SECRET}.")});
    let (_, run) = request(&address, "POST", "/runs?wait=60", None, &body);
    assert_eq!(run["status"], "completed", "{run}");
    let sent = model.requests()[0].body.to_string();
    assert!(sent.contains("My key is [redacted].") && !sent.contains(SECRET), "{sent}");
    assert!(!project.everything_written().contains(SECRET));
}

#[test]
fn settings_that_are_not_toml_do_not_repeat_keys() {
    if is_local_only("the server does not start with such settings") {
        return;
    }
    for text in [
        format!("[backends.a]\nkind = \"openai\"\napi_key: {SECRET}\n"),
        format!("{SECRET}\n"),
        format!("default_backend = \"{SECRET}\"\n[backends.a]\nkind = \"openai\"\n"),
        format!("[backends.a]\nkind = \"openai\"\n[tiers]\nsmall = \"{SECRET}\"\n"),
        "[backends.a]\nkind = \"openai\"\napi_key = \"sk-short1\"\n".to_owned(),
    ] {
        let project = Project::new("key-not-toml").file("slipform.toml", &text);
        let ran = project.run(&["run", "answer", "-p", "x"]);
        assert_eq!(ran.status, 2, "{text}: {}", ran.all());
        assert!(!ran.all().contains(SECRET) && !ran.all().contains("sk-short1"), "{text}: {}", ran.all());
    }
}
