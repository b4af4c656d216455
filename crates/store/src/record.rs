//! What is kept, and what is asked for.

use serde_json::Value;
use slipform_types::{EventBody, ExecutionMode, RunId, RunStatus, RunType, SessionId, Tokens};

/// A moment, in milliseconds since 1970 by the database's clock.
pub type Millis = i64;

/// A run that is asked for, with everything that was resolved for it.
#[derive(Debug, Clone)]
pub struct NewRun {
    /// Its id.
    pub run_id: RunId,
    /// Its session.
    pub session: SessionTarget,
    /// The agent.
    pub agent_name: String,
    /// Its `run_start`.
    pub start: EventBody,
    /// How long it may take from its first claim on.
    pub timeout_ms: Option<Millis>,
    /// How whoever asks learns of its end.
    pub mode: ExecutionMode,
    /// Whom it works for.
    pub parent: Option<Parent>,
    /// Makes asking twice the same as asking once.
    pub idempotency: Option<Idempotency>,
    /// The only runner that may claim it, for as long as that one is heard of: see
    /// [`Store::adopt`](crate::Store::adopt).
    pub pinned_to: Option<String>,
    /// The run whose children it is called back about.
    pub continues: Option<RunId>,
}

/// Where a run takes place.
#[derive(Debug, Clone)]
pub enum SessionTarget {
    /// In a session of its own.
    New {
        /// The session's id.
        session_id: SessionId,
        /// The folder that it works in, as the caller gave it.
        project_dir: Option<String>,
    },
    /// In a session that exists.
    Resume {
        /// The session.
        session_id: SessionId,
        /// Whether it waits its turn where the session is busy; it is refused otherwise.
        queues: bool,
    },
}

/// Whom a run works for.
#[derive(Debug, Clone)]
pub struct Parent {
    /// The session.
    pub session_id: SessionId,
    /// The run that started it and the call that it did so by; none for a child that somebody else starts. The same
    /// call gives the same child, however often it is asked for.
    pub call: Option<ParentCall>,
    /// How far delegation may go.
    pub limits: FamilyLimits,
}

/// The call that a child was started by.
#[derive(Debug, Clone)]
pub struct ParentCall {
    /// The attempt that asks.
    pub fence: Fence,
    /// The call's id within the run.
    pub call_id: String,
}

/// How far delegation may go.
#[derive(Debug, Clone, Copy)]
pub struct FamilyLimits {
    /// How many agents may stand above one another.
    pub depth_max: usize,
    /// The most children that one run may start.
    pub children_max: usize,
    /// The most runs that one task may lead to.
    pub runs_max: usize,
}

/// What makes asking twice the same as asking once.
#[derive(Debug, Clone)]
pub struct Idempotency {
    /// The caller's key.
    pub key: String,
    /// The hash of what was asked for under it.
    pub body_hash: String,
}

/// A run that was taken on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submitted {
    /// Its id.
    pub run_id: RunId,
    /// Its session.
    pub session_id: SessionId,
    /// Whether it had been asked for before, under the same key or by the same call.
    pub is_repeated: bool,
}

/// Why a run was not taken on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such session.
    SessionNotFound(SessionId),
    /// The session has a run that has not ended, and the new one does not queue.
    SessionBusy {
        /// The session.
        session_id: SessionId,
        /// The run that has not ended.
        run_id: RunId,
    },
    /// The key was used for something else.
    IdempotencyConflict,
    /// The attempt that asks for a child is not the run's last.
    Stale,
    /// Delegation may not go that far; why, in words that a model can do something with.
    Family(String),
}

/// What an attempt shows with every write: only the latest of a run's attempts may write.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Fence {
    /// The run.
    pub run_id: RunId,
    /// The attempt's number, from 1.
    pub token: i64,
}

/// The attempt is not the run's latest, or its lease is gone, or the run has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stale;

/// What a runner asks work for.
#[derive(Debug, Clone)]
pub struct ClaimRequest {
    /// The runner.
    pub runner_id: String,
    /// How many runs it has room for.
    pub slots: usize,
    /// How long its leases are.
    pub lease_ms: Millis,
    /// Whether it takes only what is pinned to it.
    pub only_pinned: bool,
}

/// A run that a runner has taken on.
#[derive(Debug, Clone)]
pub struct Claimed {
    /// What its writes show.
    pub fence: Fence,
    /// Its session.
    pub session_id: SessionId,
    /// The folder of the session, as its caller gave it.
    pub project_dir: Option<String>,
    /// The agents above it, the first one first, and itself.
    pub line: Vec<String>,
    /// How much of its time is left, where it is limited.
    pub time_left_ms: Option<Millis>,
    /// Whether it is to stop.
    pub stop: bool,
    /// The session's whole journal.
    pub journal: Vec<StoredEvent>,
}

