//! The store: one method a verb.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use slipform_types::{RunId, SessionId};
use tokio::sync::watch;
use tokio::task::spawn_blocking;

use crate::address::Address;
use crate::error::Error;
use crate::postgres::Postgres;
use crate::record::{
    Append, Appended, Beat, ClaimRequest, Claimed, Counts, Fence, Figures, FiguresFilter, Finished, Listed,
    Milestone, Millis, Named, NewRun, Page, ParentCall, Parked, Position, Refusal, RegistryKind, Retention,
    RunFilter, RunRecord, RunnerRecord, SessionRecord, Stale, StoredEvent, Submitted, SweepLimits, Swept,
    TokenRecord,
};
use crate::sqlite::Sqlite;
use crate::transactions::claim::{Absence, Adoption, Renewal};
use crate::transactions::registry::Item;
use crate::transactions::sweep::Done;
use crate::transactions::{
    append, check, claim, delete, figures, journal, milestones, names, park, registry, retain, runner, runs,
    sessions, stop, submit, sweep, token,
};
use crate::tx::Perform;

/// Failures in a row after which a database that does not answer is left alone: each may have taken its time.
const UNANSWERED_MAX: usize = 3;

/// How a store is opened.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Whether this process is the only coordinator of a SQLite database: a second one is refused.
    pub is_exclusive: bool,
}

/// A store. Cloning it gives another handle to the same.
#[derive(Debug, Clone)]
pub struct Store {
    database: Arc<Database>,
    news: Arc<watch::Sender<u64>>,
    commits: Arc<AtomicU64>,
}

#[derive(Debug)]
enum Database {
    Sqlite(Sqlite),
    Postgres(Box<Postgres>),
}

impl Store {
    /// Opens a store, and brings its tables up to date: `sqlite:PATH`, `sqlite::memory:` or `postgres://…`.
    pub async fn open(address: &str, options: &Options) -> Result<Store, Error> {
        let (news, commits) = (Arc::new(watch::channel(0).0), Arc::new(AtomicU64::new(0)));
        let database = match Address::read(address)? {
            Address::Sqlite(path) => {
                let (is_exclusive, news, commits) = (options.is_exclusive, news.clone(), commits.clone());
                // It may have to wait for another process that writes.
                let opening =
                    spawn_blocking(move || Sqlite::open(path.as_deref(), is_exclusive, &news, &commits));
                let opened = opening.await.map_err(|error| Error::Unavailable(error.to_string()))?;
                Database::Sqlite(opened?)
            }
            Address::Postgres(address) => {
                Database::Postgres(Box::new(Postgres::open(&address, &news, &commits).await?))
            }
        };
        Ok(Store { database: Arc::new(database), news, commits })
    }

    /// A number that grows whenever something was committed that others may wait for: events, work, ends.
    pub fn news(&self) -> watch::Receiver<u64> {
        self.news.subscribe()
    }

    /// How often this handle's process has committed, or tried to. SQLite commits what is asked for at the same time
    /// together.
    pub fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    /// Whether the database answers and can be written to.
    pub async fn ping(&self) -> Result<(), Error> {
        self.transact((), |tx, ()| Box::pin(check::ping(tx))).await
    }

    /// Takes a run on: session, run and `run_start`.
    pub async fn submit(&self, new: NewRun) -> Result<Result<Submitted, Refusal>, Error> {
        // Written as JSON here and below: the thread that writes to SQLite is the one that all wait for.
        let start = names::to_json(&new.start)?;
        self.transact((new, start), |tx, (new, start)| Box::pin(submit::submit(tx, new, start))).await
    }

    /// The run that was asked for under a key, with the hash of what was asked: what it was asked for with need not exist
    /// any more.
    pub async fn submitted_under(&self, key: &str) -> Result<Option<(Submitted, String)>, Error> {
        self.read(key.to_owned(), |tx, key| Box::pin(submit::submitted_under(tx, key))).await
    }

    /// The child that the same call has started, if it has: what it was started with need not exist any more.
    pub async fn child_of(&self, call: ParentCall) -> Result<Result<Option<Submitted>, Stale>, Error> {
        self.read(call, |tx, call| Box::pin(submit::child_of(tx, call))).await
    }

    /// Gives a runner as many runs as it has room for.
    pub async fn claim(&self, request: ClaimRequest) -> Result<Vec<Claimed>, Error> {
        self.transact(request, |tx, request| Box::pin(claim::claim(tx, request))).await
    }

