//! Types that the operations take and return.

mod gateway;

use serde_json::Value;
use slipform_types::{
    EventBody, EventKind, ExecutionMode, RunErrorType, RunId, RunProgress, RunStatus, RunType, RunVerdict,
    SessionId, Tokens,
};

pub use gateway::*;

/// Milliseconds: a duration, or a Unix timestamp from the database's clock.
pub type Millis = i64;

/// A run to submit. The coordinator has resolved its agent, contract and parameters.
#[derive(Debug, Clone)]
pub struct NewRun {
    /// Minted by the caller, so that it is known before the commit.
    pub run_id: RunId,
    /// A new session or an existing one.
    pub session: SessionTarget,
    /// Copied from the blueprint, for filters and statistics.
    pub agent_name: String,
    /// The `run_start` event; any other body is an error.
    pub start: EventBody,
    /// Time limit, counted from the first claim. `None` means no limit of its own.
    pub timeout_ms: Option<Millis>,
    /// Decides how the caller or parent learns of the run's end.
    pub mode: ExecutionMode,
    /// Set for runs that work for another session.
    pub parent: Option<Parent>,
    /// Makes repeated submissions return the first run.
    pub idempotency: Option<Idempotency>,
    /// The only runner that may claim the run while it is alive; see [`Store::adopt`](crate::Store::adopt).
    pub pinned_to: Option<String>,
    /// Set on callback runs: the run whose children have ended.
    pub continues: Option<RunId>,
    /// The API token that submits the run; `None` without one. A new session belongs to it.
    pub created_by: Option<String>,
}

/// The session that a run belongs to.
#[derive(Debug, Clone)]
pub enum SessionTarget {
    /// Creates a session.
    New {
        /// Minted by the caller.
        session_id: SessionId,
        /// Working folder as the caller sent it, relative to the runner's project.
        project_dir: Option<String>,
    },
    /// Continues an existing session.
    Resume {
        /// The session to continue.
        session_id: SessionId,
        /// Whether the run waits while the session is busy. Otherwise a busy session refuses it.
        queues: bool,
    },
}

/// The session and call that a child run works for.
#[derive(Debug, Clone)]
pub struct Parent {
    /// The parent session.
    pub session_id: SessionId,
    /// The parent's call that starts the child; `None` for a child submitted by an outside caller. Repeating
    /// a call returns the same child.
    pub call: Option<ParentCall>,
    /// Bounds on the whole tree of runs.
    pub limits: DelegationLimits,
}

/// Identifies the tool call that starts a child.
#[derive(Debug, Clone)]
pub struct ParentCall {
    /// The parent's attempt.
    pub fence: Fence,
    /// Unique within the parent run.
    pub call_id: String,
}

/// Bounds on delegation.
#[derive(Debug, Clone, Copy)]
pub struct DelegationLimits {
    /// Maximum number of agents in a chain of delegations, including the first.
    pub depth_max: usize,
    /// Maximum number of children that one run may start.
    pub children_max: usize,
    /// Maximum number of runs in one session tree.
    pub runs_max: usize,
}

/// Identifies repeated submissions.
#[derive(Debug, Clone)]
pub struct Idempotency {
    /// The caller's `Idempotency-Key`.
    pub key: String,
    /// SHA-256 of the request body. The same key with another hash is a conflict.
    pub body_hash: String,
}

/// An accepted run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submitted {
    /// The new run, or the earlier one if `is_repeated`.
    pub run_id: RunId,
    /// The session of that run.
    pub session_id: SessionId,
    /// Whether the same idempotency key or parent call had already created the run.
    pub is_repeated: bool,
}

/// Why a run was not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The session to resume, or the parent session, does not exist.
    SessionNotFound(SessionId),
    /// The session has an active run, and the new run does not queue.
    SessionBusy {
        /// The busy session.
        session_id: SessionId,
        /// Its active run.
        run_id: RunId,
    },
    /// The idempotency key belongs to a request with another body.
    IdempotencyConflict,
    /// The parent's attempt is not its run's latest, or its lease has expired.
    Stale,
    /// A delegation limit forbids the child. The text goes to the model that asked for it.
    Delegation(String),
}

