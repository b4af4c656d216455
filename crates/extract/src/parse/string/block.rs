//! Blocks of text: code blocks and triple-quoted strings that start on a line of their own.

/// The longest line after an opening code fence that counts as its language tag, in bytes.
const TAG_MAX: usize = 64;

/// Returns the length of the line after an opening code fence if it names at most a language: `python`,
/// `c++`, `objective-c`.
pub(super) fn language_tag(rest: &[u8]) -> Option<usize> {
    let length = rest.iter().take(TAG_MAX).position(|&byte| byte == b'\n')?;
    let is_tag = |byte: &u8| byte.is_ascii_alphanumeric() || b"+#-._/".contains(byte);
    rest[..length].trim_ascii().iter().all(is_tag).then_some(length + 1)
}

/// Returns the lines after a line break that follows an opening quote, if the quote ends its line.
pub(super) fn after_opening_line(content: &str) -> Option<&str> {
    let rest = content.trim_start_matches([' ', '\t', '\r']);
    rest.strip_prefix('\n')
}

/// Removes the indentation that all lines share, and the white space at the end.
pub(super) fn dedent(text: &str) -> String {
    let text = text.trim_end();
    let indent = text
        .lines()
        .filter(|line| !line.trim_ascii().is_empty())
        .map(|line| line.len() - line.trim_start_matches([' ', '\t']).len())
        .min()
        .unwrap_or(0);
    let mut dedented = String::with_capacity(text.len());
    for (index, line) in text.split('\n').enumerate() {
        if index > 0 {
            dedented.push('\n');
        }
        // A blank line may be shorter than the indentation.
        dedented.push_str(line.get(indent..).unwrap_or_else(|| line.trim_start_matches([' ', '\t'])));
    }
    dedented
}
