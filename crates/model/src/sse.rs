//! An incremental parser for server-sent events.

use crate::error::Error;

/// The largest single event. An event with one token takes a few hundred bytes; an event with a complete
/// answer is also subject to the limit of the reply.
pub const EVENT_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Splits a byte stream into events. Chunks may end anywhere, even inside a character.
#[derive(Debug, Default)]
pub struct Events {
    line: Vec<u8>,
    name: String,
    data: Vec<u8>,
    has_data: bool,
}

/// One event of a stream.
pub struct Event<'a> {
    /// The value of the `event` field; empty if the event has none.
    pub name: &'a str,
    /// The values of the `data` fields, joined by line feeds.
    pub data: &'a [u8],
}

impl Events {
    /// Adds a chunk and passes every completed event to `handle`.
    pub fn feed(
        &mut self,
        mut bytes: &[u8],
        mut handle: impl FnMut(Event<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            let (head, rest) = bytes.split_at(end);
            bytes = &rest[1..];
            if self.line.is_empty() {
                self.take_line(head, &mut handle)?;
            } else {
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(head);
                self.take_line(&line, &mut handle)?;
                line.clear();
                self.line = line;
            }
        }
        self.line.extend_from_slice(bytes);
        if self.line.len() + self.data.len() > EVENT_BYTES_MAX {
            return Err(Error::TooLarge { limit: EVENT_BYTES_MAX });
        }
        Ok(())
    }

    /// Passes the last event to `handle` if the stream ended without the closing blank line, as is common.
    pub fn finish(&mut self, mut handle: impl FnMut(Event<'_>) -> Result<(), Error>) -> Result<(), Error> {
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.take_line(&line, &mut handle)?;
        }
        self.dispatch(&mut handle)
    }

    fn take_line(
        &mut self,
        line: &[u8],
        handle: &mut impl FnMut(Event<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            return self.dispatch(handle);
        }
        let (field, value) = match memchr::memchr(b':', line) {
            Some(0) => return Ok(()),
            Some(colon) => {
                let value = &line[colon + 1..];
                (&line[..colon], value.strip_prefix(b" ").unwrap_or(value))
            }
            None => (line, &b""[..]),
        };
        match field {
            b"data" => {
                if self.has_data {
                    self.data.push(b'\n');
                }
                self.has_data = true;
                self.data.extend_from_slice(value);
            }
            b"event" => self.name = String::from_utf8_lossy(value).into_owned(),
            _ => {}
        }
        Ok(())
    }

    fn dispatch(&mut self, handle: &mut impl FnMut(Event<'_>) -> Result<(), Error>) -> Result<(), Error> {
        let outcome =
            if self.has_data { handle(Event { name: &self.name, data: &self.data }) } else { Ok(()) };
        self.name.clear();
        self.data.clear();
        self.has_data = false;
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(chunks: &[&[u8]]) -> Vec<(String, String)> {
        let mut found = Vec::new();
        let mut events = Events::default();
        let mut keep = |event: Event<'_>| {
            found.push((event.name.to_owned(), String::from_utf8_lossy(event.data).into_owned()));
            Ok(())
        };
        for chunk in chunks {
            events.feed(chunk, &mut keep).unwrap();
        }
        events.finish(&mut keep).unwrap();
        found
    }

    #[test]
    fn events_do_not_depend_on_chunk_boundaries() {
        let stream =
            ": ping\r\nevent: delta\r\ndata: {\"a\": \"ä\"}\r\n\r\ndata: one\ndata: two\n\ndata: [DONE]"
                .as_bytes();
        let whole = events(&[stream]);
        let expected = [("delta", "{\"a\": \"ä\"}"), ("", "one\ntwo"), ("", "[DONE]")];
        assert_eq!(whole, expected.map(|(name, data)| (name.to_owned(), data.to_owned())));
        for cut in 0..stream.len() {
            assert_eq!(events(&[&stream[..cut], &stream[cut..]]), whole, "cut at {cut}");
        }
        let single: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(events(&single), whole);
    }

    #[test]
    fn event_beyond_the_size_limit_is_refused() {
        let mut events = Events::default();
        let block = vec![b'x'; 1024 * 1024];
        let outcome = (0..9).try_for_each(|_| events.feed(&block, |_| Ok(())));
        assert_eq!(outcome, Err(Error::TooLarge { limit: EVENT_BYTES_MAX }));
    }
}
