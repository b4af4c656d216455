//! Procedural agents: programs that are really started, with what they are given and whatever they do.

use std::io::Read as _;
use std::time::Duration;

use expect_test::{Expect, expect};
use serde_json::{Value, json};
use slipform_agents::placeholders::{FillContext, fill};
use slipform_runner::{Memory, RunContext, StopSignal, perform};
use slipform_types::{EventBody, Failure, RunErrorType};

use crate::support::contexts::{claim, clock, journal};
use crate::support::folder::Folder;
use crate::support::perform::{completed, failed, names, run};

/// How long something may take that happens at once; beyond it the test has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// A claim of an agent that is this program.
fn program(folder: &Folder, command: &[&str], more: Value, parameters: Value) -> RunContext {
    let mut agent = json!({"name": "scanner", "type": "procedural", "command": command});
    agent.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
    let claim = claim(&agent, "", json!({}), Vec::new());
    RunContext { parameters, project_dir: folder.path(), ..claim }
}

/// The same of a script.
fn script(folder: &Folder, text: &str, more: Value) -> RunContext {
    folder.write("script.sh", text);
    program(folder, &["sh", "script.sh"], more, json!({}))
}

/// Keeps its arguments, each ended by a zero byte.
const KEEP: &str = "printf '%s\\0' \"$@\" > arguments; echo '{\"kept\": true}'";

fn kept(folder: &Folder) -> Vec<String> {
    let text = folder.read("arguments");
    text.strip_suffix('\0').unwrap().split('\0').map(str::to_owned).collect()
}

#[tokio::test]
async fn parameters_are_arguments_that_no_shell_reads() {
    let folder = Folder::with("flags", &[("keep.sh", KEEP)]);
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
            "--dash",
            "-rf",
        ]
    "#]]
    .assert_debug_eq(&kept(&folder));
    assert!(!std::path::Path::new(&folder.path()).join("hacked").exists());
}

#[tokio::test]
async fn parameters_are_read_from_standard_input() {
    let folder = Folder::new("stdin");
    let parameters = json!({"text": "ä\n\"quoted\"", "list": [1, {"a": null}]});
    let claim = program(&folder, &["cat"], json!({"parameters_as": "stdin"}), parameters.clone());
    assert_eq!(completed(run(&claim).await.0).result_data, Some(parameters));
}

#[tokio::test]
async fn parameters_stand_where_the_command_names_them() {
    let folder = Folder::with("placeholders", &[("keep.sh", KEEP)]);
    let command = ["sh", "keep.sh", "${params.path}", "--max=${params.max}", "${runtime.run_id}"];
    let parameters = json!({"path": "a b; ${params.max} $HOME", "max": 3, "unnamed": "x"});
    let claim = program(&folder, &command, json!({"parameters_as": "placeholders"}), parameters);
    let context = FillContext {
        parameters: &claim.parameters,
        session_id: &claim.session_id,
        run_id: &claim.run_id,
        environment: &|_| None,
    };
    let filled = fill(&claim.blueprint, &context).unwrap();
    let claim = RunContext { blueprint: filled.blueprint.into(), command: filled.command, ..claim };
    completed(run(&claim).await.0);
    assert_eq!(kept(&folder), ["a b; ${params.max} $HOME", "--max=3", "run_020202020202"]);
}

/// What the program wrote, whether that is a result or not.
fn stdout(journal: &Memory) -> String {
    let mut outputs = journal.events().into_iter().filter_map(|event| match event.body {
        EventBody::PostTool { tool_output, .. } => Some(tool_output["stdout"].as_str().unwrap().to_owned()),
        _ => None,
    });
    outputs.next().unwrap()
}

