//! However a call to a program ends, nothing of the program is left.
//!
//! A grandchild opens a named pipe and keeps it open for as long as it lives: the pipe's other end hears
//! when it has begun, and hears the end of the file when it is gone.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use slipform_model::connect;
use tokio::sync::oneshot;

use crate::command::{config, environment, run};
use crate::support::{ask, shown};

/// How long to wait for what takes milliseconds; beyond it the test has failed.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// The near end of a named pipe.
struct Pipe {
    path: PathBuf,
    begun: oneshot::Receiver<()>,
    gone: oneshot::Receiver<()>,
}

impl Pipe {
    fn new(name: &str) -> Pipe {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        // Left over from an earlier run of the same number, if at all.
        let _ = std::fs::remove_file(&path);
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        let (say_begun, begun) = oneshot::channel();
        let (say_gone, gone) = oneshot::channel();
        let opened = path.clone();
        std::thread::spawn(move || {
            let mut pipe = BufReader::new(File::open(opened).unwrap());
            let mut line = String::new();
            pipe.read_line(&mut line).unwrap();
            // The test may have failed already, and then nobody listens.
            let _ = say_begun.send(());
            pipe.read_to_end(&mut Vec::new()).unwrap();
            let _ = say_gone.send(());
        });
        Pipe { path, begun, gone }
    }

    /// A script whose child begins, says so, and would stay for long, holding the script's own pipes too.
    fn script(&self, then: &str) -> String {
        let path = self.path.display();
        format!("sh -c 'exec 9> {path}; echo begun >&9; sleep 600; true' & {then}")
    }

    /// The same, going on only when the child has begun.
    fn script_after_child(&self, then: &str) -> String {
        let (path, ready) = (self.path.display(), format!("{}.ready", self.path.display()));
        let child = format!("exec 9> {path}; echo begun >&9; echo > {ready}; sleep 600; true");
        format!("mkfifo {ready}; sh -c '{child}' & read x < {ready}; rm {ready}; {then}")
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        // The folder is the build's own; a file left there harms nobody.
        let _ = std::fs::remove_file(&self.path);
    }
}

async fn soon(event: &mut oneshot::Receiver<()>, what: &str) {
    let happened = tokio::time::timeout(WAIT_MAX, event).await;
    happened.unwrap_or_else(|_| panic!("waited in vain until {what}")).unwrap();
}

#[tokio::test]
async fn a_timeout_ends_the_whole_group() {
    let mut pipe = Pipe::new("timeout");
    let mut config = config(&["sh", "-c", &pipe.script("wait")]);
    config.timeout_seconds = 2.0;
    let outcome = ask(connect(&config, &environment).unwrap().as_ref()).await;
    let expected =
        "Timeout: the program took longer than 2 s; raise timeout_seconds in slipform.toml if that is normal";
    assert_eq!(shown(&outcome), expected);
    soon(&mut pipe.begun, "the grandchild has begun").await;
    soon(&mut pipe.gone, "the grandchild is gone").await;
}

#[tokio::test]
async fn a_call_given_up_ends_the_whole_group() {
    let mut pipe = Pipe::new("given-up");
    let script = pipe.script("wait");
    tokio::select! {
        outcome = run(&script) => panic!("{outcome:?}"),
        () = soon(&mut pipe.begun, "the grandchild has begun") => {}
    }
    soon(&mut pipe.gone, "the grandchild is gone").await;
}

#[tokio::test]
async fn an_answer_does_not_wait_for_what_the_program_left_running() {
    let mut pipe = Pipe::new("left");
    assert_eq!(run(&pipe.script_after_child("echo green")).await.unwrap().text, "green");
    soon(&mut pipe.gone, "the grandchild is gone").await;
}

#[tokio::test]
async fn a_program_that_writes_too_much_ends_with_its_group() {
    let mut pipe = Pipe::new("wild");
    let outcome = run(&pipe.script_after_child("exec yes")).await;
    assert_eq!(shown(&outcome), "TooLarge: the reply is larger than 16777216 bytes");
    soon(&mut pipe.gone, "the grandchild is gone").await;
}
