//! Regular expressions over the text of JSON values. Both the grammar and this crate evaluate them.

use llguidance::derivre::{RegexAst, RegexBuilder};

/// The most work to decide whether an expression matches anything, in `derivre` units.
const EMPTINESS_FUEL: u64 = 150_000;

/// A regular expression with intersection and complement.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Rx {
    /// Exactly this text.
    Literal(String),
    /// An anchored regular expression in the syntax of `regex_syntax`.
    Regex(String),
    /// The intersection.
    And(Vec<Rx>),
    /// The union.
    Or(Vec<Rx>),
    /// The complement.
    Not(Box<Rx>),
    /// The concatenation.
    Concat(Vec<Rx>),
}

impl Rx {
    /// Returns the intersection with another expression.
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

    /// Returns the difference: texts that match this expression and not `other`.
    pub(super) fn without(self, other: Rx) -> Rx {
        self.and(Rx::Not(Box::new(other)))
    }

    /// Formats the expression in Lark syntax.
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

    /// Returns whether the expression matches any text; `None` if it is invalid or the work limit is exceeded.
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

    /// Returns whether the expression matches a whole text. An invalid or too complex expression counts as a
    /// match; validation decides later.
    pub(super) fn matches(&self, text: &str) -> bool {
        if let Rx::Literal(literal) = self {
            return literal == text;
        }
        let mut builder = RegexBuilder::new();
        let Ok(expression) = builder.mk(&self.ast()) else { return true };
        builder.to_regex_limited(expression, EMPTINESS_FUEL).map_or(true, |mut regex| regex.is_match(text))
    }
}

/// The bytes of examples, in the order of preference.
const EXAMPLE_BYTES: &[u8] =
    b"\"abcdefghijklmnopqrstuvwxyz0123456789_-.ABCDEFGHIJKLMNOPQRSTUVWXYZ:/@ $#+*,;=!?%&'()[]{}<>|~^`\\";

/// The most states that the search for an example visits.
const EXAMPLE_STATES: usize = 400;

impl Rx {
    /// Returns a short text that the expression matches, if the search finds one.
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

/// Formats a text as a Lark literal.
pub(super) fn literal(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

/// Escapes slashes, which end a regular expression in Lark.
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
