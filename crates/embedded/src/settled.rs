//! Reports the text of an answer while it is decoded.

use crate::decode::Decoding;
use crate::tokenizer::Tokenizer;

/// Receives the progress of an answer. Closures receive the number of tokens only.
pub trait Progress {
    /// Receives the number of tokens decoded so far.
    fn tokens(&mut self, total: usize);

    /// Receives the next piece of the text. The answer begins with all pieces: none is taken back.
    fn text(&mut self, piece: &str) {
        let _ = piece;
    }
}

impl<F: FnMut(usize)> Progress for F {
    fn tokens(&mut self, total: usize) {
        self(total);
    }
}

/// Turns settled tokens into pieces of text.
pub(crate) struct SettledText<'t> {
    tokenizer: &'t Tokenizer,
    /// Whether pieces are reported. The text of calls, and text that a check may still reject, is not.
    is_reported: bool,
    /// The number of tokens that were read.
    read: usize,
    /// Bytes of a character whose rest is not decoded yet.
    pending: Vec<u8>,
}

impl<'t> SettledText<'t> {
    pub(crate) fn new(tokenizer: &'t Tokenizer, is_reported: bool) -> SettledText<'t> {
        SettledText { tokenizer, is_reported, read: 0, pending: Vec::new() }
    }

    /// Reports how far an answer is.
    pub(crate) fn report(&mut self, decoding: Decoding<'_>, progress: &mut dyn Progress) {
        progress.tokens(decoding.tokens);
        if !self.is_reported {
            return;
        }
        for token in decoding.settled.get(self.read..).unwrap_or_default() {
            if !self.tokenizer.is_special(*token) {
                self.pending.extend(self.tokenizer.bytes(*token));
            }
        }
        self.read = decoding.settled.len();
        // Bytes that are no character stay, and the text after them: the answer replaces them at its end.
        let complete = match std::str::from_utf8(&self.pending) {
            Ok(text) => text.len(),
            Err(error) => error.valid_up_to(),
        };
        let rest = self.pending.split_off(complete);
        let piece = std::mem::replace(&mut self.pending, rest);
        if let Ok(piece) = String::from_utf8(piece)
            && !piece.is_empty()
        {
            progress.text(&piece);
        }
    }
}
