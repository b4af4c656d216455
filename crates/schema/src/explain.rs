//! Converts the validator's errors to violations.
//!
//! It selects the closest branch of a union, locates missing properties, and lists allowed values.

use std::collections::HashMap;

use jsonschema::error::{TypeKind, ValidationErrorKind as Kind};
use jsonschema::paths::Location;
use jsonschema::{JsonType, ValidationError};
use serde_json::Value;

use crate::path::{Segment, json_path, unescape_pointer};
use crate::violation::{Violation, Violations};
use crate::wording::{count, either, kind, shorten, show, show_list, type_name};

/// The weight of an error that rules a union branch out, relative to errors that can be corrected.
const RULED_OUT: usize = 10_000;

/// The most unexpected properties of one object that are reported individually.
const UNEXPECTED_MAX: usize = 50;

/// Converts all errors of `instance` to violations in document order.
pub(crate) fn explain<'a>(
    instance: &Value,
    schema: &Value,
    errors: impl Iterator<Item = ValidationError<'a>>,
) -> Violations {
    let mut explainer = Explainer { instance, schema, found: Vec::new() };
    for error in errors {
        explainer.error(&error, &[]);
    }
    explainer.finish()
}

/// Sorts violations into document order, and removes duplicates.
pub(crate) fn in_document_order(instance: &Value, mut found: Vec<(Vec<Segment>, Violation)>) -> Violations {
    let mut ordinals = Ordinals::default();
    found.sort_by_cached_key(|(place, _)| ordinals.of(instance, place));
    let mut all: Vec<Violation> = Vec::with_capacity(found.len());
    for (_, violation) in found {
        let is_known = |known: &Violation| known.path == violation.path && known.message == violation.message;
        if !all.iter().rev().take_while(|known| known.path == violation.path).any(is_known) {
            all.push(violation);
        }
    }
    Violations::capped(all)
}

struct Explainer<'v> {
    instance: &'v Value,
    schema: &'v Value,
    found: Vec<(Vec<Segment>, Violation)>,
}

