//! Estimates the memory of a compiled pattern.

use regex_syntax::hir::{Class, Hir, HirKind};
use regex_syntax::utf8::Utf8Sequences;

/// The memory of the shortest pattern: its engines and their caches before the first match.
pub(crate) const PATTERN_BYTES_MIN: u64 = 12 * 1024;

/// The memory of one character of a pattern in all of its automata.
const STATE_BYTES: u64 = 110;

/// The memory of a pattern that can be compiled but not measured, for each of its groups: the limit of the engine
/// for one automaton.
const UNMEASURED_BYTES: u64 = 2 * 1024 * 1024;

/// The deepest nesting of a pattern. The engine has a lower limit.
const PATTERN_DEPTH_MAX: u32 = 250;

/// Returns an upper bound of the memory of a compiled pattern; `None` if it cannot be compiled.
pub(crate) fn compiled_bytes(pattern: &str) -> Option<u64> {
    let translated = jsonschema_regex::to_rust_regex(pattern).ok()?;
    let parser = || regex_syntax::ParserBuilder::new().nest_limit(PATTERN_DEPTH_MAX).build();
    let parse = |text: &str| parser().parse(text).ok();
    let states = match parse(&translated).or_else(|| parse(&without_look_around(&translated))) {
        Some(hir) => states(&hir).saturating_mul(STATE_BYTES),
        None => UNMEASURED_BYTES.saturating_mul(1 + translated.matches('(').count() as u64),
    };
    Some(states.saturating_add(PATTERN_BYTES_MIN))
}

/// Returns the number of states that an automaton needs for a pattern.
fn states(hir: &Hir) -> u64 {
    match hir.kind() {
        HirKind::Empty => 1,
        HirKind::Look(_) => 1,
        HirKind::Literal(literal) => literal.0.len() as u64,
        HirKind::Class(Class::Bytes(class)) => class.ranges().len().max(1) as u64,
        HirKind::Class(Class::Unicode(class)) => {
            let sequences =
                class.ranges().iter().flat_map(|range| Utf8Sequences::new(range.start(), range.end()));
            // Sequences share their ends, so each adds about one state.
            sequences.count().max(1) as u64
        }
        HirKind::Repetition(repetition) => {
            let times = u64::from(repetition.max.unwrap_or(repetition.min.saturating_add(1)));
            (states(&repetition.sub).saturating_add(1)).saturating_mul(times.max(1))
        }
        HirKind::Capture(capture) => states(&capture.sub).saturating_add(2),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => {
            parts.iter().fold(1, |sum, part| sum.saturating_add(states(part)))
        }
    }
}

/// Replaces look-around and atomic groups by plain groups, and references to groups by nothing, so that the parts
/// of a pattern for the backtracking engine can be measured.
fn without_look_around(pattern: &str) -> String {
    let mut plain = String::with_capacity(pattern.len());
    let mut rest = pattern;
    let mut is_class = false;
    while let Some(next) = rest.chars().next() {
        let opening =
            ["(?=", "(?!", "(?<=", "(?<!", "(?>"].iter().find(|opening| rest.starts_with(**opening));
        let mut skipped = next.len_utf8();
        match (next, opening) {
            ('(', Some(opening)) if !is_class => {
                plain.push_str("(?:");
                skipped = opening.len();
            }
            ('\\', _) => {
                let escaped = rest.chars().nth(1);
                skipped += escaped.map_or(0, char::len_utf8);
                match escaped {
                    Some('1'..='9') if !is_class => plain.push_str("(?:)"),
                    _ => plain.push_str(rest.get(..skipped).unwrap_or_default()),
                }
            }
            _ => {
                is_class = match next {
                    '[' => true,
                    ']' => false,
                    _ => is_class,
                };
                plain.push(next);
            }
        }
        rest = rest.get(skipped..).unwrap_or_default();
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn look_around_is_measured_like_its_body() {
        let plain = compiled_bytes(r"\p{L}{40}").unwrap();
        for pattern in [r"(?!x)\p{L}{40}", r"(?<=[(?=])\p{L}{40}", r"(a)\1\p{L}{40}"] {
            let found = compiled_bytes(pattern).unwrap();
            assert!(found >= plain && found < plain + 2_000, "{pattern}: {found}, not about {plain}");
        }
    }

    #[test]
    fn named_reference_is_no_pattern_that_compiles() {
        assert_eq!(compiled_bytes(r"(?<n>a)\k<n>"), None);
        let schema = serde_json::json!({"pattern": r"(?<n>a)\k<n>"});
        assert!(crate::Schema::compile(&schema).is_err());
    }

    #[test]
    fn nested_repetition_saturates() {
        assert!(compiled_bytes("((((((a{1000}){1000}){1000}){1000}){1000}){1000}){1000}").unwrap() > 1 << 60);
    }
}
