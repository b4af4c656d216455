//! Lowers a document: first the root, then every definition that is still referred to.

use std::collections::{BTreeSet, HashMap};

use serde_json::{Map, Value, json};

use super::Lowered;
use super::draft::{ANNOTATIONS, Edition, is_unconstrained};
use super::rules::{Limits, Rules};
use crate::limits::is_recursive;
use crate::path::unescape_pointer;
use crate::refs::{References, is_rebased};
use crate::walk::subschemas;

/// The most values copied and subschemas written for one document. Joining schemas through references can
/// multiply them without end. Beyond it, the schema is sent unchanged and not enforced.
const WORK_MAX: usize = 200_000;

/// The most nested definitions that are inlined. Together with the document's depth it bounds the stack.
/// Deeper ones stay references.
pub(super) const INLINE_LEVELS_MAX: usize = 24;

/// The deepest nesting of written subschemas. It bounds the stack. Deeper schemas are sent unchanged.
const LEVELS_MAX: usize = 160;

/// The draft of lowered schemas with tuples, which drafts spell differently.
const LATEST_DRAFT: &str = "https://json-schema.org/draft/2020-12/schema";

pub(super) struct Lowering<'a> {
    pub(super) root: &'a Value,
    pub(super) references: &'a References,
    pub(super) rules: Rules,
    pub(super) edition: Edition,
    pub(super) lost: BTreeSet<String>,
    pub(super) needs_restore: bool,
    /// Whether the backend cannot enforce this schema at all.
    pub(super) unenforceable: bool,
    /// Whether a tuple was written, so that the lowered schema must declare its draft.
    pub(super) has_tuples: bool,
    /// The definitions that are being inlined, to detect recursion.
    pub(super) inlining: Vec<String>,
    /// Whether references occur inside subschemas with their own identifier, against which they resolve.
    is_rebased: bool,
    names: HashMap<String, String>,
    pending: Vec<(String, String)>,
    work: usize,
    level: usize,
}

