//! The store's public interface: one method per operation.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use slipform_types::{RunId, SessionId};
use tokio::sync::watch;
use tokio::task::spawn_blocking;

use crate::address::{self, Address};
use crate::clock::Clock;
use crate::error::Error;
use crate::postgres::Postgres;
use crate::record::{
    AgentStats, Append, Appended, ClaimRequest, Claimed, Counts, EndedRequest, EventsPage, FailedValidation,
    Fence, IntervalStats, Listed, Milestone, Millis, NewRun, Page, ParentCall, Parked, Position, Refusal,
    Registration, RegistryEntry, RegistryKind, RenewedLease, RequestFilter, RequestRecord, Retention,
    RunDetails, RunFilter, RunRecord, RunnerRecord, SessionFilter, SessionRecord, Stale, StatsFilter,
    StoredEvent, Submitted, SweepLimits, Swept, TokenRecord,
};
use crate::sqlite::{self, Sqlite};
use crate::transactions::claim::{Adoption, Outage, Renewal};
use crate::transactions::registry::Item;
use crate::transactions::retain::DeletedTrees;
use crate::transactions::space::FREE_PAGES_REPORTED;
use crate::transactions::sweep::SweepAction;
use crate::transactions::{
    append, check, claim, delete, encoding, gateway, journal, milestones, park, registry, retain, runner,
    runs, sessions, space, stats, stop, submit, sweep, token,
};
use crate::tx::Operation;

/// Consecutive `Unavailable` errors after which a batch gives up. Each one may have waited for a full
/// timeout.
const UNAVAILABLE_MAX: usize = 3;

/// The default of [`Options::connections`]. PostgreSQL slows down with many active connections.
const CONNECTIONS_DEFAULT: usize = 12;

/// Maximum number of session trees per deleting transaction.
const TREES_PER_BATCH: usize = 100;

/// Size of the text that [`Store::ping`] stores after a failed write. Larger than the events of most runs.
const PROBE_BYTES: usize = 256 * 1024;

/// Options for [`Store::open`].
#[derive(Debug, Clone)]
pub struct Options {
    /// Takes an exclusive lock on a SQLite database; opening fails if another coordinator holds it.
    /// PostgreSQL ignores this option.
    pub is_exclusive: bool,
    /// Maximum number of connections to PostgreSQL for transactions. Two more receive and send notifications, if the
    /// server allows it.
    pub connections: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options { is_exclusive: false, connections: CONNECTIONS_DEFAULT }
    }
}

/// A handle to the database. Clones share the same connections.
#[derive(Debug, Clone)]
pub struct Store {
    database: Arc<Database>,
    notifications: Arc<watch::Sender<u64>>,
    commits: Arc<AtomicU64>,
    /// Whether a write has failed since the last successful [`Store::ping`].
    has_failed_write: Arc<AtomicBool>,
}

#[derive(Debug)]
enum Database {
    Sqlite(Sqlite),
    Postgres(Box<Postgres>),
}

impl Store {
    /// Opens a store and applies missing migrations. Accepts `sqlite:PATH`, `sqlite::memory:` and
    /// `postgres://…`.
    pub async fn open(address: &str, options: &Options) -> Result<Store, Error> {
        Store::open_with_clock(address, options, Clock::default()).await
    }

    /// Opens a store like [`Store::open`]. A SQLite database has the time of this clock; PostgreSQL has its own.
    pub async fn open_with_clock(address: &str, options: &Options, clock: Clock) -> Result<Store, Error> {
        let (notifications, commits) = (Arc::new(watch::channel(0).0), Arc::new(AtomicU64::new(0)));
        let database = match Address::read(address)? {
            Address::Sqlite(path) => {
                let (is_exclusive, notifications, commits) =
                    (options.is_exclusive, notifications.clone(), commits.clone());
                // Opening can block while another process writes.
                let opening = spawn_blocking(move || {
                    Sqlite::open(path.as_deref(), is_exclusive, clock, &notifications, &commits)
                });
                let opened = opening.await.map_err(|error| Error::Unavailable(error.to_string()))?;
                Database::Sqlite(opened?)
            }
            Address::Postgres(address) => {
                let connections = options.connections;
                let opened = Postgres::open(&address, connections, &notifications, &commits).await?;
                Database::Postgres(Box::new(opened))
            }
        };
        Ok(Store { database: Arc::new(database), notifications, commits, has_failed_write: Arc::default() })
    }

