//! The walk that lowers a document: the root, then every definition that something still refers to.

use std::collections::{BTreeSet, HashMap};

use serde_json::{Map, Value, json};

use super::Lowered;
use super::draft::{ANNOTATIONS, Edition, says_nothing};
use super::rules::{Limits, Rules};
use crate::limits::is_recursive;
use crate::path::unescape_pointer;
use crate::refs::{References, is_rebased};
use crate::walk::subschemas;

/// How many values may be copied and subschemas written for one document. Joining schemas through
/// references can multiply them without end; beyond this the schema is sent as it is, unenforced.
const WORK_MAX: usize = 200_000;

/// How deep definitions may be written in place inside one another. It bounds the stack together with the
/// depth of the document; deeper ones stay references.
pub(super) const INLINE_LEVELS_MAX: usize = 24;

/// The deepest nesting of subschemas written. It bounds the stack; deeper schemas are sent as they are.
const LEVELS_MAX: usize = 160;

/// The draft that lowered schemas are written for when it matters.
const LATEST_DRAFT: &str = "https://json-schema.org/draft/2020-12/schema";

pub(super) struct Engine<'a> {
    pub(super) root: &'a Value,
    pub(super) references: &'a References,
    pub(super) rules: Rules,
    pub(super) edition: Edition,
    pub(super) lost: BTreeSet<String>,
    pub(super) nulls: bool,
    /// Set when the backend cannot be made to enforce this schema.
    pub(super) hopeless: bool,
    /// Whether a tuple was written, which drafts spell differently.
    pub(super) tuples: bool,
    /// The definitions being written in place, to see where one contains itself.
    pub(super) open: Vec<String>,
    /// Whether references stand inside parts with an identifier of their own, against which they resolve.
    rebased: bool,
    names: HashMap<String, String>,
    pending: Vec<(String, String)>,
    work: usize,
    level: usize,
}

