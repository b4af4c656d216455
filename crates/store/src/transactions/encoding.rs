//! Text encodings of table columns: enum names and JSON.

use serde::Serialize;
use serde::de::DeserializeOwned;
use slipform_types::{EventBody, EventKind, ExecutionMode, RunStatus, RunType};

use crate::error::Error;

pub(crate) fn read_status(name: &str) -> Result<RunStatus, Error> {
    RunStatus::named(name).ok_or_else(|| unknown(name, "run status"))
}

pub(crate) fn read_run_type(name: &str) -> Result<RunType, Error> {
    RunType::named(name).ok_or_else(|| unknown(name, "run type"))
}

pub(crate) fn read_mode(name: &str) -> Result<ExecutionMode, Error> {
    ExecutionMode::named(name).ok_or_else(|| unknown(name, "valid execution mode"))
}

pub(crate) fn read_event_kind(name: &str) -> Result<EventKind, Error> {
    EventKind::named(name).ok_or_else(|| unknown(name, "valid event kind"))
}

fn unknown(name: &str, kind: &str) -> Error {
    Error::Damaged(format!("`{name}` is not a {kind}"))
}

/// Serializes a value as JSON. Refuses values that could not be parsed again because of their nesting.
pub(crate) fn to_json(value: &impl Serialize) -> Result<String, Error> {
    let text = serde_json::to_string(value)
        .map_err(|error| Error::Damaged(format!("cannot serialize a value as JSON: {error}")))?;
    if depth(&text) > DEPTH_MAX {
        Err(Error::Invalid(format!("the JSON is nested more than {DEPTH_MAX} levels deep")))
    } else {
        Ok(text)
    }
}

/// Maximum nesting of stored JSON. Parsers stop at 128 levels, and events are embedded in other documents.
const DEPTH_MAX: usize = 115;

/// Returns the nesting depth of JSON text.
fn depth(text: &str) -> usize {
    let (mut depth, mut deepest, mut is_in_string, mut is_escaped) = (0_usize, 0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = is_in_string,
            b'"' => is_in_string = !is_in_string,
            b'{' | b'[' if !is_in_string => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' if !is_in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// An event as its table stores it.
#[derive(Debug, Clone)]
pub(crate) struct EncodedEvent {
    pub(crate) kind: EventKind,
    /// The body as JSON.
    pub(crate) body: String,
}

/// Encodes event bodies.
pub(crate) fn encode_events(bodies: &[EventBody]) -> Result<Vec<EncodedEvent>, Error> {
    bodies.iter().map(|body| Ok(EncodedEvent { kind: body.kind(), body: to_json(body)? })).collect()
}

/// Parses stored JSON.
pub(crate) fn from_json<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    serde_json::from_str(text).map_err(|error| Error::Damaged(format!("cannot parse stored JSON: {error}")))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn json_nested_too_deeply_is_refused() {
        let nested = |levels: usize| (0..levels).fold(json!("[{\\\"["), |inner, _| json!([inner]));
        assert_eq!(depth(&nested(3).to_string()), 3);
        let text = to_json(&nested(DEPTH_MAX)).unwrap();
        assert_eq!(from_json::<Value>(&text).unwrap(), nested(DEPTH_MAX));
        let error = to_json(&nested(DEPTH_MAX + 1)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the database cannot store the data: the JSON is nested more than 115 levels deep"
        );
    }
}
