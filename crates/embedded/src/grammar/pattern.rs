//! Translates JSON Schema patterns into regular expressions over JSON string literals, with quotes and escapes.

use std::fmt::Write as _;

use regex_syntax::hir::{Class, Hir, HirKind, Look};

use super::rx::Rx;

/// One character of a JSON string. Control characters other than tab and newline are excluded, because useful
/// answers do not contain them.
pub(super) const CHARACTER: &str = r#"(?:[^"\\\x00-\x1F\x7F]|\\["\\nt])"#;

/// The largest character class that keeps its control characters. Larger classes include them by accident.
const NAMED_CLASS_MAX: u32 = 16;

/// The largest translated pattern, in bytes. Larger ones are not enforced.
const PATTERN_BYTES_MAX: usize = 20_000;

/// Returns the strings of `least` to `most` characters.
pub(super) fn of_length(least: u64, most: Option<u64>) -> Rx {
    let most = most.map(|most| most.to_string()).unwrap_or_default();
    Rx::Regex(format!("\"{CHARACTER}{{{least},{most}}}\""))
}

/// The range of the length of a string, in characters. `most` is `None` if it is unbounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Length {
    pub(super) least: u64,
    pub(super) most: Option<u64>,
}

impl Length {
    const NONE: Length = Length { least: 0, most: Some(0) };

    fn then(self, next: Length) -> Length {
        let most = self.most.zip(next.most).map(|(left, right)| left.saturating_add(right));
        Length { least: self.least.saturating_add(next.least), most }
    }

    fn or(self, other: Length) -> Length {
        let most = self.most.zip(other.most).map(|(left, right)| left.max(right));
        Length { least: self.least.min(other.least), most }
    }

    fn times(self, least: u32, most: Option<u32>) -> Length {
        let most = match (self.most, most) {
            (Some(0), _) => Some(0),
            (Some(each), Some(times)) => Some(each.saturating_mul(u64::from(times))),
            _ => None,
        };
        Length { least: self.least.saturating_mul(u64::from(least)), most }
    }
}

/// A translated pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) rx: Rx,
    pub(super) length: Length,
}

/// The mode of a pattern's translation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PatternMode {
    /// Matches exactly the strings of the pattern.
    Exact,
    /// Bounds unlimited repetitions.
    Bounded,
    /// Bounds repetitions and anchors an unanchored pattern that apparently describes a whole string.
    Whole,
}

/// The bounds of unlimited repetitions, by their nesting depth.
const REPEATED_MAX: [u32; 3] = [80, 16, 4];

/// The most characters before or after an unanchored pattern.
const AROUND_MAX: u32 = 60;

/// Translates an ECMA 262 pattern exactly: the JSON strings in which it matches anywhere. Returns `None` if the
/// pattern is not regular or not supported.
pub(super) fn compile_exact(pattern: &str) -> Option<Rx> {
    compile(pattern, PatternMode::Exact).map(|shape| shape.rx)
}

/// Translates an ECMA 262 pattern in a given mode. Returns `None` if the pattern or the mode is not applicable.
pub(super) fn compile(pattern: &str, mode: PatternMode) -> Option<Shape> {
    let (ahead, rest) = leading_lookaheads(pattern)?;
    if mode == PatternMode::Whole && (!ahead.is_empty() || !describes_whole(&parse(&rest)?)) {
        return None;
    }
    let mut shape = simple(&rest, mode)?;
    for (is_negative, body) in ahead {
        let part = compile_exact(&format!("^(?:{body})"))?;
        shape.rx = if is_negative { shape.rx.without(part) } else { shape.rx.and(part) };
    }
    Some(shape)
}

/// Returns whether an unanchored pattern probably describes a whole string.
fn describes_whole(hir: &Hir) -> bool {
    let properties = hir.properties();
    let is_open =
        properties.look_set().is_empty() && !properties.is_literal() && !properties.is_alternation_literal();
    is_open
        && (properties.maximum_len().is_none() || properties.minimum_len().is_some_and(|least| least >= 4))
}