    /// Gives a runner runs that are pinned to others which were not heard of for a while. It looks at all that is pinned
    /// and waits: for runners that found nothing else, and not each time.
    pub async fn adopt(&self, request: ClaimRequest, silence_ms: Millis) -> Result<Vec<Claimed>, Error> {
        let adoption = Adoption { request, silence_ms };
        self.transact(adoption, |tx, adoption| Box::pin(claim::adopt(tx, adoption))).await
    }

    /// Prolongs leases, and says which attempts have lost theirs.
    pub async fn renew(
        &self,
        runner_id: &str,
        fences: Vec<Fence>,
        lease_ms: Millis,
    ) -> Result<Vec<Beat>, Error> {
        let renewal = Renewal { runner_id: runner_id.to_owned(), fences, lease_ms };
        self.transact(renewal, |tx, renewal| Box::pin(claim::renew(tx, renewal))).await
    }

    /// Prolongs leases by a time in which nobody could renew them, up to one whole lease: the coordinator or the database
    /// was away, and that is not the runners' fault. Those that were swept stay lost. How many leases.
    ///
    /// Where nobody knows how long that was, it is the time since a runner was last heard of. That is no time where
    /// another coordinator was there: one that comes and goes does not keep the runs of a dead runner from others.
    pub async fn grace(&self, away_ms: Option<Millis>, lease_ms: Millis) -> Result<u64, Error> {
        let absence = Absence { away_ms, lease_ms };
        self.transact(absence, |tx, absence| Box::pin(claim::grace(tx, absence))).await
    }

    /// Appends what happened.
    pub async fn append(&self, append: Append) -> Result<Result<Appended, Stale>, Error> {
        let texts = names::texts(&append.bodies)?;
        self.transact((append, texts), |tx, (append, texts)| Box::pin(append::append(tx, append, texts)))
            .await
    }

    /// Appends what ends a run; its last body is `run_completed`. The parent hears of it, the session goes on with what
    /// waits for it, all in the same transaction.
    pub async fn finish(&self, append: Append) -> Result<Result<Appended, Stale>, Error> {
        let texts = names::texts(&append.bodies)?;
        self.transact((append, texts), |tx, (append, texts)| Box::pin(append::finish(tx, append, texts)))
            .await
    }

    /// Lets a run wait for its children, without a runner.
    pub async fn park(&self, fence: Fence) -> Result<Result<Parked, Stale>, Error> {
        self.transact(fence, |tx, fence| Box::pin(park::park(tx, fence))).await
    }

    /// Gives a run back at once. That is no lost attempt.
    pub async fn release(&self, fence: Fence) -> Result<Result<(), Stale>, Error> {
        self.transact(fence, |tx, fence| Box::pin(park::release(tx, fence))).await
    }

    /// Asks a run to stop, with the children that it waits for. `None` where there is no such run.
    pub async fn stop(&self, run: &RunId) -> Result<Option<RunRecord>, Error> {
        self.transact(run.clone(), |tx, run| Box::pin(stop::stop(tx, run))).await
    }

    /// Puts back what was lost, ends what nobody ends: each run in a transaction of its own. Several coordinators may
    /// sweep at once. One that fails is logged, and keeps the others from nothing.
    pub async fn sweep(&self, limits: SweepLimits) -> Result<Swept, Error> {
        let due = self.read(limits, |tx, limits| Box::pin(sweep::candidates(tx, limits))).await?;
        let (mut swept, mut failures) = (Swept::default(), Failures::default());
        for run in due {
            let about = run.to_string();
            let done =
                self.transact((run, limits), |tx, (run, limits)| Box::pin(sweep::sweep(tx, run, limits)));
            match failures.overlook(&about, done.await)?.unwrap_or(Done::Nothing) {
                Done::Nothing => {}
                Done::Returned => swept.returned += 1,
                Done::Lost => swept.lost += 1,
                Done::Stopped => swept.stopped += 1,
                Done::Overdue => swept.overdue += 1,
            }
        }
        Ok(swept)
    }

    /// Deletes what is too old or too many; how many sessions that were. A session and all that work for it are kept or
    /// deleted together, each such family in a transaction of its own. One that fails is logged, and keeps the others
    /// from nothing.
    pub async fn retain(&self, retention: Retention) -> Result<usize, Error> {
        let families = self.read(retention, |tx, retention| Box::pin(retain::candidates(tx, retention)));
        let (mut count, mut failures) = (0, Failures::default());
        for root in families.await? {
            let about = root.to_string();
            let forgotten = self.transact(root, |tx, root| Box::pin(retain::forget(tx, root))).await;
            count += failures.overlook(&about, forgotten)?.unwrap_or(0);
        }
        Ok(count)
    }

