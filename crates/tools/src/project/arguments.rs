//! A call's arguments as a type.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::Error;

/// Reads a call's arguments. They satisfy their schema, for which `2.0` is an integer as well.
pub(crate) fn arguments<T: DeserializeOwned>(given: &Value) -> Result<T, Error> {
    let mut given = given.clone();
    if let Some(members) = given.as_object_mut() {
        for value in members.values_mut() {
            if let Some(number) = value.as_f64().filter(|number| value.is_f64() && number.fract() == 0.0) {
                // The cast saturates, so a number that is too large stays too large.
                *value = Value::from(number as i64);
            }
        }
    }
    serde_json::from_value(given)
        .map_err(|error| Error::Arguments(format!("the arguments cannot be used: {error}")))
}
