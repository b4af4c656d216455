//! Formwork's vocabulary: the words that all rooms share, with no behaviour of their own.
//!
//! ```
//! use formwork_types::Receipt;
//!
//! let receipt = Receipt { calls: 1, ..Receipt::default() };
//! assert_eq!(serde_json::to_value(&receipt)?["calls"], 1);
//! # Ok::<(), serde_json::Error>(())
//! ```
//!
//! Not in here: anything that decides, talks or stores.

mod blueprint;
mod contract;
mod error;
mod ids;
mod receipt;

pub use blueprint::{AgentType, Blueprint, Limits, McpServer, Protocol};
pub use contract::{
    Contract, ContractOptions, ContractSource, Correction, OptionsPatch, RETRIES_FOR_BLUEPRINT,
    RETRIES_FOR_CALLER, RETRIES_MAX, SchemaForm, Strategy, ValidationMode,
};
pub use error::Error;
pub use ids::{RunId, SessionId};
pub use receipt::{Receipt, Repair, Rung, Tokens};
