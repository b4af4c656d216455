//! Corrections that ask only for what is wrong: the failing parts of a document that is nearly right.

use formwork_extract::{Mode, Options, Outcome, extract};
use formwork_schema::{Schema, Segment, Violations, json_pointer, parse_json_path, subschema_document};
use formwork_types::Repair;
use serde_json::{Map, Value, json};

use crate::judge::{Partial, repair};

/// The most parts that are asked for at once; beyond it the document is not nearly right.
const PARTS_MAX: usize = 8;

/// Keywords of a schema document that its references may need and that belong to its root.
const ROOT_KEYWORDS: [&str; 3] = ["$schema", "$defs", "definitions"];

/// The parts of a document that have to be given anew.
#[derive(Debug, Clone)]
pub(crate) struct Parts {
    /// The document without them, or with their old values.
    base: Value,
    pub(crate) list: Vec<Part>,
    /// An object with one member a part, named by its pointer.
    pub(crate) schema: Schema,
    /// What reading the rest of the document took; it is part of the result's history.
    repairs: Vec<Repair>,
}

/// A document with the parts that a reply gave.
pub(crate) struct Merged {
    pub(crate) value: Value,
    /// What reading the document and the parts took, by places of the whole.
    pub(crate) repairs: Vec<Repair>,
}

/// One part.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    segments: Vec<Segment>,
    pub(crate) pointer: String,
    /// What stands there now, if anything does.
    pub(crate) current: Option<Value>,
    /// What has to stand there.
    schema: Value,
}

impl Parts {
    /// The parts to ask for, if the document is right but for a few places.
    pub(crate) fn of(
        schema: &Schema,
        candidate: &Value,
        violations: &Violations,
        repairs: &[Repair],
    ) -> Option<Parts> {
        if violations.more > 0 || violations.is_empty() {
            return None;
        }
        let places = violations.list.iter().map(|violation| {
            let mut place = parse_json_path(&violation.path)?;
            // A property that must not be there is corrected by giving its object anew.
            let is_extra = ["additionalProperties", "unevaluatedProperties", "propertyNames"]
                .iter()
                .any(|keyword| violation.schema_path.ends_with(keyword));
            if is_extra && at(candidate, &place).is_some() {
                place.pop();
            }
            Some(place)
        });
        Parts::at_places(schema, candidate.clone(), repairs, places.collect::<Option<Vec<_>>>()?)
    }

    /// The rest of a document that was cut off: what is missing, what could not be read for sure, and the
    /// member it was cut in.
    pub(crate) fn rest(schema: &Schema, partial: &Partial) -> Option<Parts> {
        let candidate = &partial.value;
        let (last, _) = candidate.as_object()?.iter().next_back()?;
        let mut places = vec![vec![Segment::Key(last.clone())]];
        for pointer in &partial.unsure {
            // What is unsure about the document as a whole leaves nothing to go on with.
            let mut place = resolve(candidate, pointer)?;
            place.truncate(1);
            places.push(place);
        }
        for violation in schema.violations(candidate).list {
            let mut place = parse_json_path(&violation.path)?;
            place.truncate(1);
            places.push(place);
        }
        let whole = candidate.as_object()?.len() == 1 && places.len() == 1;
        if whole {
            return None;
        }
        Parts::at_places(schema, candidate.clone(), &partial.repairs, places)
    }

    fn at_places(
        schema: &Schema,
        base: Value,
        repairs: &[Repair],
        places: Vec<Vec<Segment>>,
    ) -> Option<Parts> {
        let mut list: Vec<Part> = Vec::new();
        for mut place in places {
            let part = loop {
                // Giving the root anew is not a correction any more.
                if place.is_empty() {
                    return None;
                }
                if let Some(found) = Part::at(schema.source(), &base, &place) {
                    break found;
                }
                place.pop();
            };
            if list.iter().any(|other| part.segments.starts_with(&other.segments)) {
                continue;
            }
            list.retain(|other| !other.segments.starts_with(&part.segments));
            list.push(part);
        }
        if list.len() > PARTS_MAX {
            return None;
        }
        let schema = Schema::compile(&document(&list)).ok()?;
        let is_replaced = |repair: &Repair| list.iter().any(|part| covers(&part.pointer, &repair.pointer));
        let repairs = repairs.iter().filter(|repair| !is_replaced(repair)).cloned().collect();
        Some(Parts { base, list, schema, repairs })
    }

