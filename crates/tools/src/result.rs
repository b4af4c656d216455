//! A tool's result as JSON.

use serde::Serialize;
use serde_json::Value;

use crate::Error;

/// The result as the value that the model gets.
pub(crate) fn structured(output: &impl Serialize) -> Result<Value, Error> {
    serde_json::to_value(output)
        .map_err(|error| Error::Failed(format!("the result cannot be written as JSON: {error}")))
}