/// The fencing token of an attempt. Only the latest attempt of a run may write.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Fence {
    /// The run of the attempt.
    pub run_id: RunId,
    /// Chosen at random for each claim.
    pub token: i64,
}

/// The write was refused: the attempt is not the run's latest, its lease has expired, or the run has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stale;

/// A runner's request for runs.
#[derive(Debug, Clone)]
pub struct ClaimRequest {
    /// The runner that takes the leases.
    pub runner_id: String,
    /// Number of free slots. The store claims at most 100 runs at once.
    pub slots: usize,
    /// Duration of the new leases.
    pub lease_ms: Millis,
    /// Whether to claim only runs pinned to this runner.
    pub only_pinned: bool,
    /// The fencing token of the claimed runs: a random number that is used once, so that it cannot be guessed.
    pub token: i64,
}

/// A claimed run with the data that a runner needs.
#[derive(Debug, Clone)]
pub struct Claimed {
    /// The fencing token of the new attempt.
    pub fence: Fence,
    /// The session that the run belongs to.
    pub session_id: SessionId,
    /// The session's working folder as the caller sent it.
    pub project_dir: Option<String>,
    /// Agent names from the root of the delegation chain down to this run's agent.
    pub lineage: Vec<String>,
    /// Time until the deadline, negative once it has passed; `None` without a time limit.
    pub time_left_ms: Option<Millis>,
    /// Whether the run has been asked to stop.
    pub is_stopping: bool,
    /// The first events of the session, oldest first.
    pub journal: EventsPage,
}

/// Events to append. Repeating an append has no further effect.
#[derive(Debug, Clone)]
pub struct Append {
    /// The fencing token of the writing attempt.
    pub fence: Fence,
    /// Number of the append within the attempt, from 1. The latest append may be repeated; a gap returns
    /// [`Stale`].
    pub number: i64,
    /// Event bodies, in order.
    pub bodies: Vec<EventBody>,
    /// How far the run has got after these events; `None` leaves the row as it is.
    pub progress: Option<RunProgress>,
    /// The lease is extended to this duration from now.
    pub lease_ms: Millis,
}

/// A stored append.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Appended {
    /// `seq` of the session's last event.
    pub last_seq: i64,
    /// Whether the run has been asked to stop.
    pub is_stopping: bool,
    /// Whether this append had already been stored.
    pub is_repeated: bool,
    /// Whether the transaction put a run into the queue.
    pub has_queued_run: bool,
}

/// Result of renewing one attempt's lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenewedLease {
    /// The attempt.
    pub fence: Fence,
    /// Whether the run has been asked to stop.
    pub is_stopping: bool,
    /// Whether the attempt has lost its lease and must stop writing.
    pub is_stale: bool,
}

/// Result of parking a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parked {
    /// The run waits for a child.
    Waiting,
    /// The run is back in the queue: a child had already ended, or a stop was requested.
    Available,
}

/// A row of the `runs` table.
#[derive(Debug, Clone, PartialEq)]
pub struct RunRecord {
    /// Primary key.
    pub run_id: RunId,
    /// The session that the run belongs to.
    pub session_id: SessionId,
    /// Name of the run's agent.
    pub agent_name: String,
    /// Whether the run started its session or resumed it.
    pub run_type: RunType,
    /// Current status.
    pub status: RunStatus,
    /// The `RunError` as JSON; set when the run has failed or was stopped. Lists have its type and shortened message.
    pub error: Option<Value>,
    /// Model calls repeated because a reply did not satisfy the contract.
    pub retry_count: i64,
    /// Number of claims.
    pub attempts: i64,
    /// The `Contract` as JSON; `None` in lists and for runs without a contract.
    pub contract: Option<Value>,
    /// Set on children started by a parent's call.
    pub parent_run_id: Option<RunId>,
    /// The API token that submitted the run; `None` without one.
    pub created_by: Option<String>,
    /// The API token that the session belongs to; `None` without one.
    pub owner: Option<String>,
    /// The backend of the last model call, or of the next one; `None` before the first attempt and for programs.
    pub backend: Option<String>,
    /// The model that requests to the backend name.
    pub model: Option<String>,
    /// Token usage of the run's model calls; set when the run has ended.
    pub tokens: Option<Tokens>,
    /// When the run was submitted.
    pub created_at: Millis,
    /// When a runner first claimed the run.
    pub started_at: Option<Millis>,
    /// When the run ended.
    pub finished_at: Option<Millis>,
    /// Retries that the contract allows on each rung; `None` without a contract and for runs of earlier versions.
    pub max_retries: Option<i64>,
    /// Repairs of the accepted reply; 0 until the run has ended.
    pub repairs: i64,
    /// How the result was reached; `None` until the run has completed, and without a contract.
    pub verdict: Option<RunVerdict>,
}

