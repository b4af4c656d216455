//! Reads server-sent events.

/// Maximum length of a line. A longer line ends the stream, because it cannot be an event.
const LINE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A stream of server-sent events.
pub(super) struct EventStream {
    response: reqwest::Response,
    text: Vec<u8>,
}

impl EventStream {
    pub(super) fn new(response: reqwest::Response) -> EventStream {
        EventStream { response, text: Vec::new() }
    }

    /// Returns the data of the next event, or `None` when the stream ends or breaks.
    pub(super) async fn next(&mut self) -> Option<String> {
        loop {
            while let Some(end) = self.text.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.text.drain(..=end).collect();
                if let Some(data) = line.strip_prefix(b"data:") {
                    return Some(String::from_utf8_lossy(data.trim_ascii()).into_owned());
                }
            }
            let chunk = self.response.chunk().await.ok().flatten()?;
            if self.text.len() + chunk.len() > LINE_BYTES_MAX {
                return None;
            }
            self.text.extend_from_slice(&chunk);
        }
    }
}
