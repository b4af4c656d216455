//! The journal: every step of a run is an event in its session's journal.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    AgentCard, Blueprint, ChildEnd, Contract, Conversation, ExecutionMode, Receipt, Reply, Role, RunError,
    RunErrorType, RunId, RunOverrides, RunStatus, Salvage, SessionId, Subtask, TierBackend, ToolDefinition,
};

/// One event of a session's journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// The position in the session's journal: from 1, without gaps.
    pub seq: u64,
    /// The session whose journal contains the event.
    pub session_id: SessionId,
    /// The run that caused the event.
    pub run_id: RunId,
    /// The time of the event (RFC 3339, UTC).
    pub timestamp: String,
    /// The type and the data of the event.
    #[serde(flatten)]
    pub body: EventBody,
}

/// The type and the data of an event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event_type", rename_all = "snake_case")]
pub enum EventBody {
    /// A caller submitted a run.
    RunStart {
        /// Whether the run starts or resumes a session.
        #[serde(rename = "type")]
        run_type: RunType,
        /// The agent's definition at the time of submission.
        blueprint: Arc<Blueprint>,
        /// The resolved contract; `None` if the result is text.
        contract: Option<Arc<Contract>>,
        /// The parameters that the caller passed.
        parameters: Value,
        /// The parameters rendered as the text that the model reads.
        input: String,
        /// The settings that the caller chose for this run.
        #[serde(default, skip_serializing_if = "RunOverrides::is_empty")]
        overrides: RunOverrides,
        /// The conversation of a caller that keeps it and executes its tools; `None` for sessions of agents.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        conversation: Option<Arc<Conversation>>,
    },
    /// A runner started an attempt. The event contains everything that the engine may know about its
    /// environment.
    AttemptStarted {
        /// The escalation ladder, first rung first. Empty for procedural agents.
        ladder: Vec<TierBackend>,
        /// The blueprint with its placeholders filled in; `None` if it has none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        blueprint: Option<Arc<Blueprint>>,
        /// The tools that the agent may call.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tools: Vec<ToolDefinition>,
        /// The agents that it may delegate to.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        agents: Vec<AgentCard>,
    },
    /// The agent's tools are unavailable.
    ToolsFailed {
        /// The reason.
        error: String,
    },
    /// A model replied.
    Message {
        /// The author of the message.
        role: Role,
        /// The text of the message.
        content: String,
        /// The complete reply.
        reply: Box<Reply>,
        /// The strategy and schema form of the request, for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        asked: Option<String>,
    },
    /// A call to a model failed.
    CallFailed {
        /// The reason.
        error: CallError,
    },
    /// A runner is about to call a tool, or to run the program of a procedural agent.
    PreTool {
        /// The id of the call, unique in the run.
        call_id: String,
        /// The name of the tool.
        tool_name: String,
        /// The arguments of the call.
        tool_input: Value,
    },
    /// A tool call ended.
    PostTool {
        /// The id of the call, as in `PreTool`.
        call_id: String,
        /// The name of the tool.
        tool_name: String,
        /// The result; null if the call failed.
        tool_output: Value,
        /// The reason for the failure; `None` on success.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// A child run was started.
    ChildStarted {
        /// The id of the tool call that started it.
        call_id: String,
        /// The name of the child's agent.
        agent_name: String,
        /// The child's session.
        child_session_id: SessionId,
        /// The child's run.
        child_run_id: RunId,
        /// Whether this run waits for the child.
        execution_mode: ExecutionMode,
    },
    /// A child run ended.
    ChildCompleted(Box<ChildEnd>),
    /// The runner checked whether the paths that a result names exist in the project.
    PathsChecked {
        /// The paths that exist.
        present: Vec<String>,
        /// The paths that do not exist.
        missing: Vec<String>,
    },
    /// The orchestrator created a plan.
    PlanCreated {
        /// The number of the plan in this run, from 1.
        round: u32,
        /// The reason for a further plan; `None` for the first.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// The planned subtasks. Subtasks finished under an earlier plan stay finished.
        subtasks: Vec<Subtask>,
    },
    /// An answer was scored for clarity.
    ClarityScored {
        /// The number of the answer on this rung, from 1.
        round: u32,
        /// The score, out of 100.
        score: u8,
        /// The lowest score that counts as clear.
        threshold: u8,
        /// The questions to the answer's author.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        questions: Vec<String>,
        /// The next step, for people.
        consequence: String,
    },
    /// A reply did not satisfy the contract.
    ValidationFailed {
        /// The violations, as `$.path: message`.
        errors: Vec<String>,
        /// The next step, for people.
        consequence: String,
        /// The type of the run's error if no further step were possible.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cause: Option<RunErrorType>,
        /// The message that the retry sends to the model; `None` if no retry follows, and in journals of earlier
        /// versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        correction: Option<String>,
    },
    /// The run continues on the next tier.
    Escalated {
        /// The tier that failed.
        from: String,
        /// The tier that continues.
        to: String,
        /// The reason.
        reason: String,
        /// The violations of the last reply, as `$.path: message`; empty if the tier gave none, and in journals of earlier
        /// versions.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        errors: Vec<String>,
        /// The type of the run's error if no further tier existed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cause: Option<RunErrorType>,
    },
    /// A runner's lease expired, and the sweeper returned the run to the queue.
    LeaseExpired {
        /// The number of the attempt whose lease expired.
        attempt: i64,
        /// The number of attempts lost so far.
        losses: i64,
    },
    /// The run reached its deadline.
    DeadlineReached {
        /// The part of a pending reply that the model had written.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        partial: Option<String>,
    },
    /// A caller requested that the run stops.
    StopRequested {
        /// The part of a pending reply that the model had written.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        partial: Option<String>,
    },
    /// The run has a result.
    Result {
        /// The result of a run without a contract; `None` otherwise.
        result_text: Option<String>,
        /// The result of a run with a contract; `None` otherwise.
        result_data: Option<Value>,
        /// The record of how the result was reached.
        receipt: Box<Receipt>,
    },
    /// The run ended.
    RunCompleted {
        /// The final status.
        status: RunStatus,
        /// The error of a failed or stopped run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<Box<RunError>>,
        /// The partial results of a failed run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        salvage: Option<Box<Salvage>>,
        /// The record of what was tried, for runs without a result.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        receipt: Option<Box<Receipt>>,
    },
}

/// Whether a run starts or resumes a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunType {
    /// The run starts a new session.
    StartSession,
    /// The run continues an existing session.
    ResumeSession,
}

impl RunType {
    /// All run types.
    pub const ALL: [RunType; 2] = [RunType::StartSession, RunType::ResumeSession];

    /// Returns the run type with this name; `None` for unknown names.
    pub fn named(name: &str) -> Option<RunType> {
        RunType::ALL.into_iter().find(|run_type| run_type.name() == name)
    }

    /// Returns the name in the journal and the API.
    pub fn name(self) -> &'static str {
        match self {
            RunType::StartSession => "start_session",
            RunType::ResumeSession => "resume_session",
        }
    }
}

/// The reason why a call to a model failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallError {
    /// The kind of failure, from which the engine decides the next step.
    pub kind: CallErrorKind,
    /// The HTTP status code, if the server answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The seconds that the server asked to wait before the next request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u64>,
    /// The message, for people.
    pub message: String,
}

/// The kind of a failed call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallErrorKind {
    /// The backend is unreachable, overloaded or closed the connection, also after retries.
    Unavailable,
    /// The backend refuses this request.
    Rejected,
}
