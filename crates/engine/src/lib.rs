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
//! - `state`: folds events into the state of a run. Its components are `task`, `ladder`, `tool_loop`,
//!   `children`, `reply` (answers that wait), `usage`, `decisions` and `history`; each knows only its
//!   own concern.
//! - `next`: returns the next action of a state.
//! - `decide`: decides what needs several components: rungs, replies, steps, subtasks, retries and
//!   failures.
//! - `reply`: from a reply to a result. `reply::accept` is the pipeline that every answer passes:
//!   extract, validate, extra rules, placeholders, criteria, cited paths, cited subtasks, clarity,
//!   finish. `reply::judge` turns the text of a reply into a value, in every output mode.
//!   `reply::correct` asks again for a rejected answer.
//! - `task`: the agent, contract and input of a run.
//! - `ladder`: the tiers of a run, its position on them and the planned model call.
//! - `call_plan`: builds the next request; `call_plan::actions` builds it for the action protocol.
//! - `output_mode`: the modes of asking for structured output, and which ones to try on a backend.
//! - `contract`: a compiled contract and the rules that apply beyond its schema.
//! - `prompt`: the texts that models read.
//! - `patch`: corrections that ask only for the invalid parts of a document.
//! - `tool_loop`: the calls of tools and agents, their answers and the limits of the loop.
//! - `callable`: the tools and agents that a model may call; `delegation` defines the tools for
//!   agents.
//! - `envelope`: the action protocol, for models without tool calling.
//! - `conversation`: writes earlier runs and steps as messages, within a character budget.
//! - `cite`: finds the files that a result names; `changes` compares them with the files that tools
//!   changed; `criteria` finds results that contradict decided criteria.
//! - `program`: the program of a procedural agent, which takes the place of a model.
//! - `children`: the agents that the engine starts itself, for subtasks and for scores.
//! - `orchestrator`: plans subtasks, delegates them and asks for the summary.
//! - `usage`: collects the data of receipts and salvage.
//! - `decisions`: the decision events and the outcome that the runner appends.
//! - `history`: the earlier runs of the session and the children it started.
//!
//! ```
//! use slipform_engine::{Action, State, next};
//! use slipform_types::{Blueprint, EventBody, RunOverrides, RunType};
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
//!     overrides: RunOverrides::default(),
//!     conversation: None,
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
mod changes;
mod children;
mod cite;
mod client_calls;
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
