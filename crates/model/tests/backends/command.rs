//! The `command` backend: its document on stdin, its environment, and the handling of its output.

use std::collections::BTreeMap;

use expect_test::{Expect, expect};
use serde_json::{Value, json};
use slipform_model::{BackendConfig, Call, Error, Invocation, connect};
use slipform_types::{BackendKind, Message, Reply, Request};

use crate::support::{ask, question, shown};

/// Returns settings for a program with a timeout of 60 s.
pub(crate) fn config(command: &[&str]) -> BackendConfig {
    let mut config = BackendConfig::new("mine", BackendKind::Command);
    config.command = command.iter().map(|&word| word.to_owned()).collect();
    config.timeout_seconds = 60.0;
    config
}

/// Passes on the `PATH` of the test and nothing else.
pub(crate) fn environment(name: &str) -> Option<String> {
    (name == "PATH").then(|| std::env::var("PATH").unwrap())
}

/// Runs a shell script as the backend's program.
pub(crate) async fn run(script: &str) -> Result<Reply, Error> {
    ask(connect(&config(&["sh", "-c", script]), &environment).unwrap().as_ref()).await
}

fn invocation(resumed: bool) -> Invocation {
    Invocation {
        session_id: "ses_1".to_owned(),
        run_id: "run_1".to_owned(),
        agent_name: "painter".to_owned(),
        agent_blueprint: json!({"name": "painter", "tier": "small"}),
        parameters: json!({"wall": "north", "prompt": "Paint it."}),
        project_dir: "/srv/project".to_owned(),
        resumed,
    }
}

/// Compares the document that the program reads from stdin; `cat` returns it as the reply.
async fn check_document(invocation: Option<&Invocation>, expect: Expect) {
    let request = Request {
        system: Some("You know paint.".to_owned()),
        messages: vec![Message::user("Paint the wall."), Message::user("As JSON.")],
        max_tokens: Some(9),
        schema_hint: Some(json!({"type": "object"})),
        ..Request::default()
    };
    let backend = connect(&config(&["cat"]), &environment).unwrap();
    let reply = backend.call(Call { invocation, ..Call::new(&request) }).await.unwrap();
    let document: Value = serde_json::from_str(&reply.text).unwrap();
    expect.assert_eq(&format!("{document:#}"));
}

