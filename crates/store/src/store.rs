//! The store: one method a verb.

use formwork_types::{Body, RunId, SessionId};
use tokio::sync::watch;

use crate::error::Error;
use crate::record::{
    Append, Appended, Beat, ClaimRequest, Claimed, Counts, Fence, Finished, Listed, Millis, Named, NewRun,
    Page, Parked, Position, Refusal, Retention, RunFilter, RunRecord, RunnerRecord, SessionRecord, Shelf,
    Stale, StoredEvent, Submitted, SweepLimits, Swept, TokenRecord,
};

/// How a store is opened.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Whether this process is the only coordinator of a SQLite database: a second one is refused.
    pub is_exclusive: bool,
}

/// A store. Cloning it gives another handle to the same.
#[derive(Debug, Clone)]
pub struct Store;

const PENDING: &str = "not built";
fn pending<T>() -> Result<T, Error> {
    Err(Error::Unavailable(PENDING.to_owned()))
}

impl Store {
    /// Opens a store, and brings its tables up to date: `sqlite:PATH`, `sqlite::memory:` or `postgres://…`.
    pub async fn open(address: &str, options: &Options) -> Result<Store, Error> {
        let _ = (address, options);
        pending()
    }

    /// A number that grows whenever something was committed that others may wait for: events, work, ends.
    pub fn news(&self) -> watch::Receiver<u64> {
        watch::channel(0).1
    }

    /// Whether the database answers and can be written to.
    pub async fn ping(&self) -> Result<(), Error> {
        pending()
    }

    /// Takes a run on: session, run and `run_start`.
    pub async fn submit(&self, new: NewRun) -> Result<Result<Submitted, Refusal>, Error> {
        let _ = new;
        pending()
    }

    /// Gives a runner as many runs as it has room for.
    pub async fn claim(&self, request: ClaimRequest) -> Result<Vec<Claimed>, Error> {
        let _ = request;
        pending()
    }

    /// Prolongs leases, and says which attempts have lost theirs.
    pub async fn renew(
        &self,
        runner_id: &str,
        fences: Vec<Fence>,
        lease_ms: Millis,
    ) -> Result<Vec<Beat>, Error> {
        let _ = (runner_id, fences, lease_ms);
        pending()
    }

    /// Appends what happened.
    pub async fn append(&self, append: Append) -> Result<Result<Appended, Stale>, Error> {
        let _ = append;
        pending()
    }

    /// Appends what ends a run; its last body is `run_completed`. The parent hears of it, the session goes on with what
    /// waits for it, all in the same transaction.
    pub async fn finish(&self, append: Append) -> Result<Result<Appended, Stale>, Error> {
        let _ = append;
        pending()
    }

    /// Lets a run wait for its children, without a runner.
    pub async fn park(&self, fence: Fence) -> Result<Result<Parked, Stale>, Error> {
        let _ = fence;
        pending()
    }

    /// Gives a run back at once. That is no lost attempt.
    pub async fn release(&self, fence: Fence) -> Result<Result<(), Stale>, Error> {
        let _ = fence;
        pending()
    }

    /// Asks a run to stop, with the children that it waits for. `None` where there is no such run.
    pub async fn stop(&self, run: &RunId) -> Result<Option<RunRecord>, Error> {
        let _ = run;
        pending()
    }

    /// Puts back what was lost, ends what nobody ends.
    pub async fn sweep(&self, limits: SweepLimits) -> Result<Swept, Error> {
        let _ = limits;
        pending()
    }

    /// Deletes what is too old or too many; how many sessions that were.
    pub async fn retain(&self, retention: Retention) -> Result<usize, Error> {
        let _ = retention;
        pending()
    }

    /// A run.
    pub async fn run(&self, run: &RunId) -> Result<Option<RunRecord>, Error> {
        let _ = run;
        pending()
    }

    /// Runs, newest first.
    pub async fn runs(&self, filter: RunFilter, page: Page) -> Result<Listed<RunRecord>, Error> {
        let _ = (filter, page);
        pending()
    }

