//! Text to tokens and back, with the vocabulary of a GGUF file.
//!
//! Markers such as `<|im_start|>` are read as the special tokens they name only where the caller says so: what
//! a user wrote can never become one.

mod byte_level;
mod sentence;

use std::collections::HashMap;
use std::sync::Arc;

use toktrie::{TokEnv, TokRxInfo, TokTrie, TokenId, TokenizerEnv};

use crate::Error;
use crate::gguf::{Gguf, Value};
use byte_level::ByteLevel;
use sentence::Sentence;

/// Tokens that end an answer in one family of models or another, beside the one the file names.
const ENDINGS: [&str; 9] = [
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

/// Longer tokens are left out of what a grammar may choose: its trie takes no more. The longest in use are as
/// long as this.
const WORD_BYTES_MAX: usize = 1000;

/// The most bytes of all tokens together that the trie is sure to take; the largest vocabularies have half.
const WORDS_BYTES_MAX: usize = (1 << 22) - 1;

/// A piece of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Segment {
    /// Text of the template, in which markers stand for special tokens.
    Markup(String),
    /// Text that somebody wrote, in which markers are text like any other.
    Content(String),
}

/// Text to tokens and back.
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
    /// What is never taken apart, longest first.
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
    /// Whether it is also read in text that somebody wrote.
    always: bool,
}

/// What a file says a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Normal,
    Unknown,
    Control,
    UserDefined,
    Unused,
    Byte,
}

/// Text between special tokens, and those.
enum TextPiece {
    Text(String),
    Token(u32),
}

impl Tokenizer {
    /// Takes the tokenizer out of the metadata of a file.
    pub fn from_gguf(gguf: &Gguf) -> Result<Tokenizer, Error> {
        let Some(Value::Texts(tokens)) = gguf.value("tokenizer.ggml.tokens") else {
            return Err(Error::Tokenizer("it has no `tokenizer.ggml.tokens`".into()));
        };
        if tokens.is_empty() || u32::try_from(tokens.len()).is_err() {
            return Err(Error::Tokenizer(format!("a vocabulary of {} tokens is of no use", tokens.len())));
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
            endings(tokens, &kinds, id("tokenizer.ggml.eos_token_id"), id("tokenizer.ggml.eot_token_id"));
        let bos = id("tokenizer.ggml.bos_token_id");
        let trie = trie(&bytes, &kinds, bos, &eos)?;
        let add_bos = gguf.flag("tokenizer.ggml.add_bos_token").unwrap_or(bos_default);
        let markers = markers(tokens, &kinds);
        Ok(Tokenizer {
            inner: Arc::new(Inner { model, bytes, kinds, markers, bos, add_bos, eos, trie, warning }),
        })
    }

    /// The tokens of a text; markers in it are special tokens only if `parse_special`.
    pub fn encode(&self, text: &str, parse_special: bool) -> Result<Vec<u32>, Error> {
        let text = text.to_owned();
        self.encode_segments(&[if parse_special { Segment::Markup(text) } else { Segment::Content(text) }])
    }

    /// The tokens of a prompt. Text on both sides of a border between segments is one text, so the tokens are
    /// those the model was trained on.
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
        let mut fresh = true;
        for part in parts {
            match part {
                TextPiece::Token(token) => {
                    tokens.push(token);
                    fresh = true;
                }
                TextPiece::Text(text) => {
                    self.inner.plain(&text, fresh, &mut tokens)?;
                    fresh = false;
                }
            }
        }
        Ok(tokens)
    }

    /// The bytes a token stands for; none for a token that is not there.
    pub fn bytes(&self, token: u32) -> &[u8] {
        self.inner.bytes.get(token as usize).map_or(&[], Vec::as_slice)
    }

    /// The token whose text this marker is.
    pub fn marker(&self, text: &str) -> Option<u32> {
        self.inner.markers.iter().find(|marker| marker.text == text).map(|marker| marker.token)
    }

    /// Whether a token stands for something other than text.
    pub fn is_special(&self, token: u32) -> bool {
        let kind = self.inner.kinds.get(token as usize);
        matches!(kind, None | Some(Kind::Control | Kind::Unknown | Kind::Unused))
    }

    /// The tokens that end an answer; the first is the one the file names.
    pub fn eos_tokens(&self) -> &[u32] {
        &self.inner.eos
    }

