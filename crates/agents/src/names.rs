//! Agent names, and suggestions for mistyped words.

/// The rule for agent names, as shown in messages.
pub(crate) const RULE: &str =
    "a name begins with a letter or digit and has at most 60 letters, digits, '-' and '_'";

/// The maximum length of a name, in bytes. Names appear in paths, URLs and model names.
const NAME_BYTES_MAX: usize = 60;

/// The maximum edit distance of a suggestion.
const DIFFERENCES_MAX: usize = 3;

/// Returns whether a text is a valid agent name: `[A-Za-z0-9][A-Za-z0-9_-]{0,59}`.
pub fn is_name(name: &str) -> bool {
    name.len() <= NAME_BYTES_MAX
        && name.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

/// Names that have another meaning: `POST /agents/validate` checks an agent, and `agents/agent.yaml` is the file of
/// an agent folder.
const RESERVED: [&str; 2] = ["validate", "agent"];

/// Returns whether a new agent cannot have this name, because it has another meaning.
pub fn is_reserved_name(name: &str) -> bool {
    RESERVED.iter().any(|reserved| name.eq_ignore_ascii_case(reserved))
}

/// Returns the candidate that is closest to a mistyped word, if one is close enough.
pub(crate) fn suggestion<'c>(word: &str, candidates: impl Iterator<Item = &'c str>) -> Option<&'c str> {
    let simple = |text: &str| -> Vec<char> {
        text.chars().filter(|letter| letter.is_alphanumeric()).flat_map(char::to_lowercase).collect()
    };
    let meant = simple(word);
    let allowed = DIFFERENCES_MAX.min((meant.len() + 1) / 3);
    candidates
        .map(|candidate| (distance(&meant, &simple(candidate), allowed), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Returns the edit distance, with a swap of neighbours counted once. Distances above `enough` may
/// be reported as larger.
fn distance(from: &[char], to: &[char], enough: usize) -> usize {
    if from.len().abs_diff(to.len()) > enough {
        return usize::MAX;
    }
    let mut rows: Vec<Vec<usize>> = vec![(0..=to.len()).collect()];
    for (row, letter) in from.iter().enumerate() {
        let mut next = vec![row + 1];
        for (column, other) in to.iter().enumerate() {
            let changed = rows[row][column] + usize::from(letter != other);
            let mut best = changed.min(rows[row][column + 1] + 1).min(next[column] + 1);
            if row > 0 && column > 0 && from[row - 1] == *other && to[column - 1] == *letter {
                best = best.min(rows[row - 1][column - 1] + 1);
            }
            next.push(best);
        }
        rows.push(next);
    }
    rows[from.len()][to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_name_accepts_only_valid_names() {
        for name in ["a", "7", "pr-reviewer", "A_b-9", &"x".repeat(60)] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", "-a", "_a", "a b", "a/b", "ä", "a.b", &"x".repeat(61)] {
            assert!(!is_name(name), "{name}");
        }
    }

    #[test]
    fn mistyped_word_gets_closest_suggestion() {
        let keys = ["output_schema", "system_prompt", "tools", "tier", "name"];
        let meant = |word: &str| suggestion(word, keys.into_iter());
        assert_eq!(meant("outputSchema"), Some("output_schema"));
        assert_eq!(meant("output_schmea"), Some("output_schema"));
        assert_eq!(meant("tool"), Some("tools"));
        assert_eq!(meant("system-prompts"), Some("system_prompt"));
        assert_eq!(meant("temperature"), None);
        assert_eq!(meant(&"x".repeat(100_000)), None);
        assert_eq!(meant("x"), None);
        assert_eq!(suggestion("max_retry", ["max_retries", "strategy"].into_iter()), Some("max_retries"));
    }
}