    /// How much of the document they are, in characters.
    pub(crate) fn size(&self) -> usize {
        self.list.iter().map(|part| part.current.as_ref().map_or(40, |value| value.to_string().len())).sum()
    }

    /// The document with the parts that a reply gives, if it gives any. A reply may be the object that was
    /// asked for, a JSON Patch, or the bare value where only one part was asked for. What satisfies the
    /// `whole` schema as it stands is not a part.
    pub(crate) fn read(&self, text: &str, options: &Options, whole: &Schema) -> Option<Merged> {
        let strict = Options { mode: Mode::Strict, ..*options };
        if let Some(merged) = self.read_members(text, &strict) {
            return Some(merged);
        }
        let Outcome::Valid(found) = extract(text, None, options) else { return None };
        let repairs: Vec<Repair> = found.repairs.into_iter().map(repair).collect();
        let merged = match &found.value {
            Value::Array(operations) if is_json_patch(operations) => {
                self.with_operations(operations, repairs)
            }
            Value::Object(members) if self.names_a_part(members) => {
                self.read_members(text, options).or_else(|| self.with_members(members, repairs))
            }
            value => self.with_bare_value(value, repairs, whole),
        };
        let may_guess = merged.is_none() && options.mode == Mode::Lenient;
        if may_guess && extract(text, Some(whole), options).valid().is_none() {
            return self.read_members(text, options);
        }
        merged
    }

    fn read_members(&self, text: &str, options: &Options) -> Option<Merged> {
        let Outcome::Valid(found) = extract(text, Some(&self.schema), options) else { return None };
        self.with_members(found.value.as_object()?, found.repairs.into_iter().map(repair).collect())
    }

    fn names_a_part(&self, members: &Map<String, Value>) -> bool {
        self.list.iter().any(|part| members.contains_key(&part.pointer))
    }

    fn with_members(&self, members: &Map<String, Value>, repairs: Vec<Repair>) -> Option<Merged> {
        let mut merged = self.base.clone();
        for part in &self.list {
            if let Some(value) = members.get(&part.pointer) {
                put(&mut merged, &part.segments, value.clone())?;
            }
        }
        // The name of a member is the place of its part.
        let place = |pointer: &str| {
            let (name, below) = split_first(pointer);
            format!("{}{below}", formwork_schema::unescape_pointer(name))
        };
        Some(self.merged(merged, repairs, place))
    }

    fn with_operations(&self, operations: &[Value], repairs: Vec<Repair>) -> Option<Merged> {
        let mut merged = self.base.clone();
        for operation in operations {
            let segments = resolve(&merged, operation["path"].as_str()?)?;
            match operation["op"].as_str()? {
                "add" | "replace" => put(&mut merged, &segments, operation["value"].clone())?,
                "remove" => remove(&mut merged, &segments)?,
                _ => return None,
            }
        }
        let place = |pointer: &str| {
            let (index, below) = split_first(pointer);
            let operation = index.parse().ok().and_then(|index: usize| operations.get(index));
            match (operation.and_then(|operation| operation["path"].as_str()), below.strip_prefix("/value")) {
                (Some(path), Some(below)) => format!("{path}{below}"),
                _ => String::new(),
            }
        };
        Some(self.merged(merged, repairs, place))
    }

    fn with_bare_value(&self, value: &Value, repairs: Vec<Repair>, whole: &Schema) -> Option<Merged> {
        let [part] = &self.list[..] else { return None };
        // An object could as well be the whole document, which is judged elsewhere.
        let is_part = !value.is_object() && !whole.is_valid(value);
        if !is_part || !Schema::compile(&part.schema).ok()?.is_valid(value) {
            return None;
        }
        let mut merged = self.base.clone();
        put(&mut merged, &part.segments, value.clone())?;
        Some(self.merged(merged, repairs, |pointer| format!("{}{pointer}", part.pointer)))
    }

    /// The merged document; `place` tells where in it a place of the reply is.
    fn merged(&self, value: Value, mut given: Vec<Repair>, place: impl Fn(&str) -> String) -> Merged {
        for repair in given.iter_mut().filter(|repair| !repair.pointer.is_empty()) {
            repair.pointer = place(&repair.pointer);
        }
        Merged { value, repairs: self.repairs.iter().cloned().chain(given).collect() }
    }
}

