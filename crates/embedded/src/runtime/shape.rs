//! Reads the architecture and sizes of a model from the metadata of its file.

use super::attention::Heads;
use super::rope::Pairs;
use crate::Error;
use crate::gguf::{Gguf, malformed};

/// The supported architectures, for messages.
pub(super) const SUPPORTED: &str = "`llama`, `qwen2` and `qwen3`";

/// The sizes and variants of a model.
#[derive(Debug, Clone)]
pub(super) struct ModelShape {
    pub(super) layers: usize,
    pub(super) hidden: usize,
    pub(super) feed_forward: usize,
    pub(super) vocabulary: usize,
    pub(super) context: usize,
    pub(super) heads: Heads,
    pub(super) epsilon: f32,
    pub(super) pairs: Pairs,
    pub(super) rope_width: usize,
    pub(super) rope_base: f64,
    pub(super) rope_scale: f64,
    /// Whether queries and keys are normalised per head.
    pub(super) has_head_norms: bool,
}

impl ModelShape {
    pub(super) fn read(gguf: &Gguf) -> Result<ModelShape, Error> {
        let architecture = gguf
            .text("general.architecture")
            .ok_or_else(|| malformed("it does not name its architecture"))?;
        let (pairs, has_head_norms) = match architecture {
            "llama" => (Pairs::Neighbours, false),
            "qwen2" => (Pairs::Halves, false),
            "qwen3" => (Pairs::Halves, true),
            other => return Err(Error::Architecture { found: other.to_owned(), supported: SUPPORTED }),
        };
        let key = |name: &str| format!("{architecture}.{name}");
        let count = |name: &str| match gguf.count(&key(name)) {
            Some(count) if count > 0 => Ok(count),
            _ => Err(malformed(format!("its metadata has no valid `{}`", key(name)))),
        };
        let hidden = count("embedding_length")?;
        let queries = count("attention.head_count")?;
        let keys = match gguf.value(&key("attention.head_count_kv")) {
            None => queries,
            Some(_) => count("attention.head_count_kv")?,
        };
        let width = match gguf.value(&key("attention.key_length")) {
            None if hidden.is_multiple_of(queries) => hidden / queries,
            None => {
                return Err(malformed(format!("its {queries} heads do not divide its width of {hidden}")));
            }
            Some(_) => count("attention.key_length")?,
        };
        if gguf.value(&key("attention.value_length")).is_some() && count("attention.value_length")? != width {
            return Err(Error::Unsupported("keys and values of different widths".into()));
        }
        if !queries.is_multiple_of(keys) || !width.is_multiple_of(16) {
            let what = format!("{queries} query heads of width {width} with {keys} key heads");
            return Err(Error::Unsupported(what));
        }
        if gguf.count(&key("expert_count")).is_some_and(|experts| experts > 0) {
            return Err(Error::Unsupported("a mixture of experts".into()));
        }
        let rope_width = gguf.count(&key("rope.dimension_count")).unwrap_or(width);
        if rope_width == 0 || rope_width > width || !rope_width.is_multiple_of(2) {
            return Err(malformed(format!("it rotates {rope_width} of {width} dimensions")));
        }
        let vocabulary = match gguf.dims("token_embd.weight") {
            Some([vocabulary, _]) => *vocabulary,
            _ => return Err(malformed("it has no tensor `token_embd.weight` of two dimensions")),
        };
        let window = gguf.count(&key("attention.sliding_window")).filter(|window| *window > 0);
        let context = count("context_length")?;
        Ok(ModelShape {
            layers: count("block_count")?,
            hidden,
            feed_forward: count("feed_forward_length")?,
            vocabulary,
            context: window.map_or(context, |window| context.min(window)),
            heads: Heads { queries, keys, width },
            epsilon: gguf.number(&key("attention.layer_norm_rms_epsilon")).unwrap_or(1e-5) as f32,
            pairs,
            rope_width,
            rope_base: gguf.number(&key("rope.freq_base")).unwrap_or(10_000.0),
            rope_scale: rope_scale(gguf, architecture)?,
            has_head_norms,
        })
    }
}

fn rope_scale(gguf: &Gguf, architecture: &str) -> Result<f64, Error> {
    let factor = gguf.number(&format!("{architecture}.rope.scaling.factor"));
    match gguf.text(&format!("{architecture}.rope.scaling.type")) {
        None => Ok(gguf.number(&format!("{architecture}.rope.scale_linear")).map_or(1.0, f64::recip)),
        Some("none") => Ok(1.0),
        Some("linear") => Ok(factor.filter(|factor| *factor > 0.0).map_or(1.0, f64::recip)),
        Some(other) => Err(Error::Unsupported(format!("RoPE scaling of type `{other}`"))),
    }
}