/// An append. Repeating one is the same as making it once.
#[derive(Debug, Clone)]
pub struct Append {
    /// The attempt.
    pub fence: Fence,
    /// The append's number within the attempt, from 1. The last one may be repeated; a number that leaves one out is
    /// [`Stale`].
    pub number: i64,
    /// What happened.
    pub bodies: Vec<EventBody>,
    /// How much longer the lease lasts from now on.
    pub lease_ms: Millis,
}

/// An append that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Appended {
    /// The session's last event.
    pub last_seq: i64,
    /// Whether the run is to stop.
    pub stop: bool,
    /// Whether it had been written before.
    pub is_repeated: bool,
    /// Whether runners may find work because of it.
    pub makes_work: bool,
}

/// The answer to a heartbeat for one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beat {
    /// The attempt.
    pub fence: Fence,
    /// Whether the run is to stop.
    pub stop: bool,
    /// Whether the attempt is the run's latest no more.
    pub is_stale: bool,
}

/// What became of a run that was to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parked {
    /// It waits.
    Waiting,
    /// A child had ended: it is in the queue again.
    Available,
}

/// A run as it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct RunRecord {
    /// Its id.
    pub run_id: RunId,
    /// Its session.
    pub session_id: SessionId,
    /// The agent.
    pub agent_name: String,
    /// Whether it begins the session.
    pub run_type: RunType,
    /// How it stands.
    pub status: RunStatus,
    /// What went wrong, as JSON.
    pub error: Option<Value>,
    /// Model calls that repeated another for the contract.
    pub retry_count: i64,
    /// Claims by runners.
    pub attempts: i64,
    /// The contract as JSON. Lists leave it out.
    pub contract: Option<Value>,
    /// The run that it works for.
    pub parent_run_id: Option<RunId>,
    /// The backend that answered last, for runs that have ended.
    pub backend: Option<String>,
    /// What its model calls consumed, for runs that have ended.
    pub tokens: Option<Tokens>,
    /// When it was asked for.
    pub created_at: Millis,
    /// When it was first claimed.
    pub started_at: Option<Millis>,
    /// When it ended.
    pub finished_at: Option<Millis>,
}

/// A session as it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionRecord {
    /// Its id.
    pub session_id: SessionId,
    /// The agent.
    pub agent_name: String,
    /// The session that it works for.
    pub parent_session_id: Option<SessionId>,
    /// The sessions that work for it, oldest first.
    pub children: Vec<SessionId>,
    /// The folder, as the caller gave it.
    pub project_dir: Option<String>,
    /// Its latest run.
    pub last_run_id: RunId,
    /// How that stands.
    pub status: RunStatus,
    /// When it began.
    pub created_at: Millis,
    /// When something last happened in it.
    pub updated_at: Millis,
    /// The number of its last event.
    pub last_seq: i64,
}

/// A run with what came of it.
#[derive(Debug, Clone)]
pub struct Finished {
    /// The run.
    pub run: RunRecord,
    /// The runs that went on with it after its children called back, oldest first.
    pub continued_by: Vec<RunId>,
    /// Whether a child is still to call it back.
    pub awaits_callback: bool,
    /// Its `run_start`.
    pub start: StoredEvent,
    /// Its `result`, where it has one.
    pub result: Option<StoredEvent>,
    /// Its `run_completed`, where it has ended.
    pub end: Option<StoredEvent>,
}

/// An event as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    /// Its place among all events, for streams over all sessions. Opaque and increasing; never twice the same.
    pub position: Position,
    /// Its place in the session.
    pub seq: i64,
    /// The session.
    pub session_id: SessionId,
    /// The run.
    pub run_id: RunId,
    /// When it was committed.
    pub at: Millis,
    /// What happened: a JSON object that begins with `event_type`.
    pub body: String,
}

/// A place among all events. Reading on from one finds everything that was committed after it, and nothing twice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The transaction, where transactions become visible out of order; 0 elsewhere.
    pub transaction: i64,
    /// The event.
    pub event: i64,
}

/// Which of many are wanted.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// Where the last page ended.
    pub after: Option<String>,
    /// How many at most.
    pub limit: usize,
}

/// Some of many.
#[derive(Debug, Clone)]
pub struct Listed<T> {
    /// Those.
    pub items: Vec<T>,
    /// Where the next page begins; none where there is nothing more.
    pub next: Option<String>,
}

/// Which runs are wanted.
#[derive(Debug, Clone, Default)]
pub struct RunFilter {
    /// Those of a session.
    pub session_id: Option<SessionId>,
    /// Those of an agent.
    pub agent_name: Option<String>,
    /// Those that stand like this.
    pub status: Option<RunStatus>,
    /// Those that work for a run.
    pub parent_run_id: Option<RunId>,
}