    /// Commits the queued operations and closes all connections of this process. SQLite then deletes the write-ahead
    /// log, unless another process uses the database. Further operations fail.
    pub async fn close(&self) {
        let store = self.clone();
        let closing = spawn_blocking(move || match &*store.database {
            Database::Sqlite(sqlite) => sqlite.close(),
            Database::Postgres(_) => {}
        });
        let _ = closing.await;
    }

    /// Returns a counter that increases after commits that subscribers may wait for: events, queued runs, run
    /// ends.
    pub fn notifications(&self) -> watch::Receiver<u64> {
        self.notifications.subscribe()
    }

    /// Returns the number of commits this process has attempted. SQLite commits concurrent operations
    /// together.
    pub fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    /// Checks that the database answers and accepts writes.
    ///
    /// After a failed write this stores a text of 256 KiB and deletes it. On a full disk a small update can succeed in
    /// space that the failed write has already taken.
    pub async fn ping(&self) -> Result<(), Error> {
        // Reset first, so that a write that fails meanwhile counts.
        if !self.has_failed_write.swap(false, Ordering::Relaxed) {
            return self.transact((), |tx, ()| Box::pin(check::ping(tx))).await;
        }
        self.transact(probe_text()?, |tx, text| Box::pin(check::write_probe(tx, text))).await?;
        self.transact((), |tx, ()| Box::pin(check::delete_probe(tx))).await
    }

    /// Returns whether a write has failed since the last successful [`Store::ping`].
    pub fn has_failed_write(&self) -> bool {
        self.has_failed_write.load(Ordering::Relaxed)
    }

    /// Creates a run, and its session if needed, and journals `run_start`.
    pub async fn submit(&self, new: NewRun) -> Result<Result<Submitted, Refusal>, Error> {
        // Serialized before the transaction, here and below, because all operations wait for the SQLite
        // writer thread.
        let start = encoding::to_json(&new.start)?;
        self.transact((new, start), |tx, (new, start)| Box::pin(submit::submit(tx, new, start))).await
    }

    /// Returns the run created with an idempotency key and the hash of its request body. Callers look it up
    /// first because the agent or schema of the first request may have been deleted since.
    pub async fn run_by_idempotency_key(&self, key: &str) -> Result<Option<(Submitted, String)>, Error> {
        self.read(key.to_owned(), |tx, key| Box::pin(submit::find_by_key(tx, key))).await
    }

    /// Returns the child that a parent's call has already started. Callers look it up first because the
    /// child's agent may have been deleted since.
    pub async fn child_by_call(&self, call: ParentCall) -> Result<Result<Option<Submitted>, Stale>, Error> {
        self.read(call, |tx, call| Box::pin(submit::find_child(tx, call))).await
    }

    /// Claims up to `slots` runs for a runner.
    pub async fn claim(&self, request: ClaimRequest) -> Result<Vec<Claimed>, Error> {
        self.transact(request, |tx, request| Box::pin(claim::claim(tx, request))).await
    }

    /// Claims runs that are pinned to runners not seen for `silence_ms`. This query scans all pinned runs in
    /// the queue, so callers use it rarely, and only after a claim returned nothing.
    pub async fn adopt(&self, request: ClaimRequest, silence_ms: Millis) -> Result<Vec<Claimed>, Error> {
        let adoption = Adoption { request, silence_ms };
        self.transact(adoption, |tx, adoption| Box::pin(claim::adopt(tx, adoption))).await
    }

    /// Renews leases and reports the attempts that have lost theirs.
    pub async fn renew(
        &self,
        runner_id: &str,
        fences: Vec<Fence>,
        lease_ms: Millis,
    ) -> Result<Vec<RenewedLease>, Error> {
        let renewal = Renewal { runner_id: runner_id.to_owned(), fences, lease_ms };
        self.transact(renewal, |tx, renewal| Box::pin(claim::renew(tx, renewal))).await
    }

