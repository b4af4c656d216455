//! What a server says instead of an answer, made fit for an error message.

use serde_json::Value;

/// How much of a server's words is kept for an error message.
pub(crate) const MESSAGE_CHARACTERS_MAX: usize = 1_000;

/// The words of a server's error: its `error.message` where it has one, else the text as it stands. They
/// are shortened only after a key has been taken out of them: half a key would not be found any more.
pub(crate) fn server_message(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let parsed: Option<Value> = serde_json::from_str(&text).ok();
    let said = parsed.as_ref().and_then(|value| {
        ["/error/message", "/message", "/detail", "/error"]
            .iter()
            .find_map(|pointer| value.pointer(pointer))
            .map(|found| found.as_str().map_or_else(|| found.to_string(), str::to_owned))
    });
    let words = on_one_line(said.as_deref().unwrap_or(&text));
    if words.is_empty() { "(no message)".to_owned() } else { words }
}

/// Whether an error object blames the request. Some servers send such an error with status 500, or inside a
/// reply that began well, where asking the same again cannot help.
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

/// A text without line ends and repeated spaces.
pub(crate) fn on_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A text no longer than `limit` characters.
pub(crate) fn shortened(mut text: String, limit: usize) -> String {
    if let Some((cut, _)) = text.char_indices().nth(limit) {
        text.truncate(cut);
        text.push('…');
    }
    text
}

/// The deepest cause of an error, without the address: the caller names it.
pub(crate) fn cause(error: &dyn std::error::Error) -> String {
    let mut deepest = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    deepest.to_string()
}
