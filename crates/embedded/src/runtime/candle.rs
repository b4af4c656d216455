//! The runtime in Rust: the model graph of the llama family.

use std::path::Path;
use std::sync::Arc;

use candle_core::Device;

use super::Runtime;
use super::attention::Cache;
use super::linear::{Activations, Linear};
use super::matrix::Matrix;
use super::rope::Rope;
use super::shape::ModelShape;
use super::slices;
use super::threads::{Threads, default_threads};
use crate::Error;
use crate::gguf::{Gguf, malformed};
use crate::interrupt::Interrupt;

/// The tokens of a prompt that are evaluated together. A large batch reads the weights less often; a small one
/// reacts to an interrupt sooner.
const BATCH: usize = 256;

/// The default limit of the context. The cache allocates memory only for tokens in use.
const CONTEXT_MAX_DEFAULT: usize = 4096;

/// Options for loading a model.
#[derive(Debug, Clone)]
pub struct Options {
    /// The longest context in tokens; a model with a shorter one keeps its own.
    pub context_max: usize,
    /// The number of computing threads; by default one less than the number of processors.
    pub threads: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options { context_max: CONTEXT_MAX_DEFAULT, threads: default_threads() }
    }
}

/// A model of the llama family.
#[derive(Debug)]
pub struct CandleModel {
    weights: Arc<Weights>,
    caches: Vec<Cache>,
    length: usize,
    context: usize,
    interrupt: Interrupt,
    logits: Vec<f32>,
}

#[derive(Debug)]
struct Weights {
    threads: Threads,
    shape: ModelShape,
    embedding: Linear,
    layers: Vec<Layer>,
    norm: Vec<f32>,
    /// `None` if the embedding matrix is also the output matrix.
    output: Option<Linear>,
    rope: Rope,
}

#[derive(Debug)]
struct Layer {
    attention_norm: Vec<f32>,
    query: Linear,
    key: Linear,
    value: Linear,
    attention_output: Linear,
    query_norm: Option<Vec<f32>>,
    key_norm: Option<Vec<f32>>,
    feed_forward_norm: Vec<f32>,
    gate: Linear,
    up: Linear,
    down: Linear,
}

impl CandleModel {
    /// Loads the model in the GGUF file at `path`.
    pub fn load(path: &Path, options: Options) -> Result<CandleModel, Error> {
        CandleModel::from_gguf(&mut Gguf::open(path)?, options)
    }

    /// Loads the model from an open file.
    pub fn from_gguf(gguf: &mut Gguf, options: Options) -> Result<CandleModel, Error> {
        let weights = Arc::new(Weights::read(gguf, options.threads)?);
        let context = weights.shape.context.min(options.context_max);
        let caches = weights.layers.iter().map(|_| Cache::new(weights.shape.heads)).collect();
        Ok(CandleModel {
            weights,
            caches,
            length: 0,
            context,
            interrupt: Interrupt::default(),
            logits: Vec::new(),
        })
    }

    /// Returns the number of tokens in the vocabulary.
    pub fn vocabulary(&self) -> usize {
        self.weights.shape.vocabulary
    }

    fn check(&self, tokens: &[u32]) -> Result<(), Error> {
        if tokens.is_empty() {
            return Err(Error::NoTokens);
        }
        let total = self.length + tokens.len();
        if total > self.context {
            return Err(Error::Context { tokens: total, context: self.context });
        }
        let vocabulary = self.vocabulary();
        match tokens.iter().find(|token| **token as usize >= vocabulary) {
            Some(token) => Err(Error::Token { token: *token, vocabulary }),
            None => Ok(()),
        }
    }
}

impl Runtime for CandleModel {
    fn eval(&mut self, tokens: &[u32]) -> Result<&[f32], Error> {
        self.check(tokens)?;
        let mut start = self.length;
        let mut batches = tokens.chunks(BATCH).peekable();
        while let Some(batch) = batches.next() {
            let is_last = batches.peek().is_none();
            let evaluation = BatchEvaluation {
                weights: &self.weights,
                interrupt: &self.interrupt,
                start,
                rows: batch.len(),
            };
            if let Some(logits) = evaluation.run(batch, &mut self.caches, is_last)? {
                self.logits = logits;
            }
            start += batch.len();
        }
        self.length = start;
        Ok(&self.logits)
    }

    fn set_interrupt(&mut self, interrupt: &Interrupt) {
        self.interrupt = interrupt.clone();
    }

