//! Where commands ask, and what they say when they are sent to the wrong place.

use std::net::TcpListener;

use crate::support::{Project, serve};

/// Checks that a command is refused with this status, and with these words on stderr.
#[track_caller]
fn refused(project: &Project, arguments: &[&str], status: i32, words: &str) {
    let ran = project.run(arguments);
    assert_eq!(ran.status, status, "{arguments:?}: {}", ran.all());
    assert!(ran.stderr.contains(words), "{arguments:?}: {}", ran.all());
}

#[test]
fn what_cannot_be_meant_is_refused_with_words() {
    let project = Project::new("desk-refused");
    refused(&project, &["runs", "list", "--limit", "0"], 2, "1..=500");
    refused(&project, &["sessions", "list", "--limit", "501"], 2, "1..=500");
    refused(&project, &["token", "create", " "], 2, "a token needs a name");
    let ran = project.run(&["serve", "--db", "garbage://me:secret@x"]);
    assert!(ran.status == 2 && ran.stderr.contains("the path of a file"), "{}", ran.all());
    assert!(!ran.stderr.contains("secret"), "{}", ran.all());
}

#[test]
fn an_address_that_is_taken_is_a_matter_of_configuration() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let project = Project::new("desk-taken");
    for host in ["127.0.0.1", "localhost"] {
        let words = format!("127.0.0.1:{port}: another program listens there already");
        refused(&project, &["serve", "--listen", &format!("{host}:{port}")], 2, &words);
    }
}

#[test]
fn variables_that_lead_astray_are_named() {
    // A port that was free a moment ago.
    let url = format!("http://{}", TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap());
    let project = Project::new("desk-astray").variable("SLIPFORM_URL", &url);
    refused(&project, &["runs", "list"], 3, "SLIPFORM_URL names it");
    let project = project.variable("SLIPFORM_TOKEN", "sf_0\n");
    refused(&project, &["runs", "list"], 2, "SLIPFORM_TOKEN has characters");
    let project = Project::new("desk-nonsense").variable("SLIPFORM_URL", "nonsense");
    refused(&project, &["runs", "list"], 2, "SLIPFORM_URL names 'nonsense'");
}

#[cfg(unix)]
#[test]
fn nobody_else_reads_what_runs_leave() {
    use std::os::unix::fs::PermissionsExt as _;

    let project = Project::new("desk-private");
    assert_eq!(project.run(&["sessions", "list"]).status, 0);
    let mode = std::fs::metadata(project.folder.join(".slipform")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn schemas_in_files_are_there_without_a_store() {
    // Where a file stands in the way, no store can be made.
    let project =
        Project::new("desk-bare").file(".slipform", "").file("schemas/thing.json", r#"{"type": "object"}"#);
    let ran = project.run(&["schemas", "list"]);
    assert!(ran.status == 0 && ran.stdout.starts_with("thing  file"), "{}", ran.all());
    refused(&project, &["schemas", "add", "other", "schemas/thing.json"], 2, "cannot be made");
}

#[test]
fn the_schema_that_comes_with_the_program_is_exported_as_it_stands() {
    let project = Project::new("desk-shipped").file("schemas/thing.json", r#"{"type": "object"}"#);
    let known = &slipform_schema::shipped()[0];
    let ran = project.run(&["schemas", "export", known.name]);
    assert_eq!((ran.status, ran.stdout.as_str()), (0, known.text), "{}", ran.all());
    let ran = project.run(&["schemas", "check", known.name, "thing"]);
    assert_eq!(ran.status, 0, "{}", ran.all());
    let shadowed = project.file(&format!("schemas/{}.json", known.name), r#"{"type": "object"}"#);
    let ran = shadowed.run(&["schemas", "list"]);
    assert!(ran.status == 2 && ran.stderr.contains("comes with the program"), "{}", ran.all());
}

#[test]
fn agents_of_a_coordinator_are_listed_with_what_is_wrong_with_them() {
    let served = Project::new("desk-served")
        .file("agents/good.yaml", "description: Is good.\nsystem_prompt: Be brief.\n")
        .file("agents/bad.yaml", "system_promt: Be brief.\n");
    let (_server, address) = serve(&served, &["--no-runner"]);
    let project = Project::new("desk-elsewhere");
    let ran = project.run(&["agents", "list", "--server", &address]);
    assert_eq!(ran.status, 2, "{}", ran.all());
    assert!(ran.stdout.contains("good          text              file     Is good."), "{}", ran.all());
    assert!(ran.stdout.contains("shipped"), "{}", ran.all());
    assert!(ran.stderr.contains("bad.yaml: line 1: $.system_promt"), "{}", ran.all());
    let project = project.variable("SLIPFORM_URL", &address);
    let shown = project.run(&["agents", "show", "good"]);
    assert!(shown.status == 0 && shown.stdout.contains("gives: text"), "{}", shown.all());
    assert_eq!(project.run(&["agents", "show", "bad", "--json"]).status, 2);
}
