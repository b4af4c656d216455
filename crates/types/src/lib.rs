//! Shared vocabulary of Slipform: plain data types that all crates use, without behaviour.
//!
//! Modules, in reading order:
//!
//! - `ids`, `time`, `error`: ids of sessions and runs, timestamps, and the error for malformed ids.
//! - `blueprint`: the definition of an agent.
//! - `contract`: the resolved output schema of a run, with its source and options.
//! - `backend`, `model`: the properties of a backend; requests to a model and its replies.
//! - `conversation`: a conversation that a client keeps, with the tools that it executes.
//! - `tool`: tool definitions as the journal stores them.
//! - `event`, `event_kind`: the events of a session's journal, and their kinds.
//! - `gateway_request`: the summary of a request to the gateway.
//! - `child`, `orchestration`: delegation to other agents, plans and clarity scoring.
//! - `outcome`, `receipt`: the result or failure of a run, and the record of how it was reached.
//! - `universal`: the universal response as a type.
//! - `trace`: the trace that a request belongs to.
//! - `project_dir`: rules for the working directory of a run.
//!
//! ```
//! use slipform_types::Receipt;
//!
//! let receipt = Receipt { calls: 1, ..Receipt::default() };
//! assert_eq!(serde_json::to_value(&receipt)?["calls"], 1);
//! # Ok::<(), serde_json::Error>(())
//! ```
//!
//! Not in this crate: decisions (`slipform-engine`), IO, and storage (`slipform-store`).

mod backend;
mod blueprint;
mod child;
mod contract;
mod conversation;
pub mod env;
mod error;
mod event;
mod event_kind;
mod gateway_request;
mod ids;
mod model;
mod orchestration;
mod outcome;
mod overrides;
mod project_dir;
mod receipt;
mod suggest;
mod time;
mod tool;
mod trace;
mod universal;
mod verdict;

pub use backend::{BackendInfo, BackendKind, Capabilities, StructuredOutput, Support, TierBackend};
pub use blueprint::{AgentType, Blueprint, Limits, McpServer, Opening, ParametersAs, Protocol};
pub use child::{AgentCard, Callback, ChildEnd, ExecutionMode};
pub use contract::{
    Contract, ContractOptions, ContractSource, Correction, OptionsPatch, RETRIES_FOR_BLUEPRINT,
    RETRIES_FOR_CALLER, RETRIES_MAX, SchemaForm, Strategy, ValidationMode,
};
pub use conversation::Conversation;
pub use error::Error;
pub use event::{CallError, CallErrorKind, Event, EventBody, RunType};
pub use event_kind::EventKind;
pub use gateway_request::{GATEWAY, GatewayRequest};
pub use ids::{RunId, SessionId, with_hex};
pub use model::{
    ACCOUNT_MEMBERS, FILTERED_MESSAGE, FURTHER_SAMPLING, Format, KEY_REMOVED, Message, Part, REDACTED, Reply,
    Request, Role, Sampling, StopReason, Tool, ToolCall, ToolChoice, Usage,
};
pub use orchestration::{
    ALL_AGENTS, CONTEXT_HEADINGS, Clarity, FAILED_ATTEMPT_HEADING, PART_OF_HEADING, RESULTS_HEADING, Subtask,
    SubtaskOutcome, SubtaskOutcomeStatus,
};
pub use outcome::{
    ClientCalls, Failure, INCOMPLETE, NOT_SUBMITTED, Outcome, RUN_FAILS, RunError, RunErrorType, RunProgress,
    RunStatus, SUBMIT_RESULT, Salvage, Success,
};
pub use overrides::RunOverrides;
pub use project_dir::{PROTECTED_FOLDERS, ProjectDir, protected_folder};
pub use receipt::{Receipt, Repair, Rung, Tokens};
pub use suggest::closest;
pub use time::{parse_timestamp, timestamp};
pub use tool::{
    BUILTIN_TOOL_PREFIXES, BUILTIN_TOOLS, CHECKING_TOOL, SEARCHING_TOOLS, ToolDefinition, WRITING_TOOLS,
};
pub use trace::TraceParent;
pub use universal::{
    AnswerData, Check, ClarityData, ErrorDetails, Finding, Level, PlanStep, PlanningData, ResearchData,
    ResponseStatus, ResponseType, UniversalResponse, VerificationData,
};
pub use verdict::RunVerdict;
