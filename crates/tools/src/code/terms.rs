//! Tokenizes code and queries into hashed, stemmed terms.

/// Maximum length of a word. Longer ones are usually encoded data.
const WORD_BYTES_MAX: usize = 64;

/// Words that carry no meaning in a query.
const STOP_WORDS: [&str; 44] = [
    "a", "an", "and", "any", "are", "as", "at", "be", "by", "can", "code", "did", "do", "does", "for",
    "from", "has", "have", "how", "i", "in", "is", "it", "its", "of", "on", "or", "our", "that", "the",
    "them", "there", "this", "to", "was", "we", "were", "what", "when", "where", "which", "who", "why",
    "with",
];

/// Words indexed for operators, so that the query "where are tries counted" finds `tries += 1`.
const OPERATOR_WORDS: [(&str, &[&str]); 5] = [
    ("+= 1", &["count", "increment"]),
    ("+=1", &["count", "increment"]),
    ("++;", &["count", "increment"]),
    ("-= 1", &["decrement"]),
    ("--;", &["decrement"]),
];

/// The hash of a word. Two words with the same hash match each other, which is rare and harmless.
pub(super) type Term = u32;

/// Visits every term of a line. An identifier yields a term for each of its parts and one for the whole.
pub(super) fn each_term(text: &str, mut visit: impl FnMut(Term)) {
    // Reuse one buffer: this runs for every word of a project.
    let mut buffer = String::new();
    let words = text.split(|character: char| !character.is_alphanumeric() && character != '_');
    for word in words.filter(|word| !word.is_empty() && word.len() <= WORD_BYTES_MAX) {
        let mut parts = 0;
        each_part(word, |part| {
            parts += 1;
            if part.len() > 1 || word.len() == 1 {
                lower(part, &mut buffer);
                stem(&mut buffer);
                visit(hash(&buffer));
            }
        });
        if parts > 1 {
            lower(word, &mut buffer);
            buffer.retain(|character| character != '_');
            visit(hash(&buffer));
        }
    }
    for (_, words) in OPERATOR_WORDS.iter().filter(|(operator, _)| text.contains(operator)) {
        for word in *words {
            visit(hash(word));
        }
    }
}

fn lower(word: &str, buffer: &mut String) {
    buffer.clear();
    if word.is_ascii() {
        buffer.push_str(word);
        buffer.make_ascii_lowercase();
    } else {
        buffer.extend(word.chars().flat_map(char::to_lowercase));
    }
}

