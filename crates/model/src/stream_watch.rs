//! Reports a reply to a [`Watch`] while it is received.

use slipform_types::Reply;

use crate::Watch;
use crate::secret::Secret;

/// Reports the new parts of a growing reply, with the key redacted even if it is split over several chunks. A
/// remainder that may be the start of the key is never reported.
pub(crate) struct StreamWatch<'a> {
    secret: &'a Secret,
    watch: &'a dyn Watch,
    /// The number of reported bytes of each part: the text, then the arguments of each tool call.
    reported: Vec<usize>,
    /// The part reported last; `None` before the first report.
    last: Option<usize>,
    /// Text that may be the start of the key and is not reported yet.
    held: String,
}

impl<'a> StreamWatch<'a> {
    pub(crate) fn new(secret: &'a Secret, watch: &'a dyn Watch) -> StreamWatch<'a> {
        StreamWatch { secret, watch, reported: Vec::new(), last: None, held: String::new() }
    }

    /// Reports the text received since the last report. A change of part starts a new line.
    pub(crate) fn report(&mut self, reply: &Reply) {
        let arguments = reply.tool_calls.iter().map(|call| &call.arguments);
        let mut piece = std::mem::take(&mut self.held);
        for (index, part) in std::iter::once(&reply.text).chain(arguments).enumerate() {
            if index == self.reported.len() {
                self.reported.push(0);
            }
            let new = part.get(self.reported[index]..).unwrap_or_default();
            if new.is_empty() {
                continue;
            }
            self.reported[index] = part.len();
            if self.last.replace(index).is_some_and(|last| last != index) {
                piece.push('\n');
            }
            piece.push_str(new);
        }
        let (clean, held) = self.secret.redact_piece(piece);
        self.held = held;
        if !clean.is_empty() {
            self.watch.text(&clean);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use slipform_types::ToolCall;

    use super::*;

    #[derive(Default)]
    struct RecordingWatch(Mutex<String>);

    impl Watch for RecordingWatch {
        fn text(&self, piece: &str) {
            self.0.lock().unwrap().push_str(piece);
        }
    }

    fn reported(key: &str, pieces: &[&str]) -> String {
        let (secret, watch) = (Secret::new(Some(key.to_owned())), RecordingWatch::default());
        let (mut stream_watch, mut reply) = (StreamWatch::new(&secret, &watch), Reply::default());
        for piece in pieces {
            reply.text.push_str(piece);
            stream_watch.report(&reply);
        }
        watch.0.into_inner().unwrap()
    }

    #[test]
    fn key_split_over_pieces_is_redacted() {
        let key = "sk-canary-123";
        for at in 0..=key.len() {
            let (begin, end) = key.split_at(at);
            assert_eq!(reported(key, &["é <", begin, end, "> sk"]), "é <[redacted]> ", "{at}");
        }
        assert_eq!(reported(key, &["sk-canary", " is a bird"]), "sk-canary is a bird");
        assert_eq!(reported("xyzxyzxyzxyz", &["xyzxyzxyz", "xyz", "."]), "[redacted].");
        assert_eq!(reported("ollama", &["olla", "ma"]), "ollama", "placeholder keys are not redacted");
    }

    #[test]
    fn tool_arguments_start_a_new_line() {
        let (secret, watch) = (Secret::default(), RecordingWatch::default());
        let mut stream_watch = StreamWatch::new(&secret, &watch);
        let call = |arguments: &str| ToolCall {
            id: "a".to_owned(),
            name: "t".to_owned(),
            arguments: arguments.to_owned(),
        };
        let mut reply = Reply { text: "So.".to_owned(), ..Reply::default() };
        stream_watch.report(&reply);
        for arguments in ["{", "{\"a\": 1"] {
            reply.tool_calls = vec![call(arguments)];
            stream_watch.report(&reply);
        }
        assert_eq!(watch.0.into_inner().unwrap(), "So.\n{\"a\": 1");
    }
}
