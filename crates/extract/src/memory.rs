//! A memory budget for the values that an extraction parses.
//!
//! A value takes far more memory than its text: `[1,1,1]` about 36 times as much. The parsers therefore account for
//! each value before they keep it. The budget belongs to the thread, because every step of an extraction parses, and
//! one extraction runs on one thread.

use std::cell::Cell;

use serde_json::Value;

/// The most memory of an extraction, as a multiple of the text's length.
const TEXT_FACTOR: usize = 8;

/// The most memory of an extraction beside [`TEXT_FACTOR`], in bytes.
const BASE_BYTES: usize = 32 * 1024 * 1024;

/// The memory of an object without members.
pub(crate) const OBJECT_BYTES: usize = 250;

/// The memory of a member beside its key's text: its part of the object's tables, which may be half empty.
const MEMBER_BYTES: usize = 220;

/// The memory of a member of a large object. The old and the new tables exist at once when it grows.
const MEMBER_OF_LARGE_BYTES: usize = 360;

/// The number of members that a large object has.
const LARGE_OBJECT: usize = 64;

/// The capacity of a list with its first item.
const CAPACITY_MIN: usize = 4;

/// The memory of a document that was found in a text, beside its value.
pub(crate) const DOCUMENT_BYTES: usize = 900;

/// The memory of a repair, beside its location and its values.
pub(crate) const REPAIR_BYTES: usize = 500;

thread_local! {
    static LEFT: Cell<usize> = const { Cell::new(usize::MAX) };
    static IS_EXCEEDED: Cell<bool> = const { Cell::new(false) };
}

/// Returns the most memory that an extraction from a text of this length may take, in bytes.
pub(crate) fn limit(text_bytes: usize) -> usize {
    text_bytes.saturating_mul(TEXT_FACTOR).saturating_add(BASE_BYTES)
}

/// Runs a step with its own budget. Returns its result, and whether it exceeded the budget.
pub(crate) fn within<T>(bytes: usize, step: impl FnOnce() -> T) -> (T, bool) {
    let (outer_left, outer_exceeded) = (LEFT.replace(bytes), IS_EXCEEDED.replace(false));
    let result = step();
    LEFT.set(outer_left);
    (result, IS_EXCEEDED.replace(outer_exceeded))
}

/// Accounts for memory that a value needs. Returns `false` if it exceeds the budget; the value must not be kept then.
#[must_use]
pub(crate) fn take(bytes: usize) -> bool {
    let is_available = take_if_available(bytes);
    if !is_available {
        IS_EXCEEDED.set(true);
    }
    is_available
}

/// Accounts for memory of something that may be left out.
#[must_use]
pub(crate) fn take_if_available(bytes: usize) -> bool {
    let left = LEFT.get().checked_sub(bytes);
    if let Some(left) = left {
        LEFT.set(left);
    }
    left.is_some()
}

/// Returns whether the step has exceeded its budget.
pub(crate) fn is_exceeded() -> bool {
    IS_EXCEEDED.get()
}

/// Accounts for the next member of an object that has `members`.
#[must_use]
pub(crate) fn take_member(members: usize, key_bytes: usize) -> bool {
    take(key_bytes + if members < LARGE_OBJECT { MEMBER_BYTES } else { MEMBER_OF_LARGE_BYTES })
}

/// Accounts for an item and appends it. Returns `false` if it exceeds the budget.
#[must_use]
pub(crate) fn push(items: &mut Vec<Value>, item: Value) -> bool {
    let capacity = items.capacity();
    if items.len() < capacity {
        items.push(item);
        return true;
    }
    // The list doubles, and both exist while it does.
    if !take((capacity * 2).max(CAPACITY_MIN) * size_of::<Value>()) {
        return false;
    }
    items.push(item);
    LEFT.set(LEFT.get().saturating_add(capacity * size_of::<Value>()));
    true
}

/// Returns the memory that is left, for [`restore`].
pub(crate) fn left() -> usize {
    LEFT.get()
}

/// Returns the memory of values that were dropped: sets what is left to what was left before them.
pub(crate) fn restore(left: usize) {
    LEFT.set(left);
}
