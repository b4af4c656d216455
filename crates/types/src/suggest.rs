//! Suggestions for names that were mistyped.

/// Returns the known name that is closest to a mistyped one, if one is close enough to be meant.
///
/// ```
/// use slipform_types::closest;
///
/// assert_eq!(closest("triag", ["triage", "reviewer"]), Some("triage"));
/// assert_eq!(closest("invoice", ["triage", "reviewer"]), None);
/// ```
pub fn closest<'k>(given: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    // One typing error in three letters; more edits lead from any name to any other.
    let edits_max = (given.chars().count() / 3).max(1);
    let measured = known.into_iter().map(|name| (edits(given, name), name));
    measured.filter(|(edits, _)| *edits <= edits_max).min_by_key(|(edits, _)| *edits).map(|(_, name)| name)
}

/// Returns the number of inserted, deleted and replaced characters between two names, ignoring case.
fn edits(one: &str, other: &str) -> usize {
    let lower = |text: &str| text.to_lowercase().chars().collect::<Vec<_>>();
    let (one, other) = (lower(one), lower(other));
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, character) in one.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (column, against) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(character != against);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted_without_regard_to_case() {
        assert_eq!(edits("kitten", "sitting"), 3);
        assert_eq!(edits("Triage", "triage"), 0);
        assert_eq!(edits("", "abc"), 3);
    }
}