/// What the sweeper did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Swept {
    /// Runs that were put back in the queue because their lease had expired.
    pub returned: usize,
    /// Runs that failed because their runners had died too often.
    pub lost: usize,
    /// Runs that were to stop and that no runner had an answer for.
    pub stopped: usize,
    /// Parked runs whose time is up, put in the queue so that a runner ends them.
    pub overdue: usize,
}

/// How long things are kept.
#[derive(Debug, Clone, Copy, Default)]
pub struct Retention {
    /// Sessions that ended longer ago are deleted.
    pub age_ms_max: Option<Millis>,
    /// The most sessions that have ended; the oldest go first.
    pub sessions_max: Option<usize>,
}

/// What is said of a run when nobody is there to say it: see [`Store::sweep`](crate::Store::sweep).
#[derive(Debug, Clone, Copy)]
pub struct SweepLimits {
    /// Lost attempts, without progress between them, after which a run has failed.
    pub losses_max: i64,
    /// How long a run that is to stop waits for a runner.
    pub stop_wait_ms: Millis,
    /// How many runs of each kind at a time; the rest is for the next sweep.
    pub batch: usize,
}

/// An agent or schema that is kept under a name.
#[derive(Debug, Clone, PartialEq)]
pub struct Named {
    /// The name.
    pub name: String,
    /// The blueprint or schema, as JSON text in its own key order.
    pub text: String,
    /// When it was first saved.
    pub created_at: Millis,
    /// When it was last changed.
    pub updated_at: Millis,
}

/// What is kept under names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegistryKind {
    /// Blueprints.
    Agents,
    /// Schemas.
    Schemas,
}

/// An API token. The token itself is not kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRecord {
    /// Its id, which is not secret.
    pub token_id: String,
    /// What it is for, in its owner's words.
    pub name: String,
    /// What it may do.
    pub scope: String,
    /// The SHA-256 of the token, in hexadecimal.
    pub hash: String,
    /// When it was made.
    pub created_at: Millis,
}

/// A runner that said hello.
#[derive(Debug, Clone, PartialEq)]
pub struct RunnerRecord {
    /// Its id.
    pub runner_id: String,
    /// Its name.
    pub name: String,
    /// How many runs it works on at a time.
    pub slots: i64,
    /// What it said of itself, as JSON: its version and its backends.
    pub details: Value,
    /// When it said hello.
    pub registered_at: Millis,
    /// When it was last heard of.
    pub seen_at: Millis,
    /// How many runs it works on.
    pub working_on: i64,
}

/// Which runs figures are wanted of.
#[derive(Debug, Clone, Default)]
pub struct FiguresFilter {
    /// Those of an agent.
    pub agent_name: Option<String>,
    /// Those that have ended since.
    pub since: Option<Millis>,
}

/// How an agent did on a backend.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Figures {
    /// The agent.
    pub agent_name: String,
    /// The backend that its runs ended on; none where no model was asked, or nobody noted which.
    pub backend: Option<String>,
    /// Its runs that have ended.
    pub runs: i64,
    /// Those with a result.
    pub completed: i64,
    /// Those with a result that needed no retry and no other tier.
    pub first_pass: i64,
    /// Model calls that repeated another for the contract.
    pub retries: i64,
    /// Replies that were to call `submit_result` and did not.
    pub missing_submits: i64,
    /// Steps from a tier to the next.
    pub escalations: i64,
    /// Tokens that models read and wrote, for results and for failures.
    pub tokens: i64,
    /// How long half of the runs took at most, from the first claim to the end.
    pub p50_ms: Option<Millis>,
    /// How long 95 of a hundred runs took at most.
    pub p95_ms: Option<Millis>,
}

/// An event that says how a run goes, or that it is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Milestone {
    /// The event; its body is empty where it is none of those that were asked for.
    pub event: StoredEvent,
    /// The run as it stands now, where the event is one of those that were asked for.
    pub run: Option<RunFacts>,
}

/// What a run's row says of how it did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunFacts {
    /// The agent.
    pub agent_name: String,
    /// The session that it works for.
    pub parent_session_id: Option<SessionId>,
    /// The backend that it ended on.
    pub backend: Option<String>,
    /// Model calls that repeated another for the contract.
    pub retries: i64,
    /// Replies that were to call `submit_result` and did not.
    pub missing_submits: i64,
    /// Steps from a tier to the next.
    pub escalations: i64,
    /// Tokens that models read and wrote.
    pub tokens: i64,
    /// How long it took from its first claim to its end; none where nobody claimed it, or it has not ended.
    pub duration_ms: Option<Millis>,
}

/// How many runs stand how.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// By status.
    pub by_status: Vec<(RunStatus, i64)>,
    /// Runs that a runner could claim now.
    pub queue_depth: i64,
    /// How long the first of them has been waiting.
    pub oldest_wait_ms: Option<Millis>,
}
