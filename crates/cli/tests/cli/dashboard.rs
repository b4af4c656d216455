//! What the dashboard reads: verdicts and filters of lists, the calls of a run, figures over time, and its own files.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;

use serde_json::{Value, json};
use slipform_testkit::{PostgresServer, ScriptedServer, Step, wait_for, wait_until};

use crate::support::{Project, REVIEWER, request, serve};

const GOOD: &str = r#"{"summary": "Fine.", "severity": "low"}"#;
const REPAIRABLE: &str = "Sure:\n```json\n{'summary': 'Fine.', \"severity\": \"low\",}\n```";
const WRONG: &str = r#"{"summary": "Fine.", "severity": "critical"}"#;

/// Creates a project whose model answers by the words of the prompt.
fn project(name: &str, model: &ScriptedServer) -> Project {
    let backend = |name: &str| {
        format!(
            "[backends.{name}]\nkind = \"openai\"\nbase_url = \"{}\"\nmodel = \"{name}-model\"\nretry_base_seconds = 0.0\n",
            model.base_url()
        )
    };
    let settings = format!(
        "default_backend = \"first\"\n{}{}[tiers]\nsmall = \"first\"\nlarge = \"second\"\n",
        backend("first"),
        backend("second")
    );
    let climber =
        REVIEWER.replace("name: reviewer", "name: climber\ntier: small\nescalation: [small, large]");
    Project::new(name)
        .file("slipform.toml", &settings)
        .file("agents/reviewer.yaml", REVIEWER)
        .file("agents/climber.yaml", &climber)
        .file("agents/writer.yaml", "name: writer\n")
}

fn model() -> ScriptedServer {
    ScriptedServer::respond(|request, _| {
        let (prompt, is_retry) = (request.prompt(), request.prompt().contains("critical"));
        let is_large = request.body["model"] == "second-model";
        match () {
            () if prompt.contains("REPAIR") => Step::text(REPAIRABLE),
            () if prompt.contains("RETRY") && !is_retry => Step::text(WRONG),
            () if prompt.contains("CLIMB") && !is_large => Step::text(WRONG),
            () if prompt.contains("FAIL") => Step::text(WRONG),
            () if prompt.contains("WRITE") => Step::text("A text."),
            () => Step::text(GOOD),
        }
    })
}

/// Submits a run, waits for its end and returns it.
fn run(address: &str, agent: &str, prompt: &str) -> Value {
    let body =
        json!({"agent_name": agent, "prompt": prompt, "output_schema_options": {"correction": "full"}});
    let body = if agent == "writer" { json!({"agent_name": agent, "prompt": prompt}) } else { body };
    let (status, run) = request(address, "POST", "/runs?wait=60", None, &body);
    assert_eq!(status, 200, "{run}");
    run
}

fn get(address: &str, path: &str) -> Value {
    let (status, answer) = request(address, "GET", path, None, &Value::Null);
    assert_eq!(status, 200, "{path}: {answer}");
    answer
}

