//! The shortest way from anywhere in an answer to its end.

use llguidance::Matcher;
use toktrie::{SimpleVob, TokTrie};

/// The most tokens of a closing. Grammars are bounded, so a longer one is never needed in practice.
pub const CLOSING_TOKENS_MAX: usize = 2_000;

/// What is tried where the answer must go on, best first. Whatever ends something comes before whatever
/// begins something, and what is likely to satisfy a pattern comes before the rest.
const PREFERRED: &[&str] = &[
    "}", "]", "\"", "\"}", "\"]", "null", "false", "true", "0", "1", "[", "{", "a", ":", ": ", ",", ", ", ".", "-",
    "@", "/", "_", "x", "A", "e", "n", "2", "3", "4", "5", "6", "7", "8", "9", " ", "+", "#", "Z", "T", "P", "D",
];

/// How far ahead the end of a string with a pattern is searched for, in tokens.
const SEARCH_DEPTH: usize = 5;

/// How many states that search may visit.
const SEARCH_STATES: usize = 160;

/// Tokens that complete an answer from where `matcher` stands; nothing when no way is found.
pub fn close(matcher: &Matcher) -> Option<Vec<u32>> {
    let mut matcher = matcher.clone();
    let env = matcher.tok_env().ok()?;
    let trie = env.tok_trie();
    let preferred: Vec<u32> = PREFERRED.iter().filter_map(|text| trie.token_id(text.as_bytes())).collect();
    let mut closing = Vec::new();
    while closing.len() < CLOSING_TOKENS_MAX {
        if matcher.is_stopped() || matcher.is_accepting().ok()? {
            return Some(closing);
        }
        let step = next(&mut matcher, trie, &preferred)?;
        matcher.consume_tokens(&step).ok()?;
        closing.extend(step);
    }
    None
}

/// The next tokens of the closing.
fn next(matcher: &mut Matcher, trie: &TokTrie, preferred: &[u32]) -> Option<Vec<u32>> {
    let forced = matcher.compute_ff_tokens();
    if !forced.is_empty() {
        return Some(forced);
    }
    let mask = matcher.compute_mask().ok()?;
    let ends = preferred.get(..5).unwrap_or(preferred);
    if let Some(token) = ends.iter().find(|token| mask.is_allowed(**token)) {
        return Some(vec![*token]);
    }
    let options = candidates(&mask, trie, preferred);
    let first = *options.first()?;
    if options.len() == 1 || !inside_shape(&mask, trie) {
        return Some(vec![first]);
    }
    Some(search(matcher, trie, preferred).unwrap_or_else(|| vec![first]))
}

/// Whether the answer stands inside something that takes some characters and cannot end here.
fn inside_shape(mask: &SimpleVob, trie: &TokTrie) -> bool {
    let allows = |text: &str| trie.token_id(text.as_bytes()).is_some_and(|token| mask.is_allowed(token));
    !allows("{") && !allows("[") && !allows("null") && !allows("true")
}

/// The tokens to try: the preferred ones that are allowed, else the shortest of the others.
fn candidates(mask: &SimpleVob, trie: &TokTrie, preferred: &[u32]) -> Vec<u32> {
    let mut found: Vec<u32> = preferred.iter().copied().filter(|token| mask.is_allowed(*token)).collect();
    if found.is_empty() {
        let mut others: Vec<u32> = Vec::new();
        mask.iter_set_entries(|token| others.push(token as u32));
        others.retain(|token| *token != trie.eos_token());
        others.sort_by_key(|token| trie.token_len(*token));
        others.truncate(16);
        found = others;
    }
    found
}

/// The shortest way to where a string can end, within a few tokens.
fn search(matcher: &mut Matcher, trie: &TokTrie, preferred: &[u32]) -> Option<Vec<u32>> {
    let quote = trie.token_id(b"\"")?;
    let mut ways: Vec<Vec<u32>> = vec![Vec::new()];
    let mut visited = 0;
    for _ in 0..SEARCH_DEPTH {
        let mut longer = Vec::new();
        for way in ways {
            visited += 1;
            if visited > SEARCH_STATES {
                return None;
            }
            let mut there = matcher.clone();
            there.consume_tokens(&way).ok()?;
            let mask = there.compute_mask().ok()?;
            if !way.is_empty() && (mask.is_allowed(quote) || there.is_accepting().unwrap_or(false)) {
                return Some(way);
            }
            for token in candidates(&mask, trie, preferred).into_iter().take(24) {
                let mut next = way.clone();
                next.push(token);
                longer.push(next);
            }
        }
        ways = longer;
    }
    None
}
