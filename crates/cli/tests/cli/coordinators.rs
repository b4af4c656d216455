//! Selection of the coordinator and of the store: invalid options, addresses and variables, and listings from a
//! coordinator.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::{Project, Server, is_local_only, request, serve};

/// Runs a command and checks its exit status and that stderr contains `message`.
#[track_caller]
fn assert_refused(project: &Project, arguments: &[&str], status: i32, message: &str) {
    let ran = project.run(arguments);
    assert_eq!(ran.status, status, "{arguments:?}: {}", ran.all());
    assert!(ran.stderr.contains(message), "{arguments:?}: {}", ran.all());
}

#[test]
fn invalid_limits_token_names_and_databases_are_refused() {
    let project = Project::new("coordinators-refused");
    assert_refused(&project, &["runs", "list", "--limit", "0"], 2, "1..=500");
    assert_refused(&project, &["sessions", "list", "--limit", "501"], 2, "1..=500");
    assert_refused(&project, &["token", "create", " "], 2, "the token name is empty");
    for (arguments, message) in [
        (["--expires", "soon"], "`--expires soon` is not a time"),
        (["--expires", "0d"], "`--expires 0d` is not a time"),
        (["--expires", "4000000000d"], "longer than 100 years"),
        (["--agents", "a, b"], "write them as a,b,c"),
        (["--agents", "a,,b"], "write them as a,b,c"),
        (["--scope", "root"], "unknown scope `root`"),
    ] {
        let arguments = [["token", "create", "ci"].as_slice(), &arguments].concat();
        assert_refused(&project, &arguments, 2, message);
    }
    let arguments = ["token", "create", "ci", "--scope", "runner", "--agents", "a"];
    assert_refused(&project, &arguments, 2, "only tokens with scope `caller` can be limited");
    let ran = project.run(&["serve", "--db", "garbage://me:secret@x"]);
    assert!(ran.status == 2 && ran.stderr.contains("the path of a file"), "{}", ran.all());
    assert!(!ran.stderr.contains("secret"), "{}", ran.all());
}

#[test]
fn listen_address_in_use_exits_with_status_2() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let project = Project::new("coordinators-taken");
    for host in ["127.0.0.1", "localhost"] {
        let message = format!("127.0.0.1:{port}: the address is in use");
        assert_refused(&project, &["serve", "--listen", &format!("{host}:{port}")], 2, &message);
    }
}

#[test]
fn error_names_the_variable_that_selects_the_coordinator() {
    // The listener is dropped at once, so nothing listens on its port.
    let url = format!("http://{}", TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap());
    let project = Project::new("coordinators-astray").variable("SLIPFORM_URL", &url);
    assert_refused(&project, &["runs", "list"], 3, "the URL comes from SLIPFORM_URL");
    let project = project.variable("SLIPFORM_TOKEN", "sf_0\n");
    assert_refused(&project, &["runs", "list"], 2, "SLIPFORM_TOKEN contains characters");
    let project = Project::new("coordinators-nonsense").variable("SLIPFORM_URL", "nonsense");
    assert_refused(
        &project,
        &["runs", "list"],
        2,
        "SLIPFORM_URL is `nonsense`: `nonsense` is not a coordinator URL",
    );
}

