//! Limits on schemas, checked before a schema is compiled.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use crate::Error;
use crate::path::{Segment, json_path};
use crate::refs::{REFERENCE_KEYWORDS, References};
use crate::walk::{AppliesTo, subschemas};

/// The longest schema, in bytes of compact JSON. The largest real schemas known to us have 1 MiB. The
/// compiler refuses longer ones.
pub const SCHEMA_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// The deepest nesting of a schema document. Compiling recurses, so this bounds the stack. The compiler
/// refuses deeper ones.
pub const SCHEMA_DEPTH_MAX: u64 = 128;

/// The most subschemas in one document. Each becomes a compiled node. The compiler refuses more.
pub const SUBSCHEMAS_MAX: u64 = 50_000;

/// The most patterns in one document. Compiling one may take 1 ms and 2 MiB. The compiler refuses more.
pub const PATTERNS_MAX: u64 = 1_000;

/// The most subschemas that may apply to one instance once references are followed. Thirty doublings through
/// `allOf` reach 2^30. The compiler refuses such schemas.
pub const EXPANSION_MAX: u64 = 100_000;

/// The deepest instance that is validated. Validation recurses, so this bounds the stack. A deeper value is a
/// violation.
pub const VALUE_DEPTH_MAX: usize = 128;

/// The longest chain of references and unions whose subschemas apply to the same value. Each link takes
/// stack. The compiler refuses longer chains.
const CHAIN_MAX: usize = 128;

/// Above this expansion, or with any recursion, validation runs under a step budget.
const EXPANSION_UNMETERED_MAX: u64 = 1_000;

/// Measurements of a schema that is within the limits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Complexity {
    /// Whether validating a value could take more than linear time and therefore needs a step budget.
    pub(crate) needs_budget: bool,
    /// The length of the longest chain of subschemas that apply to the same value.
    pub(crate) chain: usize,
}

/// Measures a schema, and refuses it if it has too many subschemas, patterns or repeated references.
pub(crate) fn measure(root: &Value, references: &References) -> Result<Complexity, Error> {
    let mut expansion = Expansion {
        root,
        references,
        known: HashMap::new(),
        visiting: Vec::new(),
        is_recursive: false,
        largest: 0,
        longest: 0,
    };
    let mut pending = vec![root];
    let mut seen = HashSet::new();
    let mut patterns = 0;
    while let Some(schema) = pending.pop() {
        if !seen.insert(std::ptr::from_ref(schema)) {
            continue;
        }
        if seen.len() as u64 > SUBSCHEMAS_MAX {
            return Err(Error::too_large(
                "the number of subschemas",
                seen.len() as u64,
                SUBSCHEMAS_MAX,
                "split the contract into smaller ones",
            ));
        }
        expansion.count(schema)?;
        if let Some(object) = schema.as_object() {
            patterns += u64::from(object.contains_key("pattern"));
            patterns += object
                .get("patternProperties")
                .and_then(Value::as_object)
                .map_or(0, |named| named.len() as u64);
            if patterns > PATTERNS_MAX {
                return Err(Error::too_large(
                    "the number of patterns",
                    patterns,
                    PATTERNS_MAX,
                    "use fewer of them, or one for several properties",
                ));
            }
            subschemas(object, |_, child, _| pending.push(child));
            // A reference may lead to a location that no keyword describes.
            pending.extend(references.targets(root, object));
        }
    }
    let needs_budget = expansion.is_recursive
        || expansion.largest > EXPANSION_UNMETERED_MAX
        || is_recursive(root, references);
    Ok(Complexity { needs_budget, chain: expansion.longest })
}

/// Refuses documents nested deeper than [`SCHEMA_DEPTH_MAX`]. It does not recurse.
pub(crate) fn check_depth(root: &Value) -> Result<(), Error> {
    if exceeds_depth(root, SCHEMA_DEPTH_MAX as usize) {
        return Err(Error::too_large(
            "the nesting of the schema",
            SCHEMA_DEPTH_MAX + 1,
            SCHEMA_DEPTH_MAX,
            "move inner parts to $defs and refer to them",
        ));
    }
    Ok(())
}

/// Returns whether a value is nested deeper than `limit`. It does not recurse.
pub(crate) fn exceeds_depth(root: &Value, limit: usize) -> bool {
    depth(root, limit) > limit
}

/// Returns the nesting depth of a value. It does not recurse, and stops counting just above `limit`.
pub(crate) fn depth(root: &Value, limit: usize) -> usize {
    let is_container = |value: &&Value| matches!(value, Value::Object(_) | Value::Array(_));
    let mut pending: Vec<(&Value, usize)> =
        Some(root).filter(is_container).map(|root| (root, 1)).into_iter().collect();
    let mut deepest = 0;
    while let Some((value, depth)) = pending.pop() {
        deepest = deepest.max(depth);
        if deepest > limit {
            break;
        }
        match value {
            Value::Object(object) => {
                pending.extend(object.values().filter(is_container).map(|value| (value, depth + 1)));
            }
            Value::Array(items) => {
                pending.extend(items.iter().filter(is_container).map(|value| (value, depth + 1)))
            }
            _ => {}
        }
    }
    deepest
}

/// Counts the subschemas that apply to the same instance as a given one.
struct Expansion<'a> {
    root: &'a Value,
    references: &'a References,
    known: HashMap<*const Value, (u64, usize)>,
    visiting: Vec<*const Value>,
    is_recursive: bool,
    largest: u64,
    longest: usize,
}

