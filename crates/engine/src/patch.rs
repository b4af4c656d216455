//! Patch corrections: requests for only the invalid parts of a nearly valid document.

use serde_json::{Map, Value, json};
use slipform_extract::{Extraction, Mode, Options, Outcome, extract};
use slipform_schema::{
    Schema, Segment, Violations, escape_pointer, json_path, json_pointer, parse_json_path, subschema_document,
};
use slipform_types::Repair;

use crate::reply::repair;

/// The maximum number of parts per correction. A document with more invalid parts is requested in
/// full.
const PARTS_MAX: usize = 8;

/// Keywords that belong to the root of a schema document and that references may need.
const ROOT_KEYWORDS: [&str; 3] = ["$schema", "$defs", "definitions"];

/// The parts of a document that are requested again.
#[derive(Debug, Clone)]
pub(crate) struct Parts {
    /// The document without the parts, or with their old values.
    base: Value,
    pub(crate) list: Vec<PatchPart>,
    /// The schema of the reply: an object with one member per part, named by its pointer.
    pub(crate) schema: Schema,
    /// The repairs of the document outside the parts.
    repairs: Vec<Repair>,
    /// The document without the parts, if the model has to see it: a rule compares a part with it.
    pub(crate) context: Option<Value>,
}

/// Keywords of rules that compare members of an object with each other.
const SPANNING_KEYWORDS: [&str; 9] =
    ["if", "then", "else", "anyOf", "oneOf", "not", "dependentSchemas", "dependentRequired", "dependencies"];

/// A part of a document.
#[derive(Debug, Clone)]
pub(crate) struct PatchPart {
    segments: Vec<Segment>,
    pub(crate) pointer: String,
    /// The current value, if there is one.
    pub(crate) current: Option<Value>,
    /// The schema of the part.
    schema: Value,
    /// Whether the reply may omit it.
    is_optional: bool,
}

impl Parts {
    /// Returns the parts to request, if the document is valid except for a few paths.
    pub(crate) fn of(schema: &Schema, candidate: &Value, violations: &Violations) -> Option<Parts> {
        if violations.more > 0 || violations.is_empty() {
            return None;
        }
        let places = violations.list.iter().map(|violation| {
            let mut place = parse_json_path(&violation.path)?;
            // An unexpected property is corrected by requesting its object again.
            let is_extra = ["additionalProperties", "unevaluatedProperties", "propertyNames"]
                .iter()
                .any(|keyword| violation.schema_path.ends_with(keyword));
            if is_extra && at(candidate, &place).is_some() {
                place.pop();
            }
            Some(place)
        });
        let mut parts = Parts::at_places(schema, candidate.clone(), places.collect::<Option<Vec<_>>>()?)?;
        let is_spanning = |path: &str| path.split('/').any(|segment| SPANNING_KEYWORDS.contains(&segment));
        if violations.list.iter().any(|violation| is_spanning(&violation.schema_path)) {
            parts.show_context();
        }
        Some(parts)
    }

    /// Shows the document without the parts.
    pub(crate) fn show_context(&mut self) {
        let mut rest = self.base.clone();
        // Items keep their places, so that the paths of the parts stay right.
        for part in self.list.iter().filter(|part| matches!(part.segments.last(), Some(Segment::Key(_)))) {
            remove(&mut rest, &part.segments);
        }
        self.context = Some(rest);
    }

    /// Returns the rest of a truncated document: the missing members and the member that was cut.
    pub(crate) fn rest(schema: &Schema, candidate: &Value) -> Option<Parts> {
        let (last, _) = candidate.as_object()?.iter().next_back()?;
        let mut places = vec![vec![Segment::Key(last.clone())]];
        for violation in schema.violations(candidate).list {
            let mut place = parse_json_path(&violation.path)?;
            place.truncate(1);
            places.push(place);
        }
        let whole = candidate.as_object()?.len() == 1 && places.len() == 1;
        if whole {
            return None;
        }
        let mut parts = Parts::at_places(schema, candidate.clone(), places)?;
        parts.add_optional_parts(schema);
        parts.schema = Schema::compile(&document(&parts.list)).ok()?;
        Some(parts)
    }