#[cfg(unix)]
#[test]
fn state_folder_is_private_to_its_owner() {
    use std::os::unix::fs::PermissionsExt as _;

    let project = Project::new("coordinators-private");
    assert_eq!(project.run(&["sessions", "list"]).status, 0);
    let mode = std::fs::metadata(project.folder.join(".slipform")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn schemas_list_works_without_a_store() {
    if is_local_only("a server needs its store") {
        return;
    }
    // A file named `.slipform` prevents the creation of the store.
    let project = Project::new("coordinators-bare")
        .file(".slipform", "")
        .file("schemas/thing.json", r#"{"type": "object"}"#);
    let ran = project.run(&["schemas", "list"]);
    assert!(ran.status == 0 && ran.stdout.contains("\nthing                     file"), "{}", ran.all());
    assert_refused(
        &project,
        &["schemas", "add", "other", "schemas/thing.json"],
        2,
        "cannot create the database folder",
    );
}

#[test]
fn shipped_schema_is_exported_verbatim() {
    let project = Project::new("coordinators-shipped").file("schemas/thing.json", r#"{"type": "object"}"#);
    let shipped = &slipform_schema::shipped()[0];
    let ran = project.run(&["schemas", "export", shipped.name]);
    assert_eq!((ran.status, ran.stdout.as_str()), (0, shipped.text), "{}", ran.all());
    let ran = project.run(&["schemas", "check", shipped.name, "thing"]);
    assert_eq!(ran.status, 0, "{}", ran.all());
    let shadowed = project.file(&format!("schemas/{}.json", shipped.name), r#"{"type": "object"}"#);
    let ran = shadowed.run(&["schemas", "list"]);
    assert!(ran.status == 2 && ran.stderr.contains("comes with the program"), "{}", ran.all());
}

#[test]
fn agents_list_with_server_reports_invalid_files() {
    let served = Project::new("coordinators-served")
        .file("agents/good.yaml", "description: Is good.\nsystem_prompt: Be brief.\n")
        .file("agents/bad.yaml", "system_promt: Be brief.\n");
    let (_server, address) = serve(&served, &["--no-runner"]);
    let project = Project::new("coordinators-elsewhere");
    let ran = project.run(&["agents", "list", "--server", &address]);
    assert_eq!(ran.status, 2, "{}", ran.all());
    assert!(ran.stdout.contains("good          text      file     Is good."), "{}", ran.all());
    assert!(ran.stdout.contains("shipped"), "{}", ran.all());
    assert!(ran.stderr.contains("bad.yaml: line 1: $.system_promt"), "{}", ran.all());
    let project = project.variable("SLIPFORM_URL", &address);
    let shown = project.run(&["agents", "show", "good"]);
    assert!(shown.status == 0 && shown.stdout.contains("result: text"), "{}", shown.all());
    assert_eq!(project.run(&["agents", "show", "bad", "--json"]).status, 2);
}

/// Reads stderr until a line has this text, and returns that line.
fn line_with(lines: &mut impl Iterator<Item = std::io::Result<String>>, text: &str) -> String {
    lines
        .map(Result::unwrap)
        .find(|line| line.contains(text))
        .unwrap_or_else(|| panic!("no line with {text}"))
}

#[test]
fn missing_runner_is_reported_and_runs_are_logged() {
    let project = Project::new("coordinators-no-runner")
        .file("agents/writer.yaml", "name: writer\nsystem_prompt: x\n")
        .file("slipform.toml", "[backends.recorded]\nkind = \"replay\"\nreplies = \"replies.jsonl\"\n")
        .file("replies.jsonl", "\"Written.\"\n");
    let mut serving = project.command(&["serve", "--listen", "127.0.0.1:0", "--no-runner"]);
    let mut serving = serving.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let mut log = BufReader::new(serving.stderr.take().unwrap()).lines();
    let line = line_with(&mut log, "listening on");
    let _server = Server(serving);
    let address = line.split_whitespace().find(|word| word.starts_with("http://")).unwrap();
    let (status, ready) = request(address, "GET", "/readyz", None, &Value::Null);
    assert_eq!((status, &ready["runners"]), (200, &json!(0)), "{ready}");
    assert!(ready["warnings"][0].as_str().unwrap().starts_with("no runner is connected"), "{ready}");
    // A command that performs its own run is no runner for others, and leaves no trace.
    let own = project.command(&["run", "writer", "-p", "x"]).output().unwrap();
    assert!(own.status.success(), "{own:?}");
    assert_eq!(request(address, "GET", "/runners", None, &Value::Null).1, json!([]));

    let mut running = project.command(&["run", "writer", "-p", "x", "--server", address]);
    let mut running = running.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(running.stderr.take().unwrap()).lines();
    let notice = line_with(&mut lines, "no runner is connected");
    assert!(
        notice.contains("waits until one is: start it with `slipform runner --coordinator URL`"),
        "{notice}"
    );
    let submitted = line_with(&mut log, "run submitted");
    assert!(submitted.contains("INFO") && submitted.contains("agent=\"writer\""), "{submitted}");
    let mut runner = project.command(&["runner", "--coordinator", address]);
    let _runner =
        Server(runner.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    assert!(running.wait().unwrap().success());
    let ended = line_with(&mut log, "run ended");
    assert!(ended.contains("status=\"completed\""), "{ended}");
}

#[test]
fn server_that_is_terminated_as_soon_as_it_listens_ends() {
    let project = Project::new("coordinators-terminated");
    for _ in 0..5 {
        let (mut server, _) = serve(&project, &[]);
        let id = rustix::process::Pid::from_child(&server.0);
        rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
        let mut status = None;
        slipform_testkit::wait_until("the server has ended", || {
            status = server.0.try_wait().unwrap();
            status.is_some()
        });
        assert!(status.unwrap().success(), "{status:?}");
    }
}
