//! The wire: what the API takes and answers, its error codes, and a client that speaks it.
//!
//! - Shapes: [`RunRequest`], [`RunView`], [`SessionView`], [`ResultView`] and their like, one file a subject. Their
//!   description for other languages is generated from them (`openapi.json`).
//! - [`Error`] is every refusal: a [`Code`] for programs, words for people.
//! - [`RunnerApi`] is what runners say to a coordinator. [`Client`] says it over HTTP; a coordinator in the same
//!   process implements it itself.
//!
//! Not in here: what the verbs do (`slipform-coordinator`), and what runs are made of (`slipform-types`).

mod check;
mod client;
mod error;
mod openapi;
mod operations;
mod registry;
mod run;
mod runner;
mod session;

pub use check::{CheckRequest, CheckView};
pub use client::{Client, Connection, EventStream};
pub use error::{Code, Error, ErrorBody};
pub use openapi::{
    AgentSchema, EventBodySchema, EventSchema, EventTypeName, ExecutionModeName, JsonSchemaDocument,
    OptionsSchema, RunIdText, RunStatusName, RunTypeName, SessionIdText,
};
pub use operations::{AgentsTrouble, BackendView, Health, Readiness, RunnerView, StatsRow};
pub use registry::{AgentView, SchemaRequest, SchemaView, ValidateSchemaRequest, Verdict};
pub use run::{RunCreated, RunPage, RunRequest, RunResult, RunSummary, RunView, WaitQuery};
pub use runner::{
    Answer, AppendRequest, Appended, Assignment, AttemptRef, Beat, ChildAnswer, ChildRequest, ClaimRequest,
    Claims, Heartbeat, HeartbeatAnswer, RegisterRequest, Registered, RunnerApi,
};
pub use session::{EventPage, ResultView, SchemaValidation, SessionPage, SessionView};
