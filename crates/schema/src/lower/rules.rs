//! The keywords that each dialect enforces.

use super::Dialect;

/// The bounds on numbers that a backend enforces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bounds {
    Enforced,
    IntegersOnly,
    Ignored,
}

/// The part of JSON Schema that a backend enforces.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    /// Objects must list their properties and allow no others. The backend enforces nothing if the schema has
    /// free keys, tuples or values of any type.
    pub(super) closed: bool,
    /// Every property must be required; optional ones are made nullable.
    pub(super) all_required: bool,
    /// Schemas may refer to themselves.
    pub(super) recursion: bool,
    /// Titles, defaults and examples are accepted beside `description`.
    pub(super) annotations: bool,
    /// `oneOf` is accepted, though read as `anyOf`.
    pub(super) one_of: bool,
    /// Objects and arrays may be among enumerated values.
    pub(super) compound_values: bool,
    /// The treatment of `minimum`, `maximum` and their exclusive forms.
    pub(super) bounds: Bounds,
    /// `multipleOf` is enforced.
    pub(super) multiple_of: bool,
    /// `minProperties` and `maxProperties` are enforced.
    pub(super) property_counts: bool,
    /// `minLength` and `maxLength` are enforced.
    pub(super) lengths: bool,
    /// `maxItems`, and `minItems` above one, are enforced.
    pub(super) item_counts: bool,
    /// A tuple is generated with exactly its items, no fewer and no more.
    pub(super) exact_tuples: bool,
    /// Patterns are enforced only if they span the whole string and need no escapes, because some GBNF
    /// servers crash on escapes.
    pub(super) anchored_patterns: bool,
    /// The order in which one of these keywords is enforced on a string; the other keyword and lengths are
    /// then ignored.
    pub(super) string_precedence: Option<[&'static str; 2]>,
    /// The formats that are enforced.
    pub(super) formats: &'static [&'static str],
    /// The largest count or length; the server refuses schemas with larger ones.
    pub(super) repetitions_max: u64,
    /// Limits on the size of the whole schema.
    pub(super) limits: Option<Limits>,
}

/// Size limits of a schema, above which a backend refuses it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) nesting_max: usize,
    pub(super) properties_max: usize,
    pub(super) values_max: usize,
}

/// The limits in OpenAI's documentation.
const OPENAI_LIMITS: Limits = Limits { nesting_max: 10, properties_max: 5_000, values_max: 1_000 };

/// The most repetitions of one grammar rule. Above it, llama.cpp's grammar compiler refuses the schema and
/// some servers crash.
const GBNF_REPETITIONS_MAX: u64 = 1_000;

const OPENAI_FORMATS: [&str; 9] =
    ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];

const ANTHROPIC_FORMATS: [&str; 10] =
    ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri"];

const GBNF_FORMATS: [&str; 4] = ["date", "time", "date-time", "uuid"];

const VLLM_FORMATS: [&str; 14] = [
    "date-time",
    "time",
    "date",
    "duration",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "uuid",
    "uri",
    "uri-reference",
    "uri-template",
    "json-pointer",
    "relative-json-pointer",
];

const OPENAI: Rules = Rules {
    closed: true,
    all_required: true,
    recursion: true,
    annotations: false,
    one_of: false,
    compound_values: false,
    bounds: Bounds::Enforced,
    multiple_of: true,
    property_counts: false,
    lengths: false,
    item_counts: true,
    exact_tuples: false,
    anchored_patterns: false,
    string_precedence: None,
    formats: &OPENAI_FORMATS,
    repetitions_max: u64::MAX,
    limits: Some(OPENAI_LIMITS),
};

const ANTHROPIC: Rules = Rules {
    all_required: false,
    recursion: false,
    bounds: Bounds::Ignored,
    multiple_of: false,
    item_counts: false,
    formats: &ANTHROPIC_FORMATS,
    limits: None,
    ..OPENAI
};

const GBNF: Rules = Rules {
    closed: false,
    all_required: false,
    recursion: true,
    annotations: true,
    one_of: true,
    compound_values: true,
    bounds: Bounds::IntegersOnly,
    multiple_of: false,
    property_counts: false,
    lengths: true,
    item_counts: true,
    exact_tuples: true,
    anchored_patterns: true,
    string_precedence: Some(["pattern", "format"]),
    formats: &GBNF_FORMATS,
    repetitions_max: GBNF_REPETITIONS_MAX,
    limits: None,
};