    /// The token that begins a text, where there is one.
    pub fn bos(&self) -> Option<u32> {
        self.inner.bos
    }

    /// Whether every prompt begins with it.
    pub fn add_bos(&self) -> bool {
        self.inner.add_bos
    }

    /// How many tokens there are.
    pub fn vocabulary(&self) -> usize {
        self.inner.bytes.len()
    }

    /// What about the file's tokenizer is not known and was taken to be usual.
    pub fn warning(&self) -> Option<&str> {
        self.inner.warning.as_deref()
    }

    /// The vocabulary as the grammar wants it.
    pub fn token_env(&self) -> TokEnv {
        Arc::new(Environment { inner: Arc::clone(&self.inner) })
    }
}

impl Inner {
    /// Splits at markers, the longest first wherever they stand, as llama.cpp does.
    fn split(&self, text: &str, markup: bool) -> Vec<TextPiece> {
        let mut parts = vec![TextPiece::Text(text.to_owned())];
        for marker in self.markers.iter().filter(|marker| markup || marker.always) {
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

    fn plain(&self, text: &str, fresh: bool, tokens: &mut Vec<u32>) -> Result<(), Error> {
        match &self.model {
            Model::ByteLevel(model) => tokens.extend(model.encode(text)?),
            Model::Sentence(model) => model.encode(text, fresh, tokens),
        }
        Ok(())
    }
}

fn kinds(gguf: &Gguf, tokens: &[String]) -> Vec<Kind> {
    let given: &[i32] = match gguf.value("tokenizer.ggml.token_type") {
        Some(Value::Integers(given)) => given,
        _ => &[],
    };
    let kind = |index: usize| match given.get(index) {
        Some(2) => Kind::Unknown,
        Some(3) => Kind::Control,
        Some(4) => Kind::UserDefined,
        Some(5) => Kind::Unused,
        Some(6) => Kind::Byte,
        _ => Kind::Normal,
    };
    // Some files call the markers of a chat normal tokens; text must not be able to contain them.
    let marker = |index: usize| match kind(index) {
        Kind::Normal | Kind::UserDefined if ENDINGS.contains(&tokens[index].as_str()) => Kind::Control,
        kind => kind,
    };
    (0..tokens.len()).map(marker).collect()
}

fn markers(tokens: &[String], kinds: &[Kind]) -> Vec<Marker> {
    let mut markers: Vec<Marker> = Vec::new();
    for (token, (text, kind)) in (0..).zip(tokens.iter().zip(kinds)) {
        let always = match kind {
            Kind::UserDefined => true,
            Kind::Control | Kind::Unknown => false,
            _ => continue,
        };
        if !text.is_empty() {
            markers.push(Marker { text: text.clone(), token, always });
        }
    }
    markers.sort_by_key(|marker| std::cmp::Reverse(marker.text.len()));
    markers
}

fn endings(tokens: &[String], kinds: &[Kind], eos: Option<u32>, eot: Option<u32>) -> Vec<u32> {
    let mut endings: Vec<u32> = eos.into_iter().chain(eot).collect();
    let ids: HashMap<&str, u32> = (0..)
        .zip(tokens.iter().zip(kinds))
        .filter(|(_, (_, kind))| matches!(kind, Kind::Control | Kind::Unknown | Kind::UserDefined))
        .map(|(id, (token, _))| (token.as_str(), id))
        .collect();
    endings.extend(ENDINGS.iter().filter_map(|ending| ids.get(ending)));
    let mut seen = std::collections::HashSet::new();
    endings.retain(|ending| seen.insert(*ending));
    endings
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
        return Err(Error::Tokenizer("it names no token that ends an answer".into()));
    };
    let size =
        u32::try_from(words.len()).map_err(|_| Error::Tokenizer("its vocabulary is too large".into()))?;
    let mut info = TokRxInfo::new(size, *eos_token);
    info.tok_bos = bos;
    Ok(TokTrie::from(&info, &words))
}

/// The vocabulary as the grammar wants it.
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
            // In the middle of an answer no space is put in front.
            match self.inner.plain(text, false, &mut tokens) {
                Ok(()) => tokens,
                Err(_) => self.inner.trie.greedy_tokenize(text.as_bytes()),
            }
        })
    }
}

#[cfg(test)]
mod tests;
