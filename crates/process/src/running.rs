//! Runs a program in the background, for example a server on stdin and stdout.

use std::process::ExitStatus;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

use crate::group::Group;
use crate::tail::{Tail, read_chunks, while_open};
use crate::{Error, Program};

/// The most bytes of stderr to keep. A server may write to stderr for days.
const STDERR_BYTES_MAX: usize = 8 * 1024;

/// A running program. Dropping it kills the program's process group.
#[derive(Debug)]
pub struct Running {
    group: Arc<Group>,
    stderr: Arc<Mutex<Tail>>,
    /// `None` until the program exits. The sender is dropped without a value if the status is unknown.
    status: watch::Receiver<Option<ExitStatus>>,
    watcher: JoinHandle<()>,
}

/// The pipes to and from a running program.
#[derive(Debug)]
pub struct Pipes {
    /// The program's standard input. Dropping it signals end of file.
    pub stdin: ChildStdin,
    /// The program's standard output. The program blocks when the pipe is full; the caller limits the size.
    pub stdout: ChildStdout,
}

impl Program {
    /// Starts the program and returns while it runs.
    ///
    /// Needs a tokio runtime with I/O: a background task reads stderr and waits for the exit.
    ///
    /// # Errors
    /// Fails if the program does not start.
    pub fn spawn(&self) -> Result<(Running, Pipes), Error> {
        let mut child = self.start()?;
        let group = Arc::new(Group::of(child.id()));
        let no_pipe = || Error::Wait(std::io::Error::other("no pipes to the program"));
        let stdin = child.stdin.take().ok_or_else(no_pipe)?;
        let stdout = child.stdout.take().ok_or_else(no_pipe)?;
        let stderr_pipe = child.stderr.take();
        let stderr = Arc::new(Mutex::new(Tail::new(STDERR_BYTES_MAX)));
        let (status_sender, status) = watch::channel(None);
        let (tail, watched_group) = (stderr.clone(), group.clone());
        let watcher = tokio::spawn(async move {
            let exited = Notify::new();
            let keep = |chunk: &[u8]| tail.lock().unwrap_or_else(PoisonError::into_inner).push(chunk);
            let wait = async {
                let status = child.wait().await;
                watched_group.kill();
                exited.notify_one();
                status
            };
            let (_, status) = tokio::join!(while_open(read_chunks(stderr_pipe, keep), &exited), wait);
            // If the status is unknown, `None` is sent and the dropped sender ends `ended`.
            status_sender.send_replace(status.ok());
        });
        Ok((Running { group, stderr, status, watcher }, Pipes { stdin, stdout }))
    }
}

impl Running {
    /// Waits until the program has exited and its stderr is read to the end.
    ///
    /// Returns `None` if the operating system did not report an exit status.
    pub async fn ended(&self) -> Option<ExitStatus> {
        let mut status = self.status.clone();
        status.wait_for(Option::is_some).await.ok().and_then(|status| *status)
    }

    /// Returns the last bytes that the program has written to stderr so far, at most 8 KiB.
    pub fn stderr(&self) -> Vec<u8> {
        self.stderr.lock().unwrap_or_else(PoisonError::into_inner).kept().to_vec()
    }

    /// Kills the program and every process in its group.
    pub fn kill(&self) {
        self.group.kill();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.group.kill();
        self.watcher.abort();
    }
}
