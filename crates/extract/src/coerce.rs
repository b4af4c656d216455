//! x
use formwork_schema::Shape;
use serde_json::Value;
use crate::parse::Repairs;
/// placeholder
pub(crate) fn coerce(_value: &Value, _shape: &Shape<'_>) -> Option<(Value, Repairs)> { None }
