//! What extraction may do.

/// The longest text that is looked at, in bytes. Replies of models are far shorter; a longer text is
/// refused before any work is done.
pub const TEXT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The deepest nesting of a document. The same bound as serde_json's, so that what comes out of here
/// can be read again anywhere; a deeper document is refused.
pub const NESTING_MAX: usize = 128;

/// How much may be changed to make a text satisfy its contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Only lossless repair.
    #[default]
    Strict,
    /// Also lossy repair and schema-guided coercion, each change named.
    Lenient,
}

/// The options of one extraction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// How much may be changed.
    pub mode: Mode,
    /// Whether JSON may be found inside other text and repaired. Off, the trimmed whole text has to be
    /// one JSON document.
    pub extract_json: bool,
    /// Whether the whole text, byte for byte, has to be one RFC 8259 document. Wins over the rest.
    pub strict_json_only: bool,
    /// The longest text that is looked at.
    pub text_bytes_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            mode: Mode::Strict,
            extract_json: true,
            strict_json_only: false,
            text_bytes_max: TEXT_BYTES_MAX,
        }
    }
}

impl Options {
    /// The defaults in lenient mode.
    pub fn lenient() -> Options {
        Options { mode: Mode::Lenient, ..Options::default() }
    }
}
