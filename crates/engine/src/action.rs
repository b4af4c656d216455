//! What a runner is told to do next.

use std::sync::Arc;

use serde_json::Value;
use slipform_types::{EventBody, ExecutionMode, Outcome, Request, SessionId};

/// One step. The runner performs it and appends what happened to the journal.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Action {
    /// Append this event; it records a decision that follows from the journal so far.
    Note(Box<EventBody>),
    /// Ask a model, and append its reply as `message` or its failure as `call_failed`.
    Call(Box<ModelCall>),
    /// Call these tools, all at the same time if they allow it, and append `pre_tool` and `post_tool` for each.
    Tools(Vec<ToolRun>),
    /// Run this program, and append `pre_tool` and `post_tool` for it.
    Execute(Box<Execution>),
    /// Look whether these files and folders are in the project, and append `paths_checked`.
    Look(Vec<String>),
    /// Start or resume another agent, and append `child_started`, or `post_tool` with an error where it is refused.
    Delegate(Box<Child>),
    /// Let go of the run until `child_completed` is appended.
    Park,
    /// Append `result` and `run_completed`.
    Finish(Box<Outcome>),
}

/// A request to a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelCall {
    /// The backend's name.
    pub backend: String,
    /// Which call of how many on this rung, or which step of the agent's loop, for people.
    pub number: u32,
    /// The most calls on this rung, or the most steps.
    pub of: u32,
    /// How it is asked, in a few words.
    pub asked: String,
    /// What is asked.
    pub request: Arc<Request>,
}

/// A tool to call, with arguments that satisfy its schema.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolRun {
    /// The call's id, of which the run has no other.
    pub call_id: String,
    /// The tool.
    pub name: String,
    /// Its arguments.
    pub arguments: Value,
}

/// The program of a procedural agent, to be run once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Execution {
    /// The call's id.
    pub call_id: String,
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// What it reads.
    pub stdin: String,
}

/// Another agent that is to work for this one.
#[derive(Debug, Clone, PartialEq)]
pub struct Child {
    /// The call that asks for it.
    pub call_id: String,
    /// The tool that the call is of.
    pub tool_name: String,
    /// The agent.
    pub agent_name: String,
    /// What it is asked to do.
    pub task: ChildTask,
    /// Whether this run waits for it.
    pub execution_mode: ExecutionMode,
    /// What the result has to satisfy, where the parent says so.
    pub output_schema: Option<Value>,
    /// The same by name.
    pub output_schema_name: Option<String>,
}

/// What another agent is asked to do.
#[derive(Debug, Clone, PartialEq)]
pub enum ChildTask {
    /// A session of its own.
    Start {
        /// Its parameters.
        parameters: Value,
    },
    /// To go on with one.
    Resume {
        /// Which one.
        session_id: SessionId,
        /// What is said.
        prompt: String,
    },
}
