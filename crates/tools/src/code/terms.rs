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
    let words = text.split(|character: char| !character.is_alphanumeric() && character != '_');
    for word in words.filter(|word| !word.is_empty() && word.len() <= WORD_BYTES_MAX) {
        let mut parts = 0;
        for part in parts_of(word) {
            parts += 1;
            if part.len() > 1 || word.len() == 1 {
                visit(number(&stem(part.to_lowercase())));
            }
        }
        if parts > 1 {
            visit(number(&word.to_lowercase().replace('_', "")));
        }
    }
    for (_, words) in SIGNS.iter().filter(|(sign, _)| text.contains(sign)) {
        for word in *words {
            visit(number(word));
        }
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
fn parts_of(word: &str) -> impl Iterator<Item = &str> {
    word.split('_').flat_map(|piece| {
        let mut cuts = vec![0];
        let characters: Vec<(usize, char)> = piece.char_indices().collect();
        for (index, window) in characters.windows(2).enumerate() {
            let [(_, before), (place, character)] = window else { continue };
            let next_is_lower =
                characters.get(index + 2).is_some_and(|(_, character)| character.is_lowercase());
            if character.is_uppercase() && (!before.is_uppercase() || next_is_lower) {
                cuts.push(*place);
            }
        }
        cuts.push(piece.len());
        let bounds: Vec<(usize, usize)> = cuts.windows(2).map(|pair| (pair[0], pair[1])).collect();
        bounds.into_iter().map(move |(start, end)| &piece[start..end]).filter(|part| !part.is_empty())
    })
}

/// A word without its endings, so that `retries`, `retried` and `retrying` are `retry`. It need not be a word any more;
/// it only has to be the same one for all of them.
fn stem(mut word: String) -> String {
    if !word.is_ascii() {
        return word;
    }
    while let Some(shorter) = shortened(&word) {
        word = shorter;
    }
    if word.len() > 3 && word.ends_with('e') {
        word.pop();
    }
    if is_doubled(&word) {
        word.pop();
    }
    word
}

/// Whether the last letter is there twice, as it is when an ending was put to a short word.
fn is_doubled(word: &str) -> bool {
    matches!(word.as_bytes(), [_, .., before, last] if before == last)
}

fn shortened(word: &str) -> Option<String> {
    let without = |ending: &str, rest_min: usize| {
        word.strip_suffix(ending).filter(|rest| {
            rest.len() >= rest_min
                && rest.bytes().any(|byte| matches!(byte, b'a' | b'e' | b'i' | b'o' | b'u' | b'y'))
        })
    };
    if let Some(rest) = without("ies", 2).or_else(|| without("ied", 2)) {
        return Some(format!("{rest}y"));
    }
    if word.ends_with("ss") || word.ends_with("us") || word.ends_with("is") || word.ends_with("eed") {
        return None;
    }
    if is_doubled(word) {
        return Some(word[..word.len() - 1].to_owned());
    }
    without("s", 3).or_else(|| without("ing", 3)).or_else(|| without("ed", 3)).map(str::to_owned)
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
        let check =
            |word: &str, parts: &[&str]| assert_eq!(parts_of(word).collect::<Vec<_>>(), parts, "{word}");
        check("parseHTTPHeader", &["parse", "HTTP", "Header"]);
        check("RETRY_LIMIT_max", &["RETRY", "LIMIT", "max"]);
        check("__init__", &["init"]);
        check("ÄnderungÜbernehmen", &["Änderung", "Übernehmen"]);
        check("utf8", &["utf8"]);
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
            let stems: Vec<String> = words.iter().map(|word| stem((*word).to_owned())).collect();
            assert!(stems.iter().all(|stem| *stem == stems[0]), "{words:?}: {stems:?}");
        }
        for (one, other) in [("string", "str"), ("status", "statu"), ("thing", "th"), ("bed", "b")] {
            assert_ne!(stem(one.to_owned()), stem(other.to_owned()));
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
