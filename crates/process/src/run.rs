//! A program from start to end.

use std::process::ExitStatus;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStderr};
use tokio::sync::Notify;

use crate::group::Group;
use crate::tail::{PIPES_WAIT_MAX, Tail, read_pieces, while_open};
use crate::{Error, Program};

/// How much one run of a program may take.
#[derive(Debug, Clone)]
pub struct Limits {
    /// How long it may run; over it the program is killed and the run is [`Error::Timeout`].
    pub timeout: Option<Duration>,
    /// How much it may write; over it the program is killed and the run is [`Error::TooLarge`].
    pub stdout_bytes_max: usize,
    /// How much of the end of its stderr is kept.
    pub stderr_bytes_max: usize,
}

/// How a program ended and what it said.
#[derive(Debug)]
pub struct Ended {
    /// How it ended.
    pub status: ExitStatus,
    /// All that it wrote.
    pub stdout: Vec<u8>,
    /// The end of what it complained about.
    pub stderr: Vec<u8>,
}

impl Program {
    /// Starts it, hands it its input, and listens until it has ended. What it left running is then killed,
    /// and so is all of it when the future is dropped. Needs a tokio runtime with time and I/O.
    ///
    /// # Errors
    /// When it does not start, takes too long or writes too much. A failing status is not an error here.
    pub async fn run(&self, stdin: &[u8], limits: &Limits) -> Result<Ended, Error> {
        let mut child = self.start()?;
        let group = Group::of(child.id());
        let mut complaints = Complaints::of(&mut child, limits.stderr_bytes_max);
        let mut stdout = Vec::new();
        let talk = talk(&mut child, &group, stdin, &mut stdout, limits.stdout_bytes_max, &mut complaints);
        let outcome = match limits.timeout {
            Some(limit) => tokio::time::timeout(limit, talk).await.unwrap_or(Err(Stopped::Timeout(limit))),
            None => talk.await,
        };
        if outcome.is_err() {
            group.kill();
            // A leader that left its group is not in it any more; one that has ended cannot be killed.
            let _ = child.start_kill();
            // What it had said before is in the pipe, and explains what it did.
            let _ = tokio::time::timeout(PIPES_WAIT_MAX, complaints.read()).await;
        }
        let stderr = complaints.tail.kept().to_vec();
        match outcome {
            Ok(status) => Ok(Ended { status, stdout, stderr }),
            Err(Stopped::Timeout(limit)) => Err(Error::Timeout { limit, stderr }),
            Err(Stopped::TooLarge(limit)) => Err(Error::TooLarge { limit, stderr }),
            Err(Stopped::Wait(error)) => Err(Error::Wait(error)),
        }
    }
}

/// What a program says on stderr, and the end of what was read of it.
struct Complaints {
    pipe: Option<ChildStderr>,
    tail: Tail,
}

impl Complaints {
    fn of(child: &mut Child, bytes_max: usize) -> Complaints {
        Complaints { pipe: child.stderr.take(), tail: Tail::new(bytes_max) }
    }

    /// Reads to the end. Whoever stops on the way loses nothing and may go on later.
    async fn read(&mut self) {
        read_pieces(self.pipe.as_mut(), |piece| self.tail.push(piece)).await;
    }
}

/// Why a program was not heard to its end.
enum Stopped {
    Timeout(Duration),
    TooLarge(usize),
    Wait(std::io::Error),
}

/// Hands the input over and listens until the program has ended and nobody of its group holds its pipes.
async fn talk(
    child: &mut Child,
    group: &Group,
    input: &[u8],
    stdout: &mut Vec<u8>,
    stdout_bytes_max: usize,
    complaints: &mut Complaints,
) -> Result<ExitStatus, Stopped> {
    let (to, from) = (child.stdin.take(), child.stdout.take());
    let ended = Notify::new();
    let exchange = async {
        let write = async {
            if let Some(mut to) = to {
                // A program that does not read its input closes the pipe; its answer is what counts.
                let _ = to.write_all(input).await;
                let _ = to.shutdown().await;
            }
            Ok(())
        };
        let complain = async {
            complaints.read().await;
            Ok(())
        };
        tokio::try_join!(write, read_whole(from, stdout, stdout_bytes_max), complain).map(|_| ())
    };
    let exchange = async { while_open(exchange, &ended).await.unwrap_or(Ok(())) };
    let end = async {
        let status = child.wait().await.map_err(Stopped::Wait);
        // What it left running would keep the pipes open, and its answer is given.
        group.kill();
        ended.notify_one();
        status
    };
    let ((), status) = tokio::try_join!(exchange, end)?;
    Ok(status)
}

/// Reads to the end, or fails at the limit: a program that never stops writing is not waited for.
async fn read_whole(
    stream: Option<impl AsyncRead + Unpin>,
    bytes: &mut Vec<u8>,
    limit: usize,
) -> Result<(), Stopped> {
    if let Some(stream) = stream {
        // A pipe that breaks has ended; whether the answer is whole is for its reader to say.
        let _ = stream.take(limit as u64 + 1).read_to_end(bytes).await;
    }
    if bytes.len() > limit { Err(Stopped::TooLarge(limit)) } else { Ok(()) }
}
