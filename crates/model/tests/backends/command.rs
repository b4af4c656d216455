//! Programs that answer.

use std::io::Read as _;
use std::path::PathBuf;
use std::sync::Arc;

use expect_test::{Expect, expect};
use formwork_model::{Backend, BackendConfig, Call, Error, Invocation, connect};
use formwork_types::{BackendKind, Message, Reply, Request, Stop};
use serde_json::{Value, json};

use crate::support::hello;

fn program(command: &[&str]) -> BackendConfig {
    let mut config = BackendConfig::new("mine", BackendKind::Command);
    config.command = command.iter().map(|word| (*word).to_owned()).collect();
    config.model = Some("executor".to_owned());
    config
}

fn shell(script: &str) -> BackendConfig {
    program(&["sh", "-c", script])
}

fn start(config: &BackendConfig) -> Arc<dyn Backend> {
    connect(config, &|name| (name == "PATH").then(|| std::env::var("PATH").unwrap())).unwrap()
}

async fn run(config: &BackendConfig) -> Result<Reply, Error> {
    start(config).call(Call::new(&hello())).await
}

/// The document that the program finds on its input.
async fn check_document(request: &Request, invocation: &Invocation, expected: Expect) {
    let call = Call { request, invocation: Some(invocation), watch: &() };
    let reply = start(&program(&["cat"])).call(call).await.unwrap();
    let document: Value = serde_json::from_str(&reply.text).unwrap();
    expected.assert_eq(&format!("{document:#}"));
}

fn invocation(resumed: bool) -> Invocation {
    Invocation {
        session_id: "ses_1".to_owned(),
        run_id: "run_1".to_owned(),
        agent_name: "reviewer".to_owned(),
        agent_blueprint: json!({"name": "reviewer", "system_prompt": "old"}),
        parameters: json!({"prompt": "Review it", "depth": 2}),
        project_dir: "/project".to_owned(),
        resumed,
    }
}