    /// A session.
    pub async fn session(&self, session: &SessionId) -> Result<Option<SessionRecord>, Error> {
        let _ = session;
        pending()
    }

    /// Sessions, newest first.
    pub async fn sessions(&self, page: Page) -> Result<Listed<SessionRecord>, Error> {
        let _ = page;
        pending()
    }

    /// The `run_start` of a session's first run: the agent that it was made with.
    pub async fn opening(&self, session: &SessionId) -> Result<Option<StoredEvent>, Error> {
        let _ = session;
        pending()
    }

    /// The `run_start` of a run.
    pub async fn start_of(&self, run: &RunId) -> Result<Option<StoredEvent>, Error> {
        let _ = run;
        pending()
    }

    /// The latest run of a session, and what came of it.
    pub async fn finished(&self, session: &SessionId) -> Result<Option<Finished>, Error> {
        let _ = session;
        pending()
    }

    /// Deletes a session with all that it led to. `Err(run)` names a run of it that has not ended.
    pub async fn delete_session(&self, session: &SessionId) -> Result<Option<Result<(), RunId>>, Error> {
        let _ = session;
        pending()
    }

    /// Events of a session after a number.
    pub async fn events(
        &self,
        session: &SessionId,
        after: i64,
        limit: usize,
    ) -> Result<Vec<StoredEvent>, Error> {
        let _ = (session, after, limit);
        pending()
    }

    /// Events of all sessions after a position.
    pub async fn all_events(&self, after: Position, limit: usize) -> Result<Vec<StoredEvent>, Error> {
        let _ = (after, limit);
        pending()
    }

    /// The position of the last event: where a stream begins that wants only what is new.
    pub async fn last_position(&self) -> Result<Position, Error> {
        pending()
    }

    /// Everything on a shelf, by name.
    pub async fn named(&self, shelf: Shelf) -> Result<Vec<Named>, Error> {
        let _ = shelf;
        pending()
    }

    /// One of a shelf.
    pub async fn named_one(&self, shelf: Shelf, name: &str) -> Result<Option<Named>, Error> {
        let _ = (shelf, name);
        pending()
    }

    /// Puts something on a shelf; false where the name is taken.
    pub async fn add(&self, shelf: Shelf, name: &str, text: &str) -> Result<bool, Error> {
        let _ = (shelf, name, text);
        pending()
    }

    /// Replaces something on a shelf; false where there is nothing of the name.
    pub async fn replace(&self, shelf: Shelf, name: &str, text: &str) -> Result<bool, Error> {
        let _ = (shelf, name, text);
        pending()
    }

    /// Takes something from a shelf; false where there is nothing of the name.
    pub async fn remove(&self, shelf: Shelf, name: &str) -> Result<bool, Error> {
        let _ = (shelf, name);
        pending()
    }

    /// Keeps a token.
    pub async fn add_token(&self, token: TokenRecord) -> Result<(), Error> {
        let _ = token;
        pending()
    }

    /// All tokens, oldest first.
    pub async fn tokens(&self) -> Result<Vec<TokenRecord>, Error> {
        pending()
    }

    /// Forgets a token; false where there is none.
    pub async fn revoke_token(&self, token_id: &str) -> Result<bool, Error> {
        let _ = token_id;
        pending()
    }

    /// Notes that a runner is there.
    pub async fn register(&self, runner: RunnerRecord) -> Result<(), Error> {
        let _ = runner;
        pending()
    }

    /// Runners that were heard of within a while.
    pub async fn runners(&self, seen_within_ms: Millis) -> Result<Vec<RunnerRecord>, Error> {
        let _ = seen_within_ms;
        pending()
    }

    /// How many runs stand how.
    pub async fn counts(&self) -> Result<Counts, Error> {
        pending()
    }

    /// Checks the whole database, as far as it can check itself; what it finds.
    pub async fn check(&self) -> Result<Vec<String>, Error> {
        pending()
    }
}

#[allow(dead_code)]
fn _unused(_: Body) {}
