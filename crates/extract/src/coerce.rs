//! Schema-guided coercion: fits a value to a schema with the fewest changes, or refuses.
//!
//! Every change is a repair with a cost, and a union selects the branch with the lowest total cost. Coercion
//! never loses or invents data: it drops no items, invents no required values, and replaces no unfit value by
//! null.

mod object;
mod text;

use serde_json::Value;
use slipform_schema::{Segment, Shape, Types, json_pointer};

use crate::options::Mode;
use crate::parse::Repairs;
use crate::repair::{Repair, RepairKind};
use crate::scan::scan;
pub(crate) use text::is_grouped;
use text::{find_boolean, match_value, read_boolean, read_number};

/// The most values and union branches visited for all candidates of a text. Recursive unions could otherwise
/// take exponential time. Beyond it, coercion stops.
pub(crate) const STEPS_MAX: usize = 200_000;

/// The deepest recursion: the deepest value with a union at every level. Deeper values are not coerced.
const RECURSION_MAX: usize = 300;

/// Fits `value` to `shape`. Returns `None` if that would lose or invent data, or is impossible. The caller
/// must still validate the result.
pub(crate) fn coerce(value: &Value, shape: &Shape<'_>, steps_left: &mut usize) -> Option<(Value, Repairs)> {
    let mut coercer = Coercer {
        path: Vec::new(),
        repairs: Repairs::default(),
        undescribed: 0,
        steps_left: *steps_left,
        recursion: 0,
        is_wrapping: false,
    };
    let fitted = coercer.fit(value, shape);
    *steps_left = coercer.steps_left;
    Some((fitted?, coercer.repairs))
}

struct Coercer {
    path: Vec<Segment>,
    repairs: Repairs,
    /// The number of properties kept although the schema does not describe them. Among branches of equal
    /// cost, the branch that describes more properties is selected.
    undescribed: u32,
    steps_left: usize,
    recursion: usize,
    /// Whether the current value is already being wrapped in an array, so that it is wrapped only once.
    is_wrapping: bool,
}

/// The state to restore when an attempt fails.
struct Checkpoint {
    listed: usize,
    lossy: bool,
    cost: u32,
    undescribed: u32,
    depth: usize,
}

impl Coercer {
    fn checkpoint(&self) -> Checkpoint {
        Checkpoint {
            listed: self.repairs.list.len(),
            lossy: self.repairs.lossy,
            cost: self.repairs.cost,
            undescribed: self.undescribed,
            depth: self.path.len(),
        }
    }

    fn rewind(&mut self, checkpoint: &Checkpoint) {
        self.repairs.list.truncate(checkpoint.listed);
        self.repairs.lossy = checkpoint.lossy;
        self.repairs.cost = checkpoint.cost;
        self.undescribed = checkpoint.undescribed;
        self.path.truncate(checkpoint.depth);
    }

    fn repair(&mut self, kind: RepairKind, from: &Value, to: &Value) {
        self.repairs.push(Repair {
            kind,
            pointer: json_pointer(&self.path),
            from: summarize(from),
            to: summarize(to),
        });
    }

    /// Runs an attempt, and restores the state if it fails.
    fn attempt(&mut self, run: impl FnOnce(&mut Self) -> Option<Value>) -> Option<Value> {
        let checkpoint = self.checkpoint();
        let result = run(self);
        if result.is_none() {
            self.rewind(&checkpoint);
        }
        result
    }

    /// Takes steps from the budget. Returns `None` if the budget is exhausted.
    fn spend(&mut self, steps: usize) -> Option<()> {
        let left = self.steps_left.checked_sub(steps);
        self.steps_left = left.unwrap_or(0);
        left.map(|_| ())
    }

    fn fit(&mut self, value: &Value, shape: &Shape<'_>) -> Option<Value> {
        self.spend(1)?;
        if self.recursion >= RECURSION_MAX {
            return None;
        }
        self.recursion += 1;
        let fitted = self.fit_one(value, shape);
        self.recursion -= 1;
        fitted
    }