#[tokio::test]
async fn a_program_sees_no_variables_but_those_that_are_named() {
    assert!(std::env::var_os("PATH").is_some(), "there is something to hide");
    let folder = Folder::new("environment");
    let claim = program(&folder, &["env"], json!({}), json!({}));
    assert_eq!(stdout(&run(&claim).await.1), "");
    let environment = vec![("REGION".to_owned(), "a b".to_owned())];
    let claim = RunContext {
        environment: environment.into(),
        ..program(&folder, &["env"], json!({"env": ["REGION"]}), json!({}))
    };
    assert_eq!(stdout(&run(&claim).await.1), "REGION=a b\n");
}

async fn failure(claim: &RunContext) -> Failure {
    failed(run(claim).await.0)
}

/// A failure as one line, with the machine's own paths taken out of it.
fn told(failure: &Failure, folder: &Folder) -> String {
    let errors = failure.error.validation_errors.join("; ");
    let line = format!("{}: {}", failure.error.kind.name(), failure.error.message);
    let line = if errors.is_empty() { line } else { format!("{line} [{errors}]") };
    line.replace(&folder.path(), "FOLDER")
}

async fn check(text: &str, more: Value, expected: Expect) {
    let folder = Folder::new("failing");
    let failure = failure(&script(&folder, text, more)).await;
    expected.assert_eq(&told(&failure, &folder));
}

#[tokio::test]
async fn what_goes_wrong_is_told() {
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
async fn a_program_that_does_not_start_is_told() {
    let folder = Folder::with("absent", &[("plain.sh", "#!/bin/sh\necho '{}'\n")]);
    let check = async |command: &str, expected: Expect| {
        let failure = failure(&program(&folder, &[command], json!({}), json!({}))).await;
        expected.assert_eq(&told(&failure, &folder));
    };
    check("./absent", expect!["tool_failed: the program './absent' cannot be started: there is no file FOLDER/absent (relative paths start at FOLDER)"]).await;
    check("no-such-program-anywhere", expect!["tool_failed: the program 'no-such-program-anywhere' cannot be started: there is no such program on the PATH (which is not given to it); give its whole path, or ./ and its name if it is in FOLDER"]).await;
    check("./plain.sh", expect!["tool_failed: the program './plain.sh' cannot be started: FOLDER/plain.sh may not be executed; try chmod +x"]).await;
}

#[tokio::test]
async fn what_does_not_match_is_kept() {
    let folder = Folder::new("kept");
    let contract = json!({"output_schema": {"type": "object", "required": ["n"]}});
    let failure = failure(&script(&folder, "echo '{\"m\": 1}'", contract)).await;
    assert_eq!(failure.salvage.best_candidate, Some(json!({"m": 1})));
    assert_eq!(failure.salvage.replies, ["{\"m\": 1}"]);
    assert_eq!(failure.error.calls, 0);
}

/// A named pipe that a program of the program holds open. Reading it ends when that program is gone.
struct ActiveAttempts {
    reading: tokio::task::JoinHandle<()>,
    opened: tokio::sync::oneshot::Receiver<()>,
}

/// Leaves a program behind that would run for a quarter of an hour.
const LEAVE: &str = "sleep 1000 > held &\n";

impl ActiveAttempts {
    async fn gone(self) {
        tokio::time::timeout(PATIENCE, self.reading).await.expect("the program is gone").unwrap();
    }
}

fn held(folder: &Folder) -> ActiveAttempts {
    let path = format!("{}/held", folder.path());
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    let (says, opened) = tokio::sync::oneshot::channel();
    let reading = tokio::task::spawn_blocking(move || {
        // Opening waits for the other side.
        let mut pipe = std::fs::File::open(path).unwrap();
        says.send(()).unwrap();
        let _ = pipe.read_to_end(&mut Vec::new());
    });
    ActiveAttempts { reading, opened }
}

#[tokio::test]
async fn when_the_time_is_up_all_that_it_started_is_gone() {
    let folder = Folder::new("timeout");
    let held = held(&folder);
    let more = json!({"limits": {"timeout_seconds": 1}});
    let text = format!("echo 'still waiting' >&2\n{LEAVE}wait");
    let (outcome, journal) = run(&script(&folder, &text, more)).await;
    let error = failed(outcome).error;
    assert_eq!(error.kind, RunErrorType::Timeout);
    let (before, after) = error.message.split_once(" took longer than ").unwrap();
    assert_eq!((before, after.ends_with(" s: still waiting")), ("the program 'sh'", true), "{after}");
    held.gone().await;
    assert_eq!(names(&journal.events())[2..], ["pre_tool sh", "post_tool sh failed", "run_completed"]);
}

#[tokio::test]
async fn when_it_is_stopped_all_that_it_started_is_gone() {
    let folder = Folder::new("stopped");
    let mut held = held(&folder);
    let claim = script(&folder, &format!("{LEAVE}wait"), json!({}));
    let (journal, stop) = (journal(), StopSignal::default());
    let stopping = async {
        (&mut held.opened).await.unwrap();
        stop.request();
    };
    let (outcome, ()) = tokio::join!(perform(&claim, &journal, &stop, &()), stopping);
    assert_eq!(failed(outcome.unwrap()).error.kind, RunErrorType::Stopped);
    held.gone().await;
}

#[tokio::test]
async fn what_it_leaves_behind_is_neither_waited_for_nor_left() {
    let folder = Folder::new("left");
    let held = held(&folder);
    // The other has both the pipe and its parent's standard output.
    let text = "exec 3> held\nsleep 1000 &\nexec 3>&-\necho '{}'";
    let (outcome, _) = run(&script(&folder, text, json!({}))).await;
    assert_eq!(completed(outcome).result_data, Some(json!({})));
    held.gone().await;
}

#[tokio::test]
async fn secrets_that_it_prints_do_not_reach_the_journal() {
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
        let claim =
            RunContext { environment: environment.clone().into(), ..script(&folder, text, more.clone()) };
        let (_, journal) = run(&claim).await;
        let written = serde_json::to_string(&journal.events()).unwrap();
        assert!(written.contains(&format!("\"status\":\"{status}\"")), "{text}: {written}");
        assert!(!written.contains("s3cret") && written.contains("[redacted]"), "{text}: {written}");
        assert!(written.contains("somewhere far away"), "{text}: {written}");
    }
}