impl Explainer<'_> {
    fn finish(self) -> Violations {
        in_document_order(self.instance, self.found)
    }

    /// Returns the segments of a location. A numeric token is an index only where the instance has an array.
    fn segments(&self, location: &Location) -> Vec<Segment> {
        let mut at = Some(self.instance);
        let tokens = location.as_str().split('/').skip(1).map(unescape_pointer);
        tokens
            .map(|token| {
                let index = token.parse::<usize>().ok().filter(|_| at.is_some_and(Value::is_array));
                at = match index {
                    Some(index) => at.and_then(|value| value.get(index)),
                    None => at.and_then(|value| value.get(&token)),
                };
                index.map_or(Segment::Key(token), Segment::Index)
            })
            .collect()
    }

    fn push(&mut self, place: Vec<Segment>, message: String, error: &ValidationError<'_>, value: Value) {
        let violation = Violation {
            path: shorten(json_path(&place)),
            message: shorten(message),
            schema_path: error.schema_path().as_str().to_owned(),
            value,
        };
        self.found.push((place, violation));
    }

    /// Adds the violations of one error. Errors inside a union already have paths from the document's root;
    /// `prefix` is for errors about property names, which do not.
    fn error(&mut self, error: &ValidationError<'_>, prefix: &[Segment]) {
        let mut place = prefix.to_vec();
        place.extend(self.segments(error.instance_path()));
        let value = error.instance().as_ref();
        match error.kind() {
            Kind::Required { property } => {
                let name = property.as_str().unwrap_or_default().to_owned();
                place.push(Segment::Key(name));
                self.push(place, "required property is missing".to_owned(), error, Value::Null);
            }
            Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
                self.unexpected(&place, unexpected, error, value);
            }
            Kind::FalseSchema if error.schema_path().as_str().ends_with("/additionalProperties") => {
                // The validator reports this error at the object, whichever property caused it.
                let object =
                    self.instance.pointer(error.instance_path().as_str()).cloned().unwrap_or_default();
                let names: Vec<String> =
                    object.as_object().into_iter().flat_map(|object| object.keys().cloned()).collect();
                self.unexpected(&place, &names, error, &object);
            }
            Kind::AnyOf { context } | Kind::OneOfNotValid { context } => {
                self.union(place, context, error, value)
            }
            Kind::PropertyNames { error: inner } => {
                let name = inner.instance().as_str().unwrap_or_default().to_owned();
                let reason = message(inner, inner.instance());
                place.push(Segment::Key(name));
                self.push(place, format!("this property name is not allowed: {reason}"), error, Value::Null);
            }
            _ => self.push(place, message(error, value), error, value.clone()),
        }
    }

    fn unexpected(
        &mut self,
        place: &[Segment],
        names: &[String],
        error: &ValidationError<'_>,
        value: &Value,
    ) {
        let is_closed = error.schema_path().as_str().ends_with("/additionalProperties");
        let allowed = self.allowed_names(error.schema_path()).filter(|_| is_closed);
        for name in names.iter().take(UNEXPECTED_MAX) {
            let mut at = place.to_vec();
            at.push(Segment::Key(name.clone()));
            let advice = match &allowed {
                Some(list) if !list.is_empty() => format!("; allowed are {}", show_list(list)),
                _ => String::new(),
            };
            self.push(
                at,
                format!("unexpected property, remove it{advice}"),
                error,
                value.get(name).cloned().unwrap_or(Value::Null),
            );
        }
    }

    /// Returns the names in `properties` beside the keyword that refused a property.
    fn allowed_names(&self, keyword: &Location) -> Option<Vec<Value>> {
        let (parent, _) = keyword.as_str().rsplit_once('/')?;
        let properties = self.schema.pointer(parent)?.get("properties")?.as_object()?;
        Some(properties.keys().map(|name| Value::String(name.clone())).collect())
    }

    fn union(
        &mut self,
        place: Vec<Segment>,
        branches: &[Vec<ValidationError<'static>>],
        error: &ValidationError<'_>,
        value: &Value,
    ) {
        // A union of types or of listed values reads best as one sentence.
        if let Some(message) = merged_message(branches, &place, value) {
            self.push(place, message, error, value.clone());
            return;
        }
        if let Some((at, allowed)) = find_discriminator(branches, &place) {
            let found = at.last().and_then(|segment| match segment {
                Segment::Key(key) => value.get(key),
                Segment::Index(index) => value.get(*index),
            });
            let found = found.cloned().unwrap_or(Value::Null);
            let message = format!("{} is not one of {}", show(&found), show_list(&allowed));
            self.push(at, message, error, found);
            return;
        }
        let weigh = |branch: &[ValidationError<'_>]| {
            branch.iter().map(|error| weight(error, place.len())).fold(0, usize::saturating_add)
        };
        let closest = branches
            .iter()
            .enumerate()
            .filter(|(_, branch)| !branch.is_empty())
            .min_by_key(|(_, branch)| weigh(branch));
        let Some((index, branch)) = closest else {
            self.push(place, "does not match any of the alternatives".to_owned(), error, value.clone());
            return;
        };
        let before = self.found.len();
        for inner in branch {
            self.error(inner, &[]);
        }
        let note = format!(" (closest of {} alternatives: number {})", branches.len(), index + 1);
        for (_, violation) in &mut self.found[before..] {
            if !violation.message.contains(" (closest of ") {
                violation.message.push_str(&note);
            }
        }
    }
}

