//! Serializes tool results.

use serde::Serialize;
use serde_json::Value;

use crate::Error;

/// Serializes a result to the JSON value that the model receives.
pub(crate) fn structured(output: &impl Serialize) -> Result<Value, Error> {
    serde_json::to_value(output)
        .map_err(|error| Error::Failed(format!("the result cannot be written as JSON: {error}")))
}
