//! Deserializes call arguments.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::Error;

/// Deserializes a call's arguments. Converts floats such as `2.0` first, because JSON Schema accepts them as
/// integers.
pub(crate) fn parse_arguments<T: DeserializeOwned>(arguments: &Value) -> Result<T, Error> {
    let mut arguments = arguments.clone();
    if let Some(members) = arguments.as_object_mut() {
        for value in members.values_mut() {
            if let Some(number) = value.as_f64().filter(|number| value.is_f64() && number.fract() == 0.0) {
                // The cast saturates, so a number that is too large stays too large.
                *value = Value::from(number as i64);
            }
        }
    }
    serde_json::from_value(arguments)
        .map_err(|error| Error::Arguments(format!("the arguments cannot be used: {error}")))
}
