//! Estimates the memory of a compiled schema before it is compiled.
//!
//! The validator and its pattern engine cannot be told to stop at a total size, and a short schema can compile to
//! gigabytes. The estimates are upper bounds: `tests/memory` compares them with what is allocated.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use crate::Error;
use crate::limits::locate;
use crate::pattern_size::{PATTERN_BYTES_MIN, compiled_bytes};
use crate::refs::{REFERENCE_KEYWORDS, References};
use crate::walk::subschemas;

/// The most memory of one compiled schema, in bytes. A schema of 1 MiB compiles to about 50 MiB, and the largest
/// of a thousand real schemas to 5 MiB. The compiler refuses larger ones.
pub const COMPILED_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The most memory of all patterns of one schema, in bytes. Compiling that much takes about 200 ms; the patterns
/// of a thousand real schemas take up to 3 MiB. The compiler refuses more.
pub const COMPILED_PATTERNS_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// The memory of a compiled schema without its parts.
const SCHEMA_BYTES_MIN: u64 = 4 * 1024;

/// The memory of one JSON value in the schema's source.
const VALUE_BYTES: u64 = 100;

/// The additional memory of an object in the schema's source.
const OBJECT_BYTES: u64 = 200;

/// The memory of one JSON value that the validator copies to compare with: in `enum` and `const`.
const LISTED_VALUE_BYTES: u64 = 200;

/// The copies of a text in the source and in the validator.
const TEXT_COPIES: u64 = 3;

/// The memory of a compiled subschema without its keywords.
const SUBSCHEMA_BYTES: u64 = 700;

/// The memory of a compiled keyword.
const KEYWORD_BYTES: u64 = 700;

/// The copies of the absolute reference that the validator keeps per reference.
const REFERENCE_COPIES: u64 = 4;