impl<'a> Engine<'a> {
    pub(super) fn new(root: &'a Value, references: &'a References, rules: Rules) -> Engine<'a> {
        Engine {
            root,
            references,
            rules,
            edition: Edition::of(root),
            lost: BTreeSet::new(),
            nulls: false,
            hopeless: false,
            tuples: false,
            open: Vec::new(),
            rebased: is_rebased(root),
            names: HashMap::new(),
            pending: Vec::new(),
            work: 0,
            level: 0,
        }
    }

    /// The lowered document; nothing when the backend cannot be made to enforce it.
    pub(super) fn run(mut self) -> Option<Lowered> {
        let Value::Object(mut schema) = self.lower_root() else { return None };
        let mut definitions: Vec<(String, Value)> = Vec::new();
        let mut next = 0;
        while let Some((pointer, place)) = self.pending.get(next).cloned() {
            next += 1;
            if self.hopeless {
                return None;
            }
            let target = self.root.pointer(&pointer)?;
            self.open.push(pointer);
            let lowered = self.lower(target);
            self.open.pop();
            definitions.push((place, lowered));
        }
        for (place, lowered) in definitions {
            let (shelf, name) = place.split_once('/')?;
            let shelf = schema.entry(shelf).or_insert_with(|| json!({}));
            shelf.as_object_mut()?.insert(unescape_pointer(name), lowered);
        }
        if self.tuples {
            schema.shift_insert(0, "$schema".to_owned(), json!(LATEST_DRAFT));
        }
        let schema = Value::Object(schema);
        if self.hopeless || self.rules.limits.is_some_and(|limits| exceeds(&schema, limits)) {
            return None;
        }
        if !self.rules.recursion && is_recursive(&schema, &References::collect(&schema)) {
            return None;
        }
        Some(Lowered { schema, strict: true, lost: self.lost.into_iter().collect(), nulls: self.nulls })
    }

    fn lower_root(&mut self) -> Value {
        let Value::Object(keywords) = self.root else { return Value::Bool(false) };
        if !self.rules.closed {
            return self.lower(self.root);
        }
        // These backends want an object at the root, not a reference to one, and no union.
        let mut flat = self.flatten(keywords);
        if let Some(Value::String(reference)) = flat.keywords.get("$ref").cloned() {
            flat = self.inline(&reference).unwrap_or(flat);
        }
        let promises_object = match flat.keywords.get("type") {
            Some(stated) => super::conjunction::type_names(stated).iter().any(|name| name == "object"),
            None => flat.keywords.contains_key("properties"),
        };
        let is_union = ["anyOf", "oneOf", "$ref", "enum", "const"].iter();
        if !promises_object || is_union.clone().any(|name| flat.keywords.contains_key(*name)) {
            self.hopeless = true;
        }
        flat.keywords.insert("type".to_owned(), json!("object"));
        self.lower_flat(flat)
    }

    /// Lowers one schema, whatever it is.
    pub(super) fn lower(&mut self, schema: &Value) -> Value {
        match schema {
            Value::Bool(true) => self.anything(Map::new()),
            Value::Object(keywords) => {
                self.work += 1;
                self.hopeless |= self.work > WORK_MAX;
                if self.hopeless {
                    return json!({});
                }
                let flat = self.flatten(keywords);
                self.lower_flat(flat)
            }
            _ => Value::Bool(false),
        }
    }

    pub(super) fn lower_flat(&mut self, flat: Flat) -> Value {
        if !self.descend() {
            self.hopeless = true;
            return json!({});
        }
        let opened = flat.opened.len();
        self.open.extend(flat.opened);
        let keywords = flat.keywords;
        let lowered = if flat.impossible {
            Value::Bool(false)
        } else if let Some(Value::String(reference)) = keywords.get("$ref") {
            self.reference(&reference.clone())
        } else if says_nothing(&keywords) {
            self.anything(keywords)
        } else if keywords.contains_key("anyOf") || keywords.contains_key("oneOf") {
            self.union(keywords)
        } else {
            self.leaf(keywords)
        };
        self.open.truncate(self.open.len() - opened);
        self.ascend();
        lowered
    }

    /// Goes one level deeper, if the stack allows.
    pub(super) fn descend(&mut self) -> bool {
        let may = self.level < LEVELS_MAX;
        self.level += usize::from(may);
        may
    }

    pub(super) fn ascend(&mut self) {
        self.level -= 1;
    }

    /// A value of any type, which some backends cannot generate.
    pub(super) fn anything(&mut self, keywords: Map<String, Value>) -> Value {
        self.hopeless |= self.rules.closed;
        let mut lowered = Map::new();
        self.annotate(&keywords, &mut lowered);
        Value::Object(lowered)
    }

    /// Keeps what helps the model and the backend accepts.
    pub(super) fn annotate(&self, keywords: &Map<String, Value>, lowered: &mut Map<String, Value>) {
        for (name, value) in keywords {
            let wanted = self.rules.annotations && ANNOTATIONS.contains(&name.as_str());
            if (wanted || name == "description") && !lowered.contains_key(name) {
                lowered.insert(name.clone(), value.clone());
            }
        }
    }

    /// A reference, to a definition that will be written at the end.
    fn reference(&mut self, reference: &str) -> Value {
        let Some(pointer) = self.resolve(reference) else {
            self.hopeless |= self.rules.closed;
            self.lose("$ref");
            return json!({});
        };
        if pointer.is_empty() {
            return json!({"$ref": "#"});
        }
        if let Some(place) = self.names.get(&pointer) {
            return json!({"$ref": format!("#/{place}")});
        }
        let tokens: Vec<&str> = pointer.split('/').skip(1).collect();
        let place = match tokens.as_slice() {
            // Some backends do not decode what a reference has to escape.
            [shelf @ ("$defs" | "definitions"), name] if is_plain(name) => format!("{shelf}/{name}"),
            _ => self.fresh_place(tokens.last().copied().unwrap_or_default()),
        };
        self.names.insert(pointer.clone(), place.clone());
        self.pending.push((pointer, place.clone()));
        json!({"$ref": format!("#/{place}")})
    }

    /// A place for a definition that has none of its own.
    fn fresh_place(&self, hint: &str) -> String {
        let plain: String = hint.chars().filter(char::is_ascii_alphanumeric).collect();
        let is_taken = |place: &String| {
            self.names.values().any(|taken| taken == place)
                || self.root.pointer(&format!("/{place}")).is_some()
        };
        let mut place = format!("$defs/part_{plain}");
        let mut count = 1;
        while is_taken(&place) {
            count += 1;
            place = format!("$defs/part_{plain}_{count}");
        }
        place
    }

    /// The pointer that a reference leads to, if that can be told.
    pub(super) fn resolve(&self, reference: &str) -> Option<String> {
        let pointer = self.references.pointer(self.root, reference).filter(|_| !self.rebased)?;
        self.root.pointer(&pointer).filter(|target| target.is_object() || target.is_boolean())?;
        Some(pointer)
    }

    pub(super) fn lose(&mut self, keyword: &str) {
        self.lost.insert(keyword.to_owned());
    }

    /// Counts copied values against the limit of work; `false` when it is spent.
    pub(super) fn spend(&mut self, keywords: &Map<String, Value>) -> bool {
        self.work += keywords.values().map(size).sum::<usize>();
        self.hopeless |= self.work > WORK_MAX;
        !self.hopeless
    }
}

/// One schema with its `allOf` and the references beside other keywords joined into it.
#[derive(Debug, Default)]
pub(super) struct Flat {
    pub(super) keywords: Map<String, Value>,
    /// The definitions that were written in place.
    pub(super) opened: Vec<String>,
    /// Whether no value can satisfy it.
    pub(super) impossible: bool,
}

fn is_plain(name: &str) -> bool {
    name.chars().all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | '.'))
}

fn size(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(size).sum::<usize>(),
        Value::Object(members) => 1 + members.values().map(size).sum::<usize>(),
        _ => 1,
    }
}

/// Whether a lowered document is larger than its backend accepts.
fn exceeds(root: &Value, limits: Limits) -> bool {
    let (mut properties, mut values) = (0, 0);
    let mut pending = vec![(root, 0)];
    while let Some((schema, nesting)) = pending.pop() {
        let Some(keywords) = schema.as_object() else { continue };
        let named = keywords.get("properties").and_then(Value::as_object).map_or(0, Map::len);
        let nesting = nesting + usize::from(named > 0);
        properties += named;
        values += keywords.get("enum").and_then(Value::as_array).map_or(0, Vec::len);
        if nesting > limits.nesting_max || properties > limits.properties_max || values > limits.values_max {
            return true;
        }
        subschemas(keywords, |_, child, place| {
            let nesting = if place == crate::walk::AppliesTo::Shelf { 0 } else { nesting };
            pending.push((child, nesting));
        });
    }
    false
}
