//! Coerces objects: similar keys, extra properties, and wrappers around the requested object.

use std::collections::HashMap;

use serde_json::{Map, Value};
use slipform_schema::{Additional, Segment, Shape, Types};

use super::Coercer;
use super::text::normalise;
use crate::repair::RepairKind;

/// Property names that models use for a wrapper around an answer.
const WRAPPERS: [&str; 14] = [
    "result",
    "results",
    "data",
    "output",
    "response",
    "answer",
    "arguments",
    "parameters",
    "args",
    "input",
    "json",
    "value",
    "content",
    "final_answer",
];

impl Coercer {
    pub(super) fn fit_object(&mut self, object: &Map<String, Value>, shape: &Shape<'_>) -> Option<Value> {
        let names = shape.property_names();
        self.spend(names.len() / 4)?;
        let aliases = aliases(&names, object);
        let mut fitted = Map::new();
        for (key, value) in object {
            let own = shape.property(key).map(|expected| (key.as_str(), expected));
            let meant = own.or_else(|| {
                // A second spelling of the same name is a separate property.
                let name = aliases.get(&normalise(key)).copied().flatten()?;
                if fitted.contains_key(name) {
                    return None;
                }
                Some((name, shape.property(name)?))
            });
            let Some((name, expected)) = meant else {
                self.fit_unnamed(key, value, shape, &mut fitted)?;
                continue;
            };
            if name != key {
                self.path.push(Segment::Key(name.to_owned()));
                self.repair(RepairKind::KeyRenamed, &Value::from(key.as_str()), &Value::from(name));
                self.path.pop();
            }
            self.path.push(Segment::Key(name.to_owned()));
            match self.fit(value, &expected) {
                Some(value) => {
                    fitted.insert(name.to_owned(), value);
                }
                None if value.is_null() && !shape.is_required(name) => {
                    self.repair(RepairKind::NullDropped, value, &Value::Null);
                }
                None => return None,
            }
            self.path.pop();
        }
        for name in shape.required() {
            if !fitted.contains_key(name) {
                let expected = shape.property(name)?;
                if !admits_null(&expected) {
                    return None;
                }
                self.path.push(Segment::Key(name.to_owned()));
                self.repair(RepairKind::NullSupplied, &Value::Null, &Value::Null);
                self.path.pop();
                fitted.insert(name.to_owned(), Value::Null);
            }
        }
        Some(Value::Object(fitted))
    }

    /// Fits a property that the schema does not name.
    fn fit_unnamed(
        &mut self,
        key: &str,
        value: &Value,
        shape: &Shape<'_>,
        fitted: &mut Map<String, Value>,
    ) -> Option<()> {
        self.path.push(Segment::Key(key.to_owned()));
        match shape.additional() {
            Additional::Any => {
                self.undescribed += 1;
                fitted.insert(key.to_owned(), value.clone());
            }
            Additional::Never => {
                self.undescribed += 1;
                self.repair(RepairKind::PropertyDropped, value, &Value::Null);
            }
            Additional::Shaped(expected) => {
                let value = self.fit(value, &expected)?;
                fitted.insert(key.to_owned(), value);
            }
        }
        self.path.pop();
        Some(())
    }

    /// Unwraps an object: its only property, or a property with the name of a wrapper.
    pub(super) fn unwrap(
        &mut self,
        object: &Map<String, Value>,
        shape: &Shape<'_>,
        types: Types,
    ) -> Option<Value> {
        let whole = Value::Object(object.clone());
        let scalar_wanted = !types.intersects(Types::OBJECT) && !types.intersects(Types::ARRAY);
        let inner = match object.len() {
            1 => object.values().next(),
            _ if scalar_wanted => None,
            _ => {
                let holds = |inner: &&Value| {
                    inner.is_object()
                        || inner.is_array()
                        || inner.as_str().is_some_and(|text| text.trim_start().starts_with('{'))
                };
                let mut inner = WRAPPERS.iter().filter_map(|name| object.get(*name)).filter(holds);
                inner.next().filter(|_| inner.next().is_none())
            }
        }?;
        if scalar_wanted && (inner.is_object() || inner.is_array() || !self.path.is_empty()) {
            return None;
        }
        // A property that the schema names is content, not a wrapper.
        if object.len() == 1 && object.keys().any(|key| shape.property(key).is_some()) {
            return None;
        }
        self.repair(RepairKind::ObjectUnwrapped, &whole, inner);
        self.fit(inner, shape)
    }

    /// Wraps a value in an object with a single property, if its type shows that it belongs there.
    pub(super) fn wrap_in_object(&mut self, value: &Value, shape: &Shape<'_>) -> Option<Value> {
        let names = shape.property_names();
        let [name] = names.as_slice() else { return None };
        let expected = shape.property(name)?;
        let is_root = self.path.is_empty();
        let is_typed = expected.types() != Types::ALL;
        // Inside the answer, only a list shows by its type that it belongs into the property.
        let is_evident = if value.is_array() {
            is_typed && (is_root || expected.types().intersects(Types::ARRAY))
        } else {
            is_root
        };
        if value.is_string() || !is_evident {
            return None;
        }
        self.path.push(Segment::Key((*name).to_owned()));
        let inner = self.fit(value, &expected)?;
        self.path.pop();
        let wrapped = Value::Object([((*name).to_owned(), inner)].into_iter().collect());
        self.repair(RepairKind::ObjectWrapped, value, &wrapped);
        Some(wrapped)
    }
}

fn admits_null(shape: &Shape<'_>) -> bool {
    match shape.alternatives() {
        Some(branches) => branches.iter().any(admits_null),
        None => shape.types().contains(Types::NULL) && shape.types() != Types::ALL,
    }
}

/// Maps normalised names to the properties that the object lacks; ambiguous names map to `None`.
fn aliases<'s>(names: &[&'s str], object: &Map<String, Value>) -> HashMap<String, Option<&'s str>> {
    let mut aliases = HashMap::new();
    for &name in names.iter().filter(|name| !object.contains_key(**name)) {
        aliases.entry(normalise(name)).and_modify(|known| *known = None).or_insert(Some(name));
    }
    aliases.remove("");
    aliases
}
