//! Extracts and formats the error messages of servers.

use serde_json::Value;

/// The longest error message of a server that is kept, in characters.
pub(crate) const MESSAGE_CHARACTERS_MAX: usize = 1_000;

/// The code of OpenAI's API for a conversation that is too long.
const TOO_LONG: &str = "context_length_exceeded";

/// Returns the message of an error body: its `error.message` or a similar member, else the whole text.
///
/// The result is not shortened, because a key cut in half would escape redaction.
pub(crate) fn server_message(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let parsed: Option<Value> = serde_json::from_str(&text).ok();
    let message = parsed.as_ref().and_then(|value| {
        ["/error/message", "/message", "/detail", "/error"]
            .iter()
            .find_map(|pointer| value.pointer(pointer))
            .map(|found| found.as_str().map_or_else(|| found.to_string(), str::to_owned))
    });
    let mut message = on_one_line(message.as_deref().unwrap_or(&text));
    // Callers treat a conversation that is too long differently, and messages say it in many ways.
    let code = parsed.as_ref().and_then(|value| value.pointer("/error/code")?.as_str());
    if code == Some(TOO_LONG) && !message.contains(TOO_LONG) {
        message = format!("{message} ({TOO_LONG})");
    }
    if message.is_empty() { "(no message)".to_owned() } else { message }
}

/// Returns whether an error object says that the request is invalid, so that a retry cannot succeed.
///
/// Some servers send such errors with status 500 or inside a stream that began with status 200.
pub(crate) fn blames_request(error: &Value) -> bool {
    let kind = error["type"].as_str().unwrap_or_default().to_ascii_lowercase();
    let code = error["code"].as_u64().or_else(|| error["status"].as_u64());
    let message = error["message"].as_str().or_else(|| error.as_str()).unwrap_or_default();
    let message = message.to_ascii_lowercase();
    kind.starts_with("invalid_request")
        || kind.starts_with("badrequest")
        || code.is_some_and(|code| (400..500).contains(&code) && !matches!(code, 408 | 429))
        || message.starts_with("invalid request")
}

/// Replaces line breaks and runs of whitespace by single spaces.
pub(crate) fn on_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Cuts a text to `limit` characters and marks the cut with an ellipsis.
pub(crate) fn shortened(mut text: String, limit: usize) -> String {
    if let Some((cut, _)) = text.char_indices().nth(limit) {
        text.truncate(cut);
        text.push('…');
    }
    text
}

/// Returns the message of the innermost cause. Outer messages repeat the URL, which the caller adds.
pub(crate) fn cause(error: &dyn std::error::Error) -> String {
    let mut deepest = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    deepest.to_string()
}
