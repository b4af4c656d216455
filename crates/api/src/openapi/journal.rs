//! Schemas of the events of a journal.

use serde_json::Value;
use utoipa::ToSchema;

use super::{
    ContractSchema, ExecutionModeName, ReceiptSchema, RunErrorSchema, RunErrorTypeName, RunIdText,
    RunStatusName, RunTypeName, SalvageSchema, SessionIdText,
};

/// An event of a journal: its envelope, its type and the data of its type.
#[derive(Debug, ToSchema)]
#[schema(as = Event)]
pub struct EventSchema {
    /// Number within the session's journal, from 1 without gaps.
    #[schema(minimum = 1)]
    pub seq: i64,
    /// The session whose journal holds the event.
    pub session_id: SessionIdText,
    /// The run that the event belongs to.
    pub run_id: RunIdText,
    /// When the event was written (RFC 3339, UTC).
    #[schema(format = DateTime)]
    pub timestamp: String,
    /// Type and data.
    #[serde(flatten)]
    pub body: EventBodySchema,
}

/// An event without its envelope.
#[derive(Debug, ToSchema)]
#[serde(tag = "event_type", rename_all = "snake_case")]
#[schema(as = EventBody)]
pub enum EventBodySchema {
    /// A run became active.
    RunStart {
        /// Whether the run starts its session or resumes it.
        #[serde(rename = "type")]
        run_type: RunTypeName,
        /// The agent at the time of submission.
        #[schema(value_type = Object)]
        blueprint: Value,
        /// The contract; null for runs that return text.
        contract: Option<ContractSchema>,
        /// The parameters of the caller.
        parameters: Value,
        /// The parameters as the text that the model reads.
        input: String,
        /// The settings that the caller chose for this run. Omitted if there are none.
        #[serde(default)]
        overrides: Option<OverridesSchema>,
        /// The conversation of a caller that keeps it and executes its tools. Omitted for sessions of agents.
        #[serde(default)]
        #[schema(value_type = Option<Object>)]
        conversation: Option<Value>,
    },
    /// A runner started an attempt.
    AttemptStarted {
        /// The tiers with their backends, first tier first.
        #[schema(value_type = Vec<Object>)]
        ladder: Vec<Value>,
        /// The agent with its placeholders filled in. Omitted if it has none.
        #[serde(default)]
        #[schema(value_type = Option<Object>)]
        blueprint: Option<Value>,
        /// The tools of the agent. Omitted if it has none.
        #[serde(default)]
        #[schema(value_type = Vec<Object>)]
        tools: Vec<Value>,
        /// The agents that it may delegate to. Omitted if there are none.
        #[serde(default)]
        #[schema(value_type = Vec<Object>)]
        agents: Vec<Value>,
    },
    /// The agent's tools could not be prepared.
    ToolsFailed {
        /// The reason.
        error: String,
    },
    /// A model replied.
    Message {
        /// The author.
        role: String,
        /// The text.
        content: String,
        /// The complete reply.
        #[schema(value_type = Object)]
        reply: Value,
        /// Strategy and schema form of the request, for people. Omitted in journals of earlier versions.
        #[serde(default)]
        asked: Option<String>,
    },
    /// A model call failed.
    CallFailed {
        /// The reason.
        error: CallErrorSchema,
    },
    /// A tool is about to be called.
    PreTool {
        /// Id of the call.
        call_id: String,
        /// Name of the tool.
        tool_name: String,
        /// The arguments.
        tool_input: Value,
    },
    /// A tool call has ended.
    PostTool {
        /// Id of the call.
        call_id: String,
        /// Name of the tool.
        tool_name: String,
        /// The result; null if the call failed.
        tool_output: Value,
        /// Why the call failed. Omitted on success.
        #[serde(default)]
        error: Option<String>,
    },
    /// A child run was started.
    ChildStarted {
        /// Id of the call that started it.
        call_id: String,
        /// Agent of the child.
        agent_name: String,
        /// Session of the child.
        child_session_id: SessionIdText,
        /// Run of the child.
        child_run_id: RunIdText,
        /// Whether this run waits for the child.
        execution_mode: ExecutionModeName,
    },
    /// A child run has ended.
    ChildCompleted {
        /// Agent of the child.
        agent_name: String,
        /// Session of the child.
        child_session_id: SessionIdText,
        /// Run of the child.
        child_run_id: RunIdText,
        /// Final status.
        status: RunStatusName,
        /// The text, or a note about what the result lacks. Omitted without one.
        #[serde(default)]
        result_text: Option<String>,
        /// The JSON. Omitted without one.
        #[serde(default)]
        result_data: Option<Value>,
        /// The error. Omitted without one.
        #[serde(default)]
        error: Option<RunErrorSchema>,
    },
    /// The paths in a result were checked.
    PathsChecked {
        /// Paths that exist.
        present: Vec<String>,
        /// Paths that do not exist.
        missing: Vec<String>,
    },
    /// An orchestrator planned its subtasks.
    PlanCreated {
        /// Number of the plan, from 1.
        round: u32,
        /// Why a further plan was needed. Omitted for the first.
        #[serde(default)]
        reason: Option<String>,
        /// The subtasks.
        subtasks: Vec<SubtaskSchema>,
    },
    /// A reply was scored for clarity.
    ClarityScored {
        /// Number of the answer on this rung, from 1.
        round: u32,
        /// The score, out of 100.
        score: u8,
        /// The lowest score that counts as clear.
        threshold: u8,
        /// Questions to the author. Omitted if there are none.
        #[serde(default)]
        questions: Vec<String>,
        /// The next step, for people.
        consequence: String,
    },
    /// A reply did not satisfy the contract.
    ValidationFailed {
        /// Violations, as `$.path: message`.
        errors: Vec<String>,
        /// The next step, for people.
        consequence: String,
        /// Type of the run's error if no further step were possible.
        #[serde(default)]
        cause: Option<RunErrorTypeName>,
        /// The message that the retry sends to the model. Omitted if no retry follows.
        #[serde(default)]
        correction: Option<String>,
    },
    /// The run moved to the next tier.
    Escalated {
        /// The tier that failed.
        from: String,
        /// The tier that continues.
        to: String,
        /// The reason.
        reason: String,
        /// Violations of the last reply, as `$.path: message`.
        #[serde(default)]
        errors: Vec<String>,
        /// Type of the run's error if no further tier existed.
        #[serde(default)]
        cause: Option<RunErrorTypeName>,
    },
    /// The runner did not renew its lease in time.
    LeaseExpired {
        /// Number of the attempt.
        attempt: i64,
        /// Attempts lost so far.
        losses: i64,
    },
    /// The run reached its time limit.
    DeadlineReached {
        /// What the model had written of a pending reply. Omitted if nothing.
        #[serde(default)]
        partial: Option<String>,
    },
    /// A stop was requested.
    StopRequested {
        /// What the model had written of a pending reply. Omitted if nothing.
        #[serde(default)]
        partial: Option<String>,
    },
    /// The run has a result.
    Result {
        /// The text; null for runs with a contract.
        result_text: Option<String>,
        /// The JSON; null for runs without a contract.
        result_data: Option<Value>,
        /// How the result was obtained.
        receipt: ReceiptSchema,
    },
    /// The run has ended.
    RunCompleted {
        /// Final status.
        status: RunStatusName,
        /// The error. Omitted for completed runs.
        #[serde(default)]
        error: Option<RunErrorSchema>,
        /// Usable parts. Omitted for completed runs.
        #[serde(default)]
        salvage: Option<SalvageSchema>,
        /// What was tried. Omitted for runs with a result.
        #[serde(default)]
        receipt: Option<ReceiptSchema>,
    },
}