/// The part of a schema that needs the most memory, for the error.
#[derive(Clone, Copy)]
enum Part<'s> {
    /// A subschema, with its location in every keyword.
    Subschema(&'s Value),
    /// The values of `enum` or `const`.
    Listed(&'s Value),
    /// References that include a long identifier.
    Reference(&'s Value),
    /// A pattern, or a `patternProperties` with it as a name.
    Pattern(&'s Value),
}

struct Estimate<'s> {
    root: &'s Value,
    total: u64,
    patterns: HashMap<&'s str, u64>,
    patterns_total: u64,
    largest: (u64, Part<'s>),
    largest_pattern: (u64, Part<'s>),
}

/// Refuses a schema whose parts have long locations. Resolving references and compiling keep the location of each
/// part, so that a property name of 1 MB above a thousand others takes 1 GB.
pub(crate) fn check_locations(root: &Value) -> Result<(), Error> {
    let (mut total, mut pending) = (0_u64, vec![(root, 0_u64)]);
    while let Some((value, location)) = pending.pop() {
        total = total.saturating_add(location);
        if total > COMPILED_BYTES_MAX {
            return Err(Error::TooMuchMemory {
                path: shortened(locate(root, value)),
                what: "the schema, with the names that lead to this part,",
                found: total,
                limit: COMPILED_BYTES_MAX,
                advice: "shorten long property names, or nest fewer parts below them",
            });
        }
        match value {
            Value::Object(members) => pending
                .extend(members.iter().map(|(name, member)| (member, location + 1 + name.len() as u64))),
            // An index has up to six digits.
            Value::Array(items) => pending.extend(items.iter().map(|item| (item, location + 7))),
            _ => {}
        }
    }
    Ok(())
}

/// Returns an upper bound of the memory of a compiled schema. Refuses the schema if that exceeds a limit.
pub(crate) fn estimate(root: &Value, references: &References) -> Result<u64, Error> {
    let mut estimate = Estimate {
        root,
        total: SCHEMA_BYTES_MIN + values_bytes(root),
        patterns: HashMap::new(),
        patterns_total: 0,
        largest: (0, Part::Subschema(root)),
        largest_pattern: (0, Part::Pattern(root)),
    };
    let identifier = longest_identifier(root);
    let mut pending = vec![(root, 0_u64)];
    let mut seen = HashSet::new();
    while let Some((schema, location)) = pending.pop() {
        let Some(object) = schema.as_object().filter(|_| seen.insert(std::ptr::from_ref(schema))) else {
            continue;
        };
        estimate.subschema(schema, object, location)?;
        estimate.references(object, identifier)?;
        estimate.patterns(object)?;
        subschemas(object, |relative, child, _| pending.push((child, location + relative.len() as u64)));
        // A reference may lead to a location that no keyword describes.
        for reference in REFERENCE_KEYWORDS.iter().filter_map(|keyword| object.get(*keyword)?.as_str()) {
            if let Some(pointer) = references.pointer(root, reference)
                && let Some(target) = root.pointer(&pointer)
            {
                pending.push((target, pointer.len() as u64));
            }
        }
    }
    Ok(estimate.total)
}

impl<'s> Estimate<'s> {
    fn subschema(
        &mut self,
        schema: &'s Value,
        object: &'s Map<String, Value>,
        location: u64,
    ) -> Result<(), Error> {
        let keywords = object.len() as u64;
        // The validator keeps the location of the subschema and of each keyword, for both kinds of paths.
        let locations = (2 * keywords + 1).saturating_mul(location);
        let own = SUBSCHEMA_BYTES + keywords * KEYWORD_BYTES + locations;
        self.add(own, Part::Subschema(schema))?;
        for dependencies in
            ["dependencies", "dependentRequired"].into_iter().filter_map(|keyword| object.get(keyword))
        {
            let count = dependencies.as_object().map_or(0, |members| members.len() as u64);
            self.add(count * KEYWORD_BYTES, Part::Subschema(schema))?;
        }
        for listed in ["enum", "const"].into_iter().filter_map(|keyword| object.get(keyword)) {
            self.add(count_values(listed) * LISTED_VALUE_BYTES, Part::Listed(listed))?;
        }
        Ok(())
    }

    fn references(&mut self, object: &'s Map<String, Value>, identifier: u64) -> Result<(), Error> {
        for keyword in REFERENCE_KEYWORDS.into_iter().chain(["$id", "id", "$anchor", "$dynamicAnchor"]) {
            let Some(value @ Value::String(text)) = object.get(keyword) else { continue };
            let bytes = (identifier + text.len() as u64).saturating_mul(REFERENCE_COPIES);
            self.add(bytes, Part::Reference(value))?;
        }
        Ok(())
    }

    /// Adds the patterns of one subschema. The validator compiles equal patterns once.
    fn patterns(&mut self, object: &'s Map<String, Value>) -> Result<(), Error> {
        if let Some(value @ Value::String(pattern)) = object.get("pattern") {
            self.pattern(pattern, value)?;
        }
        if let Some(Value::Object(named)) = object.get("patternProperties") {
            for (pattern, value) in named {
                self.pattern(pattern, value)?;
            }
        }
        Ok(())
    }

    fn pattern(&mut self, pattern: &'s str, place: &'s Value) -> Result<(), Error> {
        if self.patterns.contains_key(pattern) {
            return Ok(());
        }
        let bytes = compiled_bytes(pattern).unwrap_or(PATTERN_BYTES_MIN);
        self.patterns.insert(pattern, bytes);
        self.patterns_total = self.patterns_total.saturating_add(bytes);
        if bytes > self.largest_pattern.0 {
            self.largest_pattern = (bytes, Part::Pattern(place));
        }
        if self.patterns_total > COMPILED_PATTERNS_BYTES_MAX {
            let (_, part) = self.largest_pattern;
            return Err(self.refusal(part, self.patterns_total, COMPILED_PATTERNS_BYTES_MAX));
        }
        self.add(bytes, Part::Pattern(place))
    }

    fn add(&mut self, bytes: u64, part: Part<'s>) -> Result<(), Error> {
        self.total = self.total.saturating_add(bytes);
        if bytes > self.largest.0 {
            self.largest = (bytes, part);
        }
        if self.total > COMPILED_BYTES_MAX {
            let (_, part) = self.largest;
            return Err(self.refusal(part, self.total, COMPILED_BYTES_MAX));
        }
        Ok(())
    }

    fn refusal(&self, part: Part<'s>, found: u64, limit: u64) -> Error {
        let (place, what, advice) = match part {
            Part::Subschema(place) => (
                place,
                "the schema, in which this subschema is the largest,",
                "split the contract into smaller ones, and shorten long property names",
            ),
            Part::Listed(place) => (
                place,
                "the schema, in which this list of values is the largest part,",
                "list fewer values, or describe them with a pattern or a range",
            ),
            Part::Reference(place) => (
                place,
                "the schema, in which this reference is the longest,",
                "shorten the $id of the schema, or leave it out",
            ),
            Part::Pattern(place) => (
                place,
                "the patterns of the schema, of which this is the largest,",
                "lower its repetitions, use ranges instead of classes such as \\p{L}, or use maxLength",
            ),
        };
        Error::TooMuchMemory { path: shortened(locate(self.root, place)), what, found, limit, advice }
    }
}

/// The longest path in an error, in bytes. A longer one is cut, because a property name may have megabytes.
const PATH_BYTES_MAX: usize = 200;

fn shortened(mut path: String) -> String {
    if path.len() > PATH_BYTES_MAX {
        let end = (0..=PATH_BYTES_MAX).rev().find(|end| path.is_char_boundary(*end)).unwrap_or(0);
        path.truncate(end);
        path.push('…');
    }
    path
}

/// Returns every value of a document, in no particular order.
fn values(root: &Value) -> impl Iterator<Item = &Value> {
    let mut pending = vec![root];
    std::iter::from_fn(move || {
        let value = pending.pop()?;
        match value {
            Value::Array(items) => pending.extend(items),
            Value::Object(members) => pending.extend(members.values()),
            _ => {}
        }
        Some(value)
    })
}

/// Returns the memory of the source document.
fn values_bytes(root: &Value) -> u64 {
    let bytes = |value: &Value| match value {
        Value::String(text) => text.len() as u64 * TEXT_COPIES,
        Value::Object(members) => {
            OBJECT_BYTES + members.keys().map(|name| name.len() as u64 * TEXT_COPIES).sum::<u64>()
        }
        _ => 0,
    };
    values(root).fold(0, |total, value| total.saturating_add(VALUE_BYTES + bytes(value)))
}

fn count_values(root: &Value) -> u64 {
    values(root).count() as u64
}

/// Returns the length of the longest identifier. Every reference may be kept with it as its base.
fn longest_identifier(root: &Value) -> u64 {
    let identifiers = values(root).flat_map(|value| [value.get("$id"), value.get("id")]);
    identifiers.filter_map(|identifier| Some(identifier?.as_str()?.len() as u64)).max().unwrap_or(0)
}
