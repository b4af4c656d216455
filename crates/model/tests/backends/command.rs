//! Programs as backends: what they are given and what their answers become.

use std::collections::BTreeMap;

use expect_test::{Expect, expect};
use serde_json::{Value, json};
use slipform_model::{BackendConfig, Call, Error, Invocation, connect};
use slipform_types::{BackendKind, Message, Reply, Request};

use crate::support::{ask, question, shown};

/// A backend that runs this program, and has a minute to do so.
pub(crate) fn config(command: &[&str]) -> BackendConfig {
    let mut config = BackendConfig::new("mine", BackendKind::Command);
    config.command = command.iter().map(|&word| word.to_owned()).collect();
    config.timeout_seconds = 60.0;
    config
}

/// Programs are looked for where this test would look for them.
pub(crate) fn environment(name: &str) -> Option<String> {
    (name == "PATH").then(|| std::env::var("PATH").unwrap())
}

/// Runs a shell script in place of a model.
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

/// What `cat` was given.
async fn check_document(invocation: Option<&Invocation>, expect: Expect) {
    let request = Request {
        system: Some("You know paint.".to_owned()),
        messages: vec![Message::user("Paint the wall."), Message::user("As JSON.")],
        max_tokens: Some(9),
        schema_hint: Some(json!({"type": "object"})),
        ..Request::default()
    };
    let backend = connect(&config(&["cat"]), &environment).unwrap();
    let reply = backend.call(Call { request: &request, invocation, watch: &() }).await.unwrap();
    let document: Value = serde_json::from_str(&reply.text).unwrap();
    expect.assert_eq(&format!("{document:#}"));
}

#[tokio::test]
async fn a_first_call_starts_a_session() {
    check_document(
        Some(&invocation(false)),
        expect![[r#"
        {
          "schema_version": "2.2",
          "mode": "start",
          "session_id": "ses_1",
          "parameters": {
            "wall": "north",
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
async fn a_correction_resumes_it() {
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
async fn a_call_outside_any_run_has_a_prompt_all_the_same() {
    check_document(
        None,
        expect![[r#"
        {
          "schema_version": "2.2",
          "mode": "start",
          "session_id": "",
          "parameters": {
            "prompt": "As JSON."
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
async fn the_answer_is_what_stands_on_stdout() {
    let reply = run("echo; echo '{\"a\": 1}'; echo; echo noise >&2").await.unwrap();
    assert_eq!(reply.text, "{\"a\": 1}");
    assert!(reply.usage.estimated && reply.usage.output == 2 && reply.usage.input > 0, "{:?}", reply.usage);
}

#[tokio::test]
async fn a_program_sees_its_own_variables_and_no_others() {
    let given: BTreeMap<&str, String> = [
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
    let backend = connect(&config, &|name| given.get(name).cloned()).unwrap();
    let reply = ask(backend.as_ref()).await.unwrap();
    let mut names: Vec<&str> = reply.text.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    names.sort_unstable();
    assert_eq!(names, ["HOME", "LANG", "LISTED", "PATH", "TMPDIR", "TOKEN"]);
    assert!(reply.text.contains("TOKEN=[redacted]"), "{}", reply.text);
}

#[tokio::test]
async fn what_a_program_may_see_is_not_shown() {
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
async fn failures_come_with_the_end_of_stderr() {
    let check = async |script: &str, expected: &str| {
        let script = format!("cat > /dev/null; {script}");
        assert_eq!(shown(&run(&script).await), format!("Program: sh {expected}"));
    };
    check("echo half; echo 'no model loaded' >&2; exit 3", "failed (exit status: 3): no model loaded").await;
    check("exit 1", "failed (exit status: 1)").await;
    check("kill -9 $$", "failed (signal: 9 (SIGKILL))").await;

    let error = run("yes noise | head -c 300000 >&2; echo 'the real reason' >&2; exit 1").await.unwrap_err();
    let words = error.to_string();
    assert!(words.ends_with("noise\nthe real reason"), "{words}");
    assert!(words.len() < 700, "{} bytes", words.len());
}

#[tokio::test]
async fn a_program_that_is_not_there_is_named() {
    let backend = connect(&config(&["/no/such/program"]), &environment).unwrap();
    let words = shown(&ask(backend.as_ref()).await);
    assert!(words.starts_with("Program: /no/such/program cannot be started: "), "{words}");
}

#[tokio::test]
async fn a_program_need_not_read_what_it_is_given() {
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
async fn a_program_that_runs_wild_is_stopped() {
    let expected = "TooLarge: the reply is larger than 16777216 bytes";
    assert_eq!(shown(&run("exec yes").await), expected);
    assert_eq!(shown(&run("yes | cat").await), expected);
}
