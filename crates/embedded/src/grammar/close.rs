//! The shortest way from anywhere in an answer to its end.

use llguidance::Matcher;
use toktrie::{SimpleVob, TokTrie};

/// The most tokens of a closing. Grammars are bounded, so a longer one is never needed in practice.
pub const CLOSING_TOKENS_MAX: usize = 4_000;

/// The shortest values, for where one begins.
const VALUES: &[&str] = &["null", "false", "true", "0", "1", "[", "{"];

/// What is tried inside a string that cannot end yet, best first: what moves on through a pattern, then what
/// fills it.
const FILLINGS: &[&str] = &[
    "@", ":", "/", ".", "T", "Z", "a", "0", "1", " a", " the", "e", "n", "A", "x", "-", "_", "#", "+", "2", "3", "4", "5",
    "6", "7", "8", "9", " ", "P", "D", ",", "[", "{",
];

/// How far ahead the end of a string with a pattern is searched for, in tokens.
const SEARCH_DEPTH: usize = 3;

/// How many states that search may visit.
const SEARCH_STATES: usize = 30;

/// Tokens that complete an answer from where `matcher` stands; nothing when no way is found.
pub fn close(matcher: &Matcher) -> Option<Vec<u32>> {
    let matcher = matcher.clone();
    let env = matcher.tok_env().ok()?;
    let trie = env.tok_trie();
    let tokens = |texts: &[&str]| texts.iter().filter_map(|text| trie.token_id(text.as_bytes())).collect();
    let (values, fillings) = (tokens(VALUES), tokens(FILLINGS));
    Closer { matcher, trie, values, fillings, pause: 0, paused: 1 }.run()
}

struct Closer<'t> {
    matcher: Matcher,
    trie: &'t TokTrie,
    values: Vec<u32>,
    fillings: Vec<u32>,
    /// How many tokens to take before searching again, and how many it was the last time.
    pause: usize,
    paused: usize,
}

impl Closer<'_> {
    fn run(mut self) -> Option<Vec<u32>> {
        let mut closing = Vec::new();
        while closing.len() < CLOSING_TOKENS_MAX {
            if self.matcher.is_stopped() || self.matcher.is_accepting().ok()? {
                return Some(closing);
            }
            let step = self.next()?;
            self.matcher.consume_tokens(&step).ok()?;
            closing.extend(step);
        }
        None
    }

    /// The next tokens of the closing.
    fn next(&mut self) -> Option<Vec<u32>> {
        let forced = self.matcher.compute_ff_tokens();
        if !forced.is_empty() {
            return Some(forced);
        }
        let mask = self.matcher.compute_mask().ok()?;
        if let Some(ending) = self.ending(&mask) {
            (self.pause, self.paused) = (0, 1);
            return Some(vec![ending]);
        }
        let options = self.candidates(&mask);
        let first = *options.first()?;
        if options.len() == 1 || self.begins_value(&mask) {
            return Some(vec![first]);
        }
        if self.pause > 0 {
            self.pause -= 1;
            return Some(vec![first]);
        }
        if let Some(way) = self.search() {
            return Some(way);
        }
        // Long strings are filled, with a look around now and then.
        self.paused = (self.paused * 2).min(64);
        self.pause = self.paused;
        Some(vec![first])
    }

    fn allows(&self, mask: &SimpleVob, text: &str) -> bool {
        self.trie.token_id(text.as_bytes()).is_some_and(|token| mask.is_allowed(token))
    }

    /// The token that ends something here.
    fn ending(&self, mask: &SimpleVob) -> Option<u32> {
        let inside_string = ["a", "A", " "].iter().any(|text| self.allows(mask, text));
        let endings: &[&str] = if inside_string { &["\""] } else { &["}", "]", "\""] };
        let found = endings.iter().filter_map(|text| self.trie.token_id(text.as_bytes()));
        found.into_iter().find(|token| mask.is_allowed(*token))
    }

    fn begins_value(&self, mask: &SimpleVob) -> bool {
        !self.allows(mask, "a") && self.values.iter().any(|token| mask.is_allowed(*token))
    }

    /// The tokens to try: the preferred ones that are allowed, else the shortest of the others.
    fn candidates(&self, mask: &SimpleVob) -> Vec<u32> {
        let preferred = if self.begins_value(mask) { &self.values } else { &self.fillings };
        let found: Vec<u32> = preferred.iter().copied().filter(|token| mask.is_allowed(*token)).collect();
        if !found.is_empty() {
            return found;
        }
        let mut others: Vec<u32> = Vec::new();
        mask.iter_set_entries(|token| others.push(token as u32));
        others.retain(|token| *token != self.trie.eos_token());
        others.sort_by_key(|token| self.trie.token_len(*token));
        others.truncate(16);
        others
    }

    /// The shortest way to where a string can end, within a few tokens.
    fn search(&self) -> Option<Vec<u32>> {
        let mut ways: Vec<Vec<u32>> = vec![Vec::new()];
        let mut visited = 0;
        for _ in 0..SEARCH_DEPTH {
            let mut longer = Vec::new();
            for way in ways {
                visited += 1;
                if visited > SEARCH_STATES {
                    return None;
                }
                let mut there = self.matcher.clone();
                there.consume_tokens(&way).ok()?;
                let mask = there.compute_mask().ok()?;
                if !way.is_empty() && (self.ending(&mask).is_some() || there.is_accepting().unwrap_or(false)) {
                    return Some(way);
                }
                for token in self.candidates(&mask).into_iter().take(12) {
                    let mut next = way.clone();
                    next.push(token);
                    longer.push(next);
                }
            }
            ways = longer;
        }
        None
    }
}
