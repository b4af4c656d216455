//! The coordinator's database: where its password may be, and starting while PostgreSQL is down.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use slipform_testkit::PostgresServer;

use crate::support::{Project, Serving, request};

const PASSWORD: &str = "pw:0123 4567@89";

/// The password as it is written in a URL.
const ENCODED: &str = "pw%3A0123%204567%4089";

/// Returns a database whose user needs [`PASSWORD`], and its URL without the password.
fn guarded_database(name: &str) -> Option<(PostgresServer, String)> {
    let server = PostgresServer::start()?;
    let database = server.create_database(name);
    let url = server.create_user("app", PASSWORD, &database);
    Some((server, url))
}

fn with_password(url: &str) -> String {
    url.replace("app@", &format!("app:{ENCODED}@"))
}

#[cfg(target_os = "linux")]
#[test]
fn password_in_db_option_leaves_the_process_list() {
    let Some((_server, url)) = guarded_database("argv") else { return };
    for (number, option) in [
        vec!["--db".to_owned(), with_password(&url)],
        vec![format!("--db={}", with_password(&url))],
        vec!["--db".to_owned(), format!("{url}?password={ENCODED}")],
    ]
    .into_iter()
    .enumerate()
    {
        let project = Project::new(&format!("database-argv-{number}")).variable("SLIPFORM_LOG", "trace");
        let option: Vec<&str> = option.iter().map(String::as_str).collect();
        let serving = Serving::start(&project, &option);
        let address = serving.address();
        let shown = fs::read(format!("/proc/{}/cmdline", serving.process.0.id())).unwrap();
        let shown = String::from_utf8(shown).unwrap().replace('\0', " ");
        assert!(shown.contains("serve --listen") && !shown.contains("pw"), "{shown}");
        assert_eq!(request(&address, "GET", "/readyz", None, &json!(null)).0, 200);
        let log = serving.log();
        assert!(log.contains("warning: `--db` contains a password"), "{log}");
        assert!(log.contains(&format!("storing runs in {url}")), "{log}");
        assert!(!log.contains(PASSWORD) && !log.contains(ENCODED), "{log}");
        drop(serving);
        assert!(!project.everything_written().contains(PASSWORD));
    }
}

#[test]
fn database_password_is_found_in_every_documented_place() {
    let Some((server, url)) = guarded_database("places") else { return };
    let port = server.port();
    let folder = Project::new("database-places").folder;
    let file = |name: &str, line: &str, mode: u32| {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, line).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path.display().to_string()
    };
    let escaped = PASSWORD.replace(':', "\\:");
    let line = format!("# comment\nother:*:*:*:wrong\n127.0.0.1:{port}:*:app:{escaped}\n*:*:*:*:wrong\n");
    let (private, open) = (file("private.pgpass", &line, 0o600), file("open.pgpass", &line, 0o640));
    file("home/.pgpass", &line, 0o400);
    let home = folder.join("home").display().to_string();
    let listed = |name: &str, settings: &str, variables: &[(&str, &str)], more: &[&str]| {
        let mut project = Project::new(&format!("database-{name}")).file("slipform.toml", settings);
        project = project.variable("HOME", "/nonexistent");
        for (name, value) in variables {
            project = project.variable(name, value);
        }
        let mut arguments = vec!["token", "list", "--json"];
        arguments.extend(more);
        project.run(&arguments)
    };
    let db = format!("[server]\ndb = \"{url}\"\n");
    let db_env = "[server]\ndb_env = \"RUNS_DATABASE\"\n";
    let full = with_password(&url);
    let in_address = format!("{url}?passfile={private}");
    for (name, settings, variables, more) in [
        ("by-env", db_env, &[("RUNS_DATABASE", full.as_str())][..], &[][..]),
        ("by-variable", "", &[("SLIPFORM_DB", &full)], &[]),
        ("by-pgpassword", &db, &[("PGPASSWORD", PASSWORD)], &[]),
        ("by-passfile", &db, &[("PGPASSFILE", &private)], &[]),
        ("by-parameter", "", &[], &["--db", &in_address]),
        ("by-home", &db, &[("HOME", &home)], &[]),
    ] {
        let ran = listed(name, settings, variables, more);
        assert_eq!((ran.status, ran.stdout.as_str(), ran.stderr.as_str()), (0, "[]\n", ""), "{name}");
    }
    for (name, settings, variables, message) in [
        (
            "nowhere",
            db.as_str(),
            &[][..],
            "PostgreSQL asks for a password, and none is configured; set PGPASSWORD",
        ),
        ("open-file", &db, &[("PGPASSFILE", open.as_str())], "run `chmod 600"),
        ("wrong", &db, &[("PGPASSWORD", "wrong")], "password authentication failed"),
        ("unset", db_env, &[], "server.db_env names the variable `RUNS_DATABASE`, which is not set"),
        ("both", &format!("{db}db_env = \"A\"\n"), &[], "server.db and server.db_env are both set"),
        (
            "misplaced",
            &format!("[server]\ndb_env = \"{full}\"\n"),
            &[],
            "server.db_env is not the name of a variable",
        ),
    ] {
        let ran = listed(name, settings, variables, &[]);
        assert_eq!(ran.status, 2, "{name}: {}", ran.all());
        assert!(ran.stderr.contains(message), "{name}: {}", ran.all());
        assert!(!ran.stderr.contains(ENCODED) && !ran.stderr.contains("wrong\""), "{name}: {}", ran.all());
    }
}

