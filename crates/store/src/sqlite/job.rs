//! Jobs for the database threads.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use tokio::sync::oneshot;

use crate::error::Error;
use crate::tx::{Operation, Tx};

/// An operation that waits for its turn and then for its commit.
pub(crate) trait Job: Send {
    /// Runs the operation. Returns whether its changes should be committed.
    fn perform(&mut self, tx: &mut Tx) -> bool;

    /// Sends the result to the caller. If the commit failed, the result is that error.
    fn answer(self: Box<Self>, committed: Result<(), Error>);
}

/// An operation with its arguments and the channel for its result.
pub(crate) struct Transaction<A, R> {
    arguments: A,
    operation: Operation<A, R>,
    outcome: Option<Result<R, Error>>,
    answer: oneshot::Sender<Result<R, Error>>,
}

impl<A, R> Transaction<A, R> {
    pub(crate) fn new(
        arguments: A,
        operation: Operation<A, R>,
        answer: oneshot::Sender<Result<R, Error>>,
    ) -> Self {
        Transaction { arguments, operation, outcome: None, answer }
    }
}

impl<A: Send, R: Send> Job for Transaction<A, R> {
    fn perform(&mut self, tx: &mut Tx) -> bool {
        let (operation, arguments) = (self.operation, &self.arguments);
        // A panic in one operation must not end the thread that all operations share.
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            // SQLite is synchronous, so the operation's future is ready at the first poll.
            match pin!(operation(tx, arguments)).poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(outcome) => outcome,
                Poll::Pending => {
                    Err(Error::Unavailable("an operation did not complete synchronously".to_owned()))
                }
            }
        }))
        .unwrap_or_else(|_| Err(Error::Unavailable("an operation panicked".to_owned())));
        self.outcome.insert(outcome).is_ok()
    }

    fn answer(self: Box<Self>, committed: Result<(), Error>) {
        let outcome = match (committed, self.outcome) {
            (Err(error), Some(Ok(_)) | None) => Err(error),
            (_, Some(outcome)) => outcome,
            (Ok(()), None) => Err(Error::Unavailable("the operation did not run".to_owned())),
        };
        // The caller may have been cancelled.
        let _ = self.answer.send(outcome);
    }
}