const VLLM: Rules = Rules {
    bounds: Bounds::Enforced,
    property_counts: true,
    exact_tuples: false,
    anchored_patterns: false,
    string_precedence: Some(["format", "pattern"]),
    formats: &VLLM_FORMATS,
    repetitions_max: u64::MAX,
    ..GBNF
};

/// Returns the rules of a dialect; `None` for an unknown backend.
pub(super) fn of(dialect: Dialect) -> Option<Rules> {
    match dialect {
        Dialect::OpenAi => Some(OPENAI),
        Dialect::Anthropic => Some(ANTHROPIC),
        Dialect::LmStudio | Dialect::Ollama | Dialect::LlamaCpp => Some(GBNF),
        Dialect::Vllm => Some(VLLM),
        Dialect::Generic => None,
    }
}

impl Rules {
    /// Returns a pattern in the form that the backend enforces; `None` if it does not enforce it.
    pub(super) fn pattern(&self, pattern: &str) -> Option<String> {
        if !is_regular(pattern) {
            return None;
        }
        if self.anchored_patterns {
            is_anchored(pattern).then(|| unescaped(pattern))?
        } else {
            Some(pattern.to_owned())
        }
    }
}

/// Returns an equivalent pattern without escapes, if one exists: `\d` and `\w` become classes, escaped
/// characters become classes of one character.
fn unescaped(pattern: &str) -> Option<String> {
    let mut plain = String::with_capacity(pattern.len());
    let mut in_class = false;
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        match character {
            '[' if !in_class => in_class = true,
            ']' => in_class = false,
            '\\' => {
                let set = match characters.next()? {
                    'd' => "0-9".to_owned(),
                    'w' => "a-zA-Z0-9_".to_owned(),
                    literal @ ('.' | '/' | '+' | '*' | '?' | '(' | ')' | '{' | '}' | '|' | '$' | '@'
                    | ':' | '_' | ' ') => literal.to_string(),
                    // Outside a class a hyphen is literal; inside it would form a range.
                    '-' if !in_class => "-".to_owned(),
                    _ => return None,
                };
                plain.push_str(&if in_class { set } else { format!("[{set}]") });
                continue;
            }
            _ => {}
        }
        plain.push(character);
    }
    Some(plain)
}

/// Returns whether a pattern has no look-around, backreferences and boundaries, which no grammar can express.
fn is_regular(pattern: &str) -> bool {
    let mut characters = pattern.chars().peekable();
    let mut before = ' ';
    while let Some(character) = characters.next() {
        if character == '\\' {
            let escaped = characters.next().unwrap_or(' ');
            if matches!(escaped, '1'..='9' | 'b' | 'B' | 'k' | 'p' | 'P') {
                return false;
            }
            before = ' ';
            continue;
        }
        if before == '(' && character == '?' && characters.peek() != Some(&':') {
            return false;
        }
        before = character;
    }
    true
}

/// Returns whether a pattern matches whole strings only.
fn is_anchored(pattern: &str) -> bool {
    let Some(inner) = pattern.strip_prefix('^').and_then(|rest| rest.strip_suffix('$')) else { return false };
    let backslashes = inner.chars().rev().take_while(|character| *character == '\\').count();
    backslashes % 2 == 0
}

#[cfg(test)]
mod tests {
    use super::unescaped;

    #[test]
    fn escapes_become_classes() {
        for (pattern, plain) in [
            (r"^[0-9]+\.[0-9]+$", Some("^[0-9]+[.][0-9]+$")),
            (r"^\d{3}-\w+$", Some("^[0-9]{3}-[a-zA-Z0-9_]+$")),
            (r"^[\w.]+@[\d\.]+$", Some("^[a-zA-Z0-9_.]+@[0-9.]+$")),
            (r"^a\-b$", Some("^a[-]b$")),
            (r"^[a\-b]$", None),
            (r"^\s+$", None),
            (r"^a\$", Some("^a[$]")),
            ("^plain$", Some("^plain$")),
        ] {
            assert_eq!(unescaped(pattern).as_deref(), plain, "{pattern}");
        }
    }
}