/// Settings that a caller chose for one run.
#[derive(Debug, ToSchema)]
#[schema(as = RunOverrides)]
pub struct OverridesSchema {
    /// The backend for all tiers.
    #[serde(default)]
    pub backend: Option<String>,
    /// The model that requests name.
    #[serde(default)]
    pub model: Option<String>,
    /// The most tokens in a reply.
    #[serde(default)]
    pub max_tokens: Option<u32>,
    /// The time limit.
    #[serde(default)]
    pub timeout_seconds: Option<u32>,
    /// The caller's position in its trace, as in the header `traceparent`.
    #[serde(default)]
    pub trace_parent: Option<String>,
    /// The sampling parameters of requests to models.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub sampling: Option<Value>,
}

/// Why a model call failed.
#[derive(Debug, ToSchema)]
#[schema(as = CallError)]
pub struct CallErrorSchema {
    /// Kind of the failure.
    pub kind: String,
    /// HTTP status, if the server answered.
    #[serde(default)]
    pub status: Option<u16>,
    /// The seconds that the server asked to wait. Omitted if it did not.
    #[serde(default)]
    pub retry_after_seconds: Option<u64>,
    /// The message, for people.
    pub message: String,
}

/// A planned subtask.
#[derive(Debug, ToSchema)]
#[schema(as = Subtask)]
pub struct SubtaskSchema {
    /// Id, unique inside its plan.
    pub id: String,
    /// The instructions.
    pub description: String,
    /// Agent that performs it.
    pub agent: String,
    /// Subtasks that must be finished first. Omitted if there are none.
    #[serde(default)]
    pub dependencies: Vec<String>,
    /// Lower numbers start first.
    pub priority: i64,
}