/// A row of the `sessions` table, with its children and the status of its latest run.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionRecord {
    /// Primary key.
    pub session_id: SessionId,
    /// Name of the session's agent.
    pub agent_name: String,
    /// The session that delegated to this one.
    pub parent_session_id: Option<SessionId>,
    /// Sessions that this one delegated to, oldest first.
    pub children: Vec<SessionId>,
    /// Working folder as the caller sent it.
    pub project_dir: Option<String>,
    /// The API token that started the session, or the session that delegated to it; `None` without one.
    pub created_by: Option<String>,
    /// The latest run that became active.
    pub last_run_id: RunId,
    /// Status of that run.
    pub status: RunStatus,
    /// When the session was created.
    pub created_at: Millis,
    /// When the last event was appended.
    pub updated_at: Millis,
    /// `seq` of the last event.
    pub last_seq: i64,
}

/// A run with its start, result and end events.
#[derive(Debug, Clone)]
pub struct RunDetails {
    /// The run's row.
    pub run: RunRecord,
    /// Callback runs that continued this run after its children had ended, oldest first.
    pub continued_by: Vec<RunId>,
    /// Whether a child has yet to end, or its callback has yet to start a run.
    pub awaits_callback: bool,
    /// The `run_start` event.
    pub start: StoredEvent,
    /// The `result` event; set for completed runs.
    pub result: Option<StoredEvent>,
    /// The last reply of a model or program; set for completed runs.
    pub last_reply: Option<StoredEvent>,
    /// The `run_completed` event; set when the run has ended.
    pub end: Option<StoredEvent>,
}

/// A stored event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    /// Position among the events of all sessions.
    pub position: Position,
    /// Number within the session, from 1 without gaps.
    pub seq: i64,
    /// The session whose journal holds the event.
    pub session_id: SessionId,
    /// The run that the event belongs to.
    pub run_id: RunId,
    /// When the event was written.
    pub at: Millis,
    /// What happened.
    pub kind: EventKind,
    /// The event as a JSON object.
    pub body: String,
}

/// Consecutive events of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventsPage {
    /// The events, oldest first.
    pub events: Vec<StoredEvent>,
    /// Whether later events follow: a page is limited in number and bytes.
    pub has_more: bool,
}

/// A cursor over the events of all sessions. Reading after a position returns every later commit exactly
/// once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Transaction id on PostgreSQL, where transactions become visible out of order; 0 on SQLite.
    pub transaction: i64,
    /// Increases with each event.
    pub event: i64,
}

/// A page request.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// `next` of the previous page; `None` for the first page.
    pub after: Option<String>,
    /// Maximum number of items, from 1 to 500; other values are clamped.
    pub limit: usize,
}

/// A page of results.
#[derive(Debug, Clone)]
pub struct Listed<T> {
    /// The items, in the order of the listing.
    pub items: Vec<T>,
    /// Cursor of the next page; `None` on the last page.
    pub next: Option<String>,
}

