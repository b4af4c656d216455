//! Runs a program until it exits and collects its output.

use std::process::ExitStatus;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStderr};
use tokio::sync::Notify;

use crate::group::Group;
use crate::tail::{PIPES_WAIT_MAX, Tail, read_chunks, while_open};
use crate::{Error, Program};

/// Bounds of one run of a program.
#[derive(Debug, Clone)]
pub struct Limits {
    /// The longest run time. Beyond it the program is killed and the run fails with [`Error::Timeout`].
    pub timeout: Option<Duration>,
    /// The most bytes of stdout. Beyond it the program is killed and the run fails with [`Error::TooLarge`].
    pub stdout_bytes_max: usize,
    /// The most bytes of stderr to keep; earlier ones are dropped.
    pub stderr_bytes_max: usize,
}

/// Exit status and output of a program.
#[derive(Debug)]
pub struct Output {
    /// The exit code or the signal that ended the program.
    pub status: ExitStatus,
    /// The complete stdout, at most [`Limits::stdout_bytes_max`].
    pub stdout: Vec<u8>,
    /// The last bytes of stderr, at most [`Limits::stderr_bytes_max`].
    pub stderr: Vec<u8>,
}

impl Program {
    /// Starts the program, writes `stdin` to it and collects its output until it exits.
    ///
    /// Processes that the program leaves behind are killed when it exits. Dropping the future kills the whole
    /// process group. Needs a tokio runtime with time and I/O.
    ///
    /// # Errors
    /// Fails if the program does not start, takes too long or writes too much. A failing exit status is not an
    /// error.
    pub async fn run(&self, stdin: &[u8], limits: &Limits) -> Result<Output, Error> {
        let mut child = self.start()?;
        let group = Group::of(child.id());
        let mut stderr = StderrReader::of(&mut child, limits.stderr_bytes_max);
        let mut stdout = Vec::new();
        let exchange = exchange(&mut child, &group, stdin, &mut stdout, limits.stdout_bytes_max, &mut stderr);
        let outcome = match limits.timeout {
            Some(limit) => {
                tokio::time::timeout(limit, exchange).await.unwrap_or(Err(Failure::Timeout(limit)))
            }
            None => exchange.await,
        };
        if outcome.is_err() {
            group.kill();
            // Also kills a leader that moved to another group. The call fails if it has already exited.
            let _ = child.start_kill();
            // The pipe may still hold messages that explain the failure.
            let _ = tokio::time::timeout(PIPES_WAIT_MAX, stderr.read()).await;
        }
        let stderr = stderr.tail.kept().to_vec();
        match outcome {
            Ok(status) => Ok(Output { status, stdout, stderr }),
            Err(Failure::Timeout(limit)) => Err(Error::Timeout { limit, stderr }),
            Err(Failure::TooLarge(limit)) => Err(Error::TooLarge { limit, stderr }),
            Err(Failure::Wait(error)) => Err(Error::Wait(error)),
        }
    }
}

/// Reads a program's stderr and keeps its last bytes.
struct StderrReader {
    pipe: Option<ChildStderr>,
    tail: Tail,
}

impl StderrReader {
    fn of(child: &mut Child, bytes_max: usize) -> StderrReader {
        StderrReader { pipe: child.stderr.take(), tail: Tail::new(bytes_max) }
    }

    /// Reads to the end of the stream. Cancel-safe: a later call continues after the bytes already read.
    async fn read(&mut self) {
        read_chunks(self.pipe.as_mut(), |chunk| self.tail.push(chunk)).await;
    }
}

/// An [`Error`] without stderr, which [`Program::run`] adds.
enum Failure {
    Timeout(Duration),
    TooLarge(usize),
    Wait(std::io::Error),
}

/// Writes the input and reads the output until the program has exited and its process group has closed the
/// pipes.
async fn exchange(
    child: &mut Child,
    group: &Group,
    input: &[u8],
    stdout: &mut Vec<u8>,
    stdout_bytes_max: usize,
    stderr: &mut StderrReader,
) -> Result<ExitStatus, Failure> {
    let (stdin_pipe, stdout_pipe) = (child.stdin.take(), child.stdout.take());
    let exited = Notify::new();
    let transfer = async {
        let write = async {
            if let Some(mut pipe) = stdin_pipe {
                // A program may close stdin without reading it. That is not an error.
                let _ = pipe.write_all(input).await;
                let _ = pipe.shutdown().await;
            }
            Ok(())
        };
        let read_stderr = async {
            stderr.read().await;
            Ok(())
        };
        tokio::try_join!(write, read_all(stdout_pipe, stdout, stdout_bytes_max), read_stderr).map(|_| ())
    };
    let transfer = async { while_open(transfer, &exited).await.unwrap_or(Ok(())) };
    let wait = async {
        let status = child.wait().await.map_err(Failure::Wait);
        // Processes left behind would keep the pipes open.
        group.kill();
        exited.notify_one();
        status
    };
    let ((), status) = tokio::try_join!(transfer, wait)?;
    Ok(status)
}

/// Reads to the end of the stream, or fails as soon as it exceeds `limit` bytes.
async fn read_all(
    stream: Option<impl AsyncRead + Unpin>,
    bytes: &mut Vec<u8>,
    limit: usize,
) -> Result<(), Failure> {
    if let Some(stream) = stream {
        // A read error ends the stream. The caller decides whether the output is complete.
        let _ = stream.take(limit as u64 + 1).read_to_end(bytes).await;
    }
    if bytes.len() > limit { Err(Failure::TooLarge(limit)) } else { Ok(()) }
}
