//! Settings of a single run: `--backend`, `--model`, `--max-tokens`, `--timeout` and the members of `POST /runs`.

use crate::support::{Project, request, serve};
use serde_json::{Value, json};
use slipform_testkit::{Gate, ScriptedServer, Step, wait_until};

/// Creates a project with an agent that has limits, and two backends.
fn project(name: &str, first: &ScriptedServer, second: &ScriptedServer) -> Project {
    let backend = |name: &str, server: &ScriptedServer| {
        format!(
            "[backends.{name}]\nkind = \"openai\"\nbase_url = \"{}\"\nmodel = \"{name}-model\"\nretry_base_seconds = 0.0\n",
            server.base_url()
        )
    };
    let settings = format!(
        "default_backend = \"first\"\n{}{}[backends.program]\nkind = \"command\"\ncommand = [\"true\"]\n",
        backend("first", first),
        backend("second", second)
    );
    Project::new(name)
        .file("slipform.toml", &settings)
        .file("agents/clerk.yaml", "name: clerk\nlimits: {max_tokens: 2048, timeout_seconds: 300}\n")
        .file("agents/lead.yaml", "name: lead\nagents: [clerk]\n")
}

#[test]
fn run_uses_the_backend_model_and_budget_of_its_caller() {
    let first = ScriptedServer::start([Step::text("First.")]);
    let second = ScriptedServer::start([Step::text("Second.")]);
    let project = project("overrides", &first, &second);
    let flags = ["--backend", "second", "--model", "large", "--max-tokens", "77"];
    let ran = project.run(&[&["run", "clerk", "-p", "Hello.", "--json"], flags.as_slice()].concat());
    assert_eq!(ran.status, 0, "{}", ran.all());
    let run = ran.json();
    assert_eq!((&run["backend"], &run["model"]), (&json!("second"), &json!("large")));
    assert_eq!(run["receipt"]["rungs"][0]["backend"], "second");
    let asked = &second.requests()[0].body;
    assert_eq!((&asked["model"], &asked["max_tokens"]), (&json!("large"), &json!(77)));

    // The next run of the session has the agent's settings again.
    let session = run["session_id"].as_str().unwrap();
    let resumed = project.run(&["run", "clerk", "--session", session, "-p", "Again."]);
    assert_eq!((resumed.status, resumed.stdout.as_str()), (0, "First.\n"), "{}", resumed.all());
    let asked = &first.requests()[0].body;
    assert_eq!((&asked["model"], &asked["max_tokens"]), (&json!("first-model"), &json!(2048)));
}

#[test]
fn child_run_uses_the_backend_of_its_parent_with_its_own_limits() {
    let first = ScriptedServer::start(Vec::<Step>::new());
    let second = ScriptedServer::start([
        Step::tool("start_agent_session", json!({"agent_name": "clerk", "prompt": "Count."})),
        Step::text("Three."),
        Step::text("It is three."),
    ]);
    let project = project("overrides-child", &first, &second);
    let flags = ["--backend", "second", "--model", "large", "--max-tokens", "77"];
    let ran = project.run(&[&["run", "lead", "-p", "Hello."], flags.as_slice()].concat());
    assert_eq!((ran.status, ran.stdout.as_str()), (0, "It is three.\n"), "{}", ran.all());
    let asked: Vec<Value> =
        second.requests().iter().map(|request| request.body["max_tokens"].clone()).collect();
    assert_eq!(asked, [json!(77), json!(2048), json!(77)]);
    assert!(second.requests().iter().all(|request| request.body["model"] == "large"));
    assert!(first.requests().is_empty());
}

#[test]
fn time_limit_of_the_caller_ends_the_run() {
    let gate = Gate::new();
    let first = ScriptedServer::start([Step::text("Late.").gate(&gate)]);
    let project = project("overrides-timeout", &first, &first);
    let ran = project.run(&["run", "clerk", "-p", "Hello.", "--timeout", "1", "--json"]);
    let error = &ran.json()["error"];
    assert_eq!((ran.status, &error["type"]), (1, &json!("timeout")), "{}", ran.all());
    assert_eq!(error["message"], "the run's time limit of 1 s was reached");
}

#[test]
fn members_of_the_request_are_checked() {
    let first = ScriptedServer::start([Step::text("Hello.")]);
    let project = project("overrides-http", &first, &first);
    let (_server, address) = serve(&project, &[]);
    // The backends are known once the runner of the server has registered.
    wait_until("a runner is registered", || {
        let (_, runners) = request(&address, "GET", "/runners", None, &Value::Null);
        runners.as_array().is_some_and(|runners| !runners.is_empty())
    });
    let post = |members: Value| {
        let mut body = json!({"agent_name": "clerk", "prompt": "Hello."});
        body.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        request(&address, "POST", "/runs?wait=60", None, &body)
    };
    for (members, message) in [
        (json!({"max_tokens": 0}), "`max_tokens` must be at least 1"),
        (json!({"timeout_seconds": 0}), "`timeout_seconds` must be at least 1"),
        (json!({"model": ""}), "`model` must have 1 to 255 characters"),
        (json!({"backend": "b".repeat(256)}), "`backend` must have 1 to 255 characters"),
    ] {
        let (status, answer) = post(members);
        assert_eq!((status, &answer["message"]), (400, &json!(message)), "{answer}");
    }
    let (status, answer) = post(json!({"backend": "third"}));
    let message = "backend `third` not found; the runners have: embedded, first, program, second";
    assert_eq!((status, &answer["message"]), (400, &json!(message)), "{answer}");
    let (status, run) = post(json!({"backend": "program", "model": "large"}));
    assert_eq!((status, &run["status"]), (200, &json!("failed")), "{run}");
    let message =
        "the model of backend `program` is fixed by slipform.toml; name another backend, or omit the model";
    assert!(run["error"]["message"].as_str().unwrap().contains(message), "{run}");
    assert!(first.requests().is_empty());
    let (_, run) =
        post(json!({"backend": "first", "model": "other", "max_tokens": 5, "timeout_seconds": 60}));
    assert_eq!((&run["status"], &run["model"]), (&json!("completed"), &json!("other")), "{run}");
}

#[test]
fn token_limited_to_agents_chooses_no_model_and_no_higher_limits() {
    let first = ScriptedServer::start([Step::text("Hello.")]);
    let project = project("overrides-token", &first, &first);
    let settings = std::fs::read_to_string(project.folder.join("slipform.toml")).unwrap();
    let project = project.file("slipform.toml", &format!("{settings}[server]\nbehind_proxy = true\n"));
    let created =
        project.run(&["token", "create", "one", "--scope", "caller", "--agents", "clerk", "--json"]).json();
    let (_server, address) = serve(&project, &[]);
    let post = |members: Value| {
        let mut body = json!({"agent_name": "clerk", "prompt": "Hello."});
        body.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        request(&address, "POST", "/runs?wait=60", created["token"].as_str(), &body)
    };
    for members in [
        json!({"backend": "second"}),
        json!({"model": "large"}),
        json!({"max_tokens": 4096}),
        json!({"timeout_seconds": 301}),
    ] {
        let (status, answer) = post(members);
        assert_eq!((status, &answer["error"]), (403, &json!("Forbidden")), "{answer}");
    }
    let (status, run) = post(json!({"max_tokens": 10, "timeout_seconds": 60}));
    assert_eq!((status, &run["status"]), (200, &json!("completed")), "{run}");
}
