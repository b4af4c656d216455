//! The engine: a run's journal in, the next action out. It does no IO.
//!
//! A [`State`] is folded from the events of a journal; [`next`] says what to do. Runners do it and append
//! what happened. The same journal always gives the same next action, so that a run can be continued by
//! anyone, anywhere, from its last event.
//!
//! - `state` folds, `decide` draws the consequences of a reply, `plan` turns them into the next request.
//! - `mode` knows the strategies and which to try on a backend; `prompt` has the words.
//! - `judge` is the one place where text becomes a result: every strategy ends in its validation.
//! - `act` runs the agent's loop: `tools` is what it knows, `callable` what it may call, `envelope` the action protocol,
//!   `delegation` other agents, `cite` and `look` files that results name, `conversation` what the model sees of it all, `program` agents without a model.
//! - `orchestra` takes a task apart, has others do the parts and sums up; `clarity` asks back until an answer is clear;
//!   `hire` starts the agents that both of them need.
//! - `patch` asks only for what is wrong; `placeholder` notices answers that are none.
//! - `usage` keeps what receipts and salvage are made of.
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
//! // Nothing can be done before an attempt tells which backends there are.
//! assert_eq!(next(&state), None);
//! # Ok::<(), slipform_engine::Error>(())
//! ```
//!
//! Not in here: clocks, randomness, sockets, files, threads. Time reaches the engine as events.

mod action;
mod callable;
mod cite;
mod clarity;
mod contract;
mod conversation;
mod criteria;
mod decide;
mod delegation;
mod envelope;
mod error;
mod internal_children;
mod judge;
mod orchestrator;
mod output_mode;
mod patch;
mod placeholder;
mod plan;
mod program;
mod prompt;
mod state;
mod tool_loop;
mod tool_state;
mod usage;
mod verify_paths;

pub use action::{Action, Child, ChildTask, Execution, ModelCall, ToolRun};
pub use error::Error;
pub use state::{State, next};