    /// Extends leases by the duration of an outage, up to one full lease from now, and returns the number of
    /// extended leases. Runners could not renew during the outage. Leases that were already swept stay lost.
    ///
    /// With `outage_ms: None`, the outage lasts since any runner was last seen. That is close to zero while
    /// another coordinator serves, so a coordinator that restarts repeatedly cannot keep a dead runner's
    /// leases alive.
    pub async fn extend_leases(&self, outage_ms: Option<Millis>, lease_ms: Millis) -> Result<u64, Error> {
        let outage = Outage { outage_ms, lease_ms };
        self.transact(outage, |tx, outage| Box::pin(claim::extend_leases(tx, outage))).await
    }

    /// Appends events to the run's journal.
    pub async fn append(&self, append: Append) -> Result<Result<Appended, Stale>, Error> {
        let events = encoding::encode_events(&append.bodies)?;
        self.transact((append, events), |tx, (append, events)| Box::pin(append::append(tx, append, events)))
            .await
    }

    /// Appends the final events of a run; the last one must be `run_completed`. The same transaction notifies
    /// the parent and activates the session's next run.
    pub async fn finish(&self, append: Append) -> Result<Result<Appended, Stale>, Error> {
        let events = encoding::encode_events(&append.bodies)?;
        self.transact((append, events), |tx, (append, events)| Box::pin(append::finish(tx, append, events)))
            .await
    }

    /// Parks a run until a child ends. The runner gives up its lease.
    pub async fn park(&self, fence: Fence) -> Result<Result<Parked, Stale>, Error> {
        self.transact(fence, |tx, fence| Box::pin(park::park(tx, fence))).await
    }

    /// Returns a run to the queue at once. The attempt does not count as lost.
    pub async fn release(&self, fence: Fence) -> Result<Result<(), Stale>, Error> {
        self.transact(fence, |tx, fence| Box::pin(park::release(tx, fence))).await
    }

    /// Asks a run, and the children that it waits for, to stop. Returns `None` for an unknown run.
    pub async fn stop(&self, run: &RunId) -> Result<Option<RunRecord>, Error> {
        self.transact(run.clone(), |tx, run| Box::pin(stop::stop(tx, run))).await
    }

    /// Requeues or ends runs whose lease, stop request or deadline has expired, each in its own transaction.
    /// Several coordinators may sweep concurrently. A failure is logged and does not stop the sweep.
    pub async fn sweep(&self, limits: SweepLimits) -> Result<Swept, Error> {
        let due = self.read(limits, |tx, limits| Box::pin(sweep::candidates(tx, limits))).await?;
        let (mut swept, mut failures) = (Swept::default(), Failures::default());
        for run in due {
            let item = run.to_string();
            let done =
                self.transact((run, limits), |tx, (run, limits)| Box::pin(sweep::sweep(tx, run, limits)));
            match failures.log_and_continue(&item, done.await)?.unwrap_or(SweepAction::Nothing) {
                SweepAction::Nothing => {}
                SweepAction::Returned => swept.returned += 1,
                SweepAction::Lost => swept.lost += 1,
                SweepAction::Stopped => swept.stopped += 1,
                SweepAction::Overdue => swept.overdue += 1,
            }
        }
        Ok(swept)
    }

    /// Deletes session trees that exceed the retention limits and returns the number of deleted sessions. Call it again
    /// until it returns 0. A tree (a root session and its descendants) is deleted as a whole; a transaction deletes
    /// several. A failure is logged and does not stop the others.
    pub async fn retain(&self, retention: Retention) -> Result<usize, Error> {
        if retention == Retention::default() {
            return Ok(0);
        }
        let trees = self.read(retention, |tx, retention| Box::pin(retain::candidates(tx, retention))).await?;
        let (mut count, mut failures) = (0, Failures::default());
        let mut left = trees.as_slice();
        while let Some(batch) = left.get(..left.len().min(TREES_PER_BATCH)).filter(|batch| !batch.is_empty())
        {
            if let Ok(deleted) = self.delete_trees(batch).await {
                count += deleted.sessions;
                left = &left[deleted.trees..];
                continue;
            }
            // One by one, so that a damaged tree does not keep the others.
            for root in batch {
                let deleted = self.delete_trees(std::slice::from_ref(root)).await;
                let deleted = failures.log_and_continue(root.as_str(), deleted)?;
                count += deleted.map_or(0, |deleted| deleted.sessions);
            }
            left = &left[batch.len()..];
        }
        Ok(count)
    }

