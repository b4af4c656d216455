//! What stands in the tables as text: words of the vocabulary, as they do in the journal, and JSON.

use serde::Serialize;
use serde::de::DeserializeOwned;
use slipform_types::{EventBody, ExecutionMode, RunStatus, RunType};

use crate::error::Error;

pub(crate) fn read_status(name: &str) -> Result<RunStatus, Error> {
    RunStatus::named(name).ok_or_else(|| unknown(name, "status of a run"))
}

pub(crate) fn read_run_type(name: &str) -> Result<RunType, Error> {
    RunType::named(name).ok_or_else(|| unknown(name, "type of a run"))
}

pub(crate) fn read_mode(name: &str) -> Result<ExecutionMode, Error> {
    ExecutionMode::named(name).ok_or_else(|| unknown(name, "way to learn of a run's end"))
}

fn unknown(name: &str, kind: &str) -> Error {
    Error::Damaged(format!("'{name}' is no {kind}"))
}

/// What is kept, as JSON.
pub(crate) fn to_json(value: &impl Serialize) -> Result<String, Error> {
    let text = serde_json::to_string(value)
        .map_err(|error| Error::Damaged(format!("it cannot be written as JSON: {error}")))?;
    match depth(&text) > DEPTH_MAX {
        true => Err(Error::Invalid(format!("it is nested more than {DEPTH_MAX} deep"))),
        false => Ok(text),
    }
}

/// How deep what is kept may be nested. Readers of JSON stop at 128, and events stand inside of other things: what is
/// deeper could be kept, and never be read again.
const DEPTH_MAX: usize = 115;

/// How deep JSON is nested.
fn depth(text: &str) -> usize {
    let (mut depth, mut deepest, mut is_text, mut is_escaped) = (0_usize, 0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = is_text,
            b'"' => is_text = !is_text,
            b'{' | b'[' if !is_text => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' if !is_text => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// Events as they are kept.
pub(crate) fn texts(bodies: &[EventBody]) -> Result<Vec<String>, Error> {
    bodies.iter().map(to_json).collect()
}

/// What was kept as JSON.
pub(crate) fn from_json<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    serde_json::from_str(text)
        .map_err(|error| Error::Damaged(format!("what was kept cannot be read: {error}")))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn what_could_not_be_read_again_is_not_kept() {
        let nested = |levels: usize| (0..levels).fold(json!("[{\\\"["), |inner, _| json!([inner]));
        assert_eq!(depth(&nested(3).to_string()), 3);
        let text = to_json(&nested(DEPTH_MAX)).unwrap();
        assert_eq!(from_json::<Value>(&text).unwrap(), nested(DEPTH_MAX));
        let error = to_json(&nested(DEPTH_MAX + 1)).unwrap_err();
        assert_eq!(error.to_string(), "it cannot be kept: it is nested more than 115 deep");
    }
}
