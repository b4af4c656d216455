//! Locations in a document: JSONPath for people and models, JSON Pointer for programs.

use std::fmt::Write as _;

/// One step from an object or array to one of its children.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Segment {
    /// A property of an object.
    Key(String),
    /// An item of an array, counted from zero.
    Index(usize),
}

/// Renders a location as JSONPath: `$.issues[0].severity`, `$['odd key']`.
pub fn json_path(segments: &[Segment]) -> String {
    let mut path = String::from("$");
    for segment in segments {
        match segment {
            Segment::Key(key) if is_plain(key) => {
                path.push('.');
                path.push_str(key);
            }
            Segment::Key(key) => {
                path.push_str("['");
                for character in key.chars() {
                    if matches!(character, '\'' | '\\') {
                        path.push('\\');
                    }
                    if character.is_control() {
                        path.extend(character.escape_default());
                    } else {
                        path.push(character);
                    }
                }
                path.push_str("']");
            }
            Segment::Index(index) => {
                let _ = write!(path, "[{index}]");
            }
        }
    }
    path
}

/// Parses a JSONPath that [`json_path`] rendered. Returns `None` for other syntax.
pub fn parse_json_path(path: &str) -> Option<Vec<Segment>> {
    let mut rest = path.strip_prefix('$')?;
    let mut segments = Vec::new();
    while !rest.is_empty() {
        if let Some(name) = rest.strip_prefix('.') {
            let end = name.find(['.', '[']).unwrap_or(name.len());
            segments.push(Segment::Key(name[..end].to_owned()));
            rest = &name[end..];
        } else if let Some(quoted) = rest.strip_prefix("['") {
            let (key, after) = quoted_key(quoted)?;
            segments.push(Segment::Key(key));
            rest = after;
        } else {
            let (index, after) = rest.strip_prefix('[')?.split_once(']')?;
            segments.push(Segment::Index(index.parse().ok()?));
            rest = after;
        }
    }
    Some(segments)
}

/// Parses a key up to its closing `']`. Returns `None` for keys with escaped control characters, which are
/// rare.
fn quoted_key(text: &str) -> Option<(String, &str)> {
    let mut key = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => match characters.next()?.1 {
                escaped @ ('\'' | '\\') => key.push(escaped),
                _ => return None,
            },
            '\'' => return text[at..].strip_prefix("']").map(|rest| (key, rest)),
            other => key.push(other),
        }
    }
    None
}

/// Renders a location as JSON Pointer (RFC 6901): `/issues/0/severity`, the root as the empty string.
pub fn json_pointer(segments: &[Segment]) -> String {
    let mut pointer = String::new();
    for segment in segments {
        pointer.push('/');
        match segment {
            Segment::Key(key) => pointer.push_str(&escape_pointer(key)),
            Segment::Index(index) => {
                let _ = write!(pointer, "{index}");
            }
        }
    }
    pointer
}

/// Escapes one reference token of a JSON Pointer.
pub fn escape_pointer(token: &str) -> String {
    token.replace('~', "~0").replace('/', "~1")
}

/// Reverts [`escape_pointer`].
pub fn unescape_pointer(token: &str) -> String {
    token.replace("~1", "/").replace("~0", "~")
}

/// Returns whether a key needs no quotes in JSONPath.
fn is_plain(key: &str) -> bool {
    let mut characters = key.chars();
    characters.next().is_some_and(|first| first.is_alphabetic() || matches!(first, '_' | '$'))
        && characters.all(|character| character.is_alphanumeric() || matches!(character, '_' | '-'))
}

/// One step of a pattern that matches several locations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PatternStep {
    /// A member of an object.
    Key(String),
    /// Every item of a list.
    Each,
}

/// Parses a pattern such as `$.findings[*].files[*]`, which consists of names and `[*]`. Returns `None` for
/// other syntax and for `$` alone.
pub fn parse_pattern(pattern: &str) -> Option<Vec<PatternStep>> {
    let mut rest = pattern.strip_prefix('$').filter(|rest| !rest.is_empty())?;
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix("[*]") {
            steps.push(PatternStep::Each);
            rest = after;
            continue;
        }
        let after = rest.strip_prefix('.')?;
        let end = after.find(['.', '[', ']', '*']).unwrap_or(after.len());
        if end == 0 {
            return None;
        }
        steps.push(PatternStep::Key(after[..end].to_owned()));
        rest = &after[end..];
    }
    Some(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_and_pointer_escape_special_keys() {
        let place = [
            Segment::Key("issues".into()),
            Segment::Index(0),
            Segment::Key("odd key's/~".into()),
            Segment::Key("kebab-case".into()),
        ];
        assert_eq!(json_path(&place), r"$.issues[0]['odd key\'s/~'].kebab-case");
        assert_eq!(parse_json_path(&json_path(&place)).as_deref(), Some(&place[..]));
        assert_eq!(parse_json_path("$"), Some(Vec::new()));
        for broken in ["", "x", "$[", "$['a", "$[x]"] {
            assert_eq!(parse_json_path(broken), None, "{broken}");
        }
        assert_eq!(json_pointer(&place), "/issues/0/odd key's~1~0/kebab-case");
        assert_eq!(json_path(&[]), "$");
        assert_eq!(json_pointer(&[]), "");
    }
}