    fn fit_one(&mut self, value: &Value, shape: &Shape<'_>) -> Option<Value> {
        if let Some(values) = shape.values() {
            return self.fit_values(value, &values);
        }
        if let Some(branches) = shape.alternatives() {
            return self.fit_union(value, &branches);
        }
        let types = shape.types();
        if types.intersects(Types::of(value)) {
            let kept = match value {
                Value::Object(object) => self.attempt(|this| this.fit_object(object, shape)),
                Value::Array(items) => self.attempt(|this| this.fit_items(items, shape)),
                scalar => shape.admits(scalar).then(|| scalar.clone()),
            };
            if kept.is_some() {
                return kept;
            }
        }
        self.convert(value, shape, types)
    }

    fn fit_union(&mut self, value: &Value, branches: &[Shape<'_>]) -> Option<Value> {
        // Branches of listed values form one enumeration: a text that mentions two of them is ambiguous.
        let all_values: Option<Vec<Vec<&Value>>> = branches.iter().map(Shape::values).collect();
        if let Some(values) = all_values {
            let values: Vec<&Value> = values.into_iter().flatten().collect();
            return self.fit_values(value, &values);
        }
        let start = self.checkpoint();
        let mut best: Option<(u32, u32, Value, Vec<Repair>)> = None;
        for branch in branches {
            let fitted = self.fit(value, branch);
            let (cost, undescribed) = (self.repairs.cost - start.cost, self.undescribed - start.undescribed);
            if let Some(fitted) = fitted
                && best.as_ref().is_none_or(|(lowest, least, ..)| (cost, undescribed) < (*lowest, *least))
            {
                let repairs = self.repairs.list[start.listed..].to_vec();
                best = Some((cost, undescribed, fitted, repairs));
            }
            self.rewind(&start);
            if matches!(best, Some((0, 0, ..))) {
                break;
            }
        }
        let (_, undescribed, fitted, repairs) = best?;
        repairs.into_iter().for_each(|repair| self.repairs.push(repair));
        self.undescribed += undescribed;
        Some(fitted)
    }

    /// Fits a value to a list of allowed values.
    fn fit_values(&mut self, value: &Value, allowed: &[&Value]) -> Option<Value> {
        if allowed.contains(&value) {
            return Some(value.clone());
        }
        match value {
            Value::Array(items) if items.len() == 1 => {
                let chosen = self.fit_values(&items[0], allowed)?;
                self.repair(RepairKind::ArrayUnwrapped, value, &chosen);
                Some(chosen)
            }
            Value::Object(object) if object.len() == 1 && self.path.is_empty() => {
                let inner = object.values().next().filter(|inner| !inner.is_object() && !inner.is_array())?;
                let chosen = self.fit_values(inner, allowed)?;
                self.repair(RepairKind::ObjectUnwrapped, value, &chosen);
                Some(chosen)
            }
            Value::Array(_) | Value::Object(_) | Value::Null => None,
            scalar => {
                let text = scalar.as_str().map_or_else(|| scalar.to_string(), str::to_owned);
                self.spend(allowed.len() + text.len() * allowed.len() / 256)?;
                let chosen = match_value(&text, allowed)?;
                self.repair(RepairKind::EnumMatched, value, chosen);
                Some(chosen.clone())
            }
        }
    }

    fn fit_items(&mut self, items: &[Value], shape: &Shape<'_>) -> Option<Value> {
        let mut fitted = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let Some(expected) = shape.item(index) else {
                fitted.push(item.clone());
                continue;
            };
            self.path.push(Segment::Index(index));
            fitted.push(self.fit(item, &expected)?);
            self.path.pop();
        }
        Some(Value::Array(fitted))
    }

