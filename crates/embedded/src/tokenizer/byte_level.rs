//! Byte-pair encoding over bytes, as in GPT-2 and most models since.

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

/// How text is cut into words before pairs are merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    Gpt2,
    SmolLm,
    Llama3,
    Qwen2,
}

/// Byte-pair encoding over bytes.
#[derive(Debug)]
pub(super) struct ByteLevel {
    tokenizer: Tokenizer,
    cut: Cut,
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
        let cut = match gguf.text("tokenizer.ggml.pre") {
            Some("smollm" | "codeshell" | "refact" | "command-r" | "exaone" | "minerva-7b") => Cut::SmolLm,
            Some("llama-bpe" | "llama3" | "llama-v3" | "falcon3" | "dbrx" | "smaug-bpe" | "pixtral") => {
                Cut::Llama3
            }
            Some("qwen2" | "deepseek-r1-qwen" | "stablelm2" | "megrez") => Cut::Qwen2,
            Some("gpt-2" | "gpt2" | "mpt" | "olmo" | "jais" | "phi-2") => Cut::Gpt2,
            other => {
                let found = other.unwrap_or("none");
                *warning = Some(format!(
                    "the pre-tokenizer `{found}` of the model file is not known; text is cut into words as GPT-2 does"
                ));
                Cut::Gpt2
            }
        };
        let mut vocabulary = Vocab::default();
        for (id, token) in (0..).zip(tokens) {
            vocabulary.entry(token.clone()).or_insert(id);
        }
        let mut pairs = Vec::with_capacity(merges.len());
        for merge in merges {
            // A space within a token is written otherwise, so the only one is between the two; the first
            // character may be a literal space in files that do not follow this.
            match merge.char_indices().skip(1).find(|(_, character)| *character == ' ') {
                Some((at, _)) => pairs.push((merge[..at].to_owned(), merge[at + 1..].to_owned())),
                None => return Err(Error::Tokenizer(format!("its merge `{merge}` is not a pair"))),
            }
        }
        let model =
            BPE::builder().vocab_and_merges(vocabulary, pairs).ignore_merges(cut == Cut::Llama3).build();
        let mut tokenizer = Tokenizer::new(model.map_err(unusable)?);
        tokenizer.with_pre_tokenizer(Some(cutter(cut)?));
        Ok(ByteLevel { tokenizer, cut })
    }

    /// Whether such models begin every text with a token of their own.
    pub(super) fn adds_bos(&self) -> bool {
        self.cut == Cut::Llama3
    }

    pub(super) fn encode(&self, text: &str) -> Result<Vec<u32>, Error> {
        let encoding = self.tokenizer.encode_fast(text, false).map_err(unusable)?;
        Ok(encoding.get_ids().to_vec())
    }
}

fn cutter(cut: Cut) -> Result<PreTokenizerWrapper, Error> {
    let split = |pattern: &str| {
        let pattern = SplitPattern::Regex(pattern.to_owned());
        let split = Split::new(pattern, SplitDelimiterBehavior::Isolated, false).map_err(unusable)?;
        Ok(Sequence::new(vec![split.into(), Bytes::new(false, true, false).into()]).into())
    };
    match cut {
        Cut::Gpt2 => Ok(Bytes::new(false, true, true).into()),
        Cut::SmolLm => {
            Ok(Sequence::new(vec![Digits::new(true).into(), Bytes::new(false, true, true).into()]).into())
        }
        Cut::Llama3 => split(LLAMA_3),
        Cut::Qwen2 => split(QWEN_2),
    }
}

fn unusable(error: tokenizers::Error) -> Error {
    Error::Tokenizer(error.to_string())
}

/// The bytes that a token's characters stand for.
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

/// Printable bytes are written as themselves, the others as the characters from 256 on.
fn table() -> HashMap<char, u8> {
    let mut next = 256;
    let mut table = HashMap::new();
    for byte in 0..=u8::MAX {
        let printable = matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
        let character = if printable {
            char::from(byte)
        } else {
            next += 1;
            char::from_u32(next - 1).unwrap_or(char::REPLACEMENT_CHARACTER)
        };
        table.insert(character, byte);
    }
    table
}
