//! Text in files, and text in results.

/// How far a file is looked at for the byte that text does not have. Formats that are not text have it early.
const BINARY_LOOK_BYTES: usize = 8 * 1024;

/// Whether this is something other than text.
pub(crate) fn is_binary(bytes: &[u8]) -> bool {
    bytes.iter().take(BINARY_LOOK_BYTES).any(|byte| *byte == 0)
}

/// The first characters of a text, and whether there are more.
pub(crate) fn cut(text: &str, characters_max: usize) -> (&str, bool) {
    match text.char_indices().nth(characters_max) {
        Some((end, _)) => (&text[..end], true),
        None => (text, false),
    }
}