    async fn delete_trees(&self, roots: &[SessionId]) -> Result<DeletedTrees, Error> {
        self.transact(roots.to_vec(), |tx, roots| Box::pin(retain::delete_trees(tx, roots))).await
    }

    /// Returns the space of deleted sessions to the file system, in small transactions. SQLite databases that an
    /// earlier version has created reuse the space instead; [`backup`] makes a copy that can return it.
    pub async fn release_space(&self) -> Result<(), Error> {
        let mut free = self.read((), |tx, ()| Box::pin(space::free(tx))).await?;
        if !free.can_shrink && free.pages >= FREE_PAGES_REPORTED {
            tracing::info!(
                free_pages = free.pages,
                "the database reuses the space of deleted sessions but cannot return it; a copy made with \
                 `slipform backup` can"
            );
        }
        if !free.is_releasable() {
            return Ok(());
        }
        while free.is_releasable() {
            let left = self.transact((), |tx, ()| Box::pin(space::release(tx))).await?;
            if left.pages >= free.pages {
                break;
            }
            free = left;
        }
        let store = self.clone();
        let shortened = spawn_blocking(move || match &*store.database {
            Database::Sqlite(sqlite) => sqlite.checkpoint(),
            Database::Postgres(_) => Ok(()),
        });
        shortened.await.map_err(|error| Error::Unavailable(error.to_string()))?
    }

    /// Returns a run with its contract, or `None` for an unknown id.
    pub async fn run(&self, run: &RunId) -> Result<Option<RunRecord>, Error> {
        self.read(run.clone(), |tx, run| Box::pin(runs::one(tx, run))).await
    }

    /// Lists runs, newest first, without their contracts.
    pub async fn runs(&self, filter: RunFilter, page: Page) -> Result<Listed<RunRecord>, Error> {
        self.read((filter, page), |tx, (filter, page)| Box::pin(runs::list(tx, filter, page))).await
    }

    /// Returns a session, or `None` for an unknown id.
    pub async fn session(&self, session: &SessionId) -> Result<Option<SessionRecord>, Error> {
        self.read(session.clone(), |tx, session| Box::pin(sessions::one(tx, session))).await
    }

    /// Lists sessions, newest first.
    pub async fn sessions(&self, filter: SessionFilter, page: Page) -> Result<Listed<SessionRecord>, Error> {
        self.read((filter, page), |tx, (filter, page)| Box::pin(sessions::list(tx, filter, page))).await
    }

    /// Returns a run's `run_start` event. A run queued behind another has none in the journal yet; its `seq`
    /// is 0.
    pub async fn run_start(&self, run: &RunId) -> Result<Option<StoredEvent>, Error> {
        self.read(run.clone(), |tx, run| Box::pin(runs::run_start(tx, run))).await
    }

    /// Returns the latest run of a session with its start, result and end events.
    pub async fn latest_run_details(&self, session: &SessionId) -> Result<Option<RunDetails>, Error> {
        self.read(session.clone(), |tx, session| Box::pin(runs::latest_run_details(tx, session))).await
    }

    /// Returns a run with its start, result and end events.
    pub async fn run_details(&self, run: &RunId) -> Result<Option<RunDetails>, Error> {
        self.read(run.clone(), |tx, run| Box::pin(runs::run_details(tx, run))).await
    }

    /// Deletes a session and its descendants. Returns `None` for an unknown session. Returns `Err(run)` if a
    /// run blocks deletion: one that has not ended, or one that waits for a result from this tree.
    pub async fn delete_session(&self, session: &SessionId) -> Result<Option<Result<(), RunId>>, Error> {
        self.transact(session.clone(), |tx, session| Box::pin(delete::delete(tx, session)))
            .await
            .map(|found| found.map(|deleted| deleted.map(drop)))
    }