    fn rewind(&mut self, length: usize) {
        self.length = self.length.min(length);
        for cache in &mut self.caches {
            cache.truncate(self.length);
        }
    }

    fn length(&self) -> usize {
        self.length
    }

    fn context(&self) -> usize {
        self.context
    }
}

/// The evaluation of one batch of tokens.
struct BatchEvaluation<'a> {
    weights: &'a Weights,
    interrupt: &'a Interrupt,
    /// The position of the first token.
    start: usize,
    /// The number of tokens.
    rows: usize,
}

impl BatchEvaluation<'_> {
    fn run(
        &self,
        tokens: &[u32],
        caches: &mut [Cache],
        wants_logits: bool,
    ) -> Result<Option<Vec<f32>>, Error> {
        let hidden = self.weights.shape.hidden;
        let turns = self.weights.rope.turns(self.start, self.rows);
        let mut states = self.weights.embedding.matrix.rows(tokens);
        let (last, others) = match (self.weights.layers.split_last(), caches.split_last_mut()) {
            (Some(layers), Some(caches)) => ((layers.0, caches.0), layers.1.iter().zip(caches.1)),
            _ => return Err(malformed("it has no layers")),
        };
        for (layer, cache) in others {
            let query = self.update_cache(layer, cache, &states, &turns, self.rows)?;
            self.attend_and_feed(layer, cache, &mut states, &query, self.rows)?;
        }
        // The last layer is computed only for the last token, and only if logits are wanted.
        let (layer, cache) = last;
        let kept = usize::from(wants_logits);
        let query = self.update_cache(layer, cache, &states, &turns, kept)?;
        if !wants_logits {
            return Ok(None);
        }
        let mut state = states.split_off((self.rows - 1) * hidden);
        self.attend_and_feed(layer, cache, &mut state, &query, 1)?;
        let normed = self.norm(&state, &self.weights.norm, 1);
        let output = self.weights.output.as_ref().unwrap_or(&self.weights.embedding);
        Ok(Some(output.forward(&normed, &self.weights.threads)?))
    }

    /// Writes the keys and values of all rows to the cache and returns the queries of the last `kept` rows.
    fn update_cache(
        &self,
        layer: &Layer,
        cache: &mut Cache,
        states: &[f32],
        turns: &[(f32, f32)],
        kept: usize,
    ) -> Result<Vec<f32>, Error> {
        self.interrupt.check()?;
        let shape = &self.weights.shape;
        let (heads, rope) = (shape.heads, &self.weights.rope);
        let normed = self.norm(states, &layer.attention_norm, self.rows);
        let mut keys = layer.key.forward(&normed, &self.weights.threads)?;
        self.norm_heads(&mut keys, layer.key_norm.as_deref());
        rope.rotate(&mut keys, heads.keys * heads.width, heads.width, turns);
        cache.write(self.start, &keys, &layer.value.forward(&normed, &self.weights.threads)?);
        let mut query = match kept {
            0 => return Ok(Vec::new()),
            kept if kept == self.rows => layer.query.forward(&normed, &self.weights.threads)?,
            kept => {
                let states = &states[(self.rows - kept) * shape.hidden..];
                layer.query.forward(&self.norm(states, &layer.attention_norm, kept), &self.weights.threads)?
            }
        };
        self.norm_heads(&mut query, layer.query_norm.as_deref());
        let turns = &turns[(self.rows - kept) * (shape.rope_width / 2)..];
        rope.rotate(&mut query, heads.queries * heads.width, heads.width, turns);
        let scale = (heads.width as f32).sqrt().recip();
        for value in &mut query {
            *value *= scale;
        }
        Ok(query)
    }

    /// Adds attention and the feed-forward network to the states of the last `rows` rows.
    fn attend_and_feed(
        &self,
        layer: &Layer,
        cache: &Cache,
        states: &mut [f32],
        query: &[f32],
        rows: usize,
    ) -> Result<(), Error> {
        self.interrupt.check()?;
        let shape = &self.weights.shape;
        let width = shape.heads.queries * shape.heads.width;
        let attended = cache.attend(query, self.start + self.rows - rows, &self.weights.threads);
        let attended = Activations::new(&attended, width);
        slices::add(states, &layer.attention_output.forward(&attended, &self.weights.threads)?);
        let normed = self.norm(states, &layer.feed_forward_norm, rows);
        let mut gated = layer.gate.forward(&normed, &self.weights.threads)?;
        slices::gate(&mut gated, &layer.up.forward(&normed, &self.weights.threads)?);
        let gated = Activations::new(&gated, shape.feed_forward);
        slices::add(states, &layer.down.forward(&gated, &self.weights.threads)?);
        Ok(())
    }

    fn norm(&self, states: &[f32], weight: &[f32], rows: usize) -> Activations {
        let shape = &self.weights.shape;
        let mut normed = vec![0.0; rows * shape.hidden];
        for (to, from) in normed.chunks_exact_mut(shape.hidden).zip(states.chunks_exact(shape.hidden)) {
            slices::rms_norm(from, weight, shape.epsilon, to);
        }
        Activations::new(&normed, shape.hidden)
    }

    fn norm_heads(&self, rows: &mut [f32], weight: Option<&[f32]>) {
        let Some(weight) = weight else { return };
        let shape = &self.weights.shape;
        let mut normed = vec![0.0; shape.heads.width];
        for head in rows.chunks_exact_mut(shape.heads.width) {
            slices::rms_norm(head, weight, shape.epsilon, &mut normed);
            head.copy_from_slice(&normed);
        }
    }
}

