//! Reports a reply to a [`Watch`] while it is received.

use slipform_types::Reply;

use crate::Watch;
use crate::secret::Secret;

/// Reports the new parts of a growing reply, with the key redacted even if it is split over several chunks. A
/// remainder that may be the start of the key is never reported.
pub(crate) struct StreamWatch<'a> {
    secret: &'a Secret,
    watch: &'a dyn Watch,
    /// The number of reported bytes of the text.
    text: usize,
    /// The number of reported bytes of each call's arguments.
    arguments: Vec<usize>,
    /// The call reported last.
    last: Option<usize>,
    /// Text that may be the start of the key and is not reported yet.
    held_text: String,
    /// Arguments that may be the start of the key and are not reported yet.
    held_arguments: String,
}

impl<'a> StreamWatch<'a> {
    pub(crate) fn new(secret: &'a Secret, watch: &'a dyn Watch) -> StreamWatch<'a> {
        StreamWatch {
            secret,
            watch,
            text: 0,
            arguments: Vec::new(),
            last: None,
            held_text: String::new(),
            held_arguments: String::new(),
        }
    }

    /// Reports what was received since the last report.
    pub(crate) fn report(&mut self, reply: &Reply) {
        let new = reply.text.get(self.text..).unwrap_or_default();
        if !new.is_empty() {
            self.text = reply.text.len();
            let clean = redact(self.secret, &mut self.held_text, new);
            if !clean.is_empty() {
                self.watch.text(&clean);
            }
        }
        let piece = self.new_arguments(reply);
        if !piece.is_empty() {
            let clean = redact(self.secret, &mut self.held_arguments, &piece);
            if !clean.is_empty() {
                self.watch.arguments(&clean);
            }
        }
    }

    /// Returns the new arguments of all calls. Another call starts a new line, and so do calls after a text.
    fn new_arguments(&mut self, reply: &Reply) -> String {
        let mut piece = String::new();
        for (index, call) in reply.tool_calls.iter().enumerate() {
            if index == self.arguments.len() {
                self.arguments.push(0);
            }
            let new = call.arguments.get(self.arguments[index]..).unwrap_or_default();
            if new.is_empty() {
                continue;
            }
            self.arguments[index] = call.arguments.len();
            let last = self.last.replace(index);
            if last.is_some_and(|last| last != index) || (last.is_none() && self.text > 0) {
                piece.push('\n');
            }
            piece.push_str(new);
        }
        piece
    }
}

/// Returns what can be reported of the text so far. The rest is held until more is known.
fn redact(secret: &Secret, held: &mut String, new: &str) -> String {
    let mut piece = std::mem::take(held);
    piece.push_str(new);
    let (clean, rest) = secret.redact_piece(piece);
    *held = rest;
    clean
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

        fn arguments(&self, piece: &str) {
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