    /// Returns events of a session with `seq > after`, oldest first: at most `limit`, and 4 MiB unless the first is larger.
    pub async fn events(&self, session: &SessionId, after: i64, limit: usize) -> Result<EventsPage, Error> {
        let arguments = (session.clone(), after, limit);
        self.read(arguments, |tx, (session, after, limit)| {
            Box::pin(journal::events(tx, session, *after, *limit))
        })
        .await
    }

    /// Returns events of the session of an attempt with `seq > after`, oldest first. Fails for a stale attempt.
    pub async fn events_of_attempt(
        &self,
        fence: Fence,
        after: i64,
    ) -> Result<Result<EventsPage, Stale>, Error> {
        self.read((fence, after), |tx, (fence, after)| {
            Box::pin(journal::events_of_attempt(tx, fence, *after))
        })
        .await
    }

    /// Returns events of all sessions after a position. PostgreSQL hides an event until every older
    /// transaction on its server has ended, so no event can appear before a position that was already read.
    pub async fn all_events(&self, after: Position, limit: usize) -> Result<Vec<StoredEvent>, Error> {
        self.read((after, limit), |tx, (after, limit)| Box::pin(journal::all_events(tx, *after, *limit)))
            .await
    }

    /// Returns the same events as [`Store::all_events`] for analytics. Only ends, plans, failed validations
    /// and escalations have a body.
    pub async fn milestones(&self, after: Position, limit: usize) -> Result<Vec<Milestone>, Error> {
        self.read((after, limit), |tx, (after, limit)| Box::pin(milestones::after(tx, *after, *limit))).await
    }

    /// Returns whether a position is after every event that was ever stored, such as one from before a backup was
    /// restored.
    pub async fn is_beyond_end(&self, position: Position) -> Result<bool, Error> {
        self.read(position, |tx, position| Box::pin(journal::is_beyond_end(tx, *position))).await
    }

    /// Returns the position of the last event, where a stream of new events starts.
    pub async fn last_position(&self) -> Result<Position, Error> {
        self.read((), |tx, ()| Box::pin(journal::last_position(tx))).await
    }

    /// Returns all registry entries of a kind, sorted by name.
    pub async fn entries(&self, kind: RegistryKind) -> Result<Vec<RegistryEntry>, Error> {
        self.read(kind, |tx, kind| Box::pin(registry::all(tx, *kind))).await
    }

    /// Returns the registry entry with this name.
    pub async fn entry(&self, kind: RegistryKind, name: &str) -> Result<Option<RegistryEntry>, Error> {
        self.read((kind, name.to_owned()), |tx, (kind, name)| Box::pin(registry::one(tx, *kind, name))).await
    }

    /// Adds a registry entry. Returns false if the name is taken.
    pub async fn add(&self, kind: RegistryKind, name: &str, text: &str) -> Result<bool, Error> {
        self.add_described(kind, name, text, None).await
    }

    /// Adds a registry entry with a description. Returns false if the name is taken.
    pub async fn add_described(
        &self,
        kind: RegistryKind,
        name: &str,
        text: &str,
        description: Option<&str>,
    ) -> Result<bool, Error> {
        let (name, text) = (name.to_owned(), text.to_owned());
        let item = Item { kind, name, text, description: description.map(str::to_owned) };
        self.transact(item, |tx, item| Box::pin(registry::add(tx, item))).await
    }

    /// Replaces a registry entry. Returns false if it no longer has the text `before`.
    pub async fn replace(
        &self,
        kind: RegistryKind,
        name: &str,
        before: &str,
        text: &str,
    ) -> Result<bool, Error> {
        let item = Item { kind, name: name.to_owned(), text: text.to_owned(), description: None };
        let change = (item, before.to_owned());
        self.transact(change, |tx, (item, before)| Box::pin(registry::replace(tx, item, before))).await
    }

