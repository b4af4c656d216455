//! Forms: sets of JSON values, the intermediate representation between schema and grammar.

use serde_json::Value;

use super::build::json_text;
use super::rx::Rx;

/// A set of JSON values.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) enum Form {
    /// The empty set.
    #[default]
    Never,
    /// Values whose text is a regular language: scalars, and listed values of any type.
    Scalar(Scalar),
    /// The form with this index in the solver's list.
    Shared(usize),
    Array(Box<ArrayForm>),
    /// Arrays of distinct literals in a fixed order.
    Subset(Box<SubsetForm>),
    Object(Box<ObjectForm>),
    Union(Vec<Form>),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Scalar {
    pub(super) rx: Rx,
    /// The maximum string length if it is a bound of the grammar and not of the schema.
    pub(super) bound: Option<u64>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct ArrayForm {
    pub(super) prefix: Vec<Form>,
    /// The items after the prefix.
    pub(super) item: Form,
    pub(super) least: usize,
    pub(super) most: usize,
    /// Whether `most` is a bound of the grammar and not of the schema.
    pub(super) is_bounded: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct SubsetForm {
    pub(super) items: Vec<Rx>,
    pub(super) least: usize,
    pub(super) most: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct ObjectForm {
    pub(super) members: Vec<Member>,
    /// The members with unlisted names: the names and their values.
    pub(super) free: Vec<(Rx, Form)>,
    pub(super) free_most: usize,
    pub(super) least: usize,
    pub(super) most: Option<usize>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Member {
    pub(super) name: String,
    pub(super) form: Form,
    pub(super) required: bool,
}

impl Form {
    pub(super) fn scalar(rx: Rx) -> Form {
        Form::Scalar(Scalar { rx, bound: None })
    }

    pub(super) fn is_never(&self) -> bool {
        matches!(self, Form::Never)
    }

    /// Returns the union of forms. All scalars are combined into one.
    pub(super) fn union(forms: Vec<Form>) -> Form {
        let mut scalars: Vec<Rx> = Vec::new();
        let mut bound: Option<u64> = None;
        let mut others: Vec<Form> = Vec::new();
        let mut pending: Vec<Form> = forms.into_iter().rev().collect();
        while let Some(form) = pending.pop() {
            match form {
                Form::Never => {}
                Form::Union(inner) => pending.extend(inner.into_iter().rev()),
                Form::Scalar(scalar) => {
                    if !scalars.contains(&scalar.rx) {
                        scalars.push(scalar.rx);
                    }
                    bound = bound.max(scalar.bound);
                }
                other if others.contains(&other) => {}
                other => others.push(other),
            }
        }
        if !scalars.is_empty() {
            let rx = if scalars.len() == 1 { scalars.remove(0) } else { Rx::Or(scalars) };
            others.insert(0, Form::Scalar(Scalar { rx, bound }));
        }
        match others.len() {
            0 => Form::Never,
            1 => others.remove(0),
            _ => Form::Union(others),
        }
    }
}

/// Returns whether a part of the value reaches a bound of the grammar.
pub(super) fn touches_bound(forms: &[Form], form: &Form, value: &Value) -> bool {
    match (form, value) {
        (Form::Shared(index), _) => forms.get(*index).is_some_and(|form| touches_bound(forms, form, value)),
        (Form::Union(options), _) => options.iter().any(|option| touches_bound(forms, option, value)),
        (Form::Scalar(scalar), Value::String(text)) => {
            scalar.bound.is_some_and(|bound| text.chars().count() as u64 >= bound)
        }
        (Form::Array(array), Value::Array(items)) => {
            let mut inside = items.iter().enumerate();
            (array.is_bounded && items.len() >= array.most)
                || inside.any(|(index, item)| {
                    touches_bound(forms, array.prefix.get(index).unwrap_or(&array.item), item)
                })
        }
        (Form::Object(object), Value::Object(members)) => {
            let listed = |name: &str| object.members.iter().find(|member| member.name == name);
            let free = members.keys().filter(|name| listed(name).is_none()).count();
            (free > 0 && free >= object.free_most)
                || members.iter().any(|(name, value)| match listed(name) {
                    Some(member) => touches_bound(forms, &member.form, value),
                    None => object.free.iter().any(|(_, form)| touches_bound(forms, form, value)),
                })
        }
        _ => false,
    }
}

/// Returns whether a value is in the form, ignoring the order of members.
pub(super) fn admits(forms: &[Form], form: &Form, value: &Value) -> bool {
    match (form, value) {
        (Form::Shared(index), _) => forms.get(*index).is_some_and(|form| admits(forms, form, value)),
        (Form::Union(options), _) => options.iter().any(|option| admits(forms, option, value)),
        (Form::Scalar(scalar), _) => scalar.rx.matches(&json_text(value)),
        (Form::Array(array), Value::Array(items)) => {
            let mut inside = items.iter().enumerate();
            (array.least..=array.most).contains(&items.len())
                && inside
                    .all(|(index, item)| admits(forms, array.prefix.get(index).unwrap_or(&array.item), item))
        }
        (Form::Subset(subset), Value::Array(items)) => {
            (subset.least..=subset.most).contains(&items.len())
                && items.iter().all(|item| subset.items.iter().any(|rx| rx.matches(&json_text(item))))
        }
        (Form::Object(object), Value::Object(members)) => object.admits(forms, members),
        _ => false,
    }
}

impl ObjectForm {
    fn admits(&self, forms: &[Form], members: &serde_json::Map<String, Value>) -> bool {
        let listed = |name: &str| self.members.iter().find(|member| member.name == name);
        let is_complete =
            self.members.iter().all(|member| !member.required || members.contains_key(&member.name));
        let is_counted = members.len() >= self.least && self.most.is_none_or(|most| members.len() <= most);
        is_complete
            && is_counted
            && members.iter().all(|(name, value)| match listed(name) {
                Some(member) => admits(forms, &member.form, value),
                None => self.free.iter().any(|(key, form)| {
                    key.matches(&Value::from(name.as_str()).to_string()) && admits(forms, form, value)
                }),
            })
    }
}
