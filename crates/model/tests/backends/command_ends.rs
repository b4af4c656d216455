//! A call to a program leaves no process behind, however it ends.
//!
//! A grandchild keeps a named pipe open while it lives. The test reads a line when the grandchild starts and
//! end of file when it exits.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use slipform_model::connect;
use tokio::sync::oneshot;

use crate::command::{config, environment, run};
use crate::support::{ask, shown};

/// The longest wait for an event that normally takes milliseconds. Beyond it the test fails.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// The reading end of a named pipe.
struct Pipe {
    path: PathBuf,
    started: oneshot::Receiver<()>,
    exited: oneshot::Receiver<()>,
}

impl Pipe {
    fn new(name: &str) -> Pipe {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        // The file may be left over from an earlier run with the same process id.
        let _ = std::fs::remove_file(&path);
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        let (started_sender, started) = oneshot::channel();
        let (exited_sender, exited) = oneshot::channel();
        let opened = path.clone();
        std::thread::spawn(move || {
            let mut pipe = BufReader::new(File::open(opened).unwrap());
            let mut line = String::new();
            pipe.read_line(&mut line).unwrap();
            // Sending fails if the test has already ended.
            let _ = started_sender.send(());
            pipe.read_to_end(&mut Vec::new()).unwrap();
            let _ = exited_sender.send(());
        });
        Pipe { path, started, exited }
    }

    /// Returns a script that starts a long-running child, which inherits the script's own pipes, and runs `then`.
    fn script(&self, then: &str) -> String {
        let path = self.path.display();
        format!("sh -c 'exec 9> {path}; echo started >&9; sleep 600; true' & {then}")
    }

    /// Returns a script that runs `then` only after its child has started.
    fn script_after_child(&self, then: &str) -> String {
        let (path, ready) = (self.path.display(), format!("{}.ready", self.path.display()));
        let child = format!("exec 9> {path}; echo started >&9; echo > {ready}; sleep 600; true");
        format!("mkfifo {ready}; sh -c '{child}' & read x < {ready}; rm {ready}; {then}")
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        // A leftover file in the build's temporary folder does no harm.
        let _ = std::fs::remove_file(&self.path);
    }
}

async fn wait_for(event: &mut oneshot::Receiver<()>, what: &str) {
    let happened = tokio::time::timeout(WAIT_MAX, event).await;
    happened.unwrap_or_else(|_| panic!("timed out waiting until {what}")).unwrap();
}

#[tokio::test]
async fn timeout_kills_the_process_group() {
    let mut pipe = Pipe::new("timeout");
    let mut config = config(&["sh", "-c", &pipe.script("wait")]);
    config.timeout_seconds = 2.0;
    let outcome = ask(connect(&config, &environment).unwrap().as_ref()).await;
    let expected =
        "Timeout: the program took longer than 2 s; raise timeout_seconds in slipform.toml if that is normal";
    assert_eq!(shown(&outcome), expected);
    wait_for(&mut pipe.started, "the grandchild has started").await;
    wait_for(&mut pipe.exited, "the grandchild has exited").await;
}

#[tokio::test]
async fn dropped_call_kills_the_process_group() {
    let mut pipe = Pipe::new("dropped");
    let script = pipe.script("wait");
    tokio::select! {
        outcome = run(&script) => panic!("{outcome:?}"),
        () = wait_for(&mut pipe.started, "the grandchild has started") => {}
    }
    wait_for(&mut pipe.exited, "the grandchild has exited").await;
}

#[tokio::test]
async fn reply_does_not_wait_for_processes_left_behind() {
    let mut pipe = Pipe::new("left");
    assert_eq!(run(&pipe.script_after_child("echo green")).await.unwrap().text, "green");
    wait_for(&mut pipe.exited, "the grandchild has exited").await;
}

#[tokio::test]
async fn program_that_writes_too_much_is_killed_with_its_group() {
    let mut pipe = Pipe::new("flood");
    let outcome = run(&pipe.script_after_child("exec yes")).await;
    assert_eq!(shown(&outcome), "TooLarge: the reply is larger than 16777216 bytes");
    wait_for(&mut pipe.exited, "the grandchild has exited").await;
}