#[tokio::test]
async fn a_first_call_starts_a_session_with_the_callers_parameters() {
    let request = Request {
        system: Some("Be brief.".to_owned()),
        messages: vec![Message::user("Review it\n\nAnswer in JSON.")],
        max_tokens: Some(64),
        schema_hint: Some(json!({"type": "object"})),
        ..Request::default()
    };
    check_document(
        &request,
        &invocation(false),
        expect![[r#"
        {
          "schema_version": "2.2",
          "mode": "start",
          "session_id": "ses_1",
          "parameters": {
            "prompt": "Review it\n\nAnswer in JSON.",
            "depth": 2
          },
          "project_dir": "/project",
          "agent_name": "reviewer",
          "agent_blueprint": {
            "name": "reviewer",
            "system_prompt": "Be brief."
          },
          "executor_config": {
            "max_tokens": 64
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
async fn a_correction_resumes_the_session_with_the_last_message() {
    let request = Request {
        messages: vec![
            Message::user("Review it"),
            Message::assistant("{", Vec::new()),
            Message::user("That is not JSON."),
        ],
        ..Request::default()
    };
    check_document(
        &request,
        &invocation(true),
        expect![[r#"
        {
          "schema_version": "2.2",
          "mode": "resume",
          "session_id": "ses_1",
          "parameters": {
            "prompt": "That is not JSON."
          },
          "project_dir": "/project",
          "agent_name": "reviewer",
          "agent_blueprint": {
            "name": "reviewer",
            "system_prompt": "old"
          },
          "executor_config": {
            "max_tokens": null
          },
          "output_schema_hint": null,
          "metadata": {
            "run_id": "run_1"
          }
        }"#]],
    )
    .await;
}

#[tokio::test]
async fn what_is_written_is_the_answer() {
    let reply = run(&shell("cat > /dev/null; echo; echo '{\"a\": 1}'; echo aside >&2")).await.unwrap();
    assert_eq!(
        (reply.text.as_str(), &reply.stop, reply.model.as_str()),
        ("{\"a\": 1}", &Stop::Finished, "executor")
    );
    assert!(reply.usage.estimated && reply.usage.input > 0 && reply.usage.output == 2, "{:?}", reply.usage);
}

#[tokio::test]
async fn a_program_that_fails_is_shown_with_the_end_of_its_words() {
    let error =
        run(&shell("echo half an answer; echo first >&2; echo 'no licence' >&2; exit 3")).await.unwrap_err();
    assert_eq!(error.to_string(), "sh failed (exit status: 3): first\nno licence");
    let error = run(&shell("exit 4")).await.unwrap_err();
    assert_eq!(error.to_string(), "sh failed (exit status: 4)");
    // What went wrong stands at the end, however much was said before.
    let error =
        run(&shell("yes chatter | head -c 300000 >&2; echo 'the reason' >&2; exit 1")).await.unwrap_err();
    assert!(error.to_string().ends_with("chatter\nthe reason"), "{error}");
    assert!(error.to_string().len() < 700, "{error}");
}

#[tokio::test]
async fn a_program_that_is_not_there_is_named() {
    let error = run(&program(&["/nowhere/executor"])).await.unwrap_err();
    assert!(error.to_string().starts_with("/nowhere/executor cannot be started: "), "{error}");
}

#[tokio::test]
async fn a_program_that_does_not_read_its_input_still_answers() {
    let request = Request { messages: vec![Message::user("x".repeat(1024 * 1024))], ..Request::default() };
    for script in ["echo done", "exec <&-; echo done"] {
        let reply = start(&shell(script)).call(Call::new(&request)).await.unwrap();
        assert_eq!(reply.text, "done", "{script}");
    }
}

#[tokio::test]
async fn a_program_that_runs_wild_is_not_kept() {
    let error = run(&shell("head -c 17000000 /dev/zero")).await.unwrap_err();
    assert_eq!(error, Error::TooLarge { limit: 16 * 1024 * 1024 });
}

#[tokio::test]
async fn a_program_sees_the_variables_it_was_given_and_no_others() {
    let mut config = program(&["env"]);
    config.env = vec!["LISTED".to_owned(), "UNSET".to_owned()];
    let environment = |name: &str| match name {
        "PATH" => Some(std::env::var("PATH").unwrap()),
        "UNSET" => None,
        _ => Some(format!("value of {name}")),
    };
    let backend = connect(&config, &environment).unwrap();
    let reply = backend.call(Call::new(&hello())).await.unwrap();
    let mut lines: Vec<&str> = reply.text.lines().filter(|line| !line.starts_with("PATH=")).collect();
    lines.sort_unstable();
    let others = ["HOME", "LANG", "LISTED", "TMPDIR"].map(|name| format!("{name}=value of {name}"));
    assert_eq!(lines, others);
    assert_eq!(reply.text.lines().count(), 5, "{}", reply.text);
}

/// A pipe with a name, through which a program's descendants show that they live.
struct Pipe(PathBuf);

impl Pipe {
    fn new(name: &str) -> Pipe {
        let path = std::env::temp_dir().join(format!("formwork-{}-{name}", std::process::id()));
        let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        Pipe(path)
    }

    /// A program with a child that keeps the pipe open and outlives the test, unless it is ended.
    fn holder(&self) -> BackendConfig {
        shell(&format!("(echo alive; sleep 30; echo survived) > '{}' & wait", self.0.display()))
    }

    /// All that is written until the last writer is gone. Says when the first of it has come.
    fn read(&self, begun: tokio::sync::oneshot::Sender<()>) -> tokio::task::JoinHandle<String> {
        let path = self.0.clone();
        tokio::task::spawn_blocking(move || {
            let mut file = std::fs::File::open(path).unwrap();
            let mut first = [0];
            file.read_exact(&mut first).unwrap();
            let _ = begun.send(());
            let mut rest = String::new();
            file.read_to_string(&mut rest).unwrap();
            format!("{}{rest}", char::from(first[0]))
        })
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[tokio::test]
async fn a_call_that_is_dropped_ends_the_program_and_its_children() {
    let pipe = Pipe::new("dropped");
    let (begun, has_begun) = tokio::sync::oneshot::channel();
    let written = pipe.read(begun);
    let config = pipe.holder();
    tokio::select! {
        outcome = run(&config) => panic!("it ended by itself: {outcome:?}"),
        _ = has_begun => {}
    }
    assert_eq!(written.await.unwrap(), "alive\n");
}

#[tokio::test]
async fn a_timeout_ends_the_program_and_its_children() {
    let pipe = Pipe::new("timeout");
    let (begun, has_begun) = tokio::sync::oneshot::channel();
    let written = pipe.read(begun);
    let config = BackendConfig { timeout_seconds: 2.0, ..pipe.holder() };
    let error = run(&config).await.unwrap_err();
    assert!(matches!(error, Error::Timeout { setting: "timeout_seconds", .. }), "{error}");
    has_begun.await.unwrap();
    assert_eq!(written.await.unwrap(), "alive\n");
}

#[tokio::test]
async fn a_child_that_stays_behind_does_not_hold_the_answer_back() {
    let reply = run(&shell("(sleep 30; echo survived) & echo done")).await.unwrap();
    assert_eq!(reply.text, "done");
}
