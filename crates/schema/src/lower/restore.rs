//! Reverts the nulls that a lowered schema requires for absent optional properties.

use serde_json::Value;

use crate::path::escape_pointer;
use crate::refs::References;
use crate::shape::{Additional, Shape, Types};

/// The most values and branches visited in one reply. Nested unions multiply them. Beyond it, the rest of the
/// reply stays unchanged.
const STEPS_MAX: usize = 200_000;

/// The deepest nesting that is visited, because visiting recurses. Deeper parts stay unchanged.
const DEPTH_MAX: usize = 128;

/// Removes `null` from optional properties whose schema does not accept it, and returns the JSON Pointers of
/// the removed properties. Backends that require every property represent absent ones as `null`.
pub fn restore(schema: &Value, value: &mut Value) -> Vec<String> {
    if crate::limits::check_depth(schema).is_err() {
        return Vec::new();
    }
    let references = References::collect(schema);
    let mut restorer = Restorer { removed: Vec::new(), steps: 0 };
    restorer.restore(&Shape::new(schema, &references), value, "", 0);
    restorer.removed
}

struct Restorer {
    removed: Vec<String>,
    steps: usize,
}

impl Restorer {
    fn restore(&mut self, shape: &Shape<'_>, value: &mut Value, place: &str, depth: usize) {
        self.steps += 1;
        if self.steps > STEPS_MAX || depth > DEPTH_MAX || !(value.is_object() || value.is_array()) {
            return;
        }
        if let Some(branches) = shape.alternatives() {
            self.choose(&branches, value, place, depth);
            return;
        }
        match value {
            Value::Array(items) => {
                for (index, item) in items.iter_mut().enumerate() {
                    if let Some(shape) = shape.item(index) {
                        self.restore(&shape, item, &format!("{place}/{index}"), depth + 1);
                    }
                }
            }
            Value::Object(members) => {
                let mut absent = Vec::new();
                for (name, member) in members.iter_mut() {
                    let below = format!("{place}/{}", escape_pointer(name));
                    let property = shape.property(name);
                    if member.is_null() {
                        let means_absent = !shape.is_required(name)
                            && property.is_some_and(|property| !property.admits_null());
                        if means_absent {
                            absent.push(name.clone());
                            self.removed.push(below);
                        }
                        continue;
                    }
                    let rest = match shape.additional() {
                        Additional::Shaped(rest) => Some(rest),
                        _ => None,
                    };
                    if let Some(shape) = property.or(rest) {
                        self.restore(&shape, member, &below, depth + 1);
                    }
                }
                members.retain(|name, _| !absent.contains(name));
            }
            _ => {}
        }
    }

    /// Restores the value by the first branch that it then fits. A value that fits no branch stays unchanged.
    fn choose(&mut self, branches: &[Shape<'_>], value: &mut Value, place: &str, depth: usize) {
        for branch in branches {
            if !branch.types().intersects(Types::of(value)) {
                continue;
            }
            let known = self.removed.len();
            let mut candidate = value.clone();
            self.restore(branch, &mut candidate, place, depth + 1);
            if self.fits(branch, &candidate, depth) {
                *value = candidate;
                return;
            }
            self.removed.truncate(known);
        }
    }

    /// Returns whether a value fits a shape by types, listed values, bounds, and required and forbidden
    /// properties.
    fn fits(&mut self, shape: &Shape<'_>, value: &Value, depth: usize) -> bool {
        self.steps += 1;
        if self.steps > STEPS_MAX || depth > DEPTH_MAX {
            return false;
        }
        if let Some(branches) = shape.alternatives() {
            return branches.iter().any(|branch| self.fits(branch, value, depth + 1));
        }
        if !shape.admits(value) || (value.is_null() && !shape.admits_null()) {
            return false;
        }
        match value {
            Value::Object(members) => members.iter().all(|(name, member)| match shape.property(name) {
                Some(property) => self.fits(&property, member, depth + 1),
                None => match shape.additional() {
                    Additional::Any => true,
                    Additional::Never => false,
                    Additional::Shaped(rest) => self.fits(&rest, member, depth + 1),
                },
            }),
            Value::Array(items) => items.iter().enumerate().all(|(index, item)| {
                shape.item(index).is_none_or(|shape| self.fits(&shape, item, depth + 1))
            }),
            _ => true,
        }
    }
}
