//! A reply while it is written.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use slipform_model::{Error, Watch};

/// The most that is kept of a reply that is not waited for. It stands in the journal twice, as what happened and as what
/// is left of the run; what is longer loses its end.
const PARTIAL_BYTES_MAX: usize = 256 * 1024;

/// Keeps what is written, and passes on all that is told.
pub(crate) struct Partial<'a> {
    watch: &'a dyn Watch,
    written: Mutex<Written>,
}

#[derive(Default)]
struct Written {
    text: String,
    /// Whether what comes next begins anew. What was there before is kept until then.
    is_over: bool,
    is_full: bool,
}

impl<'a> Partial<'a> {
    pub(crate) fn of(watch: &'a dyn Watch) -> Partial<'a> {
        Partial { watch, written: Mutex::default() }
    }

    /// What was written so far, where it says anything.
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
        let mut written = self.lock();
        if written.is_over {
            *written = Written::default();
        }
        if !written.is_full {
            let room = PARTIAL_BYTES_MAX - written.text.len();
            written.is_full = piece.len() > room;
            written.text.push_str(&piece[..piece.floor_char_boundary(room)]);
        }
        drop(written);
        self.watch.text(piece);
    }

    fn waiting(&self, wait: Duration, error: &Error) {
        self.lock().is_over = true;
        self.watch.waiting(wait, error);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_try_counts_once_it_says_something() {
        let partial = Partial::of(&());
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
    fn what_is_kept_is_bounded_and_has_no_holes() {
        let partial = Partial::of(&());
        partial.text(&"a".repeat(PARTIAL_BYTES_MAX - 1));
        partial.text("é");
        partial.text("b");
        assert_eq!(partial.written().unwrap().len(), PARTIAL_BYTES_MAX - 1);
    }
}
