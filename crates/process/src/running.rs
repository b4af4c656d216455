//! A program that stays, and is talked to.

use std::process::ExitStatus;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

use crate::group::Group;
use crate::tail::{Tail, read_pieces, while_open};
use crate::{Error, Program};

/// How much of the end of stderr is kept of a program that stays. It may complain for days.
const STDERR_BYTES_MAX: usize = 8 * 1024;

/// A program that runs. Dropping it kills the program and all that it started.
#[derive(Debug)]
pub struct Running {
    group: Arc<Group>,
    stderr: Arc<Mutex<Tail>>,
    ended: watch::Receiver<Option<ExitStatus>>,
    watcher: JoinHandle<()>,
}

/// Both ends of the talk with a running program.
#[derive(Debug)]
pub struct Pipes {
    /// What it reads.
    pub stdin: ChildStdin,
    /// What it writes. It stops when nobody reads, and how much is read is the reader's to bound.
    pub stdout: ChildStdout,
}

impl Program {
    /// Starts it and leaves it running. Needs a tokio runtime with I/O, in which its stderr is read.
    ///
    /// # Errors
    /// When it does not start.
    pub fn spawn(&self) -> Result<(Running, Pipes), Error> {
        let mut child = self.start()?;
        let group = Arc::new(Group::of(child.id()));
        let no_pipe = || Error::Wait(std::io::Error::other("it has no pipes"));
        let stdin = child.stdin.take().ok_or_else(no_pipe)?;
        let stdout = child.stdout.take().ok_or_else(no_pipe)?;
        let complaints = child.stderr.take();
        let stderr = Arc::new(Mutex::new(Tail::new(STDERR_BYTES_MAX)));
        let (say_ended, ended) = watch::channel(None);
        let (kept, whole) = (stderr.clone(), group.clone());
        let watcher = tokio::spawn(async move {
            let exited = Notify::new();
            let keep = |piece: &[u8]| kept.lock().unwrap_or_else(PoisonError::into_inner).push(piece);
            let end = async {
                let status = child.wait().await;
                whole.kill();
                exited.notify_one();
                status
            };
            let (_, status) = tokio::join!(while_open(read_pieces(complaints, keep), &exited), end);
            // Without a status nothing is said, and dropping the sender says that nothing will be.
            say_ended.send_replace(status.ok());
        });
        Ok((Running { group, stderr, ended, watcher }, Pipes { stdin, stdout }))
    }
}

impl Running {
    /// Waits until it has ended and all its complaints are read; `None` when nobody knows how it ended.
    pub async fn ended(&self) -> Option<ExitStatus> {
        let mut ended = self.ended.clone();
        ended.wait_for(Option::is_some).await.ok().and_then(|status| *status)
    }

    /// The end of what it has said on stderr so far.
    pub fn stderr(&self) -> Vec<u8> {
        self.stderr.lock().unwrap_or_else(PoisonError::into_inner).kept().to_vec()
    }

    /// Kills it and all that it started.
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