    /// Removes a registry entry. Returns false if the name is unknown.
    pub async fn remove(&self, kind: RegistryKind, name: &str) -> Result<bool, Error> {
        self.transact((kind, name.to_owned()), |tx, (kind, name)| Box::pin(registry::remove(tx, *kind, name)))
            .await
    }

    /// Stores a token that expires after `lifetime_ms`; `None` for never. The database sets the record's timestamps.
    pub async fn add_token(&self, token: TokenRecord, lifetime_ms: Option<Millis>) -> Result<(), Error> {
        self.transact((token, lifetime_ms), |tx, (token, lifetime_ms)| {
            Box::pin(token::add(tx, token, *lifetime_ms))
        })
        .await
    }

    /// Returns all tokens, oldest first.
    pub async fn tokens(&self) -> Result<Vec<TokenRecord>, Error> {
        self.read((), |tx, ()| Box::pin(token::all(tx))).await
    }

    /// Deletes a token. Returns false for an unknown id.
    pub async fn revoke_token(&self, token_id: &str) -> Result<bool, Error> {
        self.transact(token_id.to_owned(), |tx, token_id| Box::pin(token::revoke(tx, token_id))).await
    }

    /// Registers a runner, or updates it if the same API token has registered it. The database sets the record's
    /// timestamps and counts its active runs. Removes runners that were not seen for an hour.
    pub async fn register(&self, runner: RunnerRecord) -> Result<Registration, Error> {
        self.transact(runner, |tx, runner| Box::pin(runner::register(tx, runner))).await
    }

    /// Removes a runner.
    pub async fn remove_runner(&self, runner_id: &str) -> Result<(), Error> {
        self.transact(runner_id.to_owned(), |tx, runner_id| Box::pin(runner::remove(tx, runner_id))).await
    }

    /// Returns the API token that registered a runner; `None` for an unknown runner.
    pub async fn runner_creator(&self, runner_id: &str) -> Result<Option<Option<String>>, Error> {
        self.read(runner_id.to_owned(), |tx, runner_id| Box::pin(runner::creator(tx, runner_id))).await
    }

    /// Returns the runners seen within the last `seen_within_ms`.
    pub async fn runners(&self, seen_within_ms: Millis) -> Result<Vec<RunnerRecord>, Error> {
        self.read(seen_within_ms, |tx, seen_within_ms| Box::pin(runner::all(tx, *seen_within_ms))).await
    }

    /// Counts runs by status and measures the queue.
    pub async fn counts(&self) -> Result<Counts, Error> {
        self.read((), |tx, ()| Box::pin(runs::counts(tx))).await
    }

    /// Stores requests of the gateway that have ended.
    pub async fn record_requests(&self, ended: Vec<EndedRequest>) -> Result<(), Error> {
        self.transact(ended, |tx, ended| Box::pin(gateway::record(tx, ended))).await
    }

    /// Returns a page of the gateway's requests, newest first.
    pub async fn gateway_requests(
        &self,
        filter: RequestFilter,
        page: Page,
    ) -> Result<Listed<RequestRecord>, Error> {
        self.read((filter, page), |tx, (filter, page)| Box::pin(gateway::list(tx, filter, page))).await
    }

    /// Deletes requests of the gateway that ended more than `age_ms_max` ago, and the oldest beyond `count_max`. Returns the
    /// number of deleted ones; the next call deletes the rest.
    pub async fn retain_requests(&self, age_ms_max: Option<Millis>, count_max: i64) -> Result<u64, Error> {
        self.transact((age_ms_max, count_max), |tx, (age_ms_max, count_max)| {
            Box::pin(gateway::retain(tx, *age_ms_max, *count_max))
        })
        .await
    }

    /// Returns statistics of ended runs per agent and backend.
    pub async fn agent_stats(&self, filter: StatsFilter) -> Result<Vec<AgentStats>, Error> {
        self.read(filter, |tx, filter| Box::pin(stats::agent_stats(tx, filter))).await
    }

    /// Returns the time of the database's clock.
    pub async fn now(&self) -> Result<Millis, Error> {
        self.read((), |tx, ()| Box::pin(stats::now(tx))).await
    }

