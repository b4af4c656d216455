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

mod receipt;

pub use receipt::{Receipt, Repair, Rung, Tokens};