/// Returns the terms of a query, sorted and without duplicates. Keeps stop words only if it has no others.
pub(super) fn query_terms(text: &str) -> Vec<Term> {
    let meaningful: Vec<&str> = text
        .split_whitespace()
        .filter(|word| {
            let word = word.trim_matches(|character: char| !character.is_alphanumeric()).to_lowercase();
            !STOP_WORDS.contains(&word.as_str())
        })
        .collect();
    let mut found = Vec::new();
    each_term(&meaningful.join(" "), |term| found.push(term));
    if found.is_empty() {
        each_term(text, |term| found.push(term));
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// Visits the parts of an identifier: `parseHTTPHeader`, `parse_http_header` and `PARSE_HTTP_HEADER` have the
/// same three.
fn each_part<'a>(word: &'a str, mut visit: impl FnMut(&'a str)) {
    for piece in word.split('_').filter(|piece| !piece.is_empty()) {
        let (mut start, mut before_is_upper) = (0, true);
        let mut characters = piece.char_indices().peekable();
        while let Some((index, character)) = characters.next() {
            let is_upper = character.is_uppercase();
            let next_is_lower = characters.peek().is_some_and(|(_, next)| next.is_lowercase());
            if is_upper && index > start && (!before_is_upper || next_is_lower) {
                visit(&piece[start..index]);
                start = index;
            }
            before_is_upper = is_upper;
        }
        visit(&piece[start..]);
    }
}

/// Removes a word's endings, so that `retries`, `retried` and `retrying` become `retry`. The stem need not be
/// a word; it only has to be equal for all forms.
fn stem(word: &mut String) {
    if !word.is_ascii() {
        return;
    }
    while shorten(word) {}
    if word.len() > 3 && word.ends_with('e') {
        word.pop();
    }
    if is_doubled(word) {
        word.pop();
    }
}

/// Returns whether the last letter is doubled, as in the stem of "stopped".
fn is_doubled(word: &str) -> bool {
    matches!(word.as_bytes(), [_, .., before, last] if before == last)
}

/// Removes one ending. Returns false if none applies.
fn shorten(word: &mut String) -> bool {
    let without = |ending: &str, rest_min: usize| {
        let rest = word.strip_suffix(ending)?;
        let is_vowel = |byte: u8| matches!(byte, b'a' | b'e' | b'i' | b'o' | b'u' | b'y');
        (rest.len() >= rest_min && rest.bytes().any(is_vowel)).then_some(rest.len())
    };
    if let Some(length) = without("ies", 2).or_else(|| without("ied", 2)) {
        word.truncate(length);
        word.push('y');
        return true;
    }
    if ["ss", "us", "is", "eed"].iter().any(|ending| word.ends_with(ending)) {
        return false;
    }
    let length = if is_doubled(word) {
        Some(word.len() - 1)
    } else {
        without("s", 3).or_else(|| without("ing", 3)).or_else(|| without("ed", 3))
    };
    if let Some(length) = length {
        word.truncate(length);
    }
    length.is_some()
}

/// FNV-1a. The hash must be the same in every process and version, because it is stored.
fn hash(word: &str) -> Term {
    word.bytes().fold(0x811c_9dc5, |state, byte| (state ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_split_into_parts() {
        let check = |word: &str, expected: &[&str]| {
            let mut parts = Vec::new();
            each_part(word, |part| parts.push(part.to_owned()));
            assert_eq!(parts, expected, "{word}");
        };
        check("parseHTTPHeader", &["parse", "HTTP", "Header"]);
        check("RETRY_LIMIT_max", &["RETRY", "LIMIT", "max"]);
        check("__init__", &["init"]);
        check("ÄnderungÜbernehmen", &["Änderung", "Übernehmen"]);
        check("utf8", &["utf8"]);
    }

    fn stemmed(word: &str) -> String {
        let mut word = word.to_owned();
        stem(&mut word);
        word
    }

    #[test]
    fn forms_of_a_word_have_the_same_stem() {
        for words in [
            &["retry", "retries", "retried", "retrying"][..],
            &["count", "counts", "counted", "counting"],
            &["cache", "caches", "cached", "caching"],
            &["match", "matches", "matched", "matching"],
            &["stop", "stops", "stopped", "stopping"],
            &["embed", "embeds", "embedded", "embedding"],
            &["class", "classes"],
            &["need", "needs", "needed"],
            &["call", "calls", "called", "calling"],
        ] {
            let stems: Vec<String> = words.iter().map(|word| stemmed(word)).collect();
            assert!(stems.iter().all(|stem| *stem == stems[0]), "{words:?}: {stems:?}");
        }
        for (one, other) in [("string", "str"), ("status", "statu"), ("thing", "th"), ("bed", "b")] {
            assert_ne!(stemmed(one), stemmed(other));
        }
    }

    #[test]
    fn query_is_reduced_to_its_meaningful_terms() {
        let of = |text: &str| query_terms(text).len();
        assert_eq!((of("Where are the retries counted?"), of("retry retries"), of("where")), (2, 1, 1));
        assert_eq!(query_terms("retry_limit").len(), 3);
        let counts = query_terms("count");
        assert!(
            query_terms("tries += 1").contains(&counts[0]) && !query_terms("tries += 2").contains(&counts[0])
        );
    }
}
