//! Finds a short completion of a partial answer.

use llguidance::Matcher;
use toktrie::{TokTrie, TokenId};

/// The longest completion, in tokens. Grammars are bounded, so practical completions are shorter.
pub const CLOSING_TOKENS_MAX: usize = 4_000;

/// Texts to try outside strings, in the order of preference. Those that close a value come first.
const STRUCTURE: &[&str] = &["}", "]", "\"", "null", "false", "true", "[", "{", ", ", ","];

/// Short numbers to try.
const NUMBERS: &[&str] = &["0", "1", "-1", "2", "5", "10"];

/// Common endings of strings with a pattern, in the order in which they are tried.
const ENDS: &[&str] = &[
    "0",
    "a",
    "A",
    "1",
    "00",
    "aa",
    "AA",
    "000",
    "aaa",
    "AAA",
    "0000",
    "aaaa",
    "01",
    "a0",
    "A0",
    "/",
    "/a",
    ".a",
    "-0",
    "-a",
    "a.a",
    "0.0",
    "1-01",
    "-01",
    "0-0",
    "a-a",
    "a_a",
    "a/a",
    "a:a",
    "a@a.aa",
    "@a.aa",
    "0Z",
    ":00",
    ":00Z",
    "0.0.0",
    "1.0.0",
    "00:00",
    ".json",
    "000000",
    "aaaaaa",
    "-01-01",
    "2001-01-01",
    "T00:00:00Z",
    "00:00:00",
    "0:00:00Z",
    "01-01T00:00:00Z",
    "2001-01-01T00:00:00Z",
    "2001-01-01T00:00:00.000Z",
    "#000000",
    "a.a.a",
    "a:a:a",
    "v1.0.0",
    "en-US",
    "1h",
    "10s",
    "0%",
    "http://a.aa",
    "https://a.aa",
    "//a.aa",
    "+10000000000",
    "10000000",
    "0000000000",
    "aaaaaaaa",
    "aaaaaaaaaa",
    "000000000000",
    "-000000000000",
    "-0000-000000000000",
    "-0000-0000-0000-000000000000",
    "00000000-0000-0000-0000-000000000000",
    "192.0.2.1",
    "AAAAAAAA",
    "a a",
    "a, a",
    "Aa",
    "${a}",
    "{a}",
    "<a>",
    "(a)",
    "*",
];

/// Texts that advance or fill a pattern without a known ending.
const FILLINGS: &[&str] = &[
    "@", ":", "/", ".", "a", "0", "1", "T", "Z", "e", "n", "A", "x", "-", "_", "#", "+", "2", "3", "4", "5",
    "6", "7", "8", "9", " ", "P", "D", "[", "{",
];

/// Texts that fill a string without a pattern up to its minimum length.
const WORDS: &[&str] = &[" the", " a", "a"];

/// Returns tokens that complete the answer at the state of `matcher`; `None` if no completion is found.
pub fn close(matcher: &Matcher) -> Option<Vec<TokenId>> {
    let matcher = matcher.clone();
    let env = matcher.tok_env().ok()?;
    Closer { matcher, trie: env.tok_trie(), skip: 0, last_skip: 0 }.run()
}

struct Closer<'t> {
    matcher: Matcher,
    trie: &'t TokTrie,
    /// The tokens to take before [`ENDS`] are tried again.
    skip: usize,
    /// The previous value of `skip`, which doubles with each failure.
    last_skip: usize,
}

impl Closer<'_> {
    fn run(mut self) -> Option<Vec<TokenId>> {
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

    /// Returns the next tokens of the completion.
    fn next(&mut self) -> Option<Vec<TokenId>> {
        let forced = self.matcher.compute_ff_tokens();
        if !forced.is_empty() {
            return Some(forced);
        }
        let takes_text = ["a", "A", " "].iter().any(|text| self.accepted(text).is_some());
        let structure = if takes_text { &["\""] } else { STRUCTURE.get(..3).unwrap_or(STRUCTURE) };
        if let Some(found) = self.first(structure) {
            (self.skip, self.last_skip) = (0, 0);
            return Some(found);
        }
        if !takes_text
            && let Some(found) = self.first(STRUCTURE.get(3..).unwrap_or_default()).or_else(|| self.number())
        {
            return Some(found);
        }
        if let Some(end) = self.end() {
            return Some(end);
        }
        let takes_anything =
            takes_text && ["@", "}", "0", " "].iter().all(|text| self.accepted(text).is_some());
        let fillings = if takes_anything { WORDS } else { FILLINGS };
        self.first(fillings).or_else(|| self.shortest())
    }

    /// Returns the tokens of a text if the grammar accepts all of them next.
    fn accepted(&mut self, text: &str) -> Option<Vec<TokenId>> {
        let tokens = self.trie.greedy_tokenize(text.as_bytes());
        let taken = self.matcher.validate_tokens(&tokens).ok()?;
        (taken == tokens.len()).then_some(tokens)
    }

    fn first(&mut self, texts: &[&str]) -> Option<Vec<TokenId>> {
        texts.iter().find_map(|text| self.accepted(text))
    }

    /// Returns a complete number that the grammar accepts next.
    fn number(&mut self) -> Option<Vec<TokenId>> {
        // Within a string of digits, none of these characters may follow.
        let ends = |closer: &mut Self, number: &str| {
            [",", "}", "]"].iter().any(|after| closer.accepted(&format!("{number}{after}")).is_some())
        };
        let number = NUMBERS.iter().find(|number| ends(self, number))?;
        self.accepted(number)
    }

    /// Returns a known ending of the current string. In long strings it is tried at increasing intervals.
    fn end(&mut self) -> Option<Vec<TokenId>> {
        if self.skip > 0 {
            self.skip -= 1;
            return None;
        }
        let found = ENDS.iter().find_map(|end| self.accepted(&format!("{end}\"")));
        if found.is_none() {
            self.last_skip = (self.last_skip * 2).clamp(1, 32);
            self.skip = self.last_skip;
        }
        found
    }

    /// Returns the shortest token that the grammar accepts next.
    fn shortest(&mut self) -> Option<Vec<TokenId>> {
        let mask = self.matcher.compute_mask().ok()?;
        let mut shortest: Option<TokenId> = None;
        mask.iter_set_entries(|token| {
            let token = token as TokenId;
            let is_shorter =
                shortest.is_none_or(|known| self.trie.token_len(token) < self.trie.token_len(known));
            if token != self.trie.eos_token() && is_shorter {
                shortest = Some(token);
            }
        });
        shortest.map(|token| vec![token])
    }
}