/// The first token of a pointer, still escaped, and the rest.
fn split_first(pointer: &str) -> (&str, &str) {
    let tokens = pointer.strip_prefix('/').unwrap_or(pointer);
    tokens.split_at(tokens.find('/').unwrap_or(tokens.len()))
}

/// Whether a place is at another or below it.
fn covers(pointer: &str, below: &str) -> bool {
    below.strip_prefix(pointer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl Part {
    fn at(schema: &Value, base: &Value, place: &[Segment]) -> Option<Part> {
        let (_, holder) = place.split_last()?;
        at(base, holder).filter(|holder| holder.is_object() || holder.is_array())?;
        let schema = subschema_document(schema, place)?;
        Some(Part {
            pointer: json_pointer(place),
            current: at(base, place).cloned(),
            segments: place.to_vec(),
            schema,
        })
    }
}

/// The schema of the reply: one member a part.
fn document(parts: &[Part]) -> Value {
    let mut root = Map::new();
    let mut properties = Map::new();
    for part in parts {
        let mut schema = part.schema.clone();
        if let Some(keywords) = schema.as_object_mut() {
            for keyword in ROOT_KEYWORDS {
                if let Some(value) = keywords.remove(keyword) {
                    root.insert(keyword.to_owned(), value);
                }
            }
        }
        properties.insert(part.pointer.clone(), schema);
    }
    let required: Vec<&String> = properties.keys().collect();
    let required = json!(required);
    root.insert("type".to_owned(), json!("object"));
    root.insert("properties".to_owned(), Value::Object(properties));
    root.insert("required".to_owned(), required);
    root.insert("additionalProperties".to_owned(), json!(false));
    Value::Object(root)
}

fn is_json_patch(operations: &[Value]) -> bool {
    !operations.is_empty()
        && operations.iter().all(|operation| operation["op"].is_string() && operation["path"].is_string())
}

pub(crate) fn at<'v>(value: &'v Value, place: &[Segment]) -> Option<&'v Value> {
    place.iter().try_fold(value, |value, segment| match segment {
        Segment::Key(key) => value.get(key),
        Segment::Index(index) => value.get(index),
    })
}

fn at_mut<'v>(value: &'v mut Value, place: &[Segment]) -> Option<&'v mut Value> {
    place.iter().try_fold(value, |value, segment| match segment {
        Segment::Key(key) => value.get_mut(key),
        Segment::Index(index) => value.get_mut(index),
    })
}

fn put(document: &mut Value, place: &[Segment], value: Value) -> Option<()> {
    let Some((last, holder)) = place.split_last() else {
        *document = value;
        return Some(());
    };
    match (at_mut(document, holder)?, last) {
        (Value::Object(members), Segment::Key(key)) => {
            members.insert(key.clone(), value);
        }
        (Value::Array(items), Segment::Index(index)) if *index < items.len() => items[*index] = value,
        (Value::Array(items), Segment::Index(index)) if *index == items.len() => items.push(value),
        _ => return None,
    }
    Some(())
}

/// Removes what stands at a place.
pub(crate) fn remove(document: &mut Value, place: &[Segment]) -> Option<()> {
    let (last, holder) = place.split_last()?;
    match (at_mut(document, holder)?, last) {
        (Value::Object(members), Segment::Key(key)) => members.shift_remove(key).map(|_| ()),
        (Value::Array(items), Segment::Index(index)) if *index < items.len() => {
            items.remove(*index);
            Some(())
        }
        _ => None,
    }
}

/// The segments of a JSON Pointer; what is an index depends on the document.
fn resolve(document: &Value, pointer: &str) -> Option<Vec<Segment>> {
    let mut segments = Vec::new();
    for token in pointer.strip_prefix('/')?.split('/') {
        let key = formwork_schema::unescape_pointer(token);
        segments.push(match at(document, &segments) {
            Some(Value::Array(items)) if key == "-" => Segment::Index(items.len()),
            Some(Value::Array(_)) => Segment::Index(key.parse().ok()?),
            _ => Segment::Key(key),
        });
    }
    Some(segments)
}
