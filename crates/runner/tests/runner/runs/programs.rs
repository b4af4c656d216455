//! Procedural agents: real programs, their arguments, environment, output and children.

use std::io::Read as _;
use std::time::Duration;

use expect_test::{Expect, expect};
use serde_json::{Value, json};
use slipform_agents::placeholders::{FillContext, fill};
use slipform_runner::{MemoryJournal, StopSignal};
use slipform_types::{EventBody, Failure, RunErrorType};

use crate::support::contexts::{TestRun, clock, drive_to_end, journal, test_run};
use crate::support::folder::Folder;
use crate::support::outcome::{completed, failed, names, run};

/// Upper bound for operations that take milliseconds; beyond it the test fails.
const TIME_MAX: Duration = Duration::from_secs(60);

/// Returns the context of a procedural agent with this command.
fn program(folder: &Folder, command: &[&str], more: Value, parameters: Value) -> TestRun {
    let mut agent = json!({"name": "scanner", "type": "procedural", "command": command});
    agent.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
    let context = test_run(&agent, "", json!({}), Vec::new());
    TestRun { parameters, project_dir: folder.path(), ..context }
}

/// Returns the context of a procedural agent that is this shell script.
fn script(folder: &Folder, text: &str, more: Value) -> TestRun {
    folder.write("script.sh", text);
    program(folder, &["sh", "script.sh"], more, json!({}))
}

/// Writes its arguments to a file, each terminated by a NUL byte. Programs create no files beside `agents`.
const SAVE_ARGUMENTS: &str = "printf '%s\\0' \"$@\" > kept/arguments; echo '{\"kept\": true}'";

fn saved_arguments(folder: &Folder) -> Vec<String> {
    let text = folder.read("kept/arguments");
    text.strip_suffix('\0').unwrap().split('\0').map(str::to_owned).collect()
}