/// Translates a pattern in bounded mode after removing look-around and word boundaries.
pub(super) fn compile_approximate(pattern: &str) -> Option<Shape> {
    let mut rest = pattern.to_owned();
    while let Some(start) =
        ["(?=", "(?!", "(?<=", "(?<!"].iter().filter_map(|opening| rest.find(opening)).min()
    {
        let end = closing(&rest, start)?;
        rest.replace_range(start..=end, "");
    }
    simple(&rest.replace("\\b", ""), PatternMode::Bounded)
}

fn simple(pattern: &str, mode: PatternMode) -> Option<Shape> {
    let hir = parse(pattern)?;
    let mut writer = PatternWriter { text: String::new(), is_bounded: mode != PatternMode::Exact, depth: 0 };
    let is_open = mode != PatternMode::Whole;
    let length = writer.edge(&hir, is_open, is_open)?;
    let text = writer.text;
    (text.len() <= PATTERN_BYTES_MAX).then(|| Shape { rx: Rx::Regex(format!("\"(?:{text})\"")), length })
}

fn parse(pattern: &str) -> Option<Hir> {
    regex_syntax::ParserBuilder::new().nest_limit(100).build().parse(&translate(pattern)?).ok()
}

/// Splits leading look-aheads off an anchored pattern. Returns for each whether it is negative, and its body.
fn leading_lookaheads(pattern: &str) -> Option<(Vec<(bool, String)>, String)> {
    let Some(mut rest) = pattern.strip_prefix('^') else { return Some((Vec::new(), pattern.to_owned())) };
    let mut found = Vec::new();
    while rest.starts_with("(?=") || rest.starts_with("(?!") {
        let end = closing(rest, 0)?;
        found.push((rest.starts_with("(?!"), rest.get(3..end)?.to_owned()));
        rest = rest.get(end + 1..)?;
    }
    Some((found, format!("^{rest}")))
}

/// Returns the position of the parenthesis that closes the group at `start`.
fn closing(pattern: &str, start: usize) -> Option<usize> {
    let (mut depth, mut in_class, mut quoted) = (0, false, false);
    for (index, byte) in pattern.bytes().enumerate().skip(start) {
        match byte {
            _ if quoted => quoted = false,
            b'\\' => quoted = true,
            b'[' => in_class = true,
            b']' => in_class = false,
            b'(' if !in_class => depth += 1,
            b')' if !in_class => {
                depth -= 1;
                if depth == 0 {
                    return Some(index);
                }
            }
            _ => {}
        }
    }
    None
}

/// Rewrites an ECMA 262 pattern in the syntax of `regex_syntax`.
fn translate(pattern: &str) -> Option<String> {
    let characters: Vec<char> = pattern.chars().collect();
    let mut text = String::new();
    let (mut at, mut in_class, mut class_start) = (0, false, 0);
    while let Some(&character) = characters.get(at) {
        let next = characters.get(at + 1).copied();
        match character {
            '\\' => {
                at = escape(&characters, at, in_class, &mut text)?;
                continue;
            }
            '[' if in_class => text.push_str("\\["),
            '[' => {
                in_class = true;
                text.push('[');
                if next == Some('^') {
                    text.push('^');
                    at += 1;
                }
                class_start = at + 1;
                // Only ECMA allows `[]`, which matches nothing, and `[^]`, which matches everything.
                if characters.get(at + 1) == Some(&']') {
                    return None;
                }
            }
            ']' if in_class => {
                in_class = false;
                text.push(']');
            }
            '-' if in_class && is_plain_dash(&characters, at, class_start) => text.push_str("\\-"),
            '&' | '~' if in_class => {
                text.push('\\');
                text.push(character);
            }
            '{' if !in_class && !is_repetition(&characters, at) => text.push_str("\\{"),
            '\n' => text.push_str("\\n"),
            _ => text.push(character),
        }
        at += 1;
    }
    Some(text)
}

