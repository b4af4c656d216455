//! Words of code and of questions about it, brought to one form.

/// The longest word that is looked at. Longer ones are encoded data, which nobody asks for.
const WORD_BYTES_MAX: usize = 64;

/// Words of questions that say nothing about what is looked for.
const EMPTY_WORDS: [&str; 44] = [
    "a", "an", "and", "any", "are", "as", "at", "be", "by", "can", "code", "did", "do", "does", "for",
    "from", "has", "have", "how", "i", "in", "is", "it", "its", "of", "on", "or", "our", "that", "the",
    "them", "there", "this", "to", "was", "we", "were", "what", "when", "where", "which", "who", "why",
    "with",
];

/// Signs that stand where a person would say a word: whoever asks where something is counted means `tries += 1`.
const SIGNS: [(&str, &[&str]); 5] = [
    ("+= 1", &["count", "increment"]),
    ("+=1", &["count", "increment"]),
    ("++;", &["count", "increment"]),
    ("-= 1", &["decrement"]),
    ("--;", &["decrement"]),
];

/// A word, as the index knows it. Two words that share a number are found for each other, which is rare and harmless.
pub(super) type Term = u32;

/// Every word of a line, identifiers also in their parts.
pub(super) fn each_term(text: &str, mut visit: impl FnMut(Term)) {
    // One buffer for all words: this runs over every word of a project.
    let mut form = String::new();
    let words = text.split(|character: char| !character.is_alphanumeric() && character != '_');
    for word in words.filter(|word| !word.is_empty() && word.len() <= WORD_BYTES_MAX) {
        let mut parts = 0;
        each_part(word, |part| {
            parts += 1;
            if part.len() > 1 || word.len() == 1 {
                lower(part, &mut form);
                stem(&mut form);
                visit(number(&form));
            }
        });
        if parts > 1 {
            lower(word, &mut form);
            form.retain(|character| character != '_');
            visit(number(&form));
        }
    }
    for (_, words) in SIGNS.iter().filter(|(sign, _)| text.contains(sign)) {
        for word in *words {
            visit(number(word));
        }
    }
}

fn lower(word: &str, form: &mut String) {
    form.clear();
    if word.is_ascii() {
        form.push_str(word);
        form.make_ascii_lowercase();
    } else {
        form.extend(word.chars().flat_map(char::to_lowercase));
    }
}

/// The words of a question, each once, without those that say nothing unless there are no others.
pub(super) fn question(text: &str) -> Vec<Term> {
    let telling: Vec<&str> = text
        .split_whitespace()
        .filter(|word| {
            let word = word.trim_matches(|character: char| !character.is_alphanumeric()).to_lowercase();
            !EMPTY_WORDS.contains(&word.as_str())
        })
        .collect();
    let mut found = Vec::new();
    each_term(&telling.join(" "), |term| found.push(term));
    if found.is_empty() {
        each_term(text, |term| found.push(term));
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// The parts of an identifier: `parseHTTPHeader`, `parse_http_header` and `PARSE_HTTP_HEADER` have the same three.
fn each_part<'a>(word: &'a str, mut visit: impl FnMut(&'a str)) {
    for piece in word.split('_').filter(|piece| !piece.is_empty()) {
        let (mut start, mut before_is_upper) = (0, true);
        let mut characters = piece.char_indices().peekable();
        while let Some((place, character)) = characters.next() {
            let is_upper = character.is_uppercase();
            let next_is_lower = characters.peek().is_some_and(|(_, next)| next.is_lowercase());
            if is_upper && place > start && (!before_is_upper || next_is_lower) {
                visit(&piece[start..place]);
                start = place;
            }
            before_is_upper = is_upper;
        }
        visit(&piece[start..]);
    }
}

/// Takes a word's endings off, so that `retries`, `retried` and `retrying` are `retry`. It need not be a word any more;
/// it only has to be the same one for all of them.
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

/// Whether the last letter is there twice, as it is when an ending was put to a short word.
fn is_doubled(word: &str) -> bool {
    matches!(word.as_bytes(), [_, .., before, last] if before == last)
}

/// Takes one ending off, if there is one.
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

/// FNV-1a: the same in every process and every version, because the numbers are stored.
fn number(word: &str) -> Term {
    word.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_have_parts() {
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
    fn forms_of_a_word_are_one() {
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
    fn a_question_is_reduced_to_what_it_asks_for() {
        let of = |text: &str| question(text).len();
        assert_eq!((of("Where are the retries counted?"), of("retry retries"), of("where")), (2, 1, 1));
        assert_eq!(question("retry_limit").len(), 3);
        let counts = question("count");
        assert!(question("tries += 1").contains(&counts[0]) && !question("tries += 2").contains(&counts[0]));
    }
}