#[tokio::test]
async fn parameters_become_arguments_without_a_shell() {
    let folder = Folder::with("flags", &[("keep.sh", SAVE_ARGUMENTS), ("kept/arguments", "")]);
    let parameters = json!({
        "path": "a b; touch hacked `touch hacked` $(touch hacked) 'x' \"y\" * \\ \n &", "deep": true, "dry": false,
        "none": null, "max": 3, "ratio": 0.5, "names": ["x", 1, "y z"], "where": {"a": [1, "b c"]}, "dash": "-rf",
    });
    let success =
        completed(run(&program(&folder, &["sh", "keep.sh", "--json"], json!({}), parameters)).await.0);
    assert_eq!((success.result_data, success.result_text), (Some(json!({"kept": true})), None));
    expect![[r#"
        [
            "--json",
            "--path",
            "a b; touch hacked `touch hacked` $(touch hacked) 'x' \"y\" * \\ \n &",
            "--deep",
            "--max",
            "3",
            "--ratio",
            "0.5",
            "--names",
            "x,1,y z",
            "--where",
            "{\"a\":[1,\"b c\"]}",
            "--dash=-rf",
        ]
    "#]]
    .assert_debug_eq(&saved_arguments(&folder));
    assert!(!std::path::Path::new(&folder.path()).join("hacked").exists());
}

#[tokio::test]
async fn parameters_are_passed_on_standard_input() {
    let folder = Folder::new("stdin");
    let parameters = json!({"text": "ä\n\"quoted\"", "list": [1, {"a": null}]});
    let context = program(&folder, &["cat"], json!({"parameters_as": "stdin"}), parameters.clone());
    assert_eq!(completed(run(&context).await.0).result_data, Some(parameters));
}

#[tokio::test]
async fn parameters_replace_placeholders_in_the_command() {
    let folder = Folder::with("placeholders", &[("keep.sh", SAVE_ARGUMENTS), ("kept/arguments", "")]);
    let command = ["sh", "keep.sh", "${params.path}", "--max=${params.max}", "${runtime.run_id}"];
    let parameters = json!({"path": "a b; ${params.max} $HOME", "max": 3, "unnamed": "x"});
    let context = program(&folder, &command, json!({"parameters_as": "placeholders"}), parameters);
    let fill_context = FillContext {
        parameters: &context.parameters,
        session_id: &context.session_id,
        run_id: &context.run_id,
        environment: &|_| None,
    };
    let filled = fill(&context.blueprint, &fill_context).unwrap();
    let context = TestRun { blueprint: filled.blueprint.into(), command: filled.command, ..context };
    completed(run(&context).await.0);
    assert_eq!(saved_arguments(&folder), ["a b; ${params.max} $HOME", "--max=3", "run_020202020202"]);
}

/// Returns the program's standard output, also if it is not a result.
fn stdout(journal: &MemoryJournal) -> String {
    let mut outputs = journal.events().into_iter().filter_map(|event| match event.body {
        EventBody::PostTool { tool_output, .. } => Some(tool_output["stdout"].as_str().unwrap().to_owned()),
        _ => None,
    });
    outputs.next().unwrap()
}

#[tokio::test]
async fn program_sees_only_the_named_variables() {
    assert!(std::env::var_os("PATH").is_some(), "the test needs a variable to hide");
    let folder = Folder::new("environment");
    let context = program(&folder, &["env"], json!({}), json!({}));
    assert_eq!(stdout(&run(&context).await.1), "");
    let environment = vec![("REGION".to_owned(), "a b".to_owned())];
    let context = TestRun {
        environment: environment.into(),
        ..program(&folder, &["env"], json!({"env": ["REGION"]}), json!({}))
    };
    assert_eq!(stdout(&run(&context).await.1), "REGION=a b\n");
}

async fn failure(context: &TestRun) -> Failure {
    failed(run(context).await.0)
}

/// Formats a failure as one line, without the machine's paths.
fn describe(failure: &Failure, folder: &Folder) -> String {
    let errors = failure.error.validation_errors.join("; ");
    let line = format!("{}: {}", failure.error.kind.name(), failure.error.message);
    let line = if errors.is_empty() { line } else { format!("{line} [{errors}]") };
    line.replace(&folder.path(), "FOLDER")
}

async fn check(text: &str, more: Value, expected: Expect) {
    let folder = Folder::new("failing");
    let failure = failure(&script(&folder, text, more)).await;
    expected.assert_eq(&describe(&failure, &folder));
}

#[tokio::test]
async fn failures_of_programs_are_reported() {
    let contract = || json!({"output_schema": {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}});
    check(
        "echo 'no such thing' >&2; echo '{}'; exit 3",
        json!({}),
        expect!["tool_failed: the program 'sh' failed (exit status: 3): no such thing"],
    )
    .await;
    check(
        "echo lost >&2; kill -TERM $$",
        json!({}),
        expect!["tool_failed: the program 'sh' failed (signal: 15 (SIGTERM)): lost"],
    )
    .await;
    check("exit 1", contract(), expect!["tool_failed: the program 'sh' failed (exit status: 1)"]).await;
    check("true", json!({}), expect!["tool_failed: the program's standard output is no result: it is empty; the program has to write its result there, as JSON"]).await;
    check("true", contract(), expect!["output_schema_validation_failed: the program's standard output is no result: it is empty; the program has to write its result there, as JSON [$: the program's standard output is no result: it is empty; the program has to write its result there, as JSON]"]).await;
    check("echo 'All is well.'", json!({}), expect!["tool_failed: the program's standard output is no result: the text is not one JSON document: not valid JSON at line 1, column 1"]).await;
    check("echo '{\"n\": 1} {\"n\": 2}'", contract(), expect!["output_schema_validation_failed: the program's standard output is no result: the text is not one JSON document: not valid JSON at line 1, column 10 [$: the program's standard output is no result: the text is not one JSON document: not valid JSON at line 1, column 10]"]).await;
    check("echo '{\"n\": \"one\"}'", contract(), expect!["output_schema_validation_failed: The program's output did not match schema [$.n: must be an integer, not a string ('one')]"]).await;
    check(
        "printf '{\"n\": \"\\377\"}'",
        json!({}),
        expect!["tool_failed: the program 'sh' wrote bytes that are not UTF-8 text"],
    )
    .await;
    check("yes", json!({}), expect!["tool_failed: the program 'sh' wrote more than 4194304 bytes"]).await;
}

#[tokio::test]
async fn program_that_does_not_start_is_reported() {
    let folder = Folder::with("absent", &[("plain.sh", "#!/bin/sh\necho '{}'\n")]);
    let check = async |command: &str, expected: Expect| {
        let failure = failure(&program(&folder, &[command], json!({}), json!({}))).await;
        expected.assert_eq(&describe(&failure, &folder));
    };
    check("./absent", expect!["tool_failed: the program './absent' cannot be started: FOLDER/absent does not exist (relative paths start at FOLDER)"]).await;
    check("no-such-program-anywhere", expect!["tool_failed: the program 'no-such-program-anywhere' cannot be started: not found on its PATH (not set); give its absolute path, or ./NAME if it is in FOLDER"]).await;
    check("./plain.sh", expect!["tool_failed: the program './plain.sh' cannot be started: FOLDER/plain.sh is not executable; try chmod +x"]).await;
}

#[tokio::test]
async fn result_that_violates_the_contract_is_kept_in_the_salvage() {
    let folder = Folder::new("kept");
    let contract = json!({"output_schema": {"type": "object", "required": ["n"]}});
    let failure = failure(&script(&folder, "echo '{\"m\": 1}'", contract)).await;
    assert_eq!(failure.salvage.best_candidate, Some(json!({"m": 1})));
    assert_eq!(failure.salvage.replies, ["{\"m\": 1}"]);
    assert_eq!(failure.error.calls, 0);
}

/// A named pipe that a child of the program holds open. Reading it ends when that child has exited.
struct HeldPipe {
    reading: tokio::task::JoinHandle<()>,
    opened: tokio::sync::oneshot::Receiver<()>,
}

/// Leaves a child process behind that would run for a quarter of an hour.
const LEAVE_CHILD: &str = "sleep 1000 > held &\n";

impl HeldPipe {
    async fn child_exited(self) {
        tokio::time::timeout(TIME_MAX, self.reading).await.expect("the child exits").unwrap();
    }
}

fn hold_pipe(folder: &Folder) -> HeldPipe {
    let path = format!("{}/held", folder.path());
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    let (sender, opened) = tokio::sync::oneshot::channel();
    let reading = tokio::task::spawn_blocking(move || {
        // Opening blocks until the other side opens the pipe.
        let mut pipe = std::fs::File::open(path).unwrap();
        sender.send(()).unwrap();
        let _ = pipe.read_to_end(&mut Vec::new());
    });
    HeldPipe { reading, opened }
}

#[tokio::test]
async fn timeout_kills_the_program_and_its_children() {
    let folder = Folder::new("timeout");
    let held = hold_pipe(&folder);
    let more = json!({"limits": {"timeout_seconds": 1}});
    let text = format!("echo 'still waiting' >&2\n{LEAVE_CHILD}wait");
    let (outcome, journal) = run(&script(&folder, &text, more)).await;
    let error = failed(outcome).error;
    assert_eq!(error.kind, RunErrorType::Timeout);
    let (before, after) = error.message.split_once(" took longer than ").unwrap();
    assert_eq!((before, after.ends_with(" s: still waiting")), ("the program 'sh'", true), "{after}");
    held.child_exited().await;
    assert_eq!(names(&journal.events())[2..], ["pre_tool sh", "post_tool sh failed", "run_completed"]);
}

#[tokio::test]
async fn stop_kills_the_program_and_its_children() {
    let folder = Folder::new("stopped");
    let mut held = hold_pipe(&folder);
    let context = script(&folder, &format!("{LEAVE_CHILD}wait"), json!({}));
    let (journal, stop) = (journal(), StopSignal::default());
    let stopping = async {
        (&mut held.opened).await.unwrap();
        stop.request();
    };
    let (outcome, ()) = tokio::join!(drive_to_end(&context, &journal, &stop, &()), stopping);
    assert_eq!(failed(outcome.unwrap()).error.kind, RunErrorType::Stopped);
    held.child_exited().await;
}

#[tokio::test]
async fn leftover_children_are_killed_without_waiting() {
    let folder = Folder::new("left");
    let held = hold_pipe(&folder);
    // The child holds the pipe and its parent's standard output.
    let text = "exec 3> held\nsleep 1000 &\nexec 3>&-\necho '{}'";
    let (outcome, _) = run(&script(&folder, text, json!({}))).await;
    assert_eq!(completed(outcome).result_data, Some(json!({})));
    held.child_exited().await;
}

#[tokio::test]
async fn secrets_in_the_output_are_redacted_in_the_journal() {
    let secret = "s3cret \"value\" of mine";
    let environment = vec![
        ("API_TOKEN".to_owned(), secret.to_owned()),
        ("REGION".to_owned(), "somewhere far away".to_owned()),
    ];
    let more = json!({"env": ["API_TOKEN", "REGION"]});
    for (text, status) in [
        (
            "printf '[\"%s\", \"%s\"]' \"$(printf %s \"$API_TOKEN\" | sed 's/\"/\\\\\"/g')\" \"$REGION\"",
            "completed",
        ),
        ("echo \"$API_TOKEN $REGION\" >&2; exit 1", "failed"),
        ("echo \"$API_TOKEN $REGION\"", "failed"),
    ] {
        let folder = Folder::new("secrets");
        let context =
            TestRun { environment: environment.clone().into(), ..script(&folder, text, more.clone()) };
        let (_, journal) = run(&context).await;
        let written = serde_json::to_string(&journal.events()).unwrap();
        assert!(written.contains(&format!("\"status\":\"{status}\"")), "{text}: {written}");
        assert!(!written.contains("s3cret") && written.contains("[redacted]"), "{text}: {written}");
        assert!(written.contains("somewhere far away"), "{text}: {written}");
    }
}

#[tokio::test]
async fn journal_has_placeholders_in_place_of_secret_arguments() {
    let folder = Folder::with("redacted", &[("keep.sh", SAVE_ARGUMENTS), ("kept/arguments", "")]);
    let secret = "s3cret-value-of-mine";
    let argument = "${env.API_KEY}";
    let context = program(&folder, &["sh", "keep.sh", argument], json!({"env": ["API_KEY"]}), json!({}));
    let command = ["sh", "keep.sh", secret].map(str::to_owned).to_vec();
    let environment = vec![("API_KEY".to_owned(), secret.to_owned())];
    let (outcome, journal) = run(&TestRun { environment: environment.into(), command, ..context }).await;
    completed(outcome);
    assert_eq!(saved_arguments(&folder), [secret]);
    let events = journal.events();
    let given = events.iter().find(|event| matches!(event.body, EventBody::PreTool { .. })).unwrap();
    assert!(serde_json::to_string(given).unwrap().contains(argument), "{given:?}");
    let written = serde_json::to_string(&events).unwrap();
    assert!(!written.contains(secret), "{written}");
}

#[tokio::test]
async fn program_that_has_ended_is_not_run_again() {
    let folder = Folder::new("again");
    let text = "echo x >> runs; echo '{\"runs\": 1}'";
    folder.write("runs", "");
    let whole = journal();
    let expected =
        drive_to_end(&script(&folder, text, json!({})), &whole, &StopSignal::default(), &()).await.unwrap();
    let events = whole.events();
    let answered = names(&events).iter().position(|name| name == "post_tool sh").unwrap();
    for cut in 0..=events.len() {
        folder.write("runs", "");
        let journal = MemoryJournal::with_events(clock(), events[..cut].to_vec());
        let context = script(&folder, text, json!({}));
        assert_eq!(
            drive_to_end(&context, &journal, &StopSignal::default(), &()).await.unwrap(),
            expected,
            "{cut}"
        );
        assert_eq!(folder.read("runs").lines().count(), usize::from(cut <= answered), "{cut}");
    }
}
