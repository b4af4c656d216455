//! Byte-pair encoding over bytes, as in GPT-2 and most later models.

use std::collections::HashMap;
use std::sync::OnceLock;

use tokenizers::models::bpe::{BPE, Vocab};
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel as Bytes;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{SplitDelimiterBehavior, Tokenizer};

use crate::Error;
use crate::gguf::{Gguf, Value};

const LLAMA_3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN_2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// The rule that splits text into words before pairs are merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PreTokenizer {
    Gpt2,
    SmolLm,
    Llama3,
    Qwen2,
}

/// Byte-pair encoding over bytes.
#[derive(Debug)]
pub(super) struct ByteLevel {
    tokenizer: Tokenizer,
    rule: PreTokenizer,
}

impl ByteLevel {
    pub(super) fn read(
        gguf: &Gguf,
        tokens: &[String],
        warning: &mut Option<String>,
    ) -> Result<ByteLevel, Error> {
        let Some(Value::Texts(merges)) = gguf.value("tokenizer.ggml.merges") else {
            return Err(Error::Tokenizer("it has no `tokenizer.ggml.merges`".into()));
        };
        let rule = match gguf.text("tokenizer.ggml.pre") {
            Some("smollm" | "codeshell" | "refact" | "command-r" | "exaone" | "minerva-7b") => {
                PreTokenizer::SmolLm
            }
            Some("llama-bpe" | "llama3" | "llama-v3" | "falcon3" | "dbrx" | "smaug-bpe" | "pixtral") => {
                PreTokenizer::Llama3
            }
            Some("qwen2" | "deepseek-r1-qwen" | "stablelm2" | "megrez") => PreTokenizer::Qwen2,
            Some("gpt-2" | "gpt2" | "mpt" | "olmo" | "jais" | "phi-2") => PreTokenizer::Gpt2,
            other => {
                let found = other.unwrap_or("none");
                *warning = Some(format!(
                    "the pre-tokenizer `{found}` of the model file is unknown; using that of GPT-2"
                ));
                PreTokenizer::Gpt2
            }
        };
        let mut vocabulary = Vocab::default();
        for (id, token) in (0..).zip(tokens) {
            vocabulary.entry(token.clone()).or_insert(id);
        }
        let mut pairs = Vec::with_capacity(merges.len());
        for merge in merges {
            // Spaces within tokens are encoded, so a space separates the pair. In some files the first
            // character is a literal space.
            match merge.char_indices().skip(1).find(|(_, character)| *character == ' ') {
                Some((at, _)) => pairs.push((merge[..at].to_owned(), merge[at + 1..].to_owned())),
                None => return Err(Error::Tokenizer(format!("its merge `{merge}` is not a pair"))),
            }
        }
        let model = BPE::builder()
            .vocab_and_merges(vocabulary, pairs)
            .ignore_merges(rule == PreTokenizer::Llama3)
            .build();
        let mut tokenizer = Tokenizer::new(model.map_err(unusable)?);
        tokenizer.with_pre_tokenizer(Some(pre_tokenizer(rule)?));
        Ok(ByteLevel { tokenizer, rule })
    }

    /// Returns whether models of this family begin every text with a special token.
    pub(super) fn adds_bos(&self) -> bool {
        self.rule == PreTokenizer::Llama3
    }

    pub(super) fn encode(&self, text: &str) -> Result<Vec<u32>, Error> {
        let encoding = self.tokenizer.encode_fast(text, false).map_err(unusable)?;
        Ok(encoding.get_ids().to_vec())
    }
}

fn pre_tokenizer(rule: PreTokenizer) -> Result<PreTokenizerWrapper, Error> {
    let split = |pattern: &str| {
        let pattern = SplitPattern::Regex(pattern.to_owned());
        let split = Split::new(pattern, SplitDelimiterBehavior::Isolated, false).map_err(unusable)?;
        Ok(Sequence::new(vec![split.into(), Bytes::new(false, true, false).into()]).into())
    };
    match rule {
        PreTokenizer::Gpt2 => Ok(Bytes::new(false, true, true).into()),
        PreTokenizer::SmolLm => {
            Ok(Sequence::new(vec![Digits::new(true).into(), Bytes::new(false, true, true).into()]).into())
        }
        PreTokenizer::Llama3 => split(LLAMA_3),
        PreTokenizer::Qwen2 => split(QWEN_2),
    }
}

fn unusable(error: tokenizers::Error) -> Error {
    Error::Tokenizer(error.to_string())
}

/// Decodes the characters of a token into bytes.
pub(super) fn bytes(token: &str) -> Vec<u8> {
    static BYTES: OnceLock<HashMap<char, u8>> = OnceLock::new();
    let table = BYTES.get_or_init(table);
    let mut bytes = Vec::with_capacity(token.len());
    for character in token.chars() {
        match table.get(&character) {
            Some(byte) => bytes.push(*byte),
            None => bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    bytes
}

/// Returns the GPT-2 byte encoding: printable bytes map to themselves, others to characters from U+0100.
fn table() -> HashMap<char, u8> {
    let mut next = 256;
    let mut table = HashMap::new();
    for byte in 0..=u8::MAX {
        let is_printable = matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
        let character = if is_printable {
            char::from(byte)
        } else {
            next += 1;
            char::from_u32(next - 1).unwrap_or(char::REPLACEMENT_CHARACTER)
        };
        table.insert(character, byte);
    }
    table
}
