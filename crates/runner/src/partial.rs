//! Keeps the text of a reply while it streams.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use slipform_model::{Error, Watch};

/// Maximum size of a partial reply, because the journal stores it twice: in the interruption and in the
/// salvage. The rest is dropped.
const PARTIAL_BYTES_MAX: usize = 256 * 1024;

/// Records streamed text and forwards everything to another watch.
pub(crate) struct Partial<'a> {
    watch: &'a dyn Watch,
    written: Mutex<Written>,
}

#[derive(Default)]
struct Written {
    text: String,
    /// Set when the call is retried. The next text replaces the old one; until then the old one is kept.
    is_superseded: bool,
    is_full: bool,
}

impl<'a> Partial<'a> {
    pub(crate) fn new(watch: &'a dyn Watch) -> Partial<'a> {
        Partial { watch, written: Mutex::default() }
    }

    /// Takes the text so far; `None` if it is blank.
    pub(crate) fn written(&self) -> Option<String> {
        let text = std::mem::take(&mut self.lock().text);
        Some(text).filter(|text| !text.trim().is_empty())
    }

    fn lock(&self) -> MutexGuard<'_, Written> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watch for Partial<'_> {
    fn tokens(&self, total: u64) {
        self.watch.tokens(total);
    }

    fn text(&self, piece: &str) {
        self.keep(piece);
        self.watch.text(piece);
    }

    fn arguments(&self, piece: &str) {
        self.keep(piece);
        self.watch.arguments(piece);
    }

    fn waiting(&self, wait: Duration, error: &Error) {
        self.lock().is_superseded = true;
        self.watch.waiting(wait, error);
    }
}

impl Partial<'_> {
    fn keep(&self, piece: &str) {
        let mut written = self.lock();
        if written.is_superseded {
            *written = Written::default();
        }
        if !written.is_full {
            let room = PARTIAL_BYTES_MAX - written.text.len();
            written.is_full = piece.len() > room;
            written.text.push_str(&piece[..piece.floor_char_boundary(room)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_retry_replaces_the_earlier_text() {
        let partial = Partial::new(&());
        partial.text("one ");
        partial.text("two");
        let error = Error::Incomplete { reason: "it broke off".to_owned() };
        partial.waiting(Duration::ZERO, &error);
        assert_eq!(partial.lock().text, "one two");
        partial.text("three");
        assert_eq!(partial.written().as_deref(), Some("three"));
        partial.text(" \n");
        assert_eq!(partial.written(), None);
    }

    #[test]
    fn partial_text_is_bounded_without_gaps() {
        let partial = Partial::new(&());
        partial.text(&"a".repeat(PARTIAL_BYTES_MAX - 1));
        partial.text("é");
        partial.text("b");
        assert_eq!(partial.written().unwrap().len(), PARTIAL_BYTES_MAX - 1);
    }
}