#[tokio::test]
async fn secrets_that_it_is_given_are_not_told() {
    let folder = Folder::with("told", &[("keep.sh", KEEP)]);
    let secret = "s3cret-value-of-mine";
    // As a command that names the variable has it filled in.
    let claim = program(&folder, &["sh", "keep.sh", secret], json!({"env": ["API_KEY"]}), json!({}));
    let environment = vec![("API_KEY".to_owned(), secret.to_owned())];
    let (outcome, journal) = run(&RunContext { environment: environment.into(), ..claim }).await;
    completed(outcome);
    assert_eq!(kept(&folder), [secret]);
    let events = journal.events();
    let given = events.iter().find(|event| matches!(event.body, EventBody::PreTool { .. })).unwrap();
    let given = serde_json::to_string(given).unwrap();
    assert!(!given.contains(secret) && given.contains("[redacted]"), "{given}");
}

#[tokio::test]
async fn a_program_that_has_answered_is_not_run_again() {
    let folder = Folder::new("again");
    let text = "echo x >> runs; echo '{\"runs\": 1}'";
    let whole = journal();
    let expected =
        perform(&script(&folder, text, json!({})), &whole, &StopSignal::default(), &()).await.unwrap();
    let events = whole.events();
    let answered = names(&events).iter().position(|name| name == "post_tool sh").unwrap();
    for cut in 0..=events.len() {
        folder.write("runs", "");
        let journal = Memory::holding(clock(), events[..cut].to_vec());
        let claim = script(&folder, text, json!({}));
        assert_eq!(perform(&claim, &journal, &StopSignal::default(), &()).await.unwrap(), expected, "{cut}");
        assert_eq!(folder.read("runs").lines().count(), usize::from(cut <= answered), "{cut}");
    }
}
