//! Converts text to tokens and back, with the vocabulary of a GGUF file.
//!
//! Markers such as `<|im_start|>` become special tokens only in the template's own text. User text cannot inject
//! chat-template control tokens.
//!
//! - `byte_level`: byte-pair encoding (GPT-2, Llama 3, Qwen); `sentence`: SentencePiece (Llama 2, Mistral).

mod byte_level;
mod sentence;

use std::collections::HashMap;
use std::sync::Arc;

use toktrie::{TokEnv, TokRxInfo, TokTrie, TokenId, TokenizerEnv};

use crate::Error;
use crate::gguf::{Gguf, Value};
use byte_level::ByteLevel;
use sentence::Sentence;

/// Tokens that end an answer in common model families, besides the one named in the file.
const END_MARKERS: [&str; 9] = [
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|end|>",
    "<end_of_turn>",
    "<|end_of_turn|>",
    "</s>",
];

/// The longest token that a grammar may select, in bytes: a limit of the trie. Real vocabularies reach it.
const WORD_BYTES_MAX: usize = 1000;

/// The largest total size of all tokens, in bytes: a limit of the trie. The largest vocabularies have half.
const WORDS_BYTES_MAX: usize = (1 << 22) - 1;

/// A part of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Segment {
    /// Text of the template, in which markers become special tokens.
    Markup(String),
    /// Text of a user, a tool or an agent, in which markers stay text.
    Content(String),
}

/// A tokenizer. Clones share the vocabulary.
#[derive(Clone)]
pub struct Tokenizer {
    inner: Arc<Inner>,
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Tokenizer({} tokens)", self.vocabulary())
    }
}

struct Inner {
    model: Model,
    bytes: Vec<Vec<u8>>,
    kinds: Vec<Kind>,
    /// Texts that are encoded as one token, longest first.
    markers: Vec<Marker>,
    bos: Option<u32>,
    add_bos: bool,
    eos: Vec<u32>,
    trie: TokTrie,
    warning: Option<String>,
}

#[derive(Debug)]
enum Model {
    ByteLevel(Box<ByteLevel>),
    Sentence(Sentence),
}

#[derive(Debug)]
struct Marker {
    text: String,
    token: u32,
    /// Whether the marker is also recognised in content.
    is_in_content: bool,
}

/// The type of a token, from `tokenizer.ggml.token_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Normal,
    Unknown,
    Control,
    UserDefined,
    Unused,
    Byte,
}

/// A special token, or the text between two of them.
enum TextPiece {
    Text(String),
    Token(u32),
}

impl Tokenizer {
    /// Creates the tokenizer from the metadata of a file.
    ///
    /// # Errors
    /// Fails if the metadata is incomplete or of an unsupported type.
    pub fn from_gguf(gguf: &Gguf) -> Result<Tokenizer, Error> {
        let Some(Value::Texts(tokens)) = gguf.value("tokenizer.ggml.tokens") else {
            return Err(Error::Tokenizer("it has no `tokenizer.ggml.tokens`".into()));
        };
        if tokens.is_empty() || u32::try_from(tokens.len()).is_err() {
            return Err(Error::Tokenizer(format!("its vocabulary has {} tokens", tokens.len())));
        }
        let kinds = kinds(gguf, tokens);
        let mut warning = None;
        let (model, bytes, bos_default) = match gguf.text("tokenizer.ggml.model") {
            Some("gpt2") => {
                let model = ByteLevel::read(gguf, tokens, &mut warning)?;
                let bytes = tokens.iter().zip(&kinds).map(|(token, kind)| match kind {
                    Kind::Normal | Kind::Byte => byte_level::bytes(token),
                    _ => token.clone().into_bytes(),
                });
                let bos = model.adds_bos();
                (Model::ByteLevel(Box::new(model)), bytes.collect::<Vec<_>>(), bos)
            }
            Some("llama") => {
                let bytes = tokens.iter().zip(&kinds).map(|(token, kind)| match kind {
                    Kind::Byte => sentence::byte(token).map_or_else(Vec::new, |byte| vec![byte]),
                    Kind::Normal | Kind::UserDefined => token.replace(sentence::SPACE, " ").into_bytes(),
                    _ => token.clone().into_bytes(),
                });
                (Model::Sentence(Sentence::read(gguf, tokens)?), bytes.collect(), true)
            }
            other => {
                let found = other.unwrap_or("none");
                return Err(Error::Tokenizer(format!(
                    "it is of the type `{found}`; supported are `gpt2` and `llama`"
                )));
            }
        };
        let id =
            |key: &str| gguf.count(key).filter(|id| *id < tokens.len()).and_then(|id| u32::try_from(id).ok());
        let eos =
            end_tokens(tokens, &kinds, id("tokenizer.ggml.eos_token_id"), id("tokenizer.ggml.eot_token_id"));
        let bos = id("tokenizer.ggml.bos_token_id");
        let trie = trie(&bytes, &kinds, bos, &eos)?;
        let add_bos = gguf.flag("tokenizer.ggml.add_bos_token").unwrap_or(bos_default);
        let markers = markers(tokens, &kinds);
        Ok(Tokenizer {
            inner: Arc::new(Inner { model, bytes, kinds, markers, bos, add_bos, eos, trie, warning }),
        })
    }