#[test]
fn password_in_settings_file_is_warned_about() {
    let Some((_server, url)) = guarded_database("settings") else { return };
    let settings = format!("[server]\ndb = \"{}\"\n", with_password(&url));
    let project = Project::new("database-settings").file("slipform.toml", &settings);
    let path = project.folder.join("slipform.toml");
    for (mode, advice) in
        [(0o644, "run `chmod 600 slipform.toml`, and name a variable"), (0o600, "; name a variable")]
    {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let ran = project.run(&["token", "list"]);
        assert_eq!(ran.status, 0, "{}", ran.all());
        assert!(
            ran.stderr.contains("warning: server.db in slipform.toml contains a password"),
            "{}",
            ran.all()
        );
        assert!(ran.stderr.contains(advice) && !ran.stderr.contains(ENCODED), "{}", ran.all());
    }
}

#[test]
fn programs_of_agents_do_not_see_the_database_password() {
    let Some((_server, url)) = guarded_database("programs") else { return };
    let agent = |env: &str| format!("type: procedural\nenv: [{env}]\ncommand: [sh, -c, 'env >&2; exit 3']\n");
    let project = Project::new("database-programs")
        .file("slipform.toml", "[server]\ndb_env = \"RUNS_DATABASE\"\n")
        .file("agents/plain.yaml", &agent("LANG"))
        .file("agents/curious.yaml", &agent("PGPASSWORD"))
        .file("agents/nosy.yaml", &agent("RUNS_DATABASE"))
        .variable("LANG", "C.UTF-8")
        .variable("RUNS_DATABASE", &url)
        .variable("PGPASSWORD", PASSWORD);
    let serving = Serving::start(&project, &[]);
    let address = serving.address();
    let run = |agent: &str| {
        let body = json!({"agent_name": agent, "prompt": "go"});
        request(&address, "POST", "/runs?wait=60", None, &body).1
    };
    // The program fails on purpose, so that the error contains the variables that it sees.
    let seen = run("plain")["error"].to_string();
    assert!(seen.contains("exit status: 3") && seen.contains("LANG="), "{seen}");
    assert!(!seen.contains("PGPASSWORD") && !seen.contains("RUNS_DATABASE"), "{seen}");
    for (agent, variable) in [("curious", "PGPASSWORD"), ("nosy", "RUNS_DATABASE")] {
        let refused = run(agent);
        let message = format!("`env` names `{variable}`, which is reserved for the password");
        assert!(refused["error"].to_string().contains(&message), "{refused}");
        assert!(!refused.to_string().contains(PASSWORD), "{refused}");
    }
}