/// Checks lists and figures on one store.
fn check_lists(project: &Project, more: &[&str]) {
    let (server, address) = serve(project, more);
    for (agent, prompt) in [
        ("reviewer", "FIRST"),
        ("reviewer", "REPAIR"),
        ("reviewer", "RETRY"),
        ("climber", "CLIMB"),
        ("reviewer", "FAIL"),
        ("writer", "WRITE"),
    ] {
        run(&address, agent, prompt);
    }
    let listed = get(&address, "/runs");
    let verdicts: Vec<(&Value, i64, &Value)> = listed["runs"]
        .as_array()
        .unwrap()
        .iter()
        .rev()
        .map(|run| (&run["verdict"], run["repairs"].as_i64().unwrap(), &run["max_retries"]))
        .collect();
    let named = ["first_pass", "repaired", "retried", "escalated"].map(Value::from);
    let (one, none) = (json!(1), Value::Null);
    assert_eq!(verdicts[0], (&named[0], 0, &one));
    assert_eq!((verdicts[1].0, verdicts[1].1 > 1), (&named[1], true), "{listed}");
    assert_eq!(verdicts[2..4], [(&named[2], 0, &one), (&named[3], 0, &one)]);
    assert_eq!(verdicts[4..], [(&none, 0, &one), (&none, 0, &none)]);

    let count = |query: &str| get(&address, &format!("/runs?{query}"))["runs"].as_array().unwrap().len();
    for (query, expected) in [
        ("verdict=repaired", 1),
        ("verdict=escalated&agent_name=reviewer", 0),
        ("backend=second", 1),
        ("error_type=output_schema_validation_failed", 1),
        ("error_type=timeout", 0),
        ("created_after=2020-01-01T00:00:00Z", 6),
        ("created_before=2020-01-01T00:00:00%2B02:00", 0),
    ] {
        assert_eq!(count(query), expected, "{query}");
    }
    let (status, refused) = request(&address, "GET", "/runs?created_after=today", None, &Value::Null);
    assert_eq!((status, &refused["error"]), (400, &json!("InvalidRequest")), "{refused}");
    let sessions =
        |query: &str| get(&address, &format!("/sessions?{query}"))["sessions"].as_array().unwrap().len();
    assert_eq!(
        (sessions("agent_name=reviewer"), sessions("status=failed"), sessions("status=running")),
        (4, 1, 0)
    );

    let timeline = get(&address, "/stats/timeline?interval=day&agent=reviewer");
    let rows = timeline.as_array().unwrap();
    let total = |key: &str| rows.iter().map(|row| row[key].as_i64().unwrap()).sum::<i64>();
    assert_eq!((rows.len() >= 24, total("runs"), total("completed"), total("failed")), (true, 4, 3, 1));
    assert_eq!((total("first_pass"), total("retries") > 1), (2, true), "{timeline}");
    assert_eq!(get(&address, "/stats?until=2020-01-01T00:00:00Z"), json!([]));
    let violations = get(&address, "/stats/violations?agent=climber");
    assert_eq!((&violations[0]["path"], &violations[0]["backend"]), (&json!("$.severity"), &json!("second")));
    // The reply that was retried, and the one that led to the next tier.
    assert_eq!(violations[0]["count"], 2, "{violations}");
    let (status, _) =
        request(&address, "GET", "/stats/timeline?since=2020-01-01T00:00:00Z", None, &Value::Null);
    assert_eq!(status, 400);
    server.shut_down();
}

#[test]
fn lists_have_verdicts_and_filters_on_sqlite() {
    let model = model();
    check_lists(&project("dashboard-sqlite", &model), &[]);
}

#[test]
fn lists_have_verdicts_and_filters_on_postgres() {
    let Some(database) = PostgresServer::start() else { return };
    let model = model();
    check_lists(&project("dashboard-postgres", &model), &["--db", &database.create_database("dashboard")]);
}

#[test]
fn calls_of_a_run_show_request_reply_repairs_and_violations() {
    let model = model();
    let project = project("dashboard-calls", &model);
    let (server, address) = serve(&project, &[]);
    let calls = |run: &Value| {
        let path = format!("/runs/{}/calls", run["run_id"].as_str().unwrap());
        get(&address, &path)["calls"].as_array().unwrap().clone()
    };
    let repaired = calls(&run(&address, "reviewer", "REPAIR"));
    let call = &repaired[0];
    assert_eq!(
        (repaired.len(), &call["outcome"], &call["backend"]),
        (1, &json!("accepted"), &json!("first"))
    );
    assert_eq!(call["source_text"], REPAIRABLE);
    let excerpt = |span: &Value| {
        let at = |index: usize| usize::try_from(span[index].as_u64().unwrap()).unwrap();
        REPAIRABLE.chars().skip(at(0)).take(at(1) - at(0)).collect::<String>()
    };
    let extraction = &call["extraction"];
    assert!(excerpt(&extraction["document"]).starts_with("{'summary'"), "{extraction}");
    let repairs = extraction["repairs"].as_array().unwrap();
    let quotes =
        repairs.iter().find(|repair| repair["kind"] == "quotes_changed" && repair["pointer"] == "/summary");
    let quotes = quotes.unwrap_or_else(|| panic!("{extraction}"));
    assert_eq!((excerpt(&quotes["span"]).as_str(), &quotes["lossless"]), ("'Fine.'", &json!(true)));

    // The derived request is the one that the model received.
    let sent = &model.requests()[0].body["messages"];
    let derived = &call["request"];
    assert_eq!(derived["messages"][0]["content"], sent[1]["content"], "{derived}");
    assert_eq!(derived["system"], sent[0]["content"]);

    let retried = calls(&run(&address, "reviewer", "RETRY"));
    let outcomes: Vec<&Value> = retried.iter().map(|call| &call["outcome"]).collect();
    assert_eq!(outcomes, [&json!("rejected"), &json!("accepted")]);
    assert!(
        retried[0]["violations"][0].as_str().unwrap().starts_with("$.severity: 'critical'"),
        "{retried:?}"
    );
    assert!(retried[0]["consequence"].as_str().unwrap().starts_with("retry 1 of 1"), "{retried:?}");
    assert!(retried[1]["request"]["messages"].to_string().contains("critical"), "{retried:?}");
    let climbed = calls(&run(&address, "climber", "CLIMB"));
    let backends: Vec<&Value> = climbed.iter().map(|call| &call["backend"]).collect();
    assert_eq!(backends, [&json!("first"), &json!("first"), &json!("second")]);
    let text = calls(&run(&address, "writer", "WRITE"));
    assert_eq!((&text[0]["reply"]["text"], &text[0]["extraction"]), (&json!("A text."), &Value::Null));
    let (status, _) = request(&address, "GET", "/runs/run_000000000000/calls", None, &Value::Null);
    assert_eq!(status, 404);
    server.shut_down();
}

