//! Programs receive exactly the given input and environment, return their output, and leave no process behind.

use std::path::Path;
use std::time::Duration;

use expect_test::{Expect, expect};
use slipform_process::{COMMON_ENVIRONMENT, Limits, common_environment};
use slipform_testkit::{Grandchild, TestFolder, WAIT_MAX};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _};

use crate::support::{LIMITS, check, program, shell, shown};

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
    let folder = TestFolder::new("relative");
    std::fs::create_dir(folder.join("bin")).unwrap();
    for name in ["scan", "bin/scan"] {
        std::fs::copy("/bin/sh", folder.join(name)).unwrap();
        std::fs::set_permissions(folder.join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    for name in ["./scan", "bin/scan"] {
        let output = program(&[name, "-c", "pwd"], folder.path()).run(b"", &LIMITS).await.unwrap();
        assert_eq!(
            String::from_utf8(output.stdout).unwrap().trim(),
            folder.path().to_string_lossy(),
            "{name}"
        );
    }
}

#[tokio::test]
async fn start_error_names_the_cause() {
    let folder = TestFolder::new("missing");
    std::fs::write(folder.join("plain"), "").unwrap();
    let check = async |argv: &[&str], folder: &Path, expect: Expect| {
        let mut program = program(argv, folder);
        program.environment = vec![("PATH".to_owned(), "/nowhere".to_owned())];
        let message = shown(&program.run(b"", &LIMITS).await);
        expect.assert_eq(&message.replace(&*folder.to_string_lossy(), "FOLDER"));
    };
    check(&[], folder.path(), expect!["the command is empty; name a program to start"]).await;
    check(
        &["scan"],
        folder.path(),
        expect!["'scan' cannot be started: not found on its PATH (/nowhere); give its absolute path, or ./NAME if it is in FOLDER"],
    )
    .await;
    check(
        &["./scan"],
        folder.path(),
        expect!["'./scan' cannot be started: FOLDER/scan does not exist (relative paths start at FOLDER)"],
    )
    .await;
    check(
        &["./plain"],
        folder.path(),
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

#[tokio::test]
async fn timeout_kills_the_process_group() {
    let mut grandchild = Grandchild::new();
    let limits = Limits { timeout: Some(Duration::from_secs(2)), ..LIMITS };
    let outcome = shell(&format!("echo slow >&2; {}", grandchild.script("wait"))).run(b"", &limits).await;
    expect![[r#"took longer than 2 s; stderr "slow\n""#]].assert_eq(&shown(&outcome));
    grandchild.wait_for_start().await;
    grandchild.wait_for_exit().await;
}

#[tokio::test]
async fn dropped_run_kills_the_process_group() {
    let mut grandchild = Grandchild::new();
    let shell = shell(&grandchild.script("wait"));
    tokio::select! {
        outcome = shell.run(b"", &LIMITS) => panic!("{outcome:?}"),
        () = grandchild.wait_for_start() => {}
    }
    grandchild.wait_for_exit().await;
}

#[tokio::test]
async fn dropped_running_program_kills_the_process_group() {
    let mut grandchild = Grandchild::new();
    let script = grandchild.script("read line; echo got $line >&2; echo green; wait");
    let (running, mut pipes) = shell(&script).spawn().unwrap();
    pipes.stdin.write_all(b"colour\n").await.unwrap();
    let mut line = String::new();
    tokio::io::BufReader::new(&mut pipes.stdout).read_line(&mut line).await.unwrap();
    assert_eq!(line, "green\n");
    grandchild.wait_for_start().await;
    drop(running);
    grandchild.wait_for_exit().await;
}

#[tokio::test]
async fn running_program_that_exits_reports_status_and_kills_the_process_group() {
    let mut grandchild = Grandchild::new();
    let script = grandchild.script("read line; echo $line >&2; exit 3");
    let (running, mut pipes) = shell(&script).spawn().unwrap();
    grandchild.wait_for_start().await;
    pipes.stdin.write_all(b"broken\n").await.unwrap();
    let status = tokio::time::timeout(WAIT_MAX, running.ended()).await.unwrap().unwrap();
    assert_eq!(status.code(), Some(3));
    assert_eq!(running.stderr(), b"broken\n");
    grandchild.wait_for_exit().await;
}
