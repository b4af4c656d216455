//! Small models with pseudo-random weights, for unit tests.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use candle_core::quantized::gguf_file::{Value, write};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};

/// A model file that is removed when dropped.
pub(crate) struct Tiny {
    path: PathBuf,
}

impl Tiny {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        std::fs::read(&self.path).expect("the file can be read")
    }

    /// Creates a file with these bytes.
    pub(crate) fn of(bytes: &[u8]) -> Tiny {
        let tiny = Tiny { path: unique_path() };
        std::fs::write(&tiny.path, bytes).expect("the file can be written");
        tiny
    }
}

impl Drop for Tiny {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn unique_path() -> PathBuf {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("slipform-tiny-{}-{count}.gguf", std::process::id()))
}

/// The metadata and tensors of a model file.
pub(crate) struct Recipe {
    pub(crate) metadata: Vec<(String, Value)>,
    pub(crate) tensors: Vec<(String, QTensor)>,
    seed: u64,
}

impl Recipe {
    pub(crate) fn metadata(mut self, name: &str, value: Value) -> Recipe {
        self.metadata.retain(|(key, _)| key != name);
        self.metadata.push((name.to_owned(), value));
        self
    }

    pub(crate) fn without(mut self, name: &str) -> Recipe {
        self.metadata.retain(|(key, _)| key != name);
        self.tensors.retain(|(key, _)| key != name);
        self
    }

    fn tensor(&mut self, name: &str, dims: &[usize], dtype: GgmlDType, offset: f32, scale: f32) {
        let count = dims.iter().product();
        let values: Vec<f32> = (0..count)
            .map(|_| {
                self.seed =
                    self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                offset + scale * ((self.seed >> 40) as f32 / (1_u64 << 23) as f32 - 1.0)
            })
            .collect();
        let tensor = Tensor::from_vec(values, dims, &Device::Cpu).expect("the shape fits");
        let tensor = QTensor::quantize(&tensor, dtype).expect("the type can be written");
        self.tensors.push((name.to_owned(), tensor));
    }

    pub(crate) fn write(&self) -> Tiny {
        let tiny = Tiny { path: unique_path() };
        let metadata: Vec<(&str, &Value)> =
            self.metadata.iter().map(|(key, value)| (key.as_str(), value)).collect();
        let tensors: Vec<(&str, &QTensor)> =
            self.tensors.iter().map(|(key, value)| (key.as_str(), value)).collect();
        let mut file = File::create(&tiny.path).expect("the file can be created");
        write(&mut file, &metadata, &tensors).expect("the file can be written");
        tiny
    }
}

fn texts(texts: impl IntoIterator<Item = String>) -> Value {
    Value::Array(texts.into_iter().map(Value::String).collect())
}

