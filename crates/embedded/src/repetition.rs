//! Weak models fall into loops: the same words, or the same item, over and over until something stops them.
//! The loop sees the grammar's end of what repeats and takes it. Names of members never repeat: a grammar cannot
//! forbid that where names are free.

use toktrie::{SimpleVob, TokTrie};

use crate::outline::Outline;

/// The longest part that is looked for, in tokens.
const PERIOD_MAX: usize = 64;

/// How often a part has to come in a row, and how often a long one.
const TIMES: usize = 4;
const TIMES_LONG: usize = 3;

/// From how many tokens on a part is long.
const LONG: usize = 8;

/// The fewest tokens that have to be a repetition: short ones such as `000` mean something.
const TOKENS_MIN: usize = 16;

/// Watches an answer under a grammar for repetitions.
pub(crate) struct Watcher {
    /// Tokens that begin with a quote, and those that begin with a bracket that ends something.
    quotes: SimpleVob,
    brackets: SimpleVob,
    outline: Outline,
    /// For each token, whether a string began or ended in it.
    turns: Vec<bool>,
}

impl Watcher {
    pub(crate) fn new(trie: &TokTrie) -> Watcher {
        let beginning = |bytes: &[u8]| {
            let mut set = trie.alloc_token_set();
            for token in 0..trie.vocab_size() as u32 {
                if trie.token(token).first().is_some_and(|first| bytes.contains(first)) {
                    set.allow_token(token);
                }
            }
            set
        };
        Watcher {
            quotes: beginning(b"\""),
            brackets: beginning(b"]}"),
            outline: Outline::default(),
            turns: Vec::new(),
        }
    }

    /// One more token was written.
    pub(crate) fn see(&mut self, bytes: &[u8]) {
        let turned = self.outline.see(bytes).turned;
        self.turns.push(turned);
    }

    /// Whether a token with these bytes would give a member the name of another.
    pub(crate) fn repeats_name(&self, bytes: &[u8]) -> bool {
        self.outline.would_repeat_name(bytes)
    }

    /// The tokens to keep to where `tokens` end in a repetition that the grammar allows to end here.
    pub(crate) fn way_out(&self, tokens: &[u32], mask: &SimpleVob) -> Option<SimpleVob> {
        let length = repetition(tokens)?;
        let turns = self.turns.iter().rev().take(length).any(|turned| *turned);
        // Words that repeat end with their string, items that repeat end with their array.
        let ends = match (self.outline.inside_string(), turns) {
            (true, false) => &self.quotes,
            (false, _) => &self.brackets,
            (true, true) => return None,
        };
        let mut allowed = mask.clone();
        allowed.and(ends);
        (!allowed.is_zero()).then_some(allowed)
    }
}

/// How many tokens at the end are one part again and again.
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
    fn only_long_repetitions_count() {
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
