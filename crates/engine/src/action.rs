//! The actions that the engine asks a runner to perform.

use std::sync::Arc;

use serde_json::Value;
use slipform_types::{EventBody, ExecutionMode, Outcome, Request, SessionId};

/// The next action of a run. The runner performs it and appends the resulting events to the
/// journal.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Action {
    /// Append this event. It records a decision that follows from the journal so far.
    Note(Box<EventBody>),
    /// Call a model, then append its reply as `message` or its failure as `call_failed`.
    Call(Box<ModelCall>),
    /// Call these tools, concurrently where they allow it, and append `pre_tool` and `post_tool`
    /// for each.
    Tools(Vec<ToolRun>),
    /// Run this program and append `pre_tool` and `post_tool` for it.
    Execute(Box<Execution>),
    /// Check which of these files and folders exist in the project and append `paths_checked`.
    VerifyPaths(Vec<String>),
    /// Start or resume a child and append `child_started`, or `post_tool` with an error if it is
    /// refused.
    Delegate(Box<Child>),
    /// Release the run until `child_completed` is appended.
    Park,
    /// Append `result` and `run_completed`.
    Finish(Box<Outcome>),
}

/// A request to a model, with the data for progress lines.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelCall {
    /// The name of the backend in `slipform.toml`.
    pub backend: String,
    /// The number of this call on its rung, or of this step in the tool loop. Starts at 1.
    pub number: u32,
    /// The largest value that `number` can reach: calls per rung, or steps.
    pub of: u32,
    /// A short description of the output mode and the kind of request, such as `prompt, json form`.
    pub asked: String,
    /// The request to send, shared with the state.
    pub request: Arc<Request>,
}

/// A tool call whose arguments satisfy the schema of the tool.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolRun {
    /// Unique among the calls of the session.
    pub call_id: String,
    /// The name of the tool as the agent lists it, such as `fs:read`.
    pub name: String,
    /// An object that satisfies the parameter schema of the tool.
    pub arguments: Value,
}

/// The program of a procedural agent. It runs once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Execution {
    /// Always the same value: a procedural agent makes one call.
    pub call_id: String,
    /// The program, followed by its arguments.
    pub argv: Vec<String>,
    /// The parameters as JSON if the agent takes them on standard input, otherwise empty.
    pub stdin: String,
}

/// A child session to start or resume.
#[derive(Debug, Clone, PartialEq)]
pub struct Child {
    /// The tool call that requested the child.
    pub call_id: String,
    /// The tool that was called. For internal children, `create_execution_plan` or `clarity`.
    pub tool_name: String,
    /// The agent that runs in the child session.
    pub agent_name: String,
    /// The parameters of a new session, or the prompt for an existing one.
    pub task: ChildTask,
    /// `Sync` if this run parks until the child ends.
    pub execution_mode: ExecutionMode,
    /// The schema of the child's result, if the parent gives one inline.
    pub output_schema: Option<Value>,
    /// The name of a registered schema for the child's result, if the parent gives one.
    pub output_schema_name: Option<String>,
}

/// The task of a child session.
#[derive(Debug, Clone, PartialEq)]
pub enum ChildTask {
    /// Start a new session.
    Start {
        /// The parameters of its first run.
        parameters: Value,
    },
    /// Resume an existing session.
    Resume {
        /// A session that this session started earlier.
        session_id: SessionId,
        /// The prompt of the new run.
        prompt: String,
    },
}