    /// Returns figures per interval of ended runs, oldest first, without intervals in which no run ended.
    pub async fn timeline(&self, filter: StatsFilter, interval: Millis) -> Result<Vec<IntervalStats>, Error> {
        self.read((filter, interval), |tx, (filter, interval)| {
            Box::pin(stats::timeline(tx, filter, *interval))
        })
        .await
    }

    /// Returns the newest `validation_failed` events, at most `limit`.
    pub async fn failed_validations(
        &self,
        filter: StatsFilter,
        limit: i64,
    ) -> Result<Vec<FailedValidation>, Error> {
        self.read((filter, limit), |tx, (filter, limit)| {
            Box::pin(stats::failed_validations(tx, filter, *limit))
        })
        .await
    }

    /// Runs the database's self-check and the journal check. Returns one message per problem.
    pub async fn check(&self) -> Result<Vec<String>, Error> {
        self.read((), |tx, ()| Box::pin(check::check(tx))).await
    }

    async fn transact<A, R>(&self, arguments: A, operation: Operation<A, R>) -> Result<R, Error>
    where
        A: Send + Sync + 'static,
        R: Send + 'static,
    {
        let done = match &*self.database {
            Database::Sqlite(sqlite) => sqlite.transact(arguments, operation).await,
            Database::Postgres(postgres) => postgres.transact(arguments, operation).await,
        };
        if matches!(done, Err(Error::Unavailable(_) | Error::Damaged(_))) {
            self.has_failed_write.store(true, Ordering::Relaxed);
        }
        done
    }

    async fn read<A, R>(&self, arguments: A, operation: Operation<A, R>) -> Result<R, Error>
    where
        A: Send + Sync + 'static,
        R: Send + 'static,
    {
        match &*self.database {
            Database::Sqlite(sqlite) => sqlite.read(arguments, operation).await,
            Database::Postgres(postgres) => postgres.read(arguments, operation).await,
        }
    }
}

/// Copies a SQLite database to a new file while other processes use it. The copy is consistent and has every
/// transaction that was committed before the call.
pub async fn backup(address: &str, to: &Path) -> Result<(), Error> {
    match Address::read(address)? {
        Address::Sqlite(Some(path)) => {
            let to = to.to_owned();
            let copying = spawn_blocking(move || sqlite::backup(&path, &to));
            copying.await.map_err(|error| Error::Unavailable(error.to_string()))?
        }
        Address::Sqlite(None) => {
            Err(Error::Unsuitable("a database in memory cannot be backed up".to_owned()))
        }
        Address::Postgres(address) => Err(Error::Unsuitable(format!(
            "`slipform backup` copies SQLite databases only; for PostgreSQL run `pg_dump --format=custom --file={} {}`",
            to.display(),
            address::shown_address(&address)
        ))),
    }
}

/// Returns random text, because PostgreSQL compresses what repeats.
fn probe_text() -> Result<String, Error> {
    let mut bytes = vec![0; PROBE_BYTES / 2];
    getrandom::fill(&mut bytes)
        .map_err(|error| Error::Unavailable(format!("cannot generate random bytes: {error}")))?;
    let mut text = String::with_capacity(PROBE_BYTES);
    for byte in bytes {
        text.push(char::from(b'a' + (byte & 15)));
        text.push(char::from(b'a' + (byte >> 4)));
    }
    Ok(text)
}

/// Counts consecutive failures in a batch.
#[derive(Default)]
struct Failures {
    unavailable: usize,
}

impl Failures {
    /// Logs a failure and returns `None` so that the batch continues. Returns the error after too many
    /// consecutive `Unavailable` errors.
    fn log_and_continue<T>(&mut self, item: &str, done: Result<T, Error>) -> Result<Option<T>, Error> {
        let error = match done {
            Ok(done) => {
                self.unavailable = 0;
                return Ok(Some(done));
            }
            Err(error) => error,
        };
        tracing::warn!(item, %error, "cannot process this item; continuing with the next");
        if matches!(error, Error::Unavailable(_)) {
            self.unavailable += 1;
            if self.unavailable >= UNAVAILABLE_MAX {
                return Err(error);
            }
        }
        Ok(None)
    }
}