impl<'a> Lowering<'a> {
    pub(super) fn new(root: &'a Value, references: &'a References, rules: Rules) -> Lowering<'a> {
        Lowering {
            root,
            references,
            rules,
            edition: Edition::of(root),
            lost: BTreeSet::new(),
            needs_restore: false,
            unenforceable: false,
            has_tuples: false,
            inlining: Vec::new(),
            is_rebased: is_rebased(root),
            names: HashMap::new(),
            pending: Vec::new(),
            work: 0,
            level: 0,
        }
    }

    /// Returns the lowered document; `None` if the backend cannot enforce it.
    pub(super) fn run(mut self) -> Option<Lowered> {
        let Value::Object(mut schema) = self.lower_root() else { return None };
        let mut definitions: Vec<(String, Value)> = Vec::new();
        let mut next = 0;
        while let Some((pointer, place)) = self.pending.get(next).cloned() {
            next += 1;
            if self.unenforceable {
                return None;
            }
            let target = self.root.pointer(&pointer)?;
            self.inlining.push(pointer);
            let lowered = self.lower(target);
            self.inlining.pop();
            definitions.push((place, lowered));
        }
        for (place, lowered) in definitions {
            let (keyword, name) = place.split_once('/')?;
            let members = schema.entry(keyword).or_insert_with(|| json!({}));
            members.as_object_mut()?.insert(unescape_pointer(name), lowered);
        }
        if self.has_tuples {
            schema.shift_insert(0, "$schema".to_owned(), json!(LATEST_DRAFT));
        }
        let schema = Value::Object(schema);
        if self.unenforceable || self.rules.limits.is_some_and(|limits| exceeds(&schema, limits)) {
            return None;
        }
        if !self.rules.recursion && is_recursive(&schema, &References::collect(&schema)) {
            return None;
        }
        Some(Lowered {
            schema,
            strict: true,
            lost: self.lost.into_iter().collect(),
            needs_restore: self.needs_restore,
        })
    }

    fn lower_root(&mut self) -> Value {
        let Value::Object(keywords) = self.root else { return Value::Bool(false) };
        if !self.rules.closed {
            return self.lower(self.root);
        }
        // These backends require an object at the root: no reference and no union.
        let mut flat = self.flatten(keywords);
        if let Some(Value::String(reference)) = flat.keywords.get("$ref").cloned() {
            flat = self.inline(&reference).unwrap_or(flat);
        }
        let may_be_object = match flat.keywords.get("type") {
            Some(stated) => super::conjunction::type_names(stated).iter().any(|name| name == "object"),
            None => flat.keywords.contains_key("properties"),
        };
        let is_union = ["anyOf", "oneOf", "$ref", "enum", "const"].iter();
        if !may_be_object || is_union.clone().any(|name| flat.keywords.contains_key(*name)) {
            self.unenforceable = true;
        }
        flat.keywords.insert("type".to_owned(), json!("object"));
        self.lower_flat(flat)
    }

    /// Lowers one schema of any form.
    pub(super) fn lower(&mut self, schema: &Value) -> Value {
        match schema {
            Value::Bool(true) => self.any_value(Map::new()),
            Value::Object(keywords) => {
                self.work += 1;
                self.unenforceable |= self.work > WORK_MAX;
                if self.unenforceable {
                    return json!({});
                }
                let flat = self.flatten(keywords);
                self.lower_flat(flat)
            }
            _ => Value::Bool(false),
        }
    }

    /// Lowers a schema whose `allOf` is already joined.
    pub(super) fn lower_flat(&mut self, flat: Flat) -> Value {
        if !self.descend() {
            self.unenforceable = true;
            return json!({});
        }
        let inlined = flat.inlined.len();
        self.inlining.extend(flat.inlined);
        let keywords = flat.keywords;
        let lowered = if flat.is_impossible {
            Value::Bool(false)
        } else if let Some(Value::String(reference)) = keywords.get("$ref") {
            self.reference(&reference.clone())
        } else if is_unconstrained(&keywords) {
            self.any_value(keywords)
        } else if keywords.contains_key("anyOf") || keywords.contains_key("oneOf") {
            self.union(keywords)
        } else {
            self.leaf(keywords)
        };
        self.inlining.truncate(self.inlining.len() - inlined);
        self.ascend();
        lowered
    }

    /// Enters a nesting level. Returns `false` if the stack does not allow it.
    pub(super) fn descend(&mut self) -> bool {
        let may = self.level < LEVELS_MAX;
        self.level += usize::from(may);
        may
    }

    pub(super) fn ascend(&mut self) {
        self.level -= 1;
    }

    /// Writes a schema for any value, which some backends cannot generate.
    pub(super) fn any_value(&mut self, keywords: Map<String, Value>) -> Value {
        self.unenforceable |= self.rules.closed;
        let mut lowered = Map::new();
        self.annotate(&keywords, &mut lowered);
        Value::Object(lowered)
    }

    /// Copies the annotations that the backend accepts and that help the model.
    pub(super) fn annotate(&self, keywords: &Map<String, Value>, lowered: &mut Map<String, Value>) {
        for (name, value) in keywords {
            let wanted = self.rules.annotations && ANNOTATIONS.contains(&name.as_str());
            if (wanted || name == "description") && !lowered.contains_key(name) {
                lowered.insert(name.clone(), value.clone());
            }
        }
    }

    /// Writes a reference and schedules its definition to be lowered later.
    fn reference(&mut self, reference: &str) -> Value {
        let Some(pointer) = self.resolve(reference) else {
            self.unenforceable |= self.rules.closed;
            self.record_lost("$ref");
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
            // Some backends do not unescape references, so other names are replaced.
            [keyword @ ("$defs" | "definitions"), name] if is_plain(name) => format!("{keyword}/{name}"),
            _ => self.fresh_place(tokens.last().copied().unwrap_or_default()),
        };
        self.names.insert(pointer.clone(), place.clone());
        self.pending.push((pointer, place.clone()));
        json!({"$ref": format!("#/{place}")})
    }

    /// Returns a location under `$defs` for a definition without a usable one.
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

    /// Returns the pointer that a reference leads to; `None` if it cannot be determined.
    pub(super) fn resolve(&self, reference: &str) -> Option<String> {
        let pointer = self.references.pointer(self.root, reference).filter(|_| !self.is_rebased)?;
        self.root.pointer(&pointer).filter(|target| target.is_object() || target.is_boolean())?;
        Some(pointer)
    }

    /// Records a keyword that the backend does not enforce.
    pub(super) fn record_lost(&mut self, keyword: &str) {
        self.lost.insert(keyword.to_owned());
    }

    /// Adds copied values to the work done. Returns `false` if it exceeds [`WORK_MAX`].
    pub(super) fn add_work(&mut self, keywords: &Map<String, Value>) -> bool {
        self.work += keywords.values().map(size).sum::<usize>();
        self.unenforceable |= self.work > WORK_MAX;
        !self.unenforceable
    }
}

/// A schema with its `allOf`, and references beside other keywords, joined into it.
#[derive(Debug, Default)]
pub(super) struct Flat {
    pub(super) keywords: Map<String, Value>,
    /// The pointers of the definitions that were inlined.
    pub(super) inlined: Vec<String>,
    /// Whether no value can satisfy the schema.
    pub(super) is_impossible: bool,
}

/// Returns whether a name needs no escaping in a reference.
fn is_plain(name: &str) -> bool {
    name.chars().all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | '.'))
}

/// Returns the number of JSON values in a value.
fn size(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(size).sum::<usize>(),
        Value::Object(members) => 1 + members.values().map(size).sum::<usize>(),
        _ => 1,
    }
}

/// Returns whether a lowered document exceeds its backend's size limits.
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
        subschemas(keywords, |_, child, applies_to| {
            let nesting = if applies_to == crate::walk::AppliesTo::Nothing { 0 } else { nesting };
            pending.push((child, nesting));
        });
    }
    false
}
