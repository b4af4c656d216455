//! The runtime over llama.cpp, for architectures that the runtime in Rust does not support.
//!
//! A llama.cpp context borrows its model and belongs to one thread. Both therefore live on a dedicated thread,
//! which receives requests over a channel.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, Sender, channel};

use llama_cpp_2::context::LlamaContext;
use llama_cpp_2::context::params::LlamaContextParams;
use llama_cpp_2::llama_backend::LlamaBackend;
use llama_cpp_2::llama_batch::LlamaBatch;
use llama_cpp_2::model::LlamaModel as Model;
use llama_cpp_2::model::params::LlamaModelParams;
use llama_cpp_2::token::LlamaToken;

use super::{Options, Runtime};
use crate::Error;
use crate::gguf::Gguf;
use crate::interrupt::Interrupt;

/// The tokens of a prompt that are evaluated together. The interrupt is checked between batches.
const BATCH: usize = 256;

/// A model run by llama.cpp.
#[derive(Debug)]
pub struct LlamaModel {
    requests: Sender<Request>,
    answers: Receiver<Result<Vec<f32>, Error>>,
    length: usize,
    context: usize,
    vocabulary: usize,
    interrupt: Interrupt,
    logits: Vec<f32>,
}

/// The sizes of the loaded model.
struct Loaded {
    context: usize,
    vocabulary: usize,
}

/// Tokens to evaluate after the first `start` tokens of the cache.
struct Request {
    start: usize,
    tokens: Vec<u32>,
    interrupt: Interrupt,
}

impl LlamaModel {
    /// Loads the model in the GGUF file at `path`.
    pub fn load(path: &Path, options: Options) -> Result<LlamaModel, Error> {
        // llama.cpp aborts the process on some damaged files, so the header is checked first.
        Gguf::open(path)?;
        let (requests, inbox) = channel();
        let (outbox, answers) = channel();
        let (ready, loaded) = channel();
        let path = path.to_owned();
        std::thread::Builder::new()
            .name("slipform-llama".into())
            .spawn(move || {
                if let Err(error) = serve(&path, &options, &ready, &inbox, &outbox) {
                    let _ = ready.send(Err(error));
                }
            })
            .map_err(|error| Error::Llama(error.to_string()))?;
        let Loaded { context, vocabulary } = loaded.recv().map_err(|_| thread_ended())??;
        let interrupt = Interrupt::default();
        Ok(LlamaModel { requests, answers, length: 0, context, vocabulary, interrupt, logits: Vec::new() })
    }

    /// Returns the number of tokens in the vocabulary.
    pub fn vocabulary(&self) -> usize {
        self.vocabulary
    }
}

impl Runtime for LlamaModel {
    fn eval(&mut self, tokens: &[u32]) -> Result<&[f32], Error> {
        if tokens.is_empty() {
            return Err(Error::NoTokens);
        }
        let total = self.length + tokens.len();
        if total > self.context {
            return Err(Error::Context { tokens: total, context: self.context });
        }
        if let Some(token) = tokens.iter().find(|token| **token as usize >= self.vocabulary) {
            return Err(Error::Token { token: *token, vocabulary: self.vocabulary });
        }
        let request =
            Request { start: self.length, tokens: tokens.to_vec(), interrupt: self.interrupt.clone() };
        self.requests.send(request).map_err(|_| thread_ended())?;
        self.logits = self.answers.recv().map_err(|_| thread_ended())??;
        self.length = total;
        Ok(&self.logits)
    }

    fn set_interrupt(&mut self, interrupt: &Interrupt) {
        self.interrupt = interrupt.clone();
    }

    fn rewind(&mut self, length: usize) {
        self.length = self.length.min(length);
    }

    fn length(&self) -> usize {
        self.length
    }

    fn context(&self) -> usize {
        self.context
    }
}

fn thread_ended() -> Error {
    Error::Llama("its thread has ended".into())
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::Llama(error.to_string())
}

/// Returns the llama.cpp backend, which is initialised once per process.
fn backend() -> Result<&'static LlamaBackend, Error> {
    static BACKEND: OnceLock<Result<LlamaBackend, String>> = OnceLock::new();
    let backend = BACKEND.get_or_init(|| {
        let mut backend = LlamaBackend::init().map_err(|error| error.to_string())?;
        backend.void_logs();
        Ok(backend)
    });
    backend.as_ref().map_err(failed)
}

fn serve(
    path: &PathBuf,
    options: &Options,
    ready: &Sender<Result<Loaded, Error>>,
    requests: &Receiver<Request>,
    answers: &Sender<Result<Vec<f32>, Error>>,
) -> Result<(), Error> {
    let backend = backend()?;
    let model = Model::load_from_file(backend, path, &LlamaModelParams::default()).map_err(failed)?;
    let trained = usize::try_from(model.n_ctx_train()).unwrap_or(usize::MAX);
    let context = trained.min(options.context_max).max(1);
    let vocabulary = usize::try_from(model.n_vocab()).map_err(failed)?;
    let threads = i32::try_from(options.threads.max(1)).map_err(failed)?;
    let size = u32::try_from(context).map_err(failed)?;
    let batch = u32::try_from(BATCH).map_err(failed)?;
    let parameters = LlamaContextParams::default()
        .with_n_ctx(NonZeroU32::new(size))
        .with_n_batch(batch)
        .with_n_threads(threads)
        .with_n_threads_batch(threads);
    let mut llama = model.new_context(backend, parameters).map_err(failed)?;
    let _ = ready.send(Ok(Loaded { context, vocabulary }));
    for request in requests {
        let answer = read(&mut llama, &request);
        if answers.send(answer).is_err() {
            break;
        }
    }
    Ok(())
}

fn read(llama: &mut LlamaContext<'_>, request: &Request) -> Result<Vec<f32>, Error> {
    // Removes tokens after the start, including those of an interrupted evaluation.
    let start = u32::try_from(request.start).map_err(failed)?;
    if !llama.clear_kv_cache_seq(Some(0), Some(start), None).map_err(failed)? {
        return Err(Error::Llama("it cannot remove a part of its cache".into()));
    }
    let mut position = request.start;
    let mut last = 0;
    for tokens in request.tokens.chunks(BATCH) {
        request.interrupt.check()?;
        let mut batch = LlamaBatch::new(tokens.len(), 1);
        for (index, token) in tokens.iter().enumerate() {
            let token = LlamaToken(i32::try_from(*token).map_err(failed)?);
            let token_position = i32::try_from(position + index).map_err(failed)?;
            batch.add(token, token_position, &[0], index + 1 == tokens.len()).map_err(failed)?;
        }
        llama.decode(&mut batch).map_err(failed)?;
        position += tokens.len();
        last = batch.n_tokens() - 1;
    }
    Ok(llama.get_logits_ith(last).to_vec())
}
