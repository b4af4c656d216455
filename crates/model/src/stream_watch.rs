//! A reply, told while it is written.

use slipform_types::Reply;

use crate::Watch;
use crate::secret::Secret;

/// Tells what is new in a reply, without the key, however the pieces of it come.
pub(crate) struct StreamWatch<'a> {
    secret: &'a Secret,
    watch: &'a dyn Watch,
    /// How many bytes of each part were told: of the text, and of each tool call's arguments.
    told: Vec<usize>,
    /// The part that was told last; none before the first.
    last: Option<usize>,
    /// What may be the beginning of the key.
    held: String,
}

impl<'a> StreamWatch<'a> {
    pub(crate) fn new(secret: &'a Secret, watch: &'a dyn Watch) -> StreamWatch<'a> {
        StreamWatch { secret, watch, told: Vec::new(), last: None, held: String::new() }
    }

    /// Tells what has come since the last time. Parts stand on lines of their own.
    pub(crate) fn tell(&mut self, reply: &Reply) {
        let arguments = reply.tool_calls.iter().map(|call| &call.arguments);
        let mut piece = std::mem::take(&mut self.held);
        for (index, part) in std::iter::once(&reply.text).chain(arguments).enumerate() {
            if index == self.told.len() {
                self.told.push(0);
            }
            let fresh = part.get(self.told[index]..).unwrap_or_default();
            if fresh.is_empty() {
                continue;
            }
            self.told[index] = part.len();
            if self.last.replace(index).is_some_and(|last| last != index) {
                piece.push('\n');
            }
            piece.push_str(fresh);
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
    struct Heard(Mutex<String>);

    impl Watch for Heard {
        fn text(&self, piece: &str) {
            self.0.lock().unwrap().push_str(piece);
        }
    }

    fn told(key: &str, pieces: &[&str]) -> String {
        let (secret, heard) = (Secret::new(Some(key.to_owned())), Heard::default());
        let (mut stream_watch, mut reply) = (StreamWatch::new(&secret, &heard), Reply::default());
        for piece in pieces {
            reply.text.push_str(piece);
            stream_watch.tell(&reply);
        }
        heard.0.into_inner().unwrap()
    }

    #[test]
    fn a_key_is_not_told_however_it_is_split() {
        let key = "sk-canary-123";
        for at in 0..=key.len() {
            let (begin, end) = key.split_at(at);
            assert_eq!(told(key, &["é <", begin, end, "> sk"]), "é <[redacted]> ", "{at}");
        }
        assert_eq!(told(key, &["sk-canary", " is a bird"]), "sk-canary is a bird");
        assert_eq!(told("xyzxyzxyzxyz", &["xyzxyzxyz", "xyz", "."]), "[redacted].");
        assert_eq!(told("ollama", &["olla", "ma"]), "ollama", "a stand-in is a word");
    }

    #[test]
    fn arguments_are_told_on_their_own_line() {
        let (secret, heard) = (Secret::default(), Heard::default());
        let mut stream_watch = StreamWatch::new(&secret, &heard);
        let call = |arguments: &str| ToolCall {
            id: "a".to_owned(),
            name: "t".to_owned(),
            arguments: arguments.to_owned(),
        };
        let mut reply = Reply { text: "So.".to_owned(), ..Reply::default() };
        stream_watch.tell(&reply);
        for arguments in ["{", "{\"a\": 1"] {
            reply.tool_calls = vec![call(arguments)];
            stream_watch.tell(&reply);
        }
        assert_eq!(heard.0.into_inner().unwrap(), "So.\n{\"a\": 1");
    }
}
