//! Detects repetitions in constrained output and forces their end.
//!
//! Small models tend to repeat the same words or the same array item. At a repetition, the guard restricts the
//! next token to those that close the string or the container. It also prevents duplicate member names, which a
//! grammar cannot exclude for free names.

use toktrie::{SimpleVob, TokTrie};

use crate::json_state::JsonState;

/// The longest period that is detected, in tokens.
const PERIOD_MAX: usize = 64;

/// The number of consecutive occurrences that count as a repetition, for short and for long periods.
const TIMES: usize = 4;
const TIMES_LONG: usize = 3;

/// The shortest long period, in tokens.
const LONG: usize = 8;

/// The shortest repetition, in tokens. Shorter ones such as `000` are legitimate.
const TOKENS_MIN: usize = 16;

/// Detects repetitions in constrained output.
pub(crate) struct RepetitionGuard {
    /// Tokens that begin with a quote.
    quotes: SimpleVob,
    /// Tokens that begin with a closing bracket or brace.
    brackets: SimpleVob,
    state: JsonState,
    /// For each token, whether a string began or ended in it.
    string_boundaries: Vec<bool>,
}

impl RepetitionGuard {
    pub(crate) fn new(trie: &TokTrie) -> RepetitionGuard {
        let starting_with = |bytes: &[u8]| {
            let mut set = trie.alloc_token_set();
            for token in 0..trie.vocab_size() as u32 {
                if trie.token(token).first().is_some_and(|first| bytes.contains(first)) {
                    set.allow_token(token);
                }
            }
            set
        };
        RepetitionGuard {
            quotes: starting_with(b"\""),
            brackets: starting_with(b"]}"),
            state: JsonState::default(),
            string_boundaries: Vec::new(),
        }
    }

    /// Records the bytes of the next decoded token.
    pub(crate) fn record(&mut self, bytes: &[u8]) {
        let has_boundary = self.state.advance(bytes).string_boundary;
        self.string_boundaries.push(has_boundary);
    }

    /// Returns whether a token with these bytes would complete a duplicate member name.
    pub(crate) fn repeats_name(&self, bytes: &[u8]) -> bool {
        self.state.would_repeat_name(bytes)
    }

    /// Returns the allowed tokens that end a repetition, if `tokens` end in one and `mask` permits its end.
    pub(crate) fn ending_mask(&self, tokens: &[u32], mask: &SimpleVob) -> Option<SimpleVob> {
        let length = repetition(tokens)?;
        let has_boundary = self.string_boundaries.iter().rev().take(length).any(|boundary| *boundary);
        // Repeated words end with their string, repeated items with their array.
        let ends = match (self.state.is_in_string(), has_boundary) {
            (true, false) => &self.quotes,
            (false, _) => &self.brackets,
            (true, true) => return None,
        };
        let mut allowed = mask.clone();
        allowed.and(ends);
        (!allowed.is_zero()).then_some(allowed)
    }
}

/// Returns the length of the repetition at the end of `tokens`, if there is one.
fn repetition(tokens: &[u32]) -> Option<usize> {
    (1..=PERIOD_MAX).find_map(|period| {
        let times = if period < LONG { TIMES } else { TIMES_LONG };
        let length = (period * times).max(TOKENS_MIN);
        let tail = tokens.get(tokens.len().checked_sub(length)?..)?;
        tail.iter().zip(&tail[period..]).all(|(one, next)| one == next).then_some(length)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetition_below_the_minimum_is_not_detected() {
        let repeated = |part: &[u32], times: usize| part.repeat(times);
        assert_eq!(repetition(&repeated(&[7], 15)), None);
        assert_eq!(repetition(&repeated(&[7], 16)), Some(16));
        assert_eq!(repetition(&[repeated(&[9, 8], 3), repeated(&[1, 2, 3, 4, 5], 4)].concat()), Some(20));
        assert_eq!(repetition(&repeated(&[1, 2, 3, 4, 5], 3)), None);
        let long: Vec<u32> = (0..25).collect();
        assert_eq!(repetition(&repeated(&long, 2)), None);
        assert_eq!(repetition(&repeated(&long, 3)), Some(75));
        let longer: Vec<u32> = (0..65).collect();
        assert_eq!(repetition(&repeated(&longer, 4)), None);
    }
}
