//! Options and limits of an extraction.

/// The longest text, in bytes. Model replies are far shorter. A longer text is refused before any work.
pub const TEXT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The deepest nesting of a document. It equals serde_json's limit, so that serde_json can parse every
/// result. A deeper document is refused.
pub const NESTING_MAX: usize = 128;

/// The kinds of repair that are allowed.
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
    /// The kinds of repair that are allowed; [`Mode::Strict`] by default.
    pub mode: Mode,
    /// Whether JSON may be found inside other text and repaired. If `false`, the whole trimmed text must be
    /// one JSON document.
    pub extract_json: bool,
    /// Whether the whole text must be one RFC 8259 document, byte for byte. Overrides the other options.
    pub strict_json_only: bool,
    /// The longest text, in bytes.
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
    /// Returns the defaults in lenient mode.
    pub fn lenient() -> Options {
        Options { mode: Mode::Lenient, ..Options::default() }
    }
}
