//! A process that a test observes through a named pipe.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

use tokio::sync::oneshot;

use crate::folder::TestFolder;
use crate::wait::WAIT_MAX;

/// A process that a program under test starts in the background, to see whether it outlives the program.
///
/// The process keeps a pipe open while it lives: the test reads a line when it starts and end of file when it exits.
#[derive(Debug)]
pub struct Grandchild {
    pipe: PathBuf,
    started: oneshot::Receiver<()>,
    exited: oneshot::Receiver<()>,
    _folder: TestFolder,
}

impl Grandchild {
    /// Creates the pipe. The process starts with one of the scripts.
    #[expect(clippy::new_without_default, reason = "creates a folder and a thread")]
    pub fn new() -> Grandchild {
        let folder = TestFolder::new("grandchild");
        let pipe = folder.named_pipe("pipe");
        let (started_sender, started) = oneshot::channel();
        let (exited_sender, exited) = oneshot::channel();
        let opened = pipe.clone();
        std::thread::spawn(move || {
            let mut pipe = BufReader::new(File::open(opened).expect("the pipe"));
            pipe.read_line(&mut String::new()).expect("a line");
            // Sending fails if the test has already ended.
            let _ = started_sender.send(());
            pipe.read_to_end(&mut Vec::new()).expect("the end of the pipe");
            let _ = exited_sender.send(());
        });
        Grandchild { pipe, started, exited, _folder: folder }
    }

    /// Returns the pipe, for a program that writes a line to it and keeps it open.
    pub fn pipe(&self) -> &Path {
        &self.pipe
    }

    /// Returns a shell script that starts the process, which inherits the script's own pipes, and runs `then`.
    pub fn script(&self, then: &str) -> String {
        let pipe = self.pipe.display();
        format!("sh -c 'exec 9> {pipe}; echo started >&9; sleep 600; true' & {then}")
    }

    /// Returns a shell script that runs `then` only after the process has started.
    pub fn script_after_start(&self, then: &str) -> String {
        let (pipe, ready) = (self.pipe.display(), format!("{}.ready", self.pipe.display()));
        let child = format!("exec 9> {pipe}; echo started >&9; echo > {ready}; sleep 600; true");
        format!("mkfifo {ready}; sh -c '{child}' & read x < {ready}; rm {ready}; {then}")
    }

    /// Waits until the process has started.
    pub async fn wait_for_start(&mut self) {
        wait_for("the grandchild starts", &mut self.started).await;
    }

    /// Waits until the process has exited.
    pub async fn wait_for_exit(&mut self) {
        wait_for("the grandchild exits", &mut self.exited).await;
    }
}

async fn wait_for(what: &str, event: &mut oneshot::Receiver<()>) {
    let waited = tokio::time::timeout(WAIT_MAX, event).await;
    let received = waited.unwrap_or_else(|_| panic!("not reached within {} s: {what}", WAIT_MAX.as_secs()));
    received.unwrap_or_else(|_| panic!("not reached: {what}"));
}
