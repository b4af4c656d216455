//! The embedded model: runs GGUF weights in this process and constrains decoding to a JSON Schema.
//!
//! # Modules
//! In the order in which a request passes them:
//! - `backend`: [`Embedded`] implements [`slipform_model::Backend`] with a model on its own thread.
//! - `model`: [`Model`] answers one request after the other.
//! - `output_spec`: derives from a request which outputs are allowed: text, JSON, or a tool call.
//! - [`template`]: renders the conversation with the chat template of the weights.
//! - [`tokenizer`]: converts text to tokens and back.
//! - [`grammar`]: compiles a JSON Schema into a grammar.
//! - `decode`: the decode loop; `sample` selects tokens, `repetition` and `json_state` detect loops.
//! - `settled`: reports the text of an answer while it is decoded.
//! - `prefix_cache`: reuses the part of a prompt that equals the previous one.
//! - [`runtime`]: evaluates tokens and returns logits, in Rust or with llama.cpp.
//! - `interrupt`: [`Interrupt`] cancels a computation or limits its time.
//! - [`gguf`]: reads GGUF files.
//! - [`weights`]: downloads, verifies and locates weights.
//! - `error`: [`Error`].
//!
//! # Example
//! ```no_run
//! use std::path::Path;
//!
//! use slipform_embedded::{Error, Interrupt, Model, Settings};
//! use slipform_types::{Message, Request};
//!
//! # fn main() -> Result<(), Error> {
//! let mut model = Model::load(Path::new("model.gguf"), &Settings::default())?;
//! let request = Request { messages: vec![Message::user("Hello")], ..Request::default() };
//! let answer = model.answer(&request, &Interrupt::default(), &mut |_tokens: usize| {})?;
//! # let _ = answer.reply.text;
//! # Ok(())
//! # }
//! ```
//!
//! Not in this crate: building requests and validating replies (`slipform-engine`). A reply lists the keywords
//! that its grammar does not guarantee in `unenforced`; the engine validates every reply.

mod backend;
mod decode;
mod error;
pub mod gguf;
pub mod grammar;
mod interrupt;
mod json_state;
mod model;
mod output_spec;
mod prefix_cache;
mod repetition;
pub mod runtime;
mod sample;
mod settled;
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
pub use settled::Progress;