#[test]
fn check_returns_the_places_of_repairs() {
    let model = model();
    let (server, address) = serve(&project("dashboard-check", &model), &[]);
    let body = json!({"text": "👋 {a: 1}", "schema": {"type": "object"}});
    let (_, checked) = request(&address, "POST", "/check", None, &body);
    assert_eq!((&checked["valid"], &checked["document"]), (&json!(true), &json!([2, 8])), "{checked}");
    let key =
        checked["repairs"].as_array().unwrap().iter().find(|repair| repair["kind"] == "key_quoted").unwrap();
    assert_eq!(key["description"], "A key without quotes was quoted.");
    server.shut_down();
}

#[test]
fn stream_of_all_events_can_be_filtered_and_summarized() {
    let model = model();
    let (server, address) = serve(&project("dashboard-stream", &model), &[]);
    let ended = run(&address, "reviewer", "FIRST");
    let mut stream = TcpStream::connect(address.trim_start_matches("http://")).unwrap();
    let path = "/events/stream?after=0&types=run_start,run_completed&summary=true";
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let lines = BufReader::new(stream).lines().map(Result::unwrap);
    let mut events =
        lines.filter_map(|line| Some(serde_json::from_str::<Value>(line.strip_prefix("data: ")?).unwrap()));
    let (first, last) = (events.next().unwrap(), events.next().unwrap());
    assert_eq!((&first["event_type"], &first["agent_name"]), (&json!("run_start"), &json!("reviewer")));
    assert_eq!((&last["event_type"], &last["status"]), (&json!("run_completed"), &json!("completed")));
    assert_eq!((&last["run_id"], last.as_object().unwrap().len()), (&ended["run_id"], 6), "{last}");
    let (status, refused) =
        request(&address, "GET", "/events/stream?types=run_start,nothing", None, &Value::Null);
    assert_eq!(status, 400);
    assert!(refused["message"].as_str().unwrap().contains("`nothing` is not an event type"), "{refused}");
    server.shut_down();
}

#[test]
fn sender_of_a_request_is_named() {
    let model = model();
    let project = project("dashboard-whoami", &model);
    let (server, address) = serve(&project, &[]);
    let expected = json!({"name": null, "scope": "local", "agents": null, "token_required": false});
    assert_eq!(get(&address, "/whoami"), expected);
    server.shut_down();
    let settings = std::fs::read_to_string(project.folder.join("slipform.toml")).unwrap();
    let project = project.file("slipform.toml", &format!("{settings}[server]\nbehind_proxy = true\n"));
    let created = project
        .run(&["token", "create", "laptop", "--scope", "caller", "--agents", "reviewer", "--json"])
        .json();
    let (server, address) = serve(&project, &[]);
    let (status, _) = request(&address, "GET", "/whoami", None, &Value::Null);
    assert_eq!(status, 401);
    let (status, sender) = request(&address, "GET", "/whoami", created["token"].as_str(), &Value::Null);
    let expected =
        json!({"name": "laptop", "scope": "caller", "agents": ["reviewer"], "token_required": true});
    assert_eq!((status, sender), (200, expected));
    // The files of the dashboard need no token.
    assert!(fetch(&address, "/ui/runs", "").starts_with("HTTP/1.0 200"));
    server.shut_down();
}