    /// Converts a value of the wrong type.
    fn convert(&mut self, value: &Value, shape: &Shape<'_>, types: Types) -> Option<Value> {
        let converted = match value {
            Value::String(text) => self.convert_string(value, text, shape, types),
            Value::Number(number) => {
                if types.contains(Types::STRING) {
                    Some(self.replaced(RepairKind::StringWritten, value, Value::String(number.to_string())))
                } else if types.contains(Types::BOOLEAN) {
                    let flag = number.as_f64().filter(|number| *number == 0.0 || *number == 1.0)?;
                    Some(self.replaced(RepairKind::BooleanRead, value, Value::Bool(flag == 1.0)))
                } else {
                    None
                }
            }
            Value::Bool(flag) if types.contains(Types::STRING) => {
                Some(self.replaced(RepairKind::StringWritten, value, Value::String(flag.to_string())))
            }
            Value::Array(items) if items.len() == 1 && !types.intersects(Types::ARRAY) => {
                self.attempt(|this| {
                    let item = this.fit(&items[0], shape)?;
                    this.repair(RepairKind::ArrayUnwrapped, value, &item);
                    Some(item)
                })
            }
            Value::Object(object) => self.attempt(|this| this.unwrap(object, shape, types)),
            _ => None,
        };
        converted.or_else(|| self.wrap(value, shape, types))
    }

    fn replaced(&mut self, kind: RepairKind, from: &Value, to: Value) -> Value {
        self.repair(kind, from, &to);
        to
    }

    fn convert_string(
        &mut self,
        value: &Value,
        text: &str,
        shape: &Shape<'_>,
        types: Types,
    ) -> Option<Value> {
        if types.intersects(Types::NUMBER)
            && let Some((number, kind)) = read_number(text)
            && shape.admits(&number)
        {
            return Some(self.replaced(kind, value, number));
        }
        if types.contains(Types::BOOLEAN) {
            if let Some(flag) = read_boolean(text) {
                return Some(self.replaced(RepairKind::BooleanRead, value, Value::Bool(flag)));
            }
            if let Some(flag) = find_boolean(text) {
                return Some(self.replaced(RepairKind::EnumMatched, value, Value::Bool(flag)));
            }
        }
        if types.contains(Types::NULL) && matches!(text.trim(), "null" | "None" | "nil" | "NULL") {
            return Some(self.replaced(RepairKind::NullRead, value, Value::Null));
        }
        if types.intersects(Types::OBJECT) || types.intersects(Types::ARRAY) {
            return self.attempt(|this| this.parse_string(value, text, shape));
        }
        None
    }

    /// Parses a string that contains a document.
    fn parse_string(&mut self, value: &Value, text: &str, shape: &Shape<'_>) -> Option<Value> {
        if !text.trim_start().starts_with(['{', '[', '`']) {
            return None;
        }
        self.spend(text.len() / 16)?;
        let mut found = scan(text, true, Mode::Lenient).found;
        if found.len() != 1 {
            return None;
        }
        let document = found.remove(0).document;
        self.repair(RepairKind::StringParsed, value, &document.value);
        let prefix = json_pointer(&self.path);
        for repair in document.repairs.list {
            self.repairs.push(Repair { pointer: format!("{prefix}{}", repair.pointer), ..repair });
        }
        self.fit(&document.value, shape)
    }

    /// Wraps a value if the schema requires an array, or an object with one property.
    fn wrap(&mut self, value: &Value, shape: &Shape<'_>, types: Types) -> Option<Value> {
        if types.contains(Types::ARRAY) && !value.is_array() && !value.is_null() && !self.is_wrapping {
            let expected = shape.item(0)?;
            self.is_wrapping = true;
            let wrapped = self.attempt(|this| {
                this.path.push(Segment::Index(0));
                let item = this.fit(value, &expected)?;
                this.path.pop();
                let list = Value::Array(vec![item]);
                this.repair(RepairKind::ArrayWrapped, value, &list);
                Some(list)
            });
            self.is_wrapping = false;
            return wrapped;
        }
        if types.contains(Types::OBJECT) && !value.is_object() && !value.is_null() {
            return self.attempt(|this| this.wrap_in_object(value, shape));
        }
        None
    }
}

/// Returns a value for a repair; large containers are described, not copied.
fn summarize(value: &Value) -> Value {
    match value {
        Value::Object(object) if object.len() > 3 => {
            Value::String(format!("an object of {} properties", object.len()))
        }
        Value::Array(items) if items.len() > 3 => Value::String(format!("an array of {} items", items.len())),
        Value::String(text) => crate::parse::excerpt(text),
        other => other.clone(),
    }
}