impl<'a> Expansion<'a> {
    /// Returns the number of subschemas, and the length of their longest chain, both including `schema`.
    fn count(&mut self, schema: &'a Value) -> Result<(u64, usize), Error> {
        let Some(object) = schema.as_object() else { return Ok((1, 1)) };
        let identity: *const Value = schema;
        if let Some(&count) = self.known.get(&identity) {
            return Ok(count);
        }
        if self.visiting.contains(&identity) {
            return Err(Error::Cycle { path: locate(self.root, schema) });
        }
        if self.visiting.len() >= CHAIN_MAX {
            return Err(Error::too_large(
                "the longest chain of references and unions",
                CHAIN_MAX as u64 + 1,
                CHAIN_MAX as u64,
                "refer to the last schema of the chain directly",
            ));
        }
        self.visiting.push(identity);
        let mut same_instance = Vec::new();
        subschemas(object, |_, child, applies_to| {
            if applies_to == AppliesTo::Same {
                same_instance.push(child);
            }
        });
        for keyword in REFERENCE_KEYWORDS {
            let Some(Value::String(reference)) = object.get(keyword) else { continue };
            match self.references.resolve(self.root, reference) {
                Some(target) if keyword == "$ref" => same_instance.push(target),
                // The target of a dynamic reference is known only during validation.
                _ => self.is_recursive = true,
            }
        }
        let (mut total, mut chain) = (1_u64, 0);
        for child in same_instance {
            let (count, length) = self.count(child)?;
            total = total.saturating_add(count);
            chain = chain.max(length);
        }
        chain += 1;
        self.visiting.pop();
        self.known.insert(identity, (total, chain));
        self.largest = self.largest.max(total);
        self.longest = self.longest.max(chain);
        if total > EXPANSION_MAX {
            return Err(Error::too_large(
                "the number of subschemas that apply to one value",
                total,
                EXPANSION_MAX,
                "remove repeated references from allOf, anyOf and oneOf",
            ));
        }
        Ok((total, chain))
    }
}

/// Returns whether any schema can be reached from itself, through instances of any depth.
pub(crate) fn is_recursive(root: &Value, references: &References) -> bool {
    // Depth-first search with colours, on an explicit stack: false = entered, true = left.
    let mut colours: HashMap<*const Value, bool> = HashMap::new();
    let mut stack = vec![(root, false)];
    while let Some((schema, leaving)) = stack.pop() {
        let identity: *const Value = schema;
        if leaving {
            colours.insert(identity, true);
            continue;
        }
        match colours.get(&identity) {
            Some(true) => continue,
            Some(false) => return true,
            None => {}
        }
        colours.insert(identity, false);
        stack.push((schema, true));
        let Some(object) = schema.as_object() else { continue };
        let mut next = Vec::new();
        subschemas(object, |_, child, _| next.push(child));
        next.extend(references.targets(root, object));
        for child in next {
            match colours.get(&std::ptr::from_ref(child)) {
                Some(true) => {}
                Some(false) => return true,
                None => stack.push((child, false)),
            }
        }
    }
    false
}

/// Returns the JSONPath of a part of a document, found by pointer identity. The document is not nested deeper than
/// [`SCHEMA_DEPTH_MAX`].
pub(crate) fn locate(root: &Value, part: &Value) -> String {
    let mut place = Vec::new();
    if find(root, part, &mut place) {
        place.reverse();
    }
    json_path(&place)
}

/// Collects the segments that lead to a part, the last one first. Only those are copied, because names may be long
/// and lead to many parts.
fn find(value: &Value, part: &Value, place: &mut Vec<Segment>) -> bool {
    if std::ptr::eq(value, part) {
        return true;
    }
    let segment = match value {
        Value::Object(object) => object
            .iter()
            .find_map(|(key, member)| find(member, part, place).then(|| Segment::Key(key.clone()))),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .find_map(|(index, item)| find(item, part, place).then_some(Segment::Index(index))),
        _ => None,
    };
    segment.is_some_and(|segment| {
        place.push(segment);
        true
    })
}

/// Refuses integers beyond 64 bits in `const` and `enum`: as doubles, different integers would compare equal.
pub(crate) fn check_listed_numbers(source: &Value) -> Result<(), Error> {
    let mut pending: Vec<&Map<String, Value>> = source.as_object().into_iter().collect();
    while let Some(keywords) = pending.pop() {
        let listed = ["const", "enum"].into_iter().filter_map(|keyword| keywords.get(keyword));
        if let Some(number) = listed.flat_map(numbers).find(|number| is_beyond_64_bits(number)) {
            return Err(Error::Invalid {
                path: locate(source, number),
                message: "integers beyond 64 bits cannot be told apart; write them as strings".to_owned(),
            });
        }
        subschemas(keywords, |_, child, _| pending.extend(child.as_object()));
    }
    Ok(())
}

/// Collects every number in a value.
fn numbers(value: &Value) -> Vec<&Value> {
    match value {
        Value::Number(_) => vec![value],
        Value::Array(items) => items.iter().flat_map(numbers).collect(),
        Value::Object(members) => members.values().flat_map(numbers).collect(),
        _ => Vec::new(),
    }
}

/// Returns whether a number is an integer that does not fit into 64 bits.
fn is_beyond_64_bits(number: &Value) -> bool {
    number.is_f64()
        && number.as_f64().is_some_and(|value| value.fract() == 0.0 && value.abs() >= u64::MAX as f64)
}
