//! Reads numbers, booleans and allowed values from strings.

use serde_json::{Number, Value};

use crate::repair::RepairKind;

/// The longest text searched for a number, a boolean or an allowed value, in bytes.
const TEXT_SEARCHED_MAX: usize = 20_000;

/// Returns the letters and digits in lower case and without accents, to compare spellings of a name.
pub(super) fn normalise(text: &str) -> String {
    text.chars()
        .filter(|character| character.is_alphanumeric())
        .flat_map(char::to_lowercase)
        .map(plain_letter)
        .collect()
}

/// Returns a Latin letter without its accent.
fn plain_letter(letter: char) -> char {
    match letter {
        'à' | 'á' | 'â' | 'ã' | 'ä' | 'å' | 'ā' | 'ă' | 'ą' => 'a',
        'ç' | 'ć' | 'č' => 'c',
        'ď' | 'đ' => 'd',
        'è' | 'é' | 'ê' | 'ë' | 'ē' | 'ę' | 'ě' => 'e',
        'ğ' => 'g',
        'ì' | 'í' | 'î' | 'ï' | 'ī' | 'ı' => 'i',
        'ł' | 'ľ' => 'l',
        'ñ' | 'ń' | 'ň' => 'n',
        'ò' | 'ó' | 'ô' | 'õ' | 'ö' | 'ø' | 'ō' | 'ő' => 'o',
        'ř' => 'r',
        'ś' | 'š' | 'ş' | 'ș' => 's',
        'ť' | 'ț' => 't',
        'ù' | 'ú' | 'û' | 'ü' | 'ū' | 'ů' | 'ű' => 'u',
        'ý' | 'ÿ' => 'y',
        'ź' | 'ż' | 'ž' => 'z',
        other => other,
    }
}

/// Reads a number from a string: `"1,234"`, `"45%"`, `"$3"`, `"1/4"`, or the only number of a short text.
/// Also returns the kind of repair.
pub(super) fn read_number(text: &str) -> Option<(Value, RepairKind)> {
    let trimmed = text.trim().trim_matches(['"', '\'']).trim();
    if trimmed.len() > TEXT_SEARCHED_MAX {
        return None;
    }
    let (sign, rest) = match trimmed.strip_prefix(['-', '−']) {
        Some(rest) => ("-", rest),
        None => ("", trimmed.strip_prefix('+').unwrap_or(trimmed)),
    };
    let without_symbols =
        rest.trim_matches(|character: char| character.is_whitespace() || "$€£¥₹%~≈*".contains(character));
    if let Some(number) = plain_number(&format!("{sign}{without_symbols}")) {
        return Some((number, RepairKind::NumberRead));
    }
    if let Some((numerator, denominator)) = without_symbols.split_once('/') {
        let numerator = plain_number(&format!("{sign}{}", numerator.trim()))?.as_f64()?;
        let denominator = plain_number(denominator.trim())?.as_f64()?;
        // `8/10` is a score out of ten, not a fraction.
        let is_score = denominator == 10.0 || denominator == 100.0;
        return Number::from_f64(numerator / denominator)
            .filter(|_| !is_score)
            .map(|number| (Value::Number(number), RepairKind::NumberRead));
    }
    only_number(trimmed).map(|number| (number, RepairKind::NumberFound))
}

/// Words after a number that change its value.
const SCALES: [&str; 12] =
    ["hundred", "thousand", "million", "billion", "trillion", "k", "m", "mn", "mio", "bn", "b", "dozen"];

/// The longest text, in words, whose only number is used.
const NUMBER_WORDS_MAX: usize = 6;

/// Returns the only number of a short text, unless the adjacent text shows that it is only a part.
fn only_number(text: &str) -> Option<Value> {
    if text.split_whitespace().count() > NUMBER_WORDS_MAX {
        return None;
    }
    let start = text.find(|character: char| character.is_numeric())?;
    let is_part = |character: char| character.is_ascii_digit() || matches!(character, '.' | ',');
    let length = text[start..].find(|character| !is_part(character)).unwrap_or(text.len() - start);
    let figure = text[start..start + length].trim_end_matches(['.', ',']);
    let rest = &text[start + figure.len()..];
    let (before, sign) = match text[..start].trim_end_matches(['$', '€', '£']).strip_suffix(['-', '−']) {
        Some(before) => (before, "-"),
        None => (&text[..start], ""),
    };
    // `A-5`, `5K`, `2½`, `($5)`, `3 to 5`: not a separate number.
    let is_glued = before.ends_with(|last: char| last.is_alphanumeric() || last == '(')
        || rest.starts_with(|first: char| first.is_alphanumeric() || first == ')')
        || rest.contains(|character: char| character.is_numeric());
    let next_word: String =
        rest.trim_start().chars().take_while(|character| character.is_alphabetic()).collect();
    if is_glued || SCALES.contains(&next_word.to_lowercase().as_str()) {
        return None;
    }
    plain_number(&format!("{sign}{figure}"))
}

fn plain_number(text: &str) -> Option<Value> {
    let digits = if is_grouped(text) { text.replace(',', "") } else { text.to_owned() };
    let body = digits.trim_start_matches(['-', '+']);
    let is_number = body.starts_with(|first: char| first.is_ascii_digit() || first == '.')
        && body.bytes().all(|byte| byte.is_ascii_digit() || b".eE+-".contains(&byte));
    if !is_number {
        return None;
    }
    let unsigned = digits.trim_start_matches('+');
    if let Ok(integer) = unsigned.parse::<i64>() {
        return Some(Value::from(integer));
    }
    if body.bytes().all(|byte| byte.is_ascii_digit()) {
        // A larger integer would have to be rounded.
        return unsigned.parse::<u64>().ok().map(Value::from);
    }
    let float: f64 = digits.parse().ok()?;
    if float.fract() == 0.0 && float.abs() < 9e15 {
        return Some(Value::from(float as i64));
    }
    Number::from_f64(float).map(Value::Number)
}