    /// Encodes a text. Markers become special tokens only if `parse_special` is set.
    pub fn encode(&self, text: &str, parse_special: bool) -> Result<Vec<u32>, Error> {
        let text = text.to_owned();
        self.encode_segments(&[if parse_special { Segment::Markup(text) } else { Segment::Content(text) }])
    }

    /// Encodes a prompt. Adjacent text of different segments is encoded together, as in the model's training.
    pub fn encode_segments(&self, segments: &[Segment]) -> Result<Vec<u32>, Error> {
        let mut parts: Vec<TextPiece> = Vec::new();
        for segment in segments {
            let (text, markup) = match segment {
                Segment::Markup(text) => (text, true),
                Segment::Content(text) => (text, false),
            };
            for part in self.inner.split(text, markup) {
                match (parts.last_mut(), part) {
                    (Some(TextPiece::Text(before)), TextPiece::Text(text)) => before.push_str(&text),
                    (_, part) => parts.push(part),
                }
            }
        }
        let mut tokens = Vec::new();
        let mut is_start = true;
        for part in parts {
            match part {
                TextPiece::Token(token) => {
                    tokens.push(token);
                    is_start = true;
                }
                TextPiece::Text(text) => {
                    self.inner.encode_text(&text, is_start, &mut tokens)?;
                    is_start = false;
                }
            }
        }
        Ok(tokens)
    }

    /// Returns the bytes of a token; empty if the id is not in the vocabulary.
    pub fn bytes(&self, token: u32) -> &[u8] {
        self.inner.bytes.get(token as usize).map_or(&[], Vec::as_slice)
    }

    /// Returns the token of a marker.
    pub fn marker(&self, text: &str) -> Option<u32> {
        self.inner.markers.iter().find(|marker| marker.text == text).map(|marker| marker.token)
    }

    /// Returns whether a token is a control token and not text.
    pub fn is_special(&self, token: u32) -> bool {
        let kind = self.inner.kinds.get(token as usize);
        matches!(kind, None | Some(Kind::Control | Kind::Unknown | Kind::Unused))
    }

    /// Returns the tokens that end an answer. The first is the one named in the file.
    pub fn eos_tokens(&self) -> &[u32] {
        &self.inner.eos
    }

    /// Returns the token that begins a text, if the file names one.
    pub fn bos(&self) -> Option<u32> {
        self.inner.bos
    }

    /// Returns whether every prompt must begin with [`Tokenizer::bos`].
    pub fn add_bos(&self) -> bool {
        self.inner.add_bos
    }

    /// Returns the number of tokens.
    pub fn vocabulary(&self) -> usize {
        self.inner.bytes.len()
    }

    /// Returns a message if the file names an unknown pre-tokenizer, for which a default is used.
    pub fn warning(&self) -> Option<&str> {
        self.inner.warning.as_deref()
    }

    /// Returns the vocabulary in the form that `llguidance` uses.
    pub fn token_env(&self) -> TokEnv {
        Arc::new(Environment { inner: Arc::clone(&self.inner) })
    }
}

impl Inner {
    /// Splits a text at markers, longest marker first, as llama.cpp does.
    fn split(&self, text: &str, markup: bool) -> Vec<TextPiece> {
        let mut parts = vec![TextPiece::Text(text.to_owned())];
        for marker in self.markers.iter().filter(|marker| markup || marker.is_in_content) {
            if !parts.iter().any(|part| matches!(part, TextPiece::Text(text) if text.contains(&marker.text)))
            {
                continue;
            }
            let mut split = Vec::new();
            for part in parts {
                let TextPiece::Text(text) = part else {
                    split.push(part);
                    continue;
                };
                for (index, piece) in text.split(&marker.text).enumerate() {
                    if index > 0 {
                        split.push(TextPiece::Token(marker.token));
                    }
                    if !piece.is_empty() {
                        split.push(TextPiece::Text(piece.to_owned()));
                    }
                }
            }
            parts = split;
        }
        parts.retain(|part| !matches!(part, TextPiece::Text(text) if text.is_empty()));
        parts
    }