    /// A run.
    pub async fn run(&self, run: &RunId) -> Result<Option<RunRecord>, Error> {
        self.read(run.clone(), |tx, run| Box::pin(runs::one(tx, run))).await
    }

    /// Runs, newest first.
    pub async fn runs(&self, filter: RunFilter, page: Page) -> Result<Listed<RunRecord>, Error> {
        self.read((filter, page), |tx, (filter, page)| Box::pin(runs::list(tx, filter, page))).await
    }

    /// A session.
    pub async fn session(&self, session: &SessionId) -> Result<Option<SessionRecord>, Error> {
        self.read(session.clone(), |tx, session| Box::pin(sessions::one(tx, session))).await
    }

    /// Sessions, newest first.
    pub async fn sessions(&self, page: Page) -> Result<Listed<SessionRecord>, Error> {
        self.read(page, |tx, page| Box::pin(sessions::list(tx, page))).await
    }

    /// The `run_start` of a session's first run: the agent that it was made with.
    pub async fn opening(&self, session: &SessionId) -> Result<Option<StoredEvent>, Error> {
        self.read(session.clone(), |tx, session| Box::pin(sessions::opening(tx, session))).await
    }

    /// The `run_start` of a run. That of a run which waits for its session is in no journal yet: its `seq` is 0.
    pub async fn start_of(&self, run: &RunId) -> Result<Option<StoredEvent>, Error> {
        self.read(run.clone(), |tx, run| Box::pin(runs::start_of(tx, run))).await
    }

    /// The latest run of a session, and what came of it.
    pub async fn finished(&self, session: &SessionId) -> Result<Option<Finished>, Error> {
        self.read(session.clone(), |tx, session| Box::pin(runs::finished(tx, session))).await
    }

    /// A run, and what came of it.
    pub async fn finished_run(&self, run: &RunId) -> Result<Option<Finished>, Error> {
        self.read(run.clone(), |tx, run| Box::pin(runs::finished_run(tx, run))).await
    }

    /// Deletes a session with all that it led to. `Err(run)` names a run of it that has not ended, or one
    /// that is still to hear how a run of it did.
    pub async fn delete_session(&self, session: &SessionId) -> Result<Option<Result<(), RunId>>, Error> {
        self.transact(session.clone(), |tx, session| Box::pin(delete::delete(tx, session))).await
    }

    /// Events of a session after a number.
    pub async fn events(
        &self,
        session: &SessionId,
        after: i64,
        limit: usize,
    ) -> Result<Vec<StoredEvent>, Error> {
        let arguments = (session.clone(), after, limit);
        self.read(arguments, |tx, (session, after, limit)| {
            Box::pin(journal::events(tx, session, *after, *limit))
        })
        .await
    }

    /// Events of all sessions after a position. PostgreSQL shows an event when every older transaction of its server has
    /// ended, so that nothing appears before a position that was read.
    pub async fn all_events(&self, after: Position, limit: usize) -> Result<Vec<StoredEvent>, Error> {
        self.read((after, limit), |tx, (after, limit)| Box::pin(journal::all_events(tx, *after, *limit)))
            .await
    }

    /// The same for whoever wants to know how runs go and nothing else: each event has its place, and only ends, plans,
    /// failed validations and escalations have a body.
    pub async fn milestones(&self, after: Position, limit: usize) -> Result<Vec<Milestone>, Error> {
        self.read((after, limit), |tx, (after, limit)| Box::pin(milestones::after(tx, *after, *limit))).await
    }

    /// The position of the last event: where a stream begins that wants only what is new.
    pub async fn last_position(&self) -> Result<Position, Error> {
        self.read((), |tx, ()| Box::pin(journal::last_position(tx))).await
    }

    /// Returns all entries of a kind, sorted by name.
    pub async fn named(&self, kind: RegistryKind) -> Result<Vec<Named>, Error> {
        self.read(kind, |tx, kind| Box::pin(registry::all(tx, *kind))).await
    }

    /// Returns the entry of a name.
    pub async fn named_one(&self, kind: RegistryKind, name: &str) -> Result<Option<Named>, Error> {
        self.read((kind, name.to_owned()), |tx, (kind, name)| Box::pin(registry::one(tx, *kind, name))).await
    }