/// Returns whether a dash in a class is a literal.
fn is_plain_dash(characters: &[char], at: usize, class_start: usize) -> bool {
    let after_class = at >= class_start + 2
        && characters.get(at - 2) == Some(&'\\')
        && characters.get(at - 1).is_some_and(|character| "dwsDWS".contains(*character));
    let before_class = characters.get(at + 1) == Some(&'\\')
        && characters.get(at + 2).is_some_and(|character| "dwsDWS".contains(*character));
    at == class_start || characters.get(at + 1) == Some(&']') || after_class || before_class
}

fn is_repetition(characters: &[char], at: usize) -> bool {
    let inner: String = characters.iter().skip(at + 1).take_while(|character| **character != '}').collect();
    let closed = characters.len() > at + 1 + inner.chars().count();
    closed
        && inner.starts_with(|first: char| first.is_ascii_digit())
        && inner.chars().all(|character| character.is_ascii_digit() || character == ',')
}

/// Rewrites the escape sequence at `at` and returns the position after it.
fn escape(characters: &[char], at: usize, in_class: bool, text: &mut String) -> Option<usize> {
    let character = *characters.get(at + 1)?;
    let class = |set: &str| if in_class { set.to_owned() } else { format!("[{set}]") };
    let hexadecimal = |length: usize| -> Option<u32> {
        let digits: String = characters.get(at + 2..at + 2 + length)?.iter().collect();
        u32::from_str_radix(&digits, 16).ok()
    };
    match character {
        'd' => text.push_str(&class("0-9")),
        'w' => text.push_str(&class("0-9A-Za-z_")),
        's' => text.push_str(&class(" \\t\\n\\r")),
        'D' => text.push_str("[^0-9]"),
        'W' => text.push_str("[^0-9A-Za-z_]"),
        'S' => text.push_str("[^\\s\\x{feff}]"),
        'u' => match hexadecimal(4) {
            Some(code) => {
                let _ = write!(text, "\\x{{{code:x}}}");
                return Some(at + 6);
            }
            None => text.push('u'),
        },
        'x' => {
            let _ = write!(text, "\\x{{{:x}}}", hexadecimal(2)?);
            return Some(at + 4);
        }
        'p' | 'P' if characters.get(at + 2) == Some(&'{') => {
            let name: String =
                characters.iter().skip(at + 3).take_while(|character| **character != '}').collect();
            let name = if name.eq_ignore_ascii_case("digit") { "Nd" } else { name.as_str() };
            let _ = write!(text, "\\{character}{{{name}}}");
            let length = characters.iter().skip(at).position(|character| *character == '}')?;
            return Some(at + length + 1);
        }
        'c' if characters.get(at + 2).is_some_and(char::is_ascii_alphabetic) => {
            let code = characters.get(at + 2).map_or(0, |letter| u32::from(*letter) % 32);
            let _ = write!(text, "\\x{{{code:x}}}");
            return Some(at + 3);
        }
        'p' | 'P' | 't' | 'n' | 'r' | 'f' | 'v' | 'b' | 'B' => {
            text.push('\\');
            text.push(character);
        }
        '0' => text.push_str("\\x00"),
        // Back-references are not regular.
        '1'..='9' | 'k' => return None,
        _ => text.push_str(&regex_syntax::escape(&character.to_string())),
    }
    Some(at + 2)
}

/// Writes a parsed pattern as an expression over JSON strings.
struct PatternWriter {
    text: String,
    is_bounded: bool,
    /// The number of enclosing unlimited repetitions.
    depth: usize,
}

impl PatternWriter {
    /// Writes arbitrary characters if `is_open` is set.
    fn any(&mut self, is_open: bool) -> Length {
        if !is_open {
            return Length::NONE;
        }
        let most = self.is_bounded.then_some(AROUND_MAX);
        let _ =
            write!(self.text, "{CHARACTER}{{0,{}}}", most.map(|most| most.to_string()).unwrap_or_default());
        Length { least: 0, most: most.map(u64::from) }
    }