    /// Encodes text without markers. `is_start` is set at the beginning and after special tokens.
    fn encode_text(&self, text: &str, is_start: bool, tokens: &mut Vec<u32>) -> Result<(), Error> {
        match &self.model {
            Model::ByteLevel(model) => tokens.extend(model.encode(text)?),
            Model::Sentence(model) => model.encode(text, is_start, tokens),
        }
        Ok(())
    }
}

fn kinds(gguf: &Gguf, tokens: &[String]) -> Vec<Kind> {
    let types: &[i32] = match gguf.value("tokenizer.ggml.token_type") {
        Some(Value::Integers(types)) => types,
        _ => &[],
    };
    let kind = |index: usize| match types.get(index) {
        Some(2) => Kind::Unknown,
        Some(3) => Kind::Control,
        Some(4) => Kind::UserDefined,
        Some(5) => Kind::Unused,
        Some(6) => Kind::Byte,
        _ => Kind::Normal,
    };
    // Some files declare chat markers as normal tokens. As control tokens, content cannot inject them.
    let marker = |index: usize| match kind(index) {
        Kind::Normal | Kind::UserDefined if END_MARKERS.contains(&tokens[index].as_str()) => Kind::Control,
        kind => kind,
    };
    (0..tokens.len()).map(marker).collect()
}

fn markers(tokens: &[String], kinds: &[Kind]) -> Vec<Marker> {
    let mut markers: Vec<Marker> = Vec::new();
    for (token, (text, kind)) in (0..).zip(tokens.iter().zip(kinds)) {
        let is_in_content = match kind {
            Kind::UserDefined => true,
            Kind::Control | Kind::Unknown => false,
            _ => continue,
        };
        if !text.is_empty() {
            markers.push(Marker { text: text.clone(), token, is_in_content });
        }
    }
    markers.sort_by_key(|marker| std::cmp::Reverse(marker.text.len()));
    markers
}

fn end_tokens(tokens: &[String], kinds: &[Kind], eos: Option<u32>, eot: Option<u32>) -> Vec<u32> {
    let mut ends: Vec<u32> = eos.into_iter().chain(eot).collect();
    let ids: HashMap<&str, u32> = (0..)
        .zip(tokens.iter().zip(kinds))
        .filter(|(_, (_, kind))| matches!(kind, Kind::Control | Kind::Unknown | Kind::UserDefined))
        .map(|(id, (token, _))| (token.as_str(), id))
        .collect();
    ends.extend(END_MARKERS.iter().filter_map(|marker| ids.get(marker)));
    let mut seen = std::collections::HashSet::new();
    ends.retain(|token| seen.insert(*token));
    ends
}

fn trie(bytes: &[Vec<u8>], kinds: &[Kind], bos: Option<u32>, eos: &[u32]) -> Result<TokTrie, Error> {
    let words: Vec<Vec<u8>> = bytes
        .iter()
        .zip(kinds)
        .map(|(bytes, kind)| match kind {
            Kind::Control | Kind::Unknown | Kind::Unused => {
                let mut word = vec![TokTrie::SPECIAL_TOKEN_MARKER];
                word.extend_from_slice(bytes);
                word
            }
            _ => bytes.clone(),
        })
        .map(|word| if word.len() > WORD_BYTES_MAX { Vec::new() } else { word })
        .collect();
    let total: usize = words.iter().map(Vec::len).sum();
    if total > WORDS_BYTES_MAX {
        return Err(Error::Tokenizer(format!("its tokens have {total} bytes, more than {WORDS_BYTES_MAX}")));
    }
    let Some(eos_token) = eos.first() else {
        return Err(Error::Tokenizer("it has no token that ends an answer".into()));
    };
    let size =
        u32::try_from(words.len()).map_err(|_| Error::Tokenizer("its vocabulary is too large".into()))?;
    let mut info = TokRxInfo::new(size, *eos_token);
    info.tok_bos = bos;
    Ok(TokTrie::from(&info, &words))
}

/// Implements the tokenizer interface of `llguidance`.
struct Environment {
    inner: Arc<Inner>,
}

impl TokenizerEnv for Environment {
    fn tok_trie(&self) -> &TokTrie {
        &self.inner.trie
    }

    fn tokenize_bytes(&self, text: &[u8]) -> Vec<TokenId> {
        self.inner.trie.tokenize_with_greedy_fallback(text, |text| {
            let mut tokens = Vec::new();
            // Inside an answer, SentencePiece must not add its leading space.
            match self.inner.encode_text(text, false, &mut tokens) {
                Ok(()) => tokens,
                Err(_) => self.inner.trie.greedy_tokenize(text.as_bytes()),
            }
        })
    }
}

#[cfg(test)]
mod tests;