/// Filters for [`Store::runs`](crate::Store::runs). All set fields must match.
#[derive(Debug, Clone, Default)]
pub struct RunFilter {
    /// Runs of this session.
    pub session_id: Option<SessionId>,
    /// Runs of this agent.
    pub agent_name: Option<String>,
    /// Runs with this status.
    pub status: Option<RunStatus>,
    /// Children started by this run.
    pub parent_run_id: Option<RunId>,
    /// Runs in sessions of this API token.
    pub owner: Option<String>,
    /// Runs whose last model call used this backend.
    pub backend: Option<String>,
    /// Runs that ended with an error of this type.
    pub error_type: Option<RunErrorType>,
    /// Completed runs with this verdict.
    pub verdict: Option<RunVerdict>,
    /// The run that was submitted with this idempotency key.
    pub idempotency_key: Option<String>,
    /// Runs submitted at or after this time.
    pub created_after: Option<Millis>,
    /// Runs submitted before this time.
    pub created_before: Option<Millis>,
}

/// Which sessions to list. `None` disables a filter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionFilter {
    /// Sessions of this API token.
    pub owner: Option<String>,
    /// Sessions of this agent.
    pub agent_name: Option<String>,
    /// Sessions whose latest run has this status.
    pub status: Option<RunStatus>,
    /// Sessions that this one delegated to.
    pub parent_session_id: Option<SessionId>,
}

/// Number of runs that a sweep changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Swept {
    /// Runs returned to the queue because their lease had expired.
    pub returned: usize,
    /// Runs failed because too many of their attempts were lost.
    pub lost: usize,
    /// Runs stopped because no runner acted on the stop request in time.
    pub stopped: usize,
    /// Parked runs past their deadline, returned to the queue so that a runner ends them.
    pub overdue: usize,
}

/// Limits on ended sessions. `None` means unlimited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Retention {
    /// Maximum time since a session tree's last event.
    pub age_ms_max: Option<Millis>,
    /// Maximum number of ended sessions. The oldest are deleted first.
    pub sessions_max: Option<usize>,
}

/// Limits of [`Store::sweep`](crate::Store::sweep).
#[derive(Debug, Clone, Copy)]
pub struct SweepLimits {
    /// Lost attempts without progress in between after which a run fails.
    pub losses_max: i64,
    /// Time that a stopping run waits for a runner before the sweeper ends it.
    pub stop_wait_ms: Millis,
    /// Maximum number of runs of each kind per sweep. The next sweep handles the rest.
    pub batch: usize,
}

/// A registry entry: an agent or a schema saved under a name.
#[derive(Debug, Clone, PartialEq)]
pub struct RegistryEntry {
    /// Unique among the entries of its kind.
    pub name: String,
    /// The blueprint or schema as JSON, with its original key order.
    pub text: String,
    /// What a schema is for; `None` for agents, whose blueprint says it.
    pub description: Option<String>,
    /// When the entry was added.
    pub created_at: Millis,
    /// When the entry was last replaced.
    pub updated_at: Millis,
}

/// The kinds of registry entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegistryKind {
    /// Blueprints.
    Agents,
    /// JSON Schemas.
    Schemas,
}

/// An API token. Only its hash is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRecord {
    /// Public id, used to revoke the token.
    pub token_id: String,
    /// Description chosen by the user.
    pub name: String,
    /// `admin`, `caller` or `runner`.
    pub scope: String,
    /// SHA-256 of the token, in hexadecimal.
    pub hash: String,
    /// The agents that the token may run; `None` for all.
    pub agents: Option<Vec<String>>,
    /// Whether the token may read and stop what others created.
    pub reads_all: bool,
    /// When the token was created.
    pub created_at: Millis,
    /// When the token expires; `None` for never.
    pub expires_at: Option<Millis>,
    /// Whether it has expired, by the database's clock.
    pub is_expired: bool,
    /// The most requests per minute that the gateway accepts; `None` without a limit.
    pub requests_per_minute: Option<u32>,
    /// The tokens per minute after which the gateway refuses requests; `None` without a limit.
    pub tokens_per_minute: Option<u32>,
}

/// Result of registering a runner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Registration {
    /// The runner is registered.
    Done,
    /// Another API token has registered the id.
    Foreign,
    /// The maximum number of runners is registered.
    TooMany,
}

