//! Estimates the length of answers, to select bounds that fit a budget.

use std::collections::HashMap;

use super::form::{Form, ObjectForm};

/// The usual length of a string relative to its bound.
const STRING_SHARE: f64 = 1.0 / 3.0;

/// The usual length of a number, an enum value or a string with a pattern.
const SCALAR_CHARACTERS: f64 = 12.0;

/// The quotes, separators and spaces of a member.
const MEMBER_CHARACTERS: f64 = 6.0;

/// The usual share of optional members that are present.
const OPTIONAL_SHARE: f64 = 0.5;

/// Estimates the length of a value, in characters.
pub(super) fn expected_length(forms: &[Form], root: &Form) -> f64 {
    Measure { forms, known: HashMap::new() }.of(root)
}

struct Measure<'f> {
    forms: &'f [Form],
    /// The lengths of shared forms. A recursive form has length zero within itself.
    known: HashMap<usize, f64>,
}

impl Measure<'_> {
    fn of(&mut self, form: &Form) -> f64 {
        match form {
            Form::Never => 0.0,
            Form::Scalar(scalar) => {
                scalar.bound.map_or(SCALAR_CHARACTERS, |bound| bound as f64 * STRING_SHARE)
            }
            Form::Shared(index) => {
                if let Some(length) = self.known.get(index) {
                    return *length;
                }
                self.known.insert(*index, 0.0);
                let length = self.forms.get(*index).map_or(0.0, |form| self.of(form));
                self.known.insert(*index, length);
                length
            }
            Form::Array(array) => {
                let prefix: f64 = array.prefix.iter().map(|item| self.of(item)).sum();
                let count = (array.least + array.most) as f64 / 2.0 - array.prefix.len() as f64;
                prefix + count.max(0.0) * (self.of(&array.item) + 2.0)
            }
            Form::Subset(subset) => (subset.least + subset.most) as f64 / 2.0 * SCALAR_CHARACTERS,
            Form::Object(object) => self.object(object),
            Form::Union(options) => options.iter().map(|option| self.of(option)).fold(0.0, f64::max),
        }
    }

    fn object(&mut self, object: &ObjectForm) -> f64 {
        let members: f64 = object
            .members
            .iter()
            .map(|member| {
                let share = if member.required { 1.0 } else { OPTIONAL_SHARE };
                share * (member.name.len() as f64 + MEMBER_CHARACTERS + self.of(&member.form))
            })
            .sum();
        let free = object.free.iter().map(|(_, form)| self.of(form)).fold(0.0, f64::max);
        members + object.free_most as f64 * OPTIONAL_SHARE * (free + SCALAR_CHARACTERS + MEMBER_CHARACTERS)
    }
}
