//! Decides the next action of a run from its journal. The engine is a pure function and performs no
//! IO.
//!
//! [`State::fold`] applies one event; [`next`] returns the next [`Action`]. The runner performs the
//! action and appends the resulting event. The same journal always gives the same action, so any
//! runner can continue a run from its last event.
//!
//! Modules, in reading order:
//!
//! - `action`: the actions that a runner performs.
//! - `state`: folds events into the state of a run and returns the next action.
//! - `decide`: decides what follows from a reply: a result, a retry, the next rung or a failure.
//! - `call_plan`: builds the next request; `call_plan::actions` builds it for the action protocol.
//! - `output_mode`: the modes of asking for structured output, and which ones to try on a backend.
//! - `contract`: a compiled contract and the rules that apply beyond its schema.
//! - `judge`: turns the text of a reply into a validated result or a list of errors. Every mode
//!   ends here.
//! - `prompt`: the texts that models read.
//! - `patch`: corrections that ask only for the invalid parts of a document.
//! - `placeholder`: detects results whose content was replaced by placeholders.
//! - `tool_loop`: handles replies that call tools or agents; `tool_state` is the state of that
//!   loop.
//! - `callable`: the tools and agents that a model may call; `delegation` defines the tools for
//!   agents.
//! - `envelope`: the action protocol, for models without tool calling.
//! - `conversation`: writes earlier runs and steps as messages, within a character budget.
//! - `verify_paths`: accepts a result only if the files it names exist or were changed; `cite`
//!   finds these paths.
//! - `criteria`: records decided criteria and finds results that contradict them.
//! - `program`: procedural agents, which run a program in place of a model.
//! - `orchestrator`: plans subtasks, delegates them and asks for the summary.
//! - `clarity`: has answers scored by another agent and asks follow-up questions.
//! - `children`: starts the agents that `orchestrator` and `clarity` need.
//! - `usage`: collects the data of receipts and salvage.
//!
//! ```
//! use slipform_engine::{Action, State, next};
//! use slipform_types::{Blueprint, EventBody, RunType};
//! use serde_json::json;
//!
//! let mut state = State::default();
//! let blueprint = Blueprint { name: "greeter".into(), ..Blueprint::default() };
//! state.fold(&EventBody::RunStart {
//!     run_type: RunType::StartSession,
//!     blueprint: blueprint.into(),
//!     contract: None,
//!     parameters: json!({"prompt": "Hello"}),
//!     input: "Hello".into(),
//! })?;
//! // The engine has no action before `attempt_started` names the available backends.
//! assert_eq!(next(&state), None);
//! # Ok::<(), slipform_engine::Error>(())
//! ```
//!
//! Not in this crate: clocks, randomness, sockets, files and threads. Time reaches the engine as
//! events.

mod action;
mod call_plan;
mod callable;
mod children;
mod cite;
mod contract;
mod conversation;
mod criteria;
mod decide;
mod decisions;
mod delegation;
mod envelope;
mod error;
mod history;
mod ladder;
mod next;
mod orchestrator;
mod output_mode;
mod patch;
mod program;
mod prompt;
mod reply;
mod state;
mod task;
mod tool_loop;
mod usage;

pub use action::{Action, Child, ChildTask, Execution, ModelCall, ToolRun};
pub use error::Error;
pub use next::next;
pub use state::State;
