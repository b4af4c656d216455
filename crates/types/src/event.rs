//! The journal: everything a run does is an event in its session's journal.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    AgentCard, Blueprint, ChildEnd, Contract, ExecutionMode, Receipt, Reply, Role, RunError, RunErrorType,
    RunId, RunStatus, Salvage, SessionId, Subtask, TierBackend, ToolDefinition,
};

/// One event of a session's journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Its place in the session's journal, from 1 without gaps.
    pub seq: u64,
    /// The session.
    pub session_id: SessionId,
    /// The run.
    pub run_id: RunId,
    /// When it happened (RFC 3339, UTC).
    pub timestamp: String,
    /// What happened.
    #[serde(flatten)]
    pub body: EventBody,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event_type", rename_all = "snake_case")]
pub enum EventBody {
    /// A run was asked for.
    RunStart {
        /// Whether it begins a session or goes on with one.
        #[serde(rename = "type")]
        run_type: RunType,
        /// The agent, as it was at that moment.
        blueprint: Arc<Blueprint>,
        /// What the result has to satisfy, resolved.
        contract: Option<Arc<Contract>>,
        /// What the caller gave.
        parameters: Value,
        /// The same as the text that the model gets.
        input: String,
    },
    /// A runner began to work on it. All that the engine may know of the outside world is here.
    AttemptStarted {
        /// The escalation ladder: the first step and what follows when it fails. Empty where a program works.
        ladder: Vec<TierBackend>,
        /// The agent with its placeholders filled in, where it has any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        blueprint: Option<Arc<Blueprint>>,
        /// The tools that the agent may call.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tools: Vec<ToolDefinition>,
        /// The agents that it may delegate to.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        agents: Vec<AgentCard>,
    },
    /// The tools of the agent cannot be had.
    ToolsFailed {
        /// Why.
        error: String,
    },
    /// A model answered.
    Message {
        /// Who said it.
        role: Role,
        /// What was said.
        content: String,
        /// Everything else about the reply.
        reply: Box<Reply>,
        /// How it was asked: strategy and form, for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        asked: Option<String>,
    },
    /// A model gave no answer.
    CallFailed {
        /// Why.
        error: CallError,
    },
    /// A tool is about to be called, or the program of a procedural agent to be run.
    PreTool {
        /// The call's id, of which the run has no other.
        call_id: String,
        /// The tool.
        tool_name: String,
        /// Its arguments.
        tool_input: Value,
    },
    /// A tool has answered.
    PostTool {
        /// The call's id.
        call_id: String,
        /// The tool.
        tool_name: String,
        /// Its result; null where it has none.
        tool_output: Value,
        /// Why it has none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// Another agent began to work for this one.
    ChildStarted {
        /// The call that asked for it.
        call_id: String,
        /// The agent.
        agent_name: String,
        /// Its session.
        child_session_id: SessionId,
        /// Its run.
        child_run_id: RunId,
        /// Whether this run waits for it.
        execution_mode: ExecutionMode,
    },
    /// Another agent has ended its work for this one.
    ChildCompleted(Box<ChildEnd>),
    /// It was looked whether files and folders that a result names are in the project.
    PathsChecked {
        /// Those that are.
        present: Vec<String>,
        /// Those that are not.
        missing: Vec<String>,
    },
    /// A task was taken apart.
    PlanCreated {
        /// Which plan of the run it is, from 1.
        round: u32,
        /// Why another one was needed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// What is to be done. What was done under an earlier plan stays done.
        subtasks: Vec<Subtask>,
    },
    /// An answer was scored.
    ClarityScored {
        /// Which answer of the rung it is, from 1.
        round: u32,
        /// Its score, of 100.
        score: u8,
        /// The score from which on it would do.
        threshold: u8,
        /// What is asked of its author.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        questions: Vec<String>,
        /// What is done about it.
        consequence: String,
    },
    /// A reply did not satisfy the contract.
    ValidationFailed {
        /// What is wrong with it, as `$.path: message`.
        errors: Vec<String>,
        /// What is done about it.
        consequence: String,
        /// The kind of failure that it would be without that.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cause: Option<RunErrorType>,
    },
    /// The next tier goes on.
    Escalated {
        /// The tier that failed.
        from: String,
        /// The tier that goes on.
        to: String,
        /// Why.
        reason: String,
        /// The kind of failure that it would be without that.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cause: Option<RunErrorType>,
    },
    /// A runner was not heard of for too long: the run goes back to the queue.
    LeaseExpired {
        /// The attempt that was lost.
        attempt: i64,
        /// Attempts that were lost so far.
        losses: i64,
    },
    /// The run's time is up.
    DeadlineReached {
        /// What a model had written by then of a reply that was not waited for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        partial: Option<String>,
    },
    /// Someone wants the run to stop.
    StopRequested {
        /// What a model had written by then of a reply that was not waited for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        partial: Option<String>,
    },
    /// There is a result.
    Result {
        /// The text, for runs without a contract.
        result_text: Option<String>,
        /// The JSON, for runs with one.
        result_data: Option<Value>,
        /// How it came about.
        receipt: Box<Receipt>,
    },
    /// The run has ended.
    RunCompleted {
        /// How.
        status: RunStatus,
        /// What went wrong, if something did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<Box<RunError>>,
        /// What can still be used of a failed run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        salvage: Option<Box<Salvage>>,
        /// What was tried, for runs without a result.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        receipt: Option<Box<Receipt>>,
    },
}

/// Whether a run begins a session or goes on with one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunType {
    /// It begins one.
    StartSession,
    /// It goes on with one.
    ResumeSession,
}

impl RunType {
    /// Both.
    pub const ALL: [RunType; 2] = [RunType::StartSession, RunType::ResumeSession];

    /// The type of a name.
    pub fn named(name: &str) -> Option<RunType> {
        RunType::ALL.into_iter().find(|run_type| run_type.name() == name)
    }

    /// The name in the journal and the API.
    pub fn name(self) -> &'static str {
        match self {
            RunType::StartSession => "start_session",
            RunType::ResumeSession => "resume_session",
        }
    }
}

/// Why a model gave no answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallError {
    /// The kind, for the engine.
    pub kind: CallErrorKind,
    /// The server's status code, if it came to that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The same in words.
    pub message: String,
}

/// The kinds of failed calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallErrorKind {
    /// It cannot be reached, is overloaded, or broke off; asking again did not help.
    Unavailable,
    /// It does not take this request.
    Rejected,
}
