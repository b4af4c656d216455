//! A step budget for validation that could otherwise take exponential time.
//!
//! The underlying validator has no cost limit. Therefore `metered_copy` adds a custom keyword to every
//! subschema, and the keyword counts steps. When the budget is exhausted, the keyword unwinds, because no
//! return value makes the validator stop.

use std::cell::Cell;
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use jsonschema::{Keyword, ValidationError};
use serde_json::Value;

use crate::refs::{REFERENCE_KEYWORDS, References};
use crate::walk::{subschemas, subschemas_mut};

/// The most subschema applications in one validation. Documents of several megabytes stay far below. Beyond
/// it, the value gets one violation that says so.
pub const VALIDATION_STEPS_MAX: u64 = 1_000_000;

/// The most subschema applications in one explanation. Explaining keeps the errors of every branch, each with
/// a copy of its value. Beyond it, only the first violation is reported.
pub const EXPLANATION_STEPS_MAX: u64 = 100_000;

/// The name of the counting keyword. User schemas cannot set it: `metered_copy` overwrites it.
pub(crate) const KEYWORD: &str = "x-slipform-step";

thread_local! {
    static STEPS: Cell<u64> = const { Cell::new(0) };
}

/// The payload that unwinds when the budget is exhausted.
struct BudgetExhausted;

/// Copies a schema and adds the counting keyword to every subschema, including those that only a reference
/// reaches.
pub(crate) fn metered_copy(root: &Value, references: &References) -> Value {
    let mut copy = root.clone();
    meter(&mut copy);
    let mut pending = vec![root];
    let mut seen = HashSet::new();
    while let Some(schema) = pending.pop() {
        let Some(object) = schema.as_object().filter(|_| seen.insert(std::ptr::from_ref(schema))) else {
            continue;
        };
        subschemas(object, |_, child, _| pending.push(child));
        for reference in REFERENCE_KEYWORDS.iter().filter_map(|keyword| object.get(*keyword)?.as_str()) {
            pending.extend(references.resolve(root, reference));
            if let Some(target) =
                references.pointer(root, reference).and_then(|pointer| copy.pointer_mut(&pointer))
                && target.get(KEYWORD).is_none()
            {
                meter(target);
            }
        }
    }
    copy
}

fn meter(schema: &mut Value) {
    let Value::Object(object) = schema else { return };
    subschemas_mut(object, meter);
    object.insert(KEYWORD.to_owned(), Value::Bool(true));
}

/// Runs `check` with a fresh budget. Returns `None` if the budget is exhausted before it ends.
pub(crate) fn metered<T>(steps: u64, check: impl FnOnce() -> T) -> Option<T> {
    STEPS.set(steps);
    match catch_unwind(AssertUnwindSafe(check)) {
        Ok(result) => Some(result),
        Err(payload) if payload.is::<BudgetExhausted>() => None,
        Err(payload) => resume_unwind(payload),
    }
}

/// The validator of the counting keyword.
pub(crate) struct Step;

impl Step {
    fn take(instance: &Value) {
        // An error keeps a copy of its value, so a large value costs more.
        let size = match instance {
            Value::Array(items) => items.len(),
            Value::Object(object) => object.len(),
            _ => 0,
        };
        let cost = 1 + size as u64 / 16;
        let left = STEPS.get();
        if left < cost {
            // `resume_unwind` is not a panic: no hook runs and nothing is printed.
            resume_unwind(Box::new(BudgetExhausted));
        }
        STEPS.set(left - cost);
    }
}

impl<'i> Keyword<'i> for Step {
    fn validate(&self, instance: &'i Value) -> Result<(), ValidationError<'i>> {
        Step::take(instance);
        Ok(())
    }

    fn is_valid(&self, instance: &'i Value) -> bool {
        Step::take(instance);
        true
    }
}