/// A registered runner.
#[derive(Debug, Clone, PartialEq)]
pub struct RunnerRecord {
    /// Assigned by the coordinator at the first registration.
    pub runner_id: String,
    /// Display name.
    pub name: String,
    /// Maximum number of concurrent runs.
    pub slots: i64,
    /// JSON from the runner: version and backends.
    pub details: Value,
    /// The API token that registered the runner; `None` without one.
    pub created_by: Option<String>,
    /// When the runner last registered.
    pub registered_at: Millis,
    /// When the runner last registered, claimed or sent a heartbeat, accurate to one second.
    pub seen_at: Millis,
    /// Number of runs that the runner currently holds.
    pub working_on: i64,
}

/// Filters for [`Store::agent_stats`](crate::Store::agent_stats).
#[derive(Debug, Clone, Default)]
pub struct StatsFilter {
    /// Runs of this agent.
    pub agent_name: Option<String>,
    /// Runs that ended at or after this timestamp.
    pub since: Option<Millis>,
    /// Runs that ended before this timestamp.
    pub until: Option<Millis>,
    /// Runs in sessions of this API token.
    pub owner: Option<String>,
}

/// Figures of the runs that ended in one interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IntervalStats {
    /// Start of the interval.
    pub start: Millis,
    /// Ended runs.
    pub runs: i64,
    /// Runs that have a result other than a reported error.
    pub completed: i64,
    /// Runs that failed.
    pub failed: i64,
    /// Completed runs without retries or escalations.
    pub first_pass: i64,
    /// Model calls repeated because a reply did not satisfy the contract.
    pub retries: i64,
    /// Input and output tokens.
    pub tokens: i64,
}

/// The violations of a reply, with the backend of its run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedValidation {
    /// The violations, as `$.path: message`.
    pub errors: Vec<String>,
    /// The backend of the run's last model call; `None` for programs.
    pub backend: Option<String>,
}

/// Statistics of one agent on one backend, over its ended runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AgentStats {
    /// Name of the agent.
    pub agent_name: String,
    /// Backend of the runs' last model call. `None` for runs without a model call or without a receipt.
    pub backend: Option<String>,
    /// Model of that call.
    pub model: Option<String>,
    /// Ended runs.
    pub runs: i64,
    /// Runs that have a result other than a reported error.
    pub completed: i64,
    /// Runs whose result is a universal response that reports an error.
    pub reported_errors: i64,
    /// Completed runs without retries or escalations.
    pub first_pass: i64,
    /// Model calls repeated because a reply did not satisfy the contract.
    pub retries: i64,
    /// Replies that should have called `submit_result` and did not.
    pub missing_submits: i64,
    /// Moves to the next tier of the escalation ladder.
    pub escalations: i64,
    /// Input and output tokens of all runs, including failed ones.
    pub tokens: i64,
    /// Median duration from first claim to end; `None` if no run was claimed.
    pub p50_ms: Option<Millis>,
    /// 95th percentile of the same duration.
    pub p95_ms: Option<Millis>,
}

/// An event for analytics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Milestone {
    /// The event. The body is empty unless it is an end, a plan, a failed validation or an escalation.
    pub event: StoredEvent,
    /// The run's current figures; set when the event has a body.
    pub run: Option<RunFacts>,
}

/// Statistics from a run's row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunFacts {
    /// Name of the run's agent.
    pub agent_name: String,
    /// The session that the run works for.
    pub parent_session_id: Option<SessionId>,
    /// Backend of the last model call.
    pub backend: Option<String>,
    /// Model calls repeated because a reply did not satisfy the contract.
    pub retries: i64,
    /// Replies that should have called `submit_result` and did not.
    pub missing_submits: i64,
    /// Whether the result is a universal response that reports an error.
    pub is_reported_error: bool,
    /// Moves to the next tier of the escalation ladder.
    pub escalations: i64,
    /// Input and output tokens.
    pub tokens: i64,
    /// Time from first claim to end; `None` if the run was never claimed or has not ended.
    pub duration_ms: Option<Millis>,
}

/// Counts of runs in the database.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of runs per status; statuses without runs are missing.
    pub by_status: Vec<(RunStatus, i64)>,
    /// Runs that a runner could claim now.
    pub queue_depth: i64,
    /// Waiting time of the oldest of them; `None` if the queue is empty.
    pub oldest_wait_ms: Option<Millis>,
}
