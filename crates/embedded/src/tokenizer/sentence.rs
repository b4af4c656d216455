//! SentencePiece with scores, as in Llama 2, Mistral and TinyLlama.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};

use crate::Error;
use crate::gguf::{Gguf, Value};

/// The character that encodes a space within a token.
pub(super) const SPACE: char = '\u{2581}';

/// Repeatedly merges the adjacent pieces whose union is the token with the best score.
#[derive(Debug)]
pub(super) struct Sentence {
    ids: HashMap<String, u32>,
    scores: Vec<f32>,
    bytes: HashMap<u8, u32>,
    unknown: u32,
    space_prefix: bool,
}

/// A piece of the text in a linked list. A piece merged into its left neighbour is empty.
struct Piece {
    start: usize,
    end: usize,
    before: Option<usize>,
    after: Option<usize>,
}

/// Two adjacent pieces whose union is a token.
#[derive(PartialEq)]
struct Merge {
    score: f32,
    left: usize,
    right: usize,
    size: usize,
}

impl Eq for Merge {}

impl PartialOrd for Merge {
    fn partial_cmp(&self, other: &Merge) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Merge {
    fn cmp(&self, other: &Merge) -> Ordering {
        self.score.total_cmp(&other.score).then(other.left.cmp(&self.left))
    }
}

impl Sentence {
    pub(super) fn read(gguf: &Gguf, tokens: &[String]) -> Result<Sentence, Error> {
        let scores = match gguf.value("tokenizer.ggml.scores") {
            Some(Value::Floats(scores)) if scores.len() == tokens.len() => scores.clone(),
            _ => return Err(Error::Tokenizer("it has no score for every token".into())),
        };
        let mut ids = HashMap::new();
        let mut bytes = HashMap::new();
        for (id, token) in (0..).zip(tokens) {
            ids.entry(token.clone()).or_insert(id);
            if let Some(byte) = byte(token) {
                bytes.entry(byte).or_insert(id);
            }
        }
        let unknown =
            gguf.count("tokenizer.ggml.unknown_token_id").and_then(|id| u32::try_from(id).ok()).unwrap_or(0);
        let space_prefix = gguf.flag("tokenizer.ggml.add_space_prefix").unwrap_or(true);
        Ok(Sentence { ids, scores, bytes, unknown, space_prefix })
    }

    /// Appends the tokens of a text. `is_start` is set at the beginning and after special tokens.
    pub(super) fn encode(&self, text: &str, is_start: bool, tokens: &mut Vec<u32>) {
        let mut escaped = String::with_capacity(text.len() + 3);
        if is_start && self.space_prefix {
            escaped.push(SPACE);
        }
        escaped.extend(text.chars().map(|character| if character == ' ' { SPACE } else { character }));
        let pieces = self.merge(&escaped);
        let mut next = (!pieces.is_empty()).then_some(0);
        while let Some(index) = next {
            let piece = &pieces[index];
            let text = &escaped[piece.start..piece.end];
            match self.ids.get(text) {
                Some(id) => tokens.push(*id),
                None => {
                    let id = |byte: u8| self.bytes.get(&byte).copied().unwrap_or(self.unknown);
                    tokens.extend(text.bytes().map(id));
                }
            }
            next = piece.after;
        }
    }

    fn merge(&self, text: &str) -> Vec<Piece> {
        let count = text.chars().count();
        let mut pieces: Vec<Piece> = text
            .char_indices()
            .enumerate()
            .map(|(index, (start, character))| Piece {
                start,
                end: start + character.len_utf8(),
                before: index.checked_sub(1),
                after: (index + 1 < count).then_some(index + 1),
            })
            .collect();
        let mut merges = BinaryHeap::new();
        for index in 1..pieces.len() {
            merges.extend(self.candidate(text, &pieces, index - 1, index));
        }
        while let Some(Merge { left, right, size, .. }) = merges.pop() {
            let length = |piece: &Piece| piece.end - piece.start;
            let (one, other) = (length(&pieces[left]), length(&pieces[right]));
            // One of the pieces was merged with another neighbour in the meantime.
            if one == 0 || other == 0 || one + other != size {
                continue;
            }
            pieces[left].end = pieces[right].end;
            pieces[right].end = pieces[right].start;
            let after = pieces[right].after;
            pieces[left].after = after;
            if let Some(after) = after {
                pieces[after].before = Some(left);
                merges.extend(self.candidate(text, &pieces, left, after));
            }
            if let Some(before) = pieces[left].before {
                merges.extend(self.candidate(text, &pieces, before, left));
            }
        }
        pieces
    }

    fn candidate(&self, text: &str, pieces: &[Piece], left: usize, right: usize) -> Option<Merge> {
        let union = &text[pieces[left].start..pieces[right].end];
        let id = *self.ids.get(union)?;
        let score = *self.scores.get(id as usize)?;
        Some(Merge { score, left, right, size: union.len() })
    }
}

/// Parses a byte token such as `<0x0A>`.
pub(super) fn byte(token: &str) -> Option<u8> {
    let digits = token.strip_prefix("<0x")?.strip_suffix('>')?;
    (digits.len() == 2).then(|| u8::from_str_radix(digits, 16).ok()).flatten()
}
