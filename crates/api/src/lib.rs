//! The HTTP API: wire types, error codes, their OpenAPI description, and a client.
//!
//! Modules, in reading order:
//! - `run`: [`RunRequest`], [`RunView`] and the results of runs.
//! - `session`: sessions, their journals and [`ResultView`].
//! - `registry`: agents and schemas.
//! - `calls`: the model calls of a run, with the places of repairs in their replies.
//! - `check`: extraction and validation without a model.
//! - `operations`: health, runners, backends and statistics.
//! - `caller`: [`CallerApi`], the trait through which commands and other callers use a coordinator.
//! - [`waiting`]: waits for runs and stops them, for any [`CallerApi`].
//! - `runner`: [`RunnerApi`], the trait through which runners call a coordinator, and its messages.
//! - `assignment`: [`Assignment`], a claimed run as the runner receives it.
//! - `error`: [`Error`] with its [`Code`].
//! - `client`: [`Client`], which implements [`CallerApi`] and [`RunnerApi`] over HTTP.
//! - `openapi`: schemas for types of `slipform-types`, for `openapi.json`.
//!
//! ```
//! use slipform_api::{Client, Connection};
//!
//! let connection = Connection { url: "http://127.0.0.1:8765/".to_owned(), token: None };
//! let client = Client::new(&connection)?;
//! assert_eq!(client.address(), "http://127.0.0.1:8765");
//! # Ok::<(), slipform_api::Error>(())
//! ```
//!
//! Not in this crate: the operations behind the API (`slipform-coordinator`), and ids, events and contracts
//! (`slipform-types`).

mod assignment;
mod caller;
mod calls;
mod check;
mod client;
mod error;
mod gateway;
mod openapi;
mod operations;
mod registry;
mod run;
mod runner;
mod session;
pub mod waiting;

pub use assignment::{Assignment, EncodedAssignment, FirstRun, Journal, JournalError, RunStart};
pub use caller::{Caller, CallerApi, EventFeed, EventSender};
pub use calls::{CallList, CallOutcome, CallView, ExtractionView, ReplySource, ReplyView};
pub use check::{CheckRequest, CheckView, RepairView, Span};
pub use client::{Client, Connection, TokenSource, shown_url};
pub use error::{Code, Error, ErrorBody};
pub use gateway::{
    GatewayRequestPage, GatewayRequestQuery, GatewayRequestStatus, GatewayRequestView, RequestLog,
    RequestSender,
};
pub use openapi::{
    AgentSchema, AssignmentSchema, CallErrorSchema, ContractOptionsSchema, ContractSchema, EventBodySchema,
    EventSchema, EventTypeName, ExecutionModeName, JsonSchemaDocument, OptionsSchema, OverridesSchema,
    ReceiptSchema, RepairSchema, RunErrorSchema, RunErrorSummarySchema, RunErrorTypeName, RunIdText,
    RunProgressSchema, RunStatusName, RunTypeName, RunVerdictName, RungSchema, SalvageSchema, SessionIdText,
    SubtaskOutcomeSchema, SubtaskSchema, TokensSchema,
};
pub use operations::{
    BackendView, FileProblems, Health, Identity, Interval, Readiness, RunnerView, StatsQuery, StatsRow,
    TimelineQuery, TimelineRow, ViolationsRow,
};
pub use registry::{
    AgentView, Problem, SchemaRequest, SchemaSummary, SchemaView, ValidateSchemaRequest, Verdict,
};
pub use run::{RunCreated, RunPage, RunRequest, RunResult, RunSummary, RunView, RunsQuery, WaitQuery};
pub use runner::{
    Answer, AppendRequest, Appended, AttemptRef, Beat, ChildAnswer, ChildRequest, ClaimRequest, Claims,
    Heartbeat, HeartbeatAnswer, JournalPage, JournalRequest, LeaveRequest, RegisterRequest, Registered,
    RunnerApi,
};
pub use session::{
    EventPage, EventsQuery, ResultView, SchemaValidation, SessionPage, SessionView, SessionsQuery,
};
