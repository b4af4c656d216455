//! Helpers for text in files and results.

/// The length of a file's prefix that is searched for a NUL byte. Binary formats contain one early.
const BINARY_CHECK_BYTES: usize = 8 * 1024;

/// Returns whether the bytes are not text.
pub(crate) fn is_binary(bytes: &[u8]) -> bool {
    bytes.iter().take(BINARY_CHECK_BYTES).any(|byte| *byte == 0)
}

/// Returns the first characters of a text, and whether it was longer.
pub(crate) fn cut(text: &str, characters_max: usize) -> (&str, bool) {
    match text.char_indices().nth(characters_max) {
        Some((end, _)) => (&text[..end], true),
        None => (text, false),
    }
}