/// Returns a model with two layers whose matrices have this type. The vocabulary has 256 bytes, two merges and
/// three markers.
pub(crate) fn recipe(architecture: &str, dtype: GgmlDType) -> Recipe {
    let (hidden, heads, key_heads, width, feed_forward) = (96, 6, 2, 16, 160);
    let mut recipe = Recipe { metadata: Vec::new(), tensors: Vec::new(), seed: 7 };
    let tokens = byte_tokens();
    let vocabulary = tokens.len();
    let sizes = [
        ("block_count", 2),
        ("context_length", 700),
        ("embedding_length", hidden),
        ("feed_forward_length", feed_forward),
        ("attention.head_count", heads),
        ("attention.head_count_kv", key_heads),
    ];
    for (name, size) in sizes {
        recipe = recipe.metadata(&format!("{architecture}.{name}"), Value::U32(size as u32));
    }
    let kinds =
        (0..vocabulary).map(|token| Value::I32(if token + 3 >= vocabulary { 3 } else { 1 })).collect();
    recipe = recipe
        .metadata("general.architecture", Value::String(architecture.to_owned()))
        .metadata("tokenizer.ggml.model", Value::String("gpt2".into()))
        .metadata("tokenizer.ggml.pre", Value::String("smollm".into()))
        .metadata("tokenizer.ggml.tokens", texts(tokens))
        .metadata("tokenizer.ggml.token_type", Value::Array(kinds))
        .metadata("tokenizer.ggml.merges", texts(["h e".into(), "l l".into()]))
        .metadata("tokenizer.ggml.eos_token_id", Value::U32(vocabulary as u32 - 2))
        .metadata("tokenizer.ggml.bos_token_id", Value::U32(vocabulary as u32 - 1));
    recipe.tensor("token_embd.weight", &[vocabulary, hidden], dtype, 0.0, 1.0);
    recipe.tensor("output_norm.weight", &[hidden], GgmlDType::F32, 1.0, 0.3);
    for layer in 0..2 {
        let name = |part: &str| format!("blk.{layer}.{part}");
        recipe.tensor(&name("attn_norm.weight"), &[hidden], GgmlDType::F32, 1.0, 0.3);
        recipe.tensor(&name("ffn_norm.weight"), &[hidden], GgmlDType::F32, 1.0, 0.3);
        let matrices = [
            ("attn_q", heads * width, hidden),
            ("attn_k", key_heads * width, hidden),
            ("attn_v", key_heads * width, hidden),
            ("attn_output", hidden, heads * width),
            ("ffn_gate", feed_forward, hidden),
            ("ffn_up", feed_forward, hidden),
            ("ffn_down", hidden, feed_forward),
        ];
        for (part, outputs, inputs) in matrices {
            recipe.tensor(&name(&format!("{part}.weight")), &[outputs, inputs], dtype, 0.0, 0.2);
        }
        if architecture == "qwen2" {
            for (part, outputs) in
                [("attn_q", heads * width), ("attn_k", key_heads * width), ("attn_v", key_heads * width)]
            {
                recipe.tensor(&name(&format!("{part}.bias")), &[outputs], GgmlDType::F32, 0.0, 0.5);
            }
        }
        if architecture == "qwen3" {
            for part in ["attn_q_norm.weight", "attn_k_norm.weight"] {
                recipe.tensor(&name(part), &[width], GgmlDType::F32, 1.0, 0.3);
            }
        }
    }
    recipe
}

fn byte_tokens() -> Vec<String> {
    let mut next = 255;
    let mut tokens: Vec<String> = (0..=u8::MAX)
        .map(|byte| match byte {
            b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff => char::from(byte).to_string(),
            _ => {
                next += 1;
                char::from_u32(next).map(String::from).unwrap_or_default()
            }
        })
        .collect();
    tokens.extend(["he", "ll", "<|im_start|>", "<|im_end|>", "<|endoftext|>"].map(String::from));
    tokens
}

/// Returns a SentencePiece vocabulary without a model.
pub(crate) fn sentence_recipe() -> Recipe {
    let mut tokens: Vec<(String, f32, i32)> =
        vec![("<unk>".into(), 0.0, 2), ("<s>".into(), 0.0, 3), ("</s>".into(), 0.0, 3)];
    tokens.extend((0..=u8::MAX).map(|byte| (format!("<0x{byte:02X}>"), 0.0, 6)));
    for (score, token) in ["\u{2581}h", "el", "lo", "\u{2581}hel", "\u{2581}hello"].iter().enumerate() {
        tokens.push(((*token).into(), -(score as f32), 1));
    }
    tokens.extend("\u{2581}helowrd".chars().map(|character| (character.to_string(), -100.0, 1)));
    let recipe = Recipe { metadata: Vec::new(), tensors: Vec::new(), seed: 7 };
    recipe
        .metadata("tokenizer.ggml.model", Value::String("llama".into()))
        .metadata("tokenizer.ggml.tokens", texts(tokens.iter().map(|token| token.0.clone())))
        .metadata(
            "tokenizer.ggml.scores",
            Value::Array(tokens.iter().map(|token| Value::F32(token.1)).collect()),
        )
        .metadata(
            "tokenizer.ggml.token_type",
            Value::Array(tokens.iter().map(|token| Value::I32(token.2)).collect()),
        )
        .metadata("tokenizer.ggml.unknown_token_id", Value::U32(0))
        .metadata("tokenizer.ggml.bos_token_id", Value::U32(1))
        .metadata("tokenizer.ggml.eos_token_id", Value::U32(2))
}