/// Returns whether commas separate groups of three digits: `1,234` and `12,345,678.9`.
pub(crate) fn is_grouped(text: &str) -> bool {
    let whole = text.trim_start_matches(['-', '+']).split('.').next().unwrap_or_default();
    let mut groups = whole.split(',');
    let first = groups.next().unwrap_or_default();
    let all_digits = |group: &str| group.bytes().all(|byte| byte.is_ascii_digit());
    whole.contains(',')
        && (1..=3).contains(&first.len())
        && all_digits(first)
        && groups.all(|group| group.len() == 3 && all_digits(group))
}

/// Reads a boolean from a word.
pub(super) fn read_boolean(text: &str) -> Option<bool> {
    match normalise(text).as_str() {
        "true" | "yes" => Some(true),
        "false" | "no" => Some(false),
        _ => None,
    }
}

/// Returns the only boolean that a text mentions.
pub(super) fn find_boolean(text: &str) -> Option<bool> {
    match match_value(text, &[&Value::Bool(true), &Value::Bool(false)])? {
        Value::Bool(flag) => Some(*flag),
        _ => None,
    }
}

/// Returns the allowed value that a text means: equal except for case, punctuation and accents, or the only
/// one mentioned.
pub(super) fn match_value<'v>(text: &str, allowed: &[&'v Value]) -> Option<&'v Value> {
    if text.len() > TEXT_SEARCHED_MAX {
        return None;
    }
    let spelled = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let unique = |matches: &dyn Fn(&str) -> bool| {
        let mut matching = allowed.iter().filter(|value| matches(&spelled(value)));
        let first = matching.next()?;
        matching.all(|other| other == first).then_some(*first)
    };
    let trimmed = text.trim();
    if let Some(value) = unique(&|value| value == trimmed) {
        return Some(value);
    }
    let trimmed = without_list_mark(trimmed);
    let wanted = normalise(trimmed);
    if let Some(value) = unique(&|value| !wanted.is_empty() && signed(value) == signed(trimmed)) {
        return Some(value);
    }
    let words = words(trimmed);
    if words.len() < 2 {
        // A single word that equals no value cannot mention one: `A+`, `A-`.
        return None;
    }
    let mentioned: Vec<(&Value, Vec<String>)> = allowed
        .iter()
        .filter_map(|value| {
            let name = spelled(value);
            // `in_progress` is also mentioned as `in progress`.
            let names = [self::words(&name), self::words(&name.replace('_', " "))];
            Some((*value, names.into_iter().find(|name| positions(&words, name).next().is_some())?))
        })
        .collect();
    // `NOT SPAM` also mentions `SPAM`; the longer name was meant.
    let (longest, name) = mentioned.iter().max_by_key(|(_, name)| name.len())?;
    let is_covered = |short: &[String]| {
        positions(name, short).next().is_some()
            && positions(&words, short).count() == positions(&words, name).count()
    };
    let is_only = mentioned.iter().all(|(value, short)| value == longest || is_covered(short));
    let is_negated = |at: usize| {
        let before = &words[at.saturating_sub(NEGATED_WITHIN)..at];
        before.iter().any(|word| NEGATIONS.contains(&word.as_str()))
    };
    (is_only && positions(&words, name).any(|at| !is_negated(at))).then_some(*longest)
}

/// Returns a line without the mark of a Markdown list, heading or quotation: `- one`, `## one`.
fn without_list_mark(text: &str) -> &str {
    let rest = text.trim_start_matches(['-', '*', '#', '>', '•']);
    match rest.strip_prefix(' ') {
        Some(item) if rest.len() < text.len() => item.trim_start(),
        _ => text,
    }
}

/// Normalises like [`normalise`], but keeps a leading minus, decimal points, `+` and `#`, which distinguish
/// values.
fn signed(text: &str) -> String {
    let text = text.trim();
    let characters: Vec<char> = text.chars().collect();
    let is_digit = |index: Option<usize>| {
        index.and_then(|index| characters.get(index)).is_some_and(char::is_ascii_digit)
    };
    let mut kept = String::new();
    for (index, &character) in characters.iter().enumerate() {
        let between_digits = is_digit(index.checked_sub(1)) && is_digit(Some(index + 1));
        match character {
            '+' | '#' => kept.push(character),
            '-' if index == 0 => kept.push(character),
            '.' | ',' | '-' | '/' if between_digits => kept.push(character),
            _ if character.is_alphanumeric() => kept.extend(character.to_lowercase().map(plain_letter)),
            _ => {}
        }
    }
    kept
}

/// The number of words before a mention that are searched for a negation.
const NEGATED_WITHIN: usize = 3;

/// Words that negate a mention.
const NEGATIONS: [&str; 14] = [
    "not", "no", "non", "never", "without", "neither", "nor", "isnt", "arent", "wasnt", "dont", "doesnt",
    "cannot", "than",
];

/// Returns the normalised words of a text; an underscore does not end a word.
fn words(text: &str) -> Vec<String> {
    text.split(|character: char| !character.is_alphanumeric() && !matches!(character, '_' | '\'' | '’'))
        .map(normalise)
        .filter(|word| !word.is_empty())
        .collect()
}

/// Returns the positions at which the words of `name` occur consecutively in `text`.
fn positions<'t>(text: &'t [String], name: &'t [String]) -> impl Iterator<Item = usize> + 't {
    let length = name.len().max(1);
    text.windows(length).enumerate().filter(move |(_, window)| *window == name).map(|(at, _)| at)
}
