//! The model inside the process: GGUF weights, decoded under the grammar of a JSON Schema.
//!
//! - [`weights`] fetches the default weights and says which ones are used.
//! - [`Model`] answers requests: `ask` sees what is wanted, `template` and `tokenizer` write the prompt,
//!   [`grammar`] makes a grammar of the schema, `decode` writes under it, and [`runtime`] evaluates the model.
//! - [`Embedded`] is a model as a [`slipform_model::Backend`], on a thread of its own.
//!
//! Not here: deciding what to ask and judging what comes back (`slipform-engine`). What the grammar cannot
//! express is in the reply's `unenforced`, and every answer is validated there.

mod ask;
mod backend;
mod decode;
mod error;
pub mod gguf;
pub mod grammar;
mod interrupt;
mod memory;
mod model;
mod outline;
mod repetition;
pub mod runtime;
mod sample;
pub mod template;
#[cfg(test)]
mod testing;
pub mod tokenizer;
pub mod weights;

pub use backend::Embedded;
pub use decode::Timing;
pub use error::Error;
pub use interrupt::Interrupt;
pub use model::{Answer, Model, Settings};