    /// Adds an entry; false if the name is taken.
    pub async fn add(&self, kind: RegistryKind, name: &str, text: &str) -> Result<bool, Error> {
        let item = Item { kind, name: name.to_owned(), text: text.to_owned() };
        self.transact(item, |tx, item| Box::pin(registry::add(tx, item))).await
    }

    /// Replaces an entry; false if the name is unknown.
    pub async fn replace(&self, kind: RegistryKind, name: &str, text: &str) -> Result<bool, Error> {
        let item = Item { kind, name: name.to_owned(), text: text.to_owned() };
        self.transact(item, |tx, item| Box::pin(registry::replace(tx, item))).await
    }

    /// Removes an entry; false if the name is unknown.
    pub async fn remove(&self, kind: RegistryKind, name: &str) -> Result<bool, Error> {
        self.transact((kind, name.to_owned()), |tx, (kind, name)| Box::pin(registry::remove(tx, *kind, name)))
            .await
    }

    /// Keeps a token. When it was made is what the database says, whatever the record does.
    pub async fn add_token(&self, token: TokenRecord) -> Result<(), Error> {
        self.transact(token, |tx, token| Box::pin(token::add(tx, token))).await
    }

    /// All tokens, oldest first.
    pub async fn tokens(&self) -> Result<Vec<TokenRecord>, Error> {
        self.read((), |tx, ()| Box::pin(token::all(tx))).await
    }

    /// Forgets a token; false where there is none.
    pub async fn revoke_token(&self, token_id: &str) -> Result<bool, Error> {
        self.transact(token_id.to_owned(), |tx, token_id| Box::pin(token::revoke(tx, token_id))).await
    }

    /// Notes that a runner is there, under an id that it may have had before. The times of the record are the database's
    /// to say, and what it works on is counted.
    pub async fn register(&self, runner: RunnerRecord) -> Result<(), Error> {
        self.transact(runner, |tx, runner| Box::pin(runner::register(tx, runner))).await
    }

    /// Runners that were heard of within a while.
    pub async fn runners(&self, seen_within_ms: Millis) -> Result<Vec<RunnerRecord>, Error> {
        self.read(seen_within_ms, |tx, seen_within_ms| Box::pin(runner::all(tx, *seen_within_ms))).await
    }

    /// How many runs stand how.
    pub async fn counts(&self) -> Result<Counts, Error> {
        self.read((), |tx, ()| Box::pin(runs::counts(tx))).await
    }

    /// How the agents did whose runs have ended, by name and backend.
    pub async fn figures(&self, filter: FiguresFilter) -> Result<Vec<Figures>, Error> {
        self.read(filter, |tx, filter| Box::pin(figures::figures(tx, filter))).await
    }

    /// Checks the whole database, as far as it can check itself; what it finds.
    pub async fn check(&self) -> Result<Vec<String>, Error> {
        self.read((), |tx, ()| Box::pin(check::check(tx))).await
    }

    async fn transact<A, R>(&self, arguments: A, perform: Perform<A, R>) -> Result<R, Error>
    where
        A: Send + Sync + 'static,
        R: Send + 'static,
    {
        match &*self.database {
            Database::Sqlite(sqlite) => sqlite.transact(arguments, perform).await,
            Database::Postgres(postgres) => postgres.transact(arguments, perform).await,
        }
    }

    async fn read<A, R>(&self, arguments: A, perform: Perform<A, R>) -> Result<R, Error>
    where
        A: Send + Sync + 'static,
        R: Send + 'static,
    {
        match &*self.database {
            Database::Sqlite(sqlite) => sqlite.read(arguments, perform).await,
            Database::Postgres(postgres) => postgres.read(arguments, perform).await,
        }
    }
}

/// Failures in a row, of many that are worked off one after the other.
#[derive(Default)]
struct Failures {
    unanswered: usize,
}

impl Failures {
    /// Logs a failure so that the next one gets its turn, unless the database does not answer at all.
    fn overlook<T>(&mut self, about: &str, done: Result<T, Error>) -> Result<Option<T>, Error> {
        let error = match done {
            Ok(done) => {
                self.unanswered = 0;
                return Ok(Some(done));
            }
            Err(error) => error,
        };
        tracing::warn!(about, %error, "it could not be swept");
        if matches!(error, Error::Unavailable(_)) {
            self.unanswered += 1;
            if self.unanswered >= UNANSWERED_MAX {
                return Err(error);
            }
        }
        Ok(None)
    }
}
