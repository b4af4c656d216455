//! What programs are given, what becomes of what they say, and that nothing of them is left.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use expect_test::{Expect, expect};
use slipform_process::{COMMON_ENVIRONMENT, Ended, Error, Limits, Program, common_environment};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _};
use tokio::sync::oneshot;

/// How long to wait for what takes milliseconds; beyond it the test has failed.
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

fn shown(outcome: &Result<Ended, Error>) -> String {
    match outcome {
        Ok(ended) => format!(
            "{}; stdout {:?}; stderr {:?}",
            ended.status,
            String::from_utf8_lossy(&ended.stdout),
            String::from_utf8_lossy(&ended.stderr)
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

/// A fresh folder of the build's own.
fn folder(name: &str) -> PathBuf {
    let folder =
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("process-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

#[tokio::test]
async fn a_program_ends_with_what_it_said() {
    check("cat; echo oh >&2", expect![[r#"exit status: 0; stdout "input"; stderr "oh\n""#]]).await;
    check("echo half; exit 3", expect![[r#"exit status: 3; stdout "half\n"; stderr """#]]).await;
    check("kill -9 $$", expect![[r#"signal: 9 (SIGKILL); stdout ""; stderr """#]]).await;
    check("exec <&-; echo deaf", expect![[r#"exit status: 0; stdout "deaf\n"; stderr """#]]).await;
}

#[tokio::test]
async fn a_program_that_writes_too_much_is_stopped_and_what_it_complained_of_is_kept() {
    check("echo why >&2; exec yes", expect![[r#"wrote more than 100000 bytes; stderr "why\n""#]]).await;
}

#[tokio::test]
async fn only_the_end_of_its_complaints_is_kept() {
    let ended = shell("yes noise | head -c 96000 >&2; echo end >&2").run(b"", &LIMITS).await.unwrap();
    assert_eq!(ended.stderr.len(), 1_000);
    assert!(ended.stderr.ends_with(b"noise\nend\n"));
}

#[tokio::test]
async fn arguments_are_not_read_by_a_shell_and_nothing_is_inherited() {
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
fn common_variables_are_those_that_have_a_value() {
    assert_eq!(COMMON_ENVIRONMENT, ["PATH", "HOME", "LANG", "TMPDIR"]);
    let given = common_environment(&|name| (name != "TMPDIR").then(|| name.to_lowercase()));
    let given: Vec<_> = given.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(given, [("PATH", "path"), ("HOME", "home"), ("LANG", "lang")]);
}

#[tokio::test]
async fn relative_paths_start_at_the_folder() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = folder("relative");
    std::fs::create_dir(folder.join("bin")).unwrap();
    for name in ["scan", "bin/scan"] {
        std::fs::copy("/bin/sh", folder.join(name)).unwrap();
        std::fs::set_permissions(folder.join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    for name in ["./scan", "bin/scan"] {
        let ended = program(&[name, "-c", "pwd"], &folder).run(b"", &LIMITS).await.unwrap();
        assert_eq!(String::from_utf8(ended.stdout).unwrap().trim(), folder.to_string_lossy(), "{name}");
    }
}

#[tokio::test]
async fn what_does_not_start_says_why() {
    let folder = folder("missing");
    std::fs::write(folder.join("plain"), "").unwrap();
    let check = async |argv: &[&str], folder: &Path, expect: Expect| {
        let mut program = program(argv, folder);
        program.environment = vec![("PATH".to_owned(), "/nowhere".to_owned())];
        let words = shown(&program.run(b"", &LIMITS).await);
        expect.assert_eq(&words.replace(&*folder.to_string_lossy(), "FOLDER"));
    };
    check(&[], &folder, expect!["there is no program to start: the command is empty"]).await;
    check(
        &["scan"],
        &folder,
        expect!["'scan' cannot be started: there is no such program on the PATH (/nowhere); give its whole path, or ./ and its name if it is in FOLDER"],
    )
    .await;
    check(
        &["./scan"],
        &folder,
        expect!["'./scan' cannot be started: there is no file FOLDER/scan (relative paths start at FOLDER)"],
    )
    .await;
    check(
        &["./plain"],
        &folder,
        expect!["'./plain' cannot be started: FOLDER/plain may not be executed; try chmod +x"],
    )
    .await;
    check(
        &["/bin/sh"],
        &folder.join("gone"),
        expect!["'/bin/sh' cannot be started: its working folder FOLDER does not exist"],
    )
    .await;
}

/// A grandchild opens a named pipe and keeps it open for as long as it lives: the pipe's other end hears when
/// it has begun, and hears the end of the file when it is gone.
struct Grandchild {
    script: String,
    begun: oneshot::Receiver<()>,
    gone: oneshot::Receiver<()>,
}

impl Grandchild {
    fn new(name: &str) -> Grandchild {
        let path = folder(name).join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let script = format!("sh -c 'exec 9> {}; echo begun >&9; sleep 600; true' &", path.display());
        let (say_begun, begun) = oneshot::channel();
        let (say_gone, gone) = oneshot::channel();
        std::thread::spawn(move || {
            let mut pipe = BufReader::new(std::fs::File::open(path).unwrap());
            pipe.read_line(&mut String::new()).unwrap();
            // The test may have failed already, and then nobody listens.
            let _ = say_begun.send(());
            pipe.read_to_end(&mut Vec::new()).unwrap();
            let _ = say_gone.send(());
        });
        Grandchild { script, begun, gone }
    }
}

async fn soon(event: &mut oneshot::Receiver<()>) {
    tokio::time::timeout(WAIT_MAX, event).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_timeout_ends_the_whole_group() {
    let mut grandchild = Grandchild::new("timeout");
    let limits = Limits { timeout: Some(Duration::from_secs(2)), ..LIMITS };
    let outcome = shell(&format!("echo slow >&2; {} wait", grandchild.script)).run(b"", &limits).await;
    expect![[r#"took longer than 2 s; stderr "slow\n""#]].assert_eq(&shown(&outcome));
    soon(&mut grandchild.begun).await;
    soon(&mut grandchild.gone).await;
}

#[tokio::test]
async fn a_run_given_up_ends_the_whole_group() {
    let mut grandchild = Grandchild::new("given-up");
    let shell = shell(&format!("{} wait", grandchild.script));
    tokio::select! {
        outcome = shell.run(b"", &LIMITS) => panic!("{outcome:?}"),
        () = soon(&mut grandchild.begun) => {}
    }
    soon(&mut grandchild.gone).await;
}

#[tokio::test]
async fn a_running_program_is_talked_to_and_ends_when_dropped() {
    let mut grandchild = Grandchild::new("running");
    let script = format!("{} read line; echo got $line >&2; echo green; wait", grandchild.script);
    let (running, mut pipes) = shell(&script).spawn().unwrap();
    pipes.stdin.write_all(b"colour\n").await.unwrap();
    let mut line = String::new();
    tokio::io::BufReader::new(&mut pipes.stdout).read_line(&mut line).await.unwrap();
    assert_eq!(line, "green\n");
    soon(&mut grandchild.begun).await;
    drop(running);
    soon(&mut grandchild.gone).await;
}

#[tokio::test]
async fn a_running_program_that_ends_says_how_and_leaves_nothing() {
    let mut grandchild = Grandchild::new("ended");
    let script = format!("{} read line; echo $line >&2; exit 3", grandchild.script);
    let (running, mut pipes) = shell(&script).spawn().unwrap();
    soon(&mut grandchild.begun).await;
    pipes.stdin.write_all(b"broken\n").await.unwrap();
    let status = tokio::time::timeout(WAIT_MAX, running.ended()).await.unwrap().unwrap();
    assert_eq!(status.code(), Some(3));
    assert_eq!(running.stderr(), b"broken\n");
    soon(&mut grandchild.gone).await;
}