    /// Writes a part of a pattern that may have anchors at its edges. Arbitrary characters may precede or follow
    /// an open edge without an anchor.
    fn edge(&mut self, hir: &Hir, left: bool, right: bool) -> Option<Length> {
        match hir.kind() {
            HirKind::Look(Look::Start) if left => Some(self.any(right)),
            HirKind::Look(Look::End) if right => Some(self.any(left)),
            HirKind::Capture(capture) => self.edge(&capture.sub, left, right),
            HirKind::Alternation(branches) => {
                let mut length: Option<Length> = None;
                self.text.push_str("(?:");
                for (index, branch) in branches.iter().enumerate() {
                    if index > 0 {
                        self.text.push('|');
                    }
                    let own = self.edge(branch, left, right)?;
                    length = Some(length.map_or(own, |length| length.or(own)));
                }
                self.text.push(')');
                length
            }
            HirKind::Concat(parts) => self.sequence(parts, left, right),
            _ => {
                let before = self.any(left);
                let length = self.inner(hir)?;
                Some(before.then(length).then(self.any(right)))
            }
        }
    }

    fn sequence(&mut self, parts: &[Hir], left: bool, right: bool) -> Option<Length> {
        let starts = |part: &Hir| left && matches!(part.kind(), HirKind::Look(Look::Start));
        let ends = |part: &Hir| right && matches!(part.kind(), HirKind::Look(Look::End));
        let skipped = parts.iter().take_while(|part| starts(part)).count();
        let kept = parts.get(skipped..)?;
        let dropped = kept.iter().rev().take_while(|part| ends(part)).count();
        let kept = kept.get(..kept.len() - dropped)?;
        let (left, right) = (left && skipped == 0, right && dropped == 0);
        if kept.is_empty() {
            return Some(self.any(left || right));
        }
        let mut length = Length::NONE;
        for (index, part) in kept.iter().enumerate() {
            let own = self.edge(part, left && index == 0, right && index + 1 == kept.len())?;
            length = length.then(own);
        }
        Some(length)
    }

    fn inner(&mut self, hir: &Hir) -> Option<Length> {
        let one = Length { least: 1, most: Some(1) };
        match hir.kind() {
            HirKind::Empty => Some(Length::NONE),
            HirKind::Literal(literal) => {
                let text = std::str::from_utf8(&literal.0).ok()?;
                for character in text.chars() {
                    write_character(character, &mut self.text);
                }
                let count = text.chars().count() as u64;
                Some(Length { least: count, most: Some(count) })
            }
            HirKind::Class(Class::Unicode(class)) => {
                let ranges = class.ranges().iter().map(|range| (range.start(), range.end()));
                write_class(ranges.collect(), &mut self.text).map(|()| one)
            }
            HirKind::Class(Class::Bytes(class)) => {
                let ranges =
                    class.ranges().iter().map(|range| (char::from(range.start()), char::from(range.end())));
                write_class(ranges.collect(), &mut self.text).map(|()| one)
            }
            HirKind::Look(_) => None,
            HirKind::Repetition(repetition) => self.repetition(repetition),
            HirKind::Capture(capture) => self.inner(&capture.sub),
            HirKind::Concat(parts) => {
                parts.iter().try_fold(Length::NONE, |length, part| Some(length.then(self.inner(part)?)))
            }
            HirKind::Alternation(_) => self.edge(hir, false, false),
        }
    }

    fn repetition(&mut self, repetition: &regex_syntax::hir::Repetition) -> Option<Length> {
        let is_endless = repetition.max.is_none();
        let bound = REPEATED_MAX.get(self.depth).copied().unwrap_or(2);
        let most = match repetition.max {
            None if self.is_bounded => Some(repetition.min.saturating_mul(2).max(bound)),
            stated => stated,
        };
        self.depth += usize::from(is_endless);
        self.text.push_str("(?:");
        let each = self.inner(&repetition.sub)?;
        self.depth -= usize::from(is_endless);
        let _ = write!(
            self.text,
            "){{{},{}}}",
            repetition.min,
            most.map(|most| most.to_string()).unwrap_or_default()
        );
        Some(each.times(repetition.min, most))
    }
}