#[tokio::test]
async fn first_call_sends_mode_start_with_parameters() {
    check_document(
        Some(&invocation(false)),
        expect![[r#"
        {
          "schema_version": "2.2",
          "mode": "start",
          "session_id": "ses_1",
          "parameters": {
            "wall": "north",
            "prompt": "Paint the wall.\n\nAs JSON."
          },
          "project_dir": "/srv/project",
          "agent_name": "painter",
          "agent_blueprint": {
            "name": "painter",
            "tier": "small",
            "system_prompt": "You know paint."
          },
          "executor_config": {
            "max_tokens": 9
          },
          "output_schema_hint": {
            "type": "object"
          },
          "metadata": {
            "run_id": "run_1"
          }
        }"#]],
    )
    .await;
}

#[tokio::test]
async fn correction_sends_mode_resume_with_prompt_only() {
    check_document(
        Some(&invocation(true)),
        expect![[r#"
        {
          "schema_version": "2.2",
          "mode": "resume",
          "session_id": "ses_1",
          "parameters": {
            "prompt": "As JSON."
          },
          "project_dir": "/srv/project",
          "agent_name": "painter",
          "agent_blueprint": {
            "name": "painter",
            "tier": "small",
            "system_prompt": "You know paint."
          },
          "executor_config": {
            "max_tokens": 9
          },
          "output_schema_hint": {
            "type": "object"
          },
          "metadata": {
            "run_id": "run_1"
          }
        }"#]],
    )
    .await;
}

#[tokio::test]
async fn call_outside_a_run_sends_the_prompt() {
    check_document(
        None,
        expect![[r#"
        {
          "schema_version": "2.2",
          "mode": "start",
          "session_id": "",
          "parameters": {
            "prompt": "Paint the wall.\n\nAs JSON."
          },
          "project_dir": "",
          "agent_name": "",
          "agent_blueprint": {
            "system_prompt": "You know paint."
          },
          "executor_config": {
            "max_tokens": 9
          },
          "output_schema_hint": {
            "type": "object"
          },
          "metadata": {
            "run_id": ""
          }
        }"#]],
    )
    .await;
}

#[tokio::test]
async fn reply_is_the_trimmed_stdout() {
    let reply = run("echo; echo '{\"a\": 1}'; echo; echo noise >&2").await.unwrap();
    assert_eq!(reply.text, "{\"a\": 1}");
    assert!(reply.usage.estimated && reply.usage.output == 2 && reply.usage.input > 0, "{:?}", reply.usage);
}

#[tokio::test]
async fn program_receives_only_common_and_listed_variables() {
    let variables: BTreeMap<&str, String> = [
        ("PATH", std::env::var("PATH").unwrap()),
        ("HOME", "/home/me".to_owned()),
        ("LANG", "C".to_owned()),
        ("TMPDIR", "/tmp".to_owned()),
        ("LISTED", "yes".to_owned()),
        ("TOKEN", "sk-1234567890".to_owned()),
        ("OTHER", "secret".to_owned()),
    ]
    .into();
    let mut config = config(&["env"]);
    config.env = vec!["LISTED".to_owned(), "MISSING".to_owned()];
    config.api_key_env = Some("TOKEN".to_owned());
    let backend = connect(&config, &|name| variables.get(name).cloned()).unwrap();
    let reply = ask(backend.as_ref()).await.unwrap();
    let mut names: Vec<&str> = reply.text.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    names.sort_unstable();
    assert_eq!(names, ["HOME", "LANG", "LISTED", "PATH", "TMPDIR", "TOKEN"]);
    assert!(reply.text.contains("TOKEN=[redacted]"), "{}", reply.text);
}

#[tokio::test]
async fn listed_variable_values_are_redacted_in_errors() {
    let mut config = config(&["sh", "-c", "echo \"bad key $TOKEN\" >&2; exit 1"]);
    config.env = vec!["TOKEN".to_owned()];
    let value =
        |name: &str| if name == "TOKEN" { Some("sk-1234567890".to_owned()) } else { environment(name) };
    let backend = connect(&config, &value).unwrap();
    let outcome = ask(backend.as_ref()).await;
    assert_eq!(shown(&outcome), "Program: sh failed (exit status: 1): bad key [redacted]");
    assert!(!format!("{backend:?}").contains("sk-1234567890"), "{backend:?}");
}

#[tokio::test]
async fn failure_includes_the_end_of_stderr() {
    let check = async |script: &str, expected: &str| {
        let script = format!("cat > /dev/null; {script}");
        assert_eq!(shown(&run(&script).await), format!("Program: sh {expected}"));
    };
    check("echo half; echo 'no model loaded' >&2; exit 3", "failed (exit status: 3): no model loaded").await;
    check("exit 1", "failed (exit status: 1)").await;
    check("kill -9 $$", "failed (signal: 9 (SIGKILL))").await;

    let error = run("yes noise | head -c 300000 >&2; echo 'the real reason' >&2; exit 1").await.unwrap_err();
    let message = error.to_string();
    assert!(message.ends_with("noise\nthe real reason"), "{message}");
    assert!(message.len() < 700, "{} bytes", message.len());
}

#[tokio::test]
async fn missing_program_is_named_in_the_error() {
    let backend = connect(&config(&["/no/such/program"]), &environment).unwrap();
    let message = shown(&ask(backend.as_ref()).await);
    assert!(message.starts_with("Program: /no/such/program cannot be started: "), "{message}");
}

#[tokio::test]
async fn program_that_ignores_stdin_still_answers() {
    let request = Request { messages: vec![Message::user("x".repeat(4 << 20))], ..question() };
    for (script, expected) in
        [("echo green", Ok("green")), ("exec <&-; echo green", Ok("green")), ("exit 4", Err(()))]
    {
        let backend = connect(&config(&["sh", "-c", script]), &environment).unwrap();
        let outcome = backend.call(Call::new(&request)).await;
        assert_eq!(outcome.as_ref().map(|reply| reply.text.as_str()).map_err(|_| ()), expected, "{script}");
    }
}

#[tokio::test]
async fn program_that_exceeds_the_output_limit_fails() {
    let expected = "TooLarge: the reply is larger than 16777216 bytes";
    assert_eq!(shown(&run("exec yes").await), expected);
    assert_eq!(shown(&run("yes | cat").await), expected);
}
