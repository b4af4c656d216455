//! The model inside the process: GGUF weights, their vocabulary, and the prompts they were trained on.
//!
//! * [`gguf`] reads the header of a file, and trusts nothing in it.
//! * [`runtime`] turns tokens into logits. [`runtime::CandleModel`] is in Rust alone; the feature `llama` adds one
//!   over llama.cpp for the architectures that it does not know.
//! * [`tokenizer`] turns text into tokens and back, and is what a grammar needs of a vocabulary.
//! * [`template`] writes a conversation as a prompt, in which nothing that a user wrote becomes a special token.
//!
//! ```no_run
//! use std::path::Path;
//!
//! use formwork_embedded::gguf::Gguf;
//! use formwork_embedded::runtime::{CandleModel, Options, Runtime};
//! use formwork_embedded::template::ChatTemplate;
//! use formwork_embedded::tokenizer::Tokenizer;
//! use formwork_types::{Message, Request};
//!
//! # fn main() -> Result<(), formwork_embedded::Error> {
//! let mut gguf = Gguf::open(Path::new("SmolLM2-135M-Instruct.Q4_1.gguf"))?;
//! let tokenizer = Tokenizer::from_gguf(&gguf)?;
//! let template = ChatTemplate::from_gguf(&gguf, &tokenizer)?;
//! let mut model = CandleModel::from_gguf(&mut gguf, Options::default())?;
//! let request = Request { messages: vec![Message::user("What is the capital of France?")], ..Request::default() };
//! let logits = model.eval(&template.render(&tokenizer, &request)?)?;
//! assert_eq!(logits.len(), tokenizer.vocabulary());
//! # Ok(())
//! # }
//! ```
//!
//! Not in it: sampling, and grammars.

mod error;
pub mod gguf;
pub mod runtime;
pub mod template;
#[cfg(test)]
mod testing;
pub mod tokenizer;

pub use error::Error;