/// Returns one message for a union whose branches all fail at the value itself, by type or by enumeration.
fn merged_message(
    branches: &[Vec<ValidationError<'static>>],
    place: &[Segment],
    value: &Value,
) -> Option<String> {
    let mut types = Vec::new();
    let mut values: Vec<Value> = Vec::new();
    for branch in branches {
        let error = branch.iter().find(|error| {
            depth_of(error.instance_path()) == place.len()
                && matches!(error.kind(), Kind::Type { .. } | Kind::Enum { .. } | Kind::Constant { .. })
        })?;
        match error.kind() {
            Kind::Type { kind } => types.extend(type_names(kind)),
            Kind::Enum { options } => values.extend(options.as_array().into_iter().flatten().cloned()),
            Kind::Constant { expected_value } => values.push((**expected_value).clone()),
            _ => return None,
        }
    }
    types.dedup();
    if values.iter().any(|allowed| kind(allowed) == kind(value)) {
        // The value has the type of a listed value, so other types would only distract.
        types.clear();
    }
    match (types.is_empty(), values.is_empty()) {
        (false, true) => Some(wrong_type(value, &types)),
        (true, false) => Some(format!("{} is not one of {}", show(value), show_list(&values))),
        (false, false) => {
            Some(format!("{} is not {} and not one of {}", show(value), either(&types), show_list(&values)))
        }
        (true, true) => None,
    }
}

/// Returns the property that rules every branch out, and the values that would select a branch.
fn find_discriminator(
    branches: &[Vec<ValidationError<'static>>],
    place: &[Segment],
) -> Option<(Vec<Segment>, Vec<Value>)> {
    let mut name: Option<String> = None;
    let mut allowed = Vec::new();
    for branch in branches {
        let error = branch.iter().find(|error| {
            depth_of(error.instance_path()) == place.len() + 1
                && matches!(error.kind(), Kind::Constant { .. } | Kind::Enum { .. })
        })?;
        let own = unescape_pointer(error.instance_path().as_str().rsplit('/').next()?);
        if *name.get_or_insert_with(|| own.clone()) != own {
            return None;
        }
        match error.kind() {
            Kind::Constant { expected_value } => allowed.push((**expected_value).clone()),
            Kind::Enum { options } => allowed.extend(options.as_array().into_iter().flatten().cloned()),
            _ => return None,
        }
    }
    let at = place.iter().cloned().chain([Segment::Key(name?)]).collect();
    Some((at, allowed))
}

/// Returns the distance of a union branch from the value, as far as one error contributes to it. An error at
/// the union's own value, or at a constant one level below (a discriminator), rules the branch out.
fn weight(error: &ValidationError<'_>, depth: usize) -> usize {
    let below = depth_of(error.instance_path()).saturating_sub(depth);
    match error.kind() {
        Kind::Type { .. } | Kind::FalseSchema if below == 0 => RULED_OUT * 10,
        Kind::Constant { .. } | Kind::Enum { .. } if below <= 1 => RULED_OUT,
        Kind::Required { .. } => 8,
        Kind::AdditionalProperties { unexpected } => 3 * unexpected.len().max(1),
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => context
            .iter()
            .map(|branch| branch.iter().map(|inner| weight(inner, depth)).fold(0, usize::saturating_add))
            .min()
            .unwrap_or(RULED_OUT),
        _ => 5,
    }
}

/// Returns the message for an error that concerns a single value.
fn message(error: &ValidationError<'_>, value: &Value) -> String {
    scalar_message(error.kind(), value)
        .or_else(|| container_message(error, value))
        .or_else(|| composition_message(error.kind(), value))
        .unwrap_or_else(|| error.to_string())
}

/// Returns the message for keywords about types, listed values, numbers and strings.
fn scalar_message(kind: &Kind, value: &Value) -> Option<String> {
    let shown = show(value);
    Some(match kind {
        Kind::Type { kind } => wrong_type(value, &type_names(kind)),
        Kind::Enum { options } => match options.as_array() {
            Some(allowed) => format!("{shown} is not one of {}", show_list(allowed)),
            None => format!("{shown} is not allowed"),
        },
        Kind::Constant { expected_value } => format!("must be {}, not {shown}", show(expected_value)),
        Kind::Minimum { limit } => format!("{shown} is less than the minimum of {}", show(limit)),
        Kind::Maximum { limit } => format!("{shown} is greater than the maximum of {}", show(limit)),
        Kind::ExclusiveMinimum { limit } => format!("{shown} is not greater than {}", show(limit)),
        Kind::ExclusiveMaximum { limit } => format!("{shown} is not less than {}", show(limit)),
        Kind::MultipleOf { multiple_of } => format!("{shown} is not a multiple of {multiple_of}"),
        Kind::MinLength { limit } => {
            format!(
                "{shown} is too short, at least {} needed",
                count(*limit, "character is", "characters are")
            )
        }
        Kind::MaxLength { limit } => {
            let length = value.as_str().map_or(0, |text| text.chars().count());
            format!("{shown} is too long with {length} characters, at most {limit} allowed")
        }
        Kind::Pattern { pattern } => format!("{shown} does not match the pattern '{pattern}'"),
        Kind::Format { format } => match example(format) {
            Some(example) => format!("{shown} is not a valid {format}, such as {example}"),
            None => format!("{shown} is not a valid {format}"),
        },
        Kind::BacktrackLimitExceeded { .. } => {
            "the schema's pattern takes too long on this value; simplify the pattern's look-around".to_owned()
        }
        _ => return None,
    })
}

/// Returns the message for keywords about the items and properties of a value.
fn container_message(error: &ValidationError<'_>, value: &Value) -> Option<String> {
    let items = value.as_array().map_or(0, Vec::len);
    let properties = value.as_object().map_or(0, serde_json::Map::len);
    Some(match error.kind() {
        Kind::MinItems { limit } => {
            format!("has {}, at least {limit} needed", count(items as u64, "item", "items"))
        }
        Kind::MaxItems { limit } => {
            format!("has {}, at most {limit} allowed", count(items as u64, "item", "items"))
        }
        Kind::AdditionalItems { limit } => format!("has {items} items, only {limit} allowed"),
        Kind::UnevaluatedItems { unexpected } => format!("unexpected items: {}", unexpected.join(", ")),
        Kind::MinProperties { limit } => format!("has {properties} properties, at least {limit} needed"),
        Kind::MaxProperties { limit } => format!("has {properties} properties, at most {limit} allowed"),
        Kind::UniqueItems => duplicate(value),
        Kind::Contains => match error.schema_path().as_str().rsplit('/').next() {
            Some("maxContains") => "too many of the items match 'contains'".to_owned(),
            Some("minContains") => "too few of the items match 'contains'".to_owned(),
            _ => "the number of items that match 'contains' is not the one asked for".to_owned(),
        },
        _ => return None,
    })
}

/// Returns the message for keywords that combine schemas.
fn composition_message(kind: &Kind, value: &Value) -> Option<String> {
    Some(match kind {
        Kind::Not { schema } => format!("{} is excluded: it must not match {}", show(value), show(schema)),
        Kind::OneOfMultipleValid { context } => {
            let matching: Vec<String> = context
                .iter()
                .enumerate()
                .filter(|(_, errors)| errors.is_empty())
                .map(|(index, _)| (index + 1).to_string())
                .collect();
            match matching.as_slice() {
                [] => "matches more than one of the oneOf alternatives; exactly one is allowed".to_owned(),
                list => {
                    format!("matches the oneOf alternatives {}; exactly one is allowed", list.join(" and "))
                }
            }
        }
        Kind::FalseSchema => "nothing is allowed here, remove it".to_owned(),
        _ => return None,
    })
}

/// Returns an example value of a format.
fn example(format: &str) -> Option<&'static str> {
    Some(match format {
        "date-time" => "2026-01-31T09:30:00Z",
        "date" => "2026-01-31",
        "time" => "09:30:00Z",
        "duration" => "P1DT12H",
        "email" => "ada@example.com",
        "uri" => "https://example.com/page",
        "uuid" => "3b241101-e2bb-4255-8caf-4136c566a962",
        "ipv4" => "192.0.2.1",
        "ipv6" => "2001:db8::1",
        "hostname" => "example.com",
        _ => return None,
    })
}

fn wrong_type(value: &Value, allowed: &[String]) -> String {
    let found = match value {
        Value::Object(_) | Value::Array(_) | Value::Null => kind(value).to_owned(),
        scalar => format!("{} ({})", kind(value), show(scalar)),
    };
    format!("must be {}, not {found}", either(allowed))
}

fn type_names(kind: &TypeKind) -> Vec<String> {
    let name = |json: JsonType| type_name(&json.to_string());
    match kind {
        TypeKind::Single(single) => vec![name(*single)],
        TypeKind::Multiple(set) => set.iter().map(name).collect(),
    }
}

fn duplicate(value: &Value) -> String {
    let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
    let mut seen: HashMap<String, usize> = HashMap::new();
    for (index, item) in items.iter().enumerate() {
        if let Some(first) = seen.insert(item.to_string(), index) {
            return format!("items must be unique, but [{first}] and [{index}] are both {}", show(item));
        }
    }
    "items must be unique".to_owned()
}

/// Returns the number of segments of a location.
fn depth_of(location: &Location) -> usize {
    location.as_str().matches('/').count()
}

/// Positions of segments among their siblings: sorting by them gives document order. Segments that are
/// missing from the document come last.
#[derive(Default)]
struct Ordinals<'v> {
    /// The key positions of the objects seen so far. Searching each object again would take quadratic time.
    keys: HashMap<*const Value, HashMap<&'v str, usize>>,
}

impl<'v> Ordinals<'v> {
    fn of(&mut self, root: &'v Value, place: &[Segment]) -> Vec<usize> {
        let mut at = Some(root);
        place
            .iter()
            .map(|segment| {
                let (ordinal, next) = match (segment, at) {
                    (Segment::Key(key), Some(value @ Value::Object(object))) => {
                        let keys = self.keys.entry(std::ptr::from_ref(value)).or_insert_with(|| {
                            object.keys().enumerate().map(|(index, key)| (key.as_str(), index)).collect()
                        });
                        (keys.get(key.as_str()).copied().unwrap_or(usize::MAX), object.get(key))
                    }
                    (Segment::Index(index), Some(Value::Array(items))) => (*index, items.get(*index)),
                    _ => (usize::MAX, None),
                };
                at = next;
                ordinal
            })
            .collect()
    }
}
