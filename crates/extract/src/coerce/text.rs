//! Reading numbers, booleans and allowed values from strings.

use serde_json::{Number, Value};

use crate::repair::RepairKind;

/// The longest text that is searched for a figure, a yes or no, or one of the allowed values.
const TEXT_SEARCHED_MAX: usize = 20_000;

/// Letters and digits only, lower case and without accents: what two spellings of a name share.
pub(super) fn normalise(text: &str) -> String {
    text.chars()
        .filter(|character| character.is_alphanumeric())
        .flat_map(char::to_lowercase)
        .map(plain_letter)
        .collect()
}

/// The letter without its accent, for the Latin letters that have one.
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

/// A number written as a string, with what it took to read it: `"1,234"`, `"45%"`, `"$3"`, `"1/4"`, or
/// the only figure of a short text.
pub(super) fn read_number(text: &str) -> Option<(Value, RepairKind)> {
    let trimmed = text.trim().trim_matches(['"', '\'']).trim();
    if trimmed.len() > TEXT_SEARCHED_MAX {
        return None;
    }
    let (sign, rest) = match trimmed.strip_prefix(['-', '−']) {
        Some(rest) => ("-", rest),
        None => ("", trimmed.strip_prefix('+').unwrap_or(trimmed)),
    };
    let unadorned =
        rest.trim_matches(|character: char| character.is_whitespace() || "$€£¥₹%~≈*".contains(character));
    if let Some(number) = plain_number(&format!("{sign}{unadorned}")) {
        return Some((number, RepairKind::NumberRead));
    }
    if let Some((numerator, denominator)) = unadorned.split_once('/') {
        let numerator = plain_number(&format!("{sign}{}", numerator.trim()))?.as_f64()?;
        let denominator = plain_number(denominator.trim())?.as_f64()?;
        // `8/10` is a mark out of ten, not a fraction.
        let is_mark = denominator == 10.0 || denominator == 100.0;
        return Number::from_f64(numerator / denominator)
            .filter(|_| !is_mark)
            .map(|number| (Value::Number(number), RepairKind::NumberRead));
    }
    only_figure(trimmed).map(|number| (number, RepairKind::NumberFound))
}

/// Words after a figure that make it another number.
const SCALES: [&str; 12] =
    ["hundred", "thousand", "million", "billion", "trillion", "k", "m", "mn", "mio", "bn", "b", "dozen"];

/// The longest text, in words, whose only figure is taken for the number that was asked for.
const FIGURE_WORDS_MAX: usize = 6;

/// The only figure of a short text, unless something beside it says that it is not the whole number.
fn only_figure(text: &str) -> Option<Value> {
    if text.split_whitespace().count() > FIGURE_WORDS_MAX {
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
    // `A-5`, `5K`, `2½`, `($5)`, `3 to 5`: not a number of its own.
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
        // Beyond 64 bits it would have to be rounded.
        return unsigned.parse::<u64>().ok().map(Value::from);
    }
    let float: f64 = digits.parse().ok()?;
    if float.fract() == 0.0 && float.abs() < 9e15 {
        return Some(Value::from(float as i64));
    }
    Number::from_f64(float).map(Value::Number)
}

/// `1,234` and `12,345,678.9`: commas between groups of three.
fn is_grouped(text: &str) -> bool {
    let whole = text.trim_start_matches(['-', '+']).split('.').next().unwrap_or_default();
    let mut groups = whole.split(',');
    let first = groups.next().unwrap_or_default();
    let all_digits = |group: &str| group.bytes().all(|byte| byte.is_ascii_digit());
    whole.contains(',')
        && (1..=3).contains(&first.len())
        && all_digits(first)
        && groups.all(|group| group.len() == 3 && all_digits(group))
}

/// A boolean written as a word.
pub(super) fn read_boolean(text: &str) -> Option<bool> {
    match normalise(text).as_str() {
        "true" | "yes" => Some(true),
        "false" | "no" => Some(false),
        _ => None,
    }
}

/// The only boolean that a text mentions.
pub(super) fn find_boolean(text: &str) -> Option<bool> {
    match match_value(text, &[&Value::Bool(true), &Value::Bool(false)])? {
        Value::Bool(flag) => Some(*flag),
        _ => None,
    }
}

/// The one allowed value that a text means: the same but for case, punctuation and accents, or the
/// only one that it mentions.
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
    let wanted = normalise(trimmed);
    if let Some(value) = unique(&|value| !wanted.is_empty() && signed(value) == signed(trimmed)) {
        return Some(value);
    }
    let words = words(trimmed);
    if words.len() < 2 {
        // A single word that is none of the values is not one of them either: `A+`, `A-`.
        return None;
    }
    let mentioned: Vec<(&Value, Vec<String>)> = allowed
        .iter()
        .map(|value| (*value, self::words(&spelled(value))))
        .filter(|(_, name)| places(&words, name).next().is_some())
        .collect();
    // `NOT SPAM` also mentions `SPAM`; the longer name is the one that was meant.
    let (longest, name) = mentioned.iter().max_by_key(|(_, name)| name.len())?;
    let is_covered = |short: &[String]| {
        places(name, short).next().is_some() && places(&words, short).count() == places(&words, name).count()
    };
    let is_only = mentioned.iter().all(|(value, short)| value == longest || is_covered(short));
    let is_denied = |at: usize| {
        let before = &words[at.saturating_sub(NEGATED_WITHIN)..at];
        before.iter().any(|word| NEGATIONS.contains(&word.as_str()))
    };
    (is_only && places(&words, name).any(|at| !is_denied(at))).then_some(*longest)
}

/// [`normalise`] that keeps what tells values apart: a leading minus, a decimal point, `+` and `#`.
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

/// How many words before a mention are looked at.
const NEGATED_WITHIN: usize = 3;

/// Words that turn a mention into its opposite.
const NEGATIONS: [&str; 14] = [
    "not", "no", "non", "never", "without", "neither", "nor", "isnt", "arent", "wasnt", "dont", "doesnt",
    "cannot", "than",
];

/// The normalised words of a text; an underscore does not end a word.
fn words(text: &str) -> Vec<String> {
    text.split(|character: char| !character.is_alphanumeric() && !matches!(character, '_' | '\'' | '’'))
        .map(normalise)
        .filter(|word| !word.is_empty())
        .collect()
}

/// Where the words of `name` stand in `text`, one after the other.
fn places<'t>(text: &'t [String], name: &'t [String]) -> impl Iterator<Item = usize> + 't {
    let length = name.len().max(1);
    text.windows(length).enumerate().filter(move |(_, window)| *window == name).map(|(at, _)| at)
}