    /// Adds the optional members that are missing. Validation does not report them, so they would
    /// be lost.
    fn add_optional_parts(&mut self, schema: &Schema) {
        let source = schema.source();
        for name in source["properties"].as_object().into_iter().flat_map(Map::keys) {
            let place = [Segment::Key(name.clone())];
            let is_known = self.list.iter().any(|part| part.segments == place);
            if self.base.get(name).is_none() && !is_known {
                let part = PatchPart::at(source, &self.base, &place);
                self.list.extend(part.map(|part| PatchPart { is_optional: true, ..part }));
            }
        }
    }

    fn at_places(schema: &Schema, base: Value, places: Vec<Vec<Segment>>) -> Option<Parts> {
        let mut list: Vec<PatchPart> = Vec::new();
        for mut place in places {
            let part = loop {
                // Requesting the root again is not a patch.
                if place.is_empty() {
                    return None;
                }
                if let Some(found) = PatchPart::at(schema.source(), &base, &place) {
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
        Some(Parts { base, list, schema, repairs: Vec::new(), context: None })
    }

    /// Keeps the repairs of the document that are outside the parts.
    pub(crate) fn after(mut self, repairs: Vec<Repair>) -> Parts {
        let is_kept =
            |repair: &Repair| !self.list.iter().any(|part| below(&part.pointer, &repair.pointer).is_some());
        self.repairs = repairs.into_iter().filter(is_kept).collect();
        self
    }

    /// Returns the size of the parts, in characters.
    pub(crate) fn size(&self) -> usize {
        self.list.iter().map(|part| part.current.as_ref().map_or(40, |value| value.to_string().len())).sum()
    }

    /// Returns the document merged with the parts of a reply, and the repairs of both.
    ///
    /// A reply may be the requested object, a JSON Patch, or the bare value if only one part was
    /// requested. Returns `None` if the reply holds no part. A value that satisfies the `whole`
    /// schema is not a part.
    pub(crate) fn read(&self, text: &str, options: &Options, whole: &Schema) -> Option<(Value, Vec<Repair>)> {
        let (merged, made) = match self.read_requested_object(text, options, whole) {
            Some(found) => (self.with_members(found.value.as_object()?)?, found.repairs),
            None => {
                let Outcome::Valid(found) = extract(text, None, options) else { return None };
                let merged = match &found.value {
                    Value::Array(operations) if is_json_patch(operations) => self.with_operations(operations),
                    Value::Object(members) if self.has_parts(members) => self.with_members(members),
                    value => self.with_bare_value(value, whole),
                };
                (merged?, found.repairs)
            }
        };
        let made = made.into_iter().map(|made| self.relocate_to_document(repair(made)));
        Some((merged, self.repairs.iter().cloned().chain(made).collect()))
    }

    /// Reads the requested object. Coercion can turn nearly any text into one, so it applies only
    /// if the reply is not the whole document.
    fn read_requested_object(&self, text: &str, options: &Options, whole: &Schema) -> Option<Extraction> {
        let as_it_stands = Options { mode: Mode::Strict, ..*options };
        let read = |options: &Options| match extract(text, Some(&self.schema), options) {
            Outcome::Valid(found) => Some(found),
            _ => None,
        };
        let is_document = || extract(text, Some(whole), &as_it_stands).valid().is_some();
        read(&as_it_stands).or_else(|| read(options).filter(|_| !is_document()))
    }

    /// Relocates a repair of the reply to its path in the document.
    fn relocate_to_document(&self, mut repair: Repair) -> Repair {
        let place = self.list.iter().find_map(|part| {
            let rest = below(&format!("/{}", escape_pointer(&part.pointer)), &repair.pointer)?;
            Some(format!("{}{rest}", part.pointer))
        });
        repair.pointer = place.unwrap_or(repair.pointer);
        repair
    }

    /// Returns whether an object holds parts: one under its pointer, or all members under other
    /// names of parts.
    fn has_parts(&self, members: &Map<String, Value>) -> bool {
        let is_pointed_at = |part: &PatchPart| members.contains_key(&part.pointer);
        let is_known = |name: &String| self.list.iter().any(|part| part.names().contains(name));
        self.list.iter().any(is_pointed_at) || !members.is_empty() && members.keys().all(is_known)
    }

    fn with_members(&self, members: &Map<String, Value>) -> Option<Value> {
        let mut merged = self.base.clone();
        for part in &self.list {
            if let Some(value) = part.names().iter().find_map(|name| members.get(name)) {
                put(&mut merged, &part.segments, value.clone())?;
            }
        }
        Some(merged)
    }

    fn with_operations(&self, operations: &[Value]) -> Option<Value> {
        let mut merged = self.base.clone();
        for operation in operations {
            let segments = resolve(&merged, operation["path"].as_str()?)?;
            match operation["op"].as_str()? {
                "add" => add(&mut merged, &segments, operation["value"].clone())?,
                "replace" => put(&mut merged, &segments, operation["value"].clone())?,
                "remove" => remove(&mut merged, &segments)?,
                _ => return None,
            }
        }
        Some(merged)
    }

    fn with_bare_value(&self, value: &Value, whole: &Schema) -> Option<Value> {
        let [part] = &self.list[..] else { return None };
        // An object or a list may also be the whole document, which is judged elsewhere.
        if value.is_object() || whole.is_valid(value) || !Schema::compile(&part.schema).ok()?.is_valid(value)
        {
            return None;
        }
        let mut merged = self.base.clone();
        put(&mut merged, &part.segments, value.clone())?;
        Some(merged)
    }
}

impl PatchPart {
    /// Returns the names that models use for a part: its pointer, the pointer without the leading
    /// slash, and its path.
    fn names(&self) -> [String; 3] {
        [self.pointer.clone(), self.pointer.trim_start_matches('/').to_owned(), json_path(&self.segments)]
    }

    fn at(schema: &Value, base: &Value, place: &[Segment]) -> Option<PatchPart> {
        let (_, holder) = place.split_last()?;
        at(base, holder).filter(|holder| holder.is_object() || holder.is_array())?;
        let schema = subschema_document(schema, place)?;
        Some(PatchPart {
            pointer: json_pointer(place),
            current: at(base, place).cloned(),
            segments: place.to_vec(),
            schema,
            is_optional: false,
        })
    }
}

/// Returns the schema of the reply: one member per part.
fn document(parts: &[PatchPart]) -> Value {
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
    let required: Vec<&String> =
        parts.iter().filter(|part| !part.is_optional).map(|part| &part.pointer).collect();
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

/// Sets a value at a path. In a list, inserts before the existing item.
fn add(document: &mut Value, place: &[Segment], value: Value) -> Option<()> {
    if let Some((Segment::Index(index), holder)) = place.split_last()
        && let Some(Value::Array(items)) = at_mut(document, holder)
        && *index < items.len()
    {
        items.insert(*index, value);
        return Some(());
    }
    put(document, place, value)
}

/// Returns the rest of a pointer below `above`, or `None` if it is outside.
pub(crate) fn below<'p>(above: &str, pointer: &'p str) -> Option<&'p str> {
    pointer.strip_prefix(above).filter(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Removes the value at a path.
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

/// Returns the segments of a JSON Pointer. The document decides whether a token is an index.
fn resolve(document: &Value, pointer: &str) -> Option<Vec<Segment>> {
    let mut segments = Vec::new();
    for token in pointer.strip_prefix('/')?.split('/') {
        let key = slipform_schema::unescape_pointer(token);
        segments.push(match at(document, &segments) {
            Some(Value::Array(items)) if key == "-" => Segment::Index(items.len()),
            Some(Value::Array(_)) => Segment::Index(key.parse().ok()?),
            _ => Segment::Key(key),
        });
    }
    Some(segments)
}
