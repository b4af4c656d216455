//! Regular languages over the text of JSON values, as expressions that both the grammar and this crate read.

use llguidance::derivre::{RegexAst, RegexBuilder};

/// How much work may go into deciding whether an expression matches anything, in the units of `derivre`.
const EMPTINESS_FUEL: u64 = 150_000;

/// A regular expression with intersection and complement.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Rx {
    /// This text only.
    Literal(String),
    /// An anchored regular expression in the syntax of `regex_syntax`.
    Regex(String),
    /// All of them.
    And(Vec<Rx>),
    /// Any of them.
    Or(Vec<Rx>),
    /// Everything else.
    Not(Box<Rx>),
    /// One after the other.
    Concat(Vec<Rx>),
}

impl Rx {
    /// The intersection with another expression.
    pub(super) fn and(self, other: Rx) -> Rx {
        match (self, other) {
            (Rx::And(mut left), Rx::And(right)) => {
                left.extend(right);
                Rx::And(left)
            }
            (Rx::And(mut left), right) => {
                left.push(right);
                Rx::And(left)
            }
            (left, right) => Rx::And(vec![left, right]),
        }
    }

    /// What this matches and `other` does not.
    pub(super) fn without(self, other: Rx) -> Rx {
        self.and(Rx::Not(Box::new(other)))
    }

    /// The expression in Lark syntax.
    pub(super) fn lark(&self) -> String {
        let join = |parts: &[Rx], between: &str| {
            let parts: Vec<String> = parts.iter().map(Rx::lark).collect();
            format!("({})", parts.join(between))
        };
        match self {
            Rx::Literal(text) => literal(text),
            Rx::Regex(regex) => format!("/{}/", escape_slashes(regex)),
            Rx::And(parts) => join(parts, " & "),
            Rx::Or(parts) => join(parts, " | "),
            Rx::Concat(parts) => join(parts, " "),
            Rx::Not(inner) => format!("~({})", inner.lark()),
        }
    }

    fn ast(&self) -> RegexAst {
        let all = |parts: &[Rx]| parts.iter().map(Rx::ast).collect();
        match self {
            Rx::Literal(text) => RegexAst::Literal(text.clone()),
            Rx::Regex(regex) => RegexAst::Regex(regex.clone()),
            Rx::And(parts) => RegexAst::And(all(parts)),
            Rx::Or(parts) => RegexAst::Or(all(parts)),
            Rx::Concat(parts) => RegexAst::Concat(all(parts)),
            Rx::Not(inner) => RegexAst::Not(Box::new(inner.ast())),
        }
    }

    /// Whether the expression matches anything; nothing when it cannot be used or told in reasonable time.
    pub(super) fn matches_something(&self) -> Option<bool> {
        if let Rx::Literal(_) = self {
            return Some(true);
        }
        let mut builder = RegexBuilder::new();
        let expression = builder.mk(&self.ast()).ok()?;
        if builder.exprset().is_positive(expression) {
            return Some(true);
        }
        let mut regex = builder.to_regex_limited(expression, EMPTINESS_FUEL).ok()?;
        Some(!regex.always_empty())
    }

    /// Whether the expression matches the whole of a text.
    pub(super) fn matches(&self, text: &str) -> bool {
        if let Rx::Literal(literal) = self {
            return literal == text;
        }
        let mut builder = RegexBuilder::new();
        let Ok(expression) = builder.mk(&self.ast()) else { return true };
        builder.to_regex_limited(expression, EMPTINESS_FUEL).map_or(true, |mut regex| regex.is_match(text))
    }
}

/// The bytes that examples are made of, the plainest first.
const EXAMPLE_BYTES: &[u8] =
    b"\"abcdefghijklmnopqrstuvwxyz0123456789_-.ABCDEFGHIJKLMNOPQRSTUVWXYZ:/@ $#+*,;=!?%&'()[]{}<>|~^`\\";

/// How many states of an expression are looked at for an example.
const EXAMPLE_STATES: usize = 400;

impl Rx {
    /// A short text that the expression matches, if one is soon found.
    pub(super) fn example(&self) -> Option<String> {
        let mut builder = RegexBuilder::new();
        let expression = builder.mk(&self.ast()).ok()?;
        let mut regex = builder.to_regex_limited(expression, EMPTINESS_FUEL).ok()?;
        let start = regex.initial_state();
        let mut seen = std::collections::HashSet::from([start]);
        let mut pending = std::collections::VecDeque::from([(start, Vec::new())]);
        while let Some((state, text)) = pending.pop_front() {
            if regex.is_accepting(state) {
                return String::from_utf8(text).ok();
            }
            for byte in EXAMPLE_BYTES {
                let next = regex.transition(state, *byte);
                if !next.is_dead() && seen.len() < EXAMPLE_STATES && seen.insert(next) {
                    let mut longer = text.clone();
                    longer.push(*byte);
                    pending.push_back((next, longer));
                }
            }
        }
        None
    }
}

/// A text as a literal of Lark.
pub(super) fn literal(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

/// Regular expressions end at a slash in Lark.
fn escape_slashes(regex: &str) -> String {
    let mut escaped = String::with_capacity(regex.len());
    let mut quoted = false;
    for character in regex.chars() {
        if character == '/' && !quoted {
            escaped.push('\\');
        }
        quoted = character == '\\' && !quoted;
        escaped.push(character);
    }
    escaped
}