/// Returns the response to a request for a file, with its headers.
fn fetch(address: &str, path: &str, headers: &str) -> String {
    let host = address.trim_start_matches("http://");
    let mut stream = TcpStream::connect(host).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {host}\r\n{headers}\r\n").unwrap();
    let mut response = Vec::new();
    stream.read_to_end(&mut response).unwrap();
    String::from_utf8_lossy(&response).into_owned()
}

#[test]
fn files_of_the_dashboard_have_a_strict_policy_and_a_version() {
    let model = model();
    let (server, address) = serve(&project("dashboard-files", &model), &[]);
    let page = fetch(&address, "/ui/sessions/ses_0123456789ab", "");
    let head = page.split_once("\r\n\r\n").unwrap().0.to_lowercase();
    for header in [
        "content-type: text/html; charset=utf-8",
        "content-security-policy: default-src 'none'; script-src 'self';",
        "x-content-type-options: nosniff",
        "referrer-policy: no-referrer",
        "cache-control: no-cache",
    ] {
        assert!(head.contains(header), "{header}: {head}");
    }
    let etag = head.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap();
    let unchanged = fetch(&address, "/ui/", &format!("If-None-Match: {etag}\r\n"));
    assert!(unchanged.starts_with("HTTP/1.0 304"), "{unchanged}");
    assert!(fetch(&address, "/ui/assets/unknown.js", "").starts_with("HTTP/1.0 404"));
    let moved = fetch(&address, "/", "").to_lowercase();
    assert!(moved.starts_with("http/1.0 307") && moved.contains("location: /ui/"), "{moved}");
    assert!(fetch(&address, "/ui/", "Origin: http://other.example\r\n").starts_with("HTTP/1.0 403"));
    server.shut_down();
}

/// The number of recorded runs, with the children of two of them.
const DEMO_RUNS: usize = 18 + 1 + 10;

#[test]
fn demo_has_runs_of_every_kind_and_leaves_the_folder_unchanged() {
    let project = Project::new("dashboard-demo");
    let (server, address) = serve(&project, &["--demo"]);
    let listed = || get(&address, "/runs?limit=100")["runs"].as_array().unwrap().clone();
    let is_ended = |run: &Value| ["completed", "failed"].contains(&run["status"].as_str().unwrap());
    wait_until("the recorded runs have ended", || {
        let runs = listed();
        runs.len() == DEMO_RUNS && runs.iter().all(is_ended)
    });
    // They are stored shortly after they have ended.
    let requests = wait_for("the requests of the gateway are stored", || {
        let requests = get(&address, "/gateway/requests")["requests"].as_array().unwrap().clone();
        (requests.len() >= 8).then_some(requests)
    });
    let failed = requests.iter().filter(|request| request["status"] == "failed").count();
    assert_eq!((requests.len(), failed), (8, 2), "{requests:?}");
    let count = |key: &str, value: &str| listed().iter().filter(|run| run[key] == value).count();
    let verdicts =
        ["first_pass", "repaired", "retried", "escalated"].map(|verdict| count("verdict", verdict));
    assert_eq!((verdicts, count("status", "failed")), ([20, 2, 1, 1], 3), "{:?}", listed());
    let errors: Vec<Value> = listed()
        .iter()
        .filter(|run| run["status"] == "failed")
        .map(|run| run["error"]["type"].clone())
        .collect();
    assert_eq!(errors, ["empty_reply", "output_schema_validation_failed", "output_schema_validation_failed"]);
    server.shut_down();
    let left: Vec<_> =
        std::fs::read_dir(&project.folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["agents"]);
}
