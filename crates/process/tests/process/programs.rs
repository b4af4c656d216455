//! Programs receive exactly the given input and environment, return their output, and leave no process behind.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use expect_test::{Expect, expect};
use slipform_process::{COMMON_ENVIRONMENT, Error, Limits, Output, Program, common_environment};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _};
use tokio::sync::oneshot;

/// The longest wait for an event that normally takes milliseconds. Beyond it the test fails.
const WAIT_MAX: Duration = Duration::from_secs(30);

const LIMITS: Limits = Limits { timeout: Some(WAIT_MAX), stdout_bytes_max: 100_000, stderr_bytes_max: 1_000 };

fn program(argv: &[&str], folder: &Path) -> Program {
    Program {
        argv: argv.iter().map(|&word| word.to_owned()).collect(),
        folder: folder.to_owned(),
        environment: vec![("PATH".to_owned(), std::env::var("PATH").unwrap())],
    }
}

fn shell(script: &str) -> Program {
    program(&["sh", "-c", script], Path::new("."))
}

fn shown(outcome: &Result<Output, Error>) -> String {
    match outcome {
        Ok(output) => format!(
            "{}; stdout {:?}; stderr {:?}",
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        ),
        Err(Error::Timeout { stderr, .. } | Error::TooLarge { stderr, .. }) => {
            format!("{}; stderr {:?}", outcome.as_ref().unwrap_err(), String::from_utf8_lossy(stderr))
        }
        Err(error) => error.to_string(),
    }
}

async fn check(script: &str, expect: Expect) {
    expect.assert_eq(&shown(&shell(script).run(b"input", &LIMITS).await));
}