#[test]
fn credentials_in_coordinator_url_are_refused_without_printing_them() {
    let url = "http://me:sesame-0@127.0.0.1:9";
    for (variable, arguments) in [
        ("", &["runs", "list", "--server", url][..]),
        ("", &["runner", "--coordinator", url]),
        (url, &["runs", "list"]),
        ("me:sesame-0@127.0.0.1:9", &["runs", "list"]),
    ] {
        let project = Project::new("database-url").variable("SLIPFORM_URL", variable);
        let ran = project.run(arguments);
        assert_eq!(ran.status, 2, "{arguments:?}: {}", ran.all());
        assert!(!ran.all().contains("sesame-0"), "{arguments:?}: {}", ran.all());
    }
}

#[test]
fn serve_waits_until_postgres_is_up() {
    let Some((server, url)) = guarded_database("late") else { return };
    server.crash();
    let project = Project::new("database-late").variable("PGPASSWORD", PASSWORD);
    let serving = Serving::start(&project, &["--db", &url]);
    serving.wait_for_message(&format!("waiting for the database {url}: error connecting to server"));
    serving.wait_for_message("retrying at least every 5 s; Ctrl-C ends");
    server.restart();
    let address = serving.address();
    assert_eq!(request(&address, "GET", "/readyz", None, &json!(null)).0, 200);
    assert!(!serving.log().contains(PASSWORD), "{}", serving.log());
}

#[test]
fn serve_stops_waiting_for_postgres_on_a_signal_and_after_its_limit() {
    let url = "postgres://me@127.0.0.1:1/runs";
    let project = Project::new("database-never");
    for signal in [Signal::INT, Signal::TERM] {
        let mut serving = Serving::start(&project, &["--db", url]);
        serving.wait_for_message("waiting for the database");
        kill_process(Pid::from_child(&serving.process.0), signal).unwrap();
        assert_eq!(serving.wait_for_exit(), 130, "{}", serving.log());
    }
    for limit in ["0", "1"] {
        let ran = project.run(&["serve", "--listen", "127.0.0.1:0", "--db", url, "--db-wait", limit]);
        assert_eq!(ran.status, 3, "{}", ran.all());
        assert!(ran.stderr.contains(&format!("cannot use the database {url}: the database is unavailable")));
        assert_eq!(ran.stderr.contains("waiting for"), limit == "1", "{}", ran.all());
    }
}

#[test]
fn serve_does_not_wait_for_a_wrong_password_or_database() {
    let Some((_server, url)) = guarded_database("wrong") else { return };
    let unknown = url.replace("/wrong", "/unknown");
    for (url, password, message) in [
        (url.as_str(), "no", "password authentication failed for user \"app\""),
        (unknown.as_str(), PASSWORD, "database \"unknown\" does not exist"),
        (url.as_str(), "", "PostgreSQL asks for a password, and none is configured"),
        ("postgres://host:notaport/x", "", "cannot parse the PostgreSQL address"),
    ] {
        let project =
            Project::new("database-wrong").variable("PGPASSWORD", password).variable("HOME", "/nonexistent");
        let ran = project.run(&["serve", "--listen", "127.0.0.1:0", "--db", url]);
        assert_eq!(ran.status, 2, "{}", ran.all());
        assert!(ran.stderr.contains(message) && !ran.stderr.contains("waiting"), "{}", ran.all());
    }
}

#[test]
fn coordinator_runs_agents_with_one_connection() {
    let Some((server, url)) = guarded_database("single") else { return };
    server.query(&url, "ALTER ROLE app CONNECTION LIMIT 1");
    let project = Project::new("database-single")
        .file("slipform.toml", &format!("[server]\ndb = \"{url}\"\ndb_connections = 1\n"))
        .file("agents/echo.yaml", "type: procedural\ncommand: [sh, -c, 'echo {}']\n")
        .variable("PGPASSWORD", PASSWORD);
    let serving = Serving::start(&project, &[]);
    let address = serving.address();
    let body = json!({"agent_name": "echo", "prompt": "go"});
    let answers: Vec<_> = std::thread::scope(|scope| {
        let send = || request(&address, "POST", "/runs?wait=60", None, &body);
        let threads: Vec<_> = (0..20).map(|_| scope.spawn(send)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for (status, run) in answers {
        assert_eq!((status, &run["status"]), (200, &json!("completed")), "{run}\n{}", serving.log());
    }
    assert!(!serving.log().contains("too many connections"), "{}", serving.log());
}