impl Weights {
    fn read(gguf: &mut Gguf, threads: usize) -> Result<Weights, Error> {
        let shape = ModelShape::read(gguf)?;
        let embedding = matrix(gguf, "token_embd", shape.vocabulary, shape.hidden)?;
        let mut layers = Vec::new();
        for number in 0..shape.layers {
            layers.push(Layer::read(gguf, &shape, number)?);
        }
        let norm = vector(gguf, "output_norm.weight", shape.hidden)?;
        let output = if gguf.has("output.weight") {
            Some(matrix(gguf, "output", shape.vocabulary, shape.hidden)?)
        } else {
            None
        };
        let factors = if gguf.has("rope_freqs.weight") {
            Some(vector(gguf, "rope_freqs.weight", shape.rope_width / 2)?)
        } else {
            None
        };
        let rope =
            Rope::new(shape.pairs, shape.rope_width, shape.rope_base, shape.rope_scale, factors.as_deref());
        let threads = Threads::new(threads)?;
        Ok(Weights { threads, shape, embedding, layers, norm, output, rope })
    }
}

impl Layer {
    fn read(gguf: &mut Gguf, shape: &ModelShape, number: usize) -> Result<Layer, Error> {
        let name = |part: &str| format!("blk.{number}.{part}");
        let ModelShape { hidden, feed_forward, heads, .. } = *shape;
        let too_large = || malformed("it has too many or too wide attention heads");
        let queries = heads.queries.checked_mul(heads.width).ok_or_else(too_large)?;
        let keys = heads.keys.checked_mul(heads.width).ok_or_else(too_large)?;
        let (query_norm, key_norm) = if shape.has_head_norms {
            (
                Some(vector(gguf, &name("attn_q_norm.weight"), heads.width)?),
                Some(vector(gguf, &name("attn_k_norm.weight"), heads.width)?),
            )
        } else {
            (None, None)
        };
        Ok(Layer {
            attention_norm: vector(gguf, &name("attn_norm.weight"), hidden)?,
            query: matrix(gguf, &name("attn_q"), queries, hidden)?,
            key: matrix(gguf, &name("attn_k"), keys, hidden)?,
            value: matrix(gguf, &name("attn_v"), keys, hidden)?,
            attention_output: matrix(gguf, &name("attn_output"), hidden, queries)?,
            query_norm,
            key_norm,
            feed_forward_norm: vector(gguf, &name("ffn_norm.weight"), hidden)?,
            gate: matrix(gguf, &name("ffn_gate"), feed_forward, hidden)?,
            up: matrix(gguf, &name("ffn_up"), feed_forward, hidden)?,
            down: matrix(gguf, &name("ffn_down"), hidden, feed_forward)?,
        })
    }
}

fn matrix(gguf: &mut Gguf, name: &str, outputs: usize, inputs: usize) -> Result<Linear, Error> {
    let bias = format!("{name}.bias");
    let bias = if gguf.has(&bias) { Some(vector(gguf, &bias, outputs)?) } else { None };
    let weights = gguf.tensor(&format!("{name}.weight"), &[outputs, inputs])?;
    Ok(Linear { matrix: Matrix::new(&weights, outputs, inputs)?, bias })
}

fn vector(gguf: &mut Gguf, name: &str, length: usize) -> Result<Vec<f32>, Error> {
    let tensor = gguf.tensor(name, &[length])?;
    Ok(tensor.dequantize(&Device::Cpu)?.flatten_all()?.to_vec1::<f32>()?)
}

#[cfg(test)]
mod tests;
