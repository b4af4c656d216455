//! What is asked of a connection's thread.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use tokio::sync::oneshot;

use crate::error::Error;
use crate::tx::{Perform, Tx};

/// A verb that waits for its turn, then for its commit.
pub(crate) trait Job: Send {
    /// Performs it; whether its changes are to stay.
    fn perform(&mut self, tx: &mut Tx) -> bool;

    /// Tells whoever asked. What was not committed did not happen.
    fn answer(self: Box<Self>, committed: Result<(), Error>);
}

/// A verb with its arguments and its answer.
pub(crate) struct Transaction<A, R> {
    arguments: A,
    perform: Perform<A, R>,
    outcome: Option<Result<R, Error>>,
    answer: oneshot::Sender<Result<R, Error>>,
}

impl<A, R> Transaction<A, R> {
    pub(crate) fn new(
        arguments: A,
        perform: Perform<A, R>,
        answer: oneshot::Sender<Result<R, Error>>,
    ) -> Self {
        Transaction { arguments, perform, outcome: None, answer }
    }
}

impl<A: Send, R: Send> Job for Transaction<A, R> {
    fn perform(&mut self, tx: &mut Tx) -> bool {
        let (perform, arguments) = (self.perform, &self.arguments);
        // A fault in one verb must not end the thread that all of them need.
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            // SQLite answers at once: the future of a verb never waits.
            match pin!(perform(tx, arguments)).poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(outcome) => outcome,
                Poll::Pending => Err(Error::Unavailable("a verb waited for something else".to_owned())),
            }
        }))
        .unwrap_or_else(|_| Err(Error::Unavailable("a verb failed unexpectedly".to_owned())));
        self.outcome.insert(outcome).is_ok()
    }

    fn answer(self: Box<Self>, committed: Result<(), Error>) {
        let outcome = match (committed, self.outcome) {
            (Err(error), Some(Ok(_)) | None) => Err(error),
            (_, Some(outcome)) => outcome,
            (Ok(()), None) => Err(Error::Unavailable("it was not performed".to_owned())),
        };
        // Whoever asked may have gone.
        let _ = self.answer.send(outcome);
    }
}