/// Writes a regular expression for one character of a JSON string.
fn write_character(character: char, text: &mut String) {
    match character {
        '"' => text.push_str("\\\\\""),
        '\\' => text.push_str("\\\\\\\\"),
        '\n' => text.push_str("\\\\n"),
        '\t' => text.push_str("\\\\t"),
        '\r' => text.push_str("\\\\r"),
        control if control.is_ascii_control() => {
            let _ = write!(text, "\\\\u{:04x}", u32::from(control));
        }
        _ => text.push_str(&regex_syntax::escape(&character.to_string())),
    }
}

fn write_class(ranges: Vec<(char, char)>, text: &mut String) -> Option<()> {
    let size: u32 = ranges.iter().map(|(start, end)| u32::from(*end) - u32::from(*start) + 1).sum();
    let is_escaped = |character: char| character.is_ascii_control() || character == '"' || character == '\\';
    let contains = |wanted: char| ranges.iter().any(|(start, end)| (*start..=*end).contains(&wanted));
    let mut plain = String::new();
    for (start, end) in &ranges {
        // All escaped characters are ASCII, so the rest of a range is not split.
        let mut from = u32::from(*start);
        for code in u32::from(*start)..=u32::from(*end).min(0x7f) {
            if char::from_u32(code).is_some_and(is_escaped) {
                write_range(from, code.checked_sub(1), &mut plain);
                from = code + 1;
            }
        }
        write_range(from, Some(u32::from(*end)), &mut plain);
    }
    let mut options = Vec::new();
    if !plain.is_empty() {
        options.push(format!("[{plain}]"));
    }
    for character in ('\0'..='\u{7f}').filter(|character| is_escaped(*character) && contains(*character)) {
        let is_printable = !character.is_ascii_control();
        if is_printable || size <= NAMED_CLASS_MAX {
            let mut escaped = String::new();
            write_character(character, &mut escaped);
            options.push(escaped);
        }
    }
    if options.is_empty() {
        return None;
    }
    let _ = write!(text, "(?:{})", options.join("|"));
    Some(())
}

fn write_range(from: u32, to: Option<u32>, text: &mut String) {
    if let Some(to) = to.filter(|to| from <= *to) {
        let _ = write!(text, "\\x{{{from:x}}}-\\x{{{to:x}}}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_json_strings() {
        let cases: &[(&str, &[&str], &[&str])] = &[
            ("^a+$", &["a", "aaa"], &["", "ab", "ba"]),
            ("b", &["b", "abc"], &["ac"]),
            (r"^\d{2}-[\w-.]+$", &["12-a-.", "00-_"], &["1-a", "12-"]),
            ("^(foo|bar$)", &["foox", "bar"], &["barx", "xfoo"]),
            (r#"^"\\$"#, &["\"\\"], &["\\"]),
            ("^(?!no).*$", &["yes", "n"], &["no", "none"]),
            ("^(?=.*[A-Z])(?=.*[0-9]).{3,}$", &["aA1", "1xB"], &["abc", "A1"]),
            (r"\.json$", &["a.json"], &["a.jsonx"]),
            ("(^|,)x", &["x", "a,x"], &["ax"]),
            (r"^[^\s/]+$", &["ab"], &["a b", "a/b"]),
            ("^{.*}$", &["{}"], &["x"]),
        ];
        for (pattern, good, bad) in cases {
            let rx = compile_exact(pattern).unwrap_or_else(|| panic!("{pattern} is not supported"));
            let quoted = |text: &str| serde_json::Value::from(text).to_string();
            assert!(good.iter().all(|text| rx.matches(&quoted(text))), "{pattern} {rx:?}");
            assert!(!bad.iter().any(|text| rx.matches(&quoted(text))), "{pattern} {rx:?}");
        }
    }

    #[test]
    fn patterns_that_are_not_regular_are_refused() {
        for pattern in [r"(a)\1", "a(?=b)c", r"\bword\b"] {
            assert_eq!(compile_exact(pattern), None, "{pattern}");
        }
        assert!(compile_approximate("a(?=b)c").is_some());
    }
}