/// Creates an empty folder below the build's temporary folder.
fn folder(name: &str) -> PathBuf {
    let folder =
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("process-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

#[tokio::test]
async fn run_returns_status_stdout_and_stderr() {
    check("cat; echo oh >&2", expect![[r#"exit status: 0; stdout "input"; stderr "oh\n""#]]).await;
    check("echo half; exit 3", expect![[r#"exit status: 3; stdout "half\n"; stderr """#]]).await;
    check("kill -9 $$", expect![[r#"signal: 9 (SIGKILL); stdout ""; stderr """#]]).await;
    check("exec <&-; echo deaf", expect![[r#"exit status: 0; stdout "deaf\n"; stderr """#]]).await;
}

#[tokio::test]
async fn program_that_exceeds_stdout_limit_is_killed_and_its_stderr_returned() {
    check("echo why >&2; exec yes", expect![[r#"wrote more than 100000 bytes; stderr "why\n""#]]).await;
}

#[tokio::test]
async fn stderr_beyond_its_limit_keeps_only_the_end() {
    let output = shell("yes noise | head -c 96000 >&2; echo end >&2").run(b"", &LIMITS).await.unwrap();
    assert_eq!(output.stderr.len(), 1_000);
    assert!(output.stderr.ends_with(b"noise\nend\n"));
}

#[tokio::test]
async fn arguments_bypass_the_shell_and_environment_is_not_inherited() {
    let mut echo = program(&["printf", "%s|", "$HOME", "a b; echo c"], Path::new("."));
    assert_eq!(echo.run(b"", &LIMITS).await.unwrap().stdout, b"$HOME|a b; echo c|");
    echo.argv = vec!["env".to_owned()];
    echo.environment.push(("COLOUR".to_owned(), "green".to_owned()));
    let seen = String::from_utf8(echo.run(b"", &LIMITS).await.unwrap().stdout).unwrap();
    let mut names: Vec<_> = seen.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    names.sort_unstable();
    assert_eq!(names, ["COLOUR", "PATH"]);
    assert!(!format!("{echo:?}").contains("green"), "{echo:?}");
}

#[test]
fn common_environment_skips_unset_variables() {
    assert_eq!(COMMON_ENVIRONMENT, ["PATH", "HOME", "LANG", "TMPDIR"]);
    let variables = common_environment(&|name| (name != "TMPDIR").then(|| name.to_lowercase()));
    let variables: Vec<_> = variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(variables, [("PATH", "path"), ("HOME", "home"), ("LANG", "lang")]);
}

#[tokio::test]
async fn relative_program_path_is_resolved_against_the_folder() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = folder("relative");
    std::fs::create_dir(folder.join("bin")).unwrap();
    for name in ["scan", "bin/scan"] {
        std::fs::copy("/bin/sh", folder.join(name)).unwrap();
        std::fs::set_permissions(folder.join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    for name in ["./scan", "bin/scan"] {
        let output = program(&[name, "-c", "pwd"], &folder).run(b"", &LIMITS).await.unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap().trim(), folder.to_string_lossy(), "{name}");
    }
}

#[tokio::test]
async fn start_error_names_the_cause() {
    let folder = folder("missing");
    std::fs::write(folder.join("plain"), "").unwrap();
    let check = async |argv: &[&str], folder: &Path, expect: Expect| {
        let mut program = program(argv, folder);
        program.environment = vec![("PATH".to_owned(), "/nowhere".to_owned())];
        let message = shown(&program.run(b"", &LIMITS).await);
        expect.assert_eq(&message.replace(&*folder.to_string_lossy(), "FOLDER"));
    };
    check(&[], &folder, expect!["the command is empty; name a program to start"]).await;
    check(
        &["scan"],
        &folder,
        expect!["'scan' cannot be started: not found on its PATH (/nowhere); give its absolute path, or ./NAME if it is in FOLDER"],
    )
    .await;
    check(
        &["./scan"],
        &folder,
        expect!["'./scan' cannot be started: FOLDER/scan does not exist (relative paths start at FOLDER)"],
    )
    .await;
    check(
        &["./plain"],
        &folder,
        expect!["'./plain' cannot be started: FOLDER/plain is not executable; try chmod +x"],
    )
    .await;
    check(
        &["/bin/sh"],
        &folder.join("gone"),
        expect!["'/bin/sh' cannot be started: its working folder FOLDER does not exist"],
    )
    .await;
}

/// A grandchild process whose lifetime the test observes through a named pipe.
///
/// The grandchild keeps the pipe open while it lives: the test reads a line when it starts and end of file
/// when it exits.
struct Grandchild {
    script: String,
    started: oneshot::Receiver<()>,
    exited: oneshot::Receiver<()>,
}

impl Grandchild {
    fn new(name: &str) -> Grandchild {
        let path = folder(name).join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let script = format!("sh -c 'exec 9> {}; echo started >&9; sleep 600; true' &", path.display());
        let (started_sender, started) = oneshot::channel();
        let (exited_sender, exited) = oneshot::channel();
        std::thread::spawn(move || {
            let mut pipe = BufReader::new(std::fs::File::open(path).unwrap());
            pipe.read_line(&mut String::new()).unwrap();
            // Sending fails if the test has already ended.
            let _ = started_sender.send(());
            pipe.read_to_end(&mut Vec::new()).unwrap();
            let _ = exited_sender.send(());
        });
        Grandchild { script, started, exited }
    }
}

async fn wait_for(event: &mut oneshot::Receiver<()>) {
    tokio::time::timeout(WAIT_MAX, event).await.unwrap().unwrap();
}

#[tokio::test]
async fn timeout_kills_the_process_group() {
    let mut grandchild = Grandchild::new("timeout");
    let limits = Limits { timeout: Some(Duration::from_secs(2)), ..LIMITS };
    let outcome = shell(&format!("echo slow >&2; {} wait", grandchild.script)).run(b"", &limits).await;
    expect![[r#"took longer than 2 s; stderr "slow\n""#]].assert_eq(&shown(&outcome));
    wait_for(&mut grandchild.started).await;
    wait_for(&mut grandchild.exited).await;
}

#[tokio::test]
async fn dropped_run_kills_the_process_group() {
    let mut grandchild = Grandchild::new("dropped");
    let shell = shell(&format!("{} wait", grandchild.script));
    tokio::select! {
        outcome = shell.run(b"", &LIMITS) => panic!("{outcome:?}"),
        () = wait_for(&mut grandchild.started) => {}
    }
    wait_for(&mut grandchild.exited).await;
}

#[tokio::test]
async fn dropped_running_program_kills_the_process_group() {
    let mut grandchild = Grandchild::new("running");
    let script = format!("{} read line; echo got $line >&2; echo green; wait", grandchild.script);
    let (running, mut pipes) = shell(&script).spawn().unwrap();
    pipes.stdin.write_all(b"colour\n").await.unwrap();
    let mut line = String::new();
    tokio::io::BufReader::new(&mut pipes.stdout).read_line(&mut line).await.unwrap();
    assert_eq!(line, "green\n");
    wait_for(&mut grandchild.started).await;
    drop(running);
    wait_for(&mut grandchild.exited).await;
}

#[tokio::test]
async fn running_program_that_exits_reports_status_and_kills_the_process_group() {
    let mut grandchild = Grandchild::new("ended");
    let script = format!("{} read line; echo $line >&2; exit 3", grandchild.script);
    let (running, mut pipes) = shell(&script).spawn().unwrap();
    wait_for(&mut grandchild.started).await;
    pipes.stdin.write_all(b"broken\n").await.unwrap();
    let status = tokio::time::timeout(WAIT_MAX, running.ended()).await.unwrap().unwrap();
    assert_eq!(status.code(), Some(3));
    assert_eq!(running.stderr(), b"broken\n");
    wait_for(&mut grandchild.exited).await;
}
