//! Builds the form of a value from schemas without alternatives.

use serde_json::{Value, json};

use super::form::{ArrayForm, Form, ObjectForm, Scalar};
use super::numbers::{Bound, Range, in_range};
use super::pattern::{PatternMode, Shape};
use super::rx::Rx;
use super::satisfies::{has_type, satisfies};
use super::schema_part::{EXCEPT, INDIVISIBLE, SchemaPart, TYPES, UNLIKE, count, same, type_name};
use super::solve::{Flat, Solver};
use super::{ITEM_SEPARATOR, KEY_SEPARATOR, formats, pattern};

/// The constraints of a string besides patterns and formats.
struct Text {
    least: u64,
    /// The maximum length from the schema.
    stated: Option<u64>,
    excluded: Vec<Rx>,
}

/// The allowed types of a value. With `whole`, numbers must be integers.
pub(super) struct Types {
    names: Vec<&'static str>,
    whole: bool,
}

impl Types {
    fn of(parts: &[SchemaPart<'_>]) -> Types {
        let mut types = Types { names: TYPES.to_vec(), whole: false };
        for stated in parts.iter().filter_map(|part| part.get("type")) {
            let names: Vec<&str> = match stated {
                Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
                single => single.as_str().into_iter().collect(),
            };
            let states = |name: &&str| names.contains(name);
            types.whole |= states(&"integer") && !states(&"number");
            types.names.retain(|name| states(name) || (*name == "number" && states(&"integer")));
        }
        types
    }

    fn has(&self, name: &str) -> bool {
        self.names.contains(&name)
    }
}

/// Keywords that imply a type in schemas without `type`.
const TYPE_KEYWORDS: [(&str, &[&str]); 4] = [
    (
        "object",
        &[
            "properties",
            "required",
            "additionalProperties",
            "patternProperties",
            "propertyNames",
            "minProperties",
            "maxProperties",
            "unevaluatedProperties",
        ],
    ),
    (
        "array",
        &["items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains", "unevaluatedItems"],
    ),
    ("string", &["pattern", "format", "minLength", "maxLength", "contentEncoding", UNLIKE]),
    ("number", &["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", INDIVISIBLE]),
];

impl<'d> Solver<'d> {
    /// Returns the form of values that satisfy schemas whose alternatives are all resolved.
    pub(super) fn build(&mut self, flat: &Flat<'d>, loops: u8) -> Form {
        let parts = &flat.parts;
        if self.is_trivially_empty(parts) {
            return Form::Never;
        }
        let types = Types::of(parts);
        if let Some(values) = self.listed(parts) {
            let texts = values.iter().map(|value| Rx::Literal(json_text(value)));
            return Form::union(texts.map(Form::scalar).collect());
        }
        let has_keyword = |keyword: &&str| parts.iter().any(|part| part.get(keyword).is_some());
        let implied: Vec<&str> = TYPE_KEYWORDS
            .iter()
            .filter(|(_, keywords)| keywords.iter().any(&has_keyword))
            .map(|(name, _)| *name)
            .collect();
        let is_stated = parts.iter().any(|part| part.get("type").is_some());
        let is_intended = |name: &str| is_stated || implied.is_empty() || implied.contains(&name);
        let names: Vec<&str> = types.names.iter().copied().filter(|name| is_intended(name)).collect();
        let names = if names.is_empty() { types.names.clone() } else { names };
        if !is_stated && implied.is_empty() && self.excluded(parts).is_empty() {
            return self.anything();
        }
        Form::union(names.iter().map(|name| self.of_type(name, flat, loops, &types)).collect())
    }

    fn of_type(&mut self, name: &str, flat: &Flat<'d>, loops: u8, types: &Types) -> Form {
        let parts = &flat.parts;
        let excluded = self.excluded(parts);
        if matches!(name, "object" | "array") && excluded.iter().any(|value| type_name(value) == name) {
            self.mark_unenforced("not");
        }
        match name {
            "object" => self.object(parts, loops),
            "array" => self.array(parts, loops),
            "string" => self.string(parts),
            "number" => self.number(parts, types.whole),
            "boolean" => {
                let allowed =
                    [true, false].into_iter().filter(|value| !excluded.contains(&Value::Bool(*value)));
                Form::union(allowed.map(|value| Form::scalar(Rx::Literal(value.to_string()))).collect())
            }
            _ if excluded.contains(&Value::Null) => Form::Never,
            _ => Form::scalar(Rx::Literal("null".to_owned())),
        }
    }

    fn excluded(&self, parts: &[SchemaPart<'d>]) -> Vec<Value> {
        parts.iter().filter_map(|part| part.get(EXCEPT)?.as_array()).flatten().cloned().collect()
    }

    /// Returns the values of `const` and `enum` that satisfy all schemas; `None` without these keywords.
    fn listed(&self, parts: &[SchemaPart<'d>]) -> Option<Vec<Value>> {
        let left = in_every_list(parts)?;
        let fits = |value: &Value| parts.iter().all(|part| satisfies(self.normalized, part.value(), value));
        Some(left.into_iter().filter(fits).collect())
    }

    /// Returns whether types and listed values alone show that no value satisfies all schemas.
    pub(super) fn is_trivially_empty(&self, parts: &[SchemaPart<'d>]) -> bool {
        let types = Types::of(parts);
        if types.names.is_empty() {
            return true;
        }
        if let Some(left) = self.listed_here(parts) {
            return !left.iter().any(|value| types.has(type_name(value)));
        }
        if types.names != ["object"] {
            return false;
        }
        let required: std::collections::HashSet<String> =
            parts.iter().flat_map(|part| part.texts("required")).collect();
        required.iter().any(|name| {
            let mut members = Vec::new();
            for part in parts {
                if let Some(member) = part.child(|value| value.get("properties")?.get(name)) {
                    members.push(member);
                } else if part.get("additionalProperties") == Some(&Value::Bool(false))
                    && part.get("patternProperties").is_none()
                {
                    return true;
                }
            }
            members.iter().any(|member| member.value() == &Value::Bool(false))
                || Types::of(&members).names.is_empty()
                || self.listed_here(&members).is_some_and(|left| left.is_empty())
        })
    }

    /// Returns the values of [`Solver::listed`] after checking only types and exclusions.
    fn listed_here(&self, parts: &[SchemaPart<'d>]) -> Option<Vec<Value>> {
        let left = in_every_list(parts)?;
        let excluded = self.excluded(parts);
        let types: Vec<&Value> = parts.iter().filter_map(|part| part.get("type")).collect();
        let fits = |value: &Value| {
            types.iter().all(|stated| has_type(stated, value))
                && !excluded.iter().any(|other| same(value, other))
        };
        Some(left.into_iter().filter(fits).collect())
    }

    fn string(&mut self, parts: &[SchemaPart<'d>]) -> Form {
        let counts = |keyword: &str| {
            parts.iter().filter_map(|part| part.get(keyword).and_then(count)).collect::<Vec<_>>()
        };
        let least = counts("minLength").into_iter().max().unwrap_or(0) as u64;
        let stated = counts("maxLength").into_iter().min().map(|most| most as u64);
        if stated.is_some_and(|most| most < least) {
            return Form::Never;
        }
        let text = Text { least, stated, excluded: self.excluded_texts(parts) };
        // The probable intention of a pattern comes first, then its literal meaning.
        for mode in [PatternMode::Whole, PatternMode::Bounded, PatternMode::Exact] {
            let form = self.shaped(&text, parts, mode);
            if !form.is_never() {
                return form;
            }
        }
        Form::Never
    }

    /// Returns the expressions that a string must not match.
    fn excluded_texts(&mut self, parts: &[SchemaPart<'d>]) -> Vec<Rx> {
        let excluded = self.excluded(parts);
        let values =
            excluded.iter().filter(|value| value.is_string()).map(|value| Rx::Literal(value.to_string()));
        let mut texts: Vec<Rx> = values.collect();
        for unlike in parts.iter().filter_map(|part| part.get(UNLIKE)?.as_str()) {
            match pattern::compile_exact(unlike).filter(|_| self.effort.enforces_patterns) {
                Some(rx) => texts.push(rx),
                None => self.mark_unenforced("not"),
            }
        }
        texts
    }

    /// Returns strings with the patterns and formats of all schemas, translated in one mode.
    fn shaped(&mut self, text: &Text, parts: &[SchemaPart<'d>], mode: PatternMode) -> Form {
        let mut shapes = Vec::new();
        for part in parts {
            if let Some(pattern) = part.get("pattern").and_then(Value::as_str) {
                shapes.extend(self.pattern("pattern", pattern, mode));
            }
            match part.get("contentEncoding").and_then(Value::as_str) {
                Some("base64") if part.get("contentMediaType").is_some() => {
                    self.mark_unenforced("contentMediaType");
                    shapes.extend(self.pattern("contentEncoding", formats::BASE64, mode));
                }
                Some("base64") => shapes.extend(self.pattern("contentEncoding", formats::BASE64, mode)),
                _ if part.get("contentMediaType") == Some(&json!("application/json")) => {
                    self.mark_unenforced("contentMediaType")
                }
                _ => {}
            }
            if let Some(format) = part.get("format").and_then(Value::as_str).and_then(formats::pattern) {
                shapes.extend(self.pattern("format", &format, mode));
            }
        }
        shapes.dedup();
        let own =
            if shapes.is_empty() { self.bounds.string_characters } else { self.bounds.shaped_characters };
        let natural = shapes.iter().filter_map(|shape| shape.length.most).min();
        // The bound grows with the minimum length and with the length of the patterns.
        let own = own.max(text.least.saturating_add(text.least / 4)).max(natural.unwrap_or(0));
        let own = if mode == PatternMode::Exact { own.saturating_mul(20) } else { own };
        let most = own.min(text.stated.unwrap_or(u64::MAX));
        let fits = shapes.iter().any(|shape| {
            shape.length.least >= text.least && shape.length.most.is_some_and(|longest| longest <= most)
        });
        let mut expressions: Vec<Rx> = shapes.into_iter().map(|shape| shape.rx).collect();
        if !fits {
            expressions.push(pattern::of_length(text.least, Some(most)));
        }
        let excluded = text.excluded.iter().map(|rx| Rx::Not(Box::new(rx.clone())));
        expressions.extend(excluded);
        let bound = (text.stated != Some(most)).then_some(most);
        if let [_] = expressions.as_slice() {
            return Form::Scalar(Scalar { rx: expressions.remove(0), bound });
        }
        let rx = Rx::And(expressions);
        match rx.matches_something() {
            Some(true) => Form::Scalar(Scalar { rx, bound }),
            Some(false) => Form::Never,
            None if mode == PatternMode::Exact => {
                self.mark_unenforced("pattern");
                Form::Scalar(Scalar { rx: pattern::of_length(text.least, Some(most)), bound })
            }
            None => Form::Never,
        }
    }

    /// Translates a pattern. If the translation is not exact, marks `keyword` as unenforced.
    pub(super) fn pattern(&mut self, keyword: &str, text: &str, mode: PatternMode) -> Option<Shape> {
        if self.effort.enforces_patterns {
            if let Some(shape) =
                pattern::compile(text, mode).or_else(|| pattern::compile(text, PatternMode::Bounded))
            {
                return Some(shape);
            }
            self.mark_unenforced(keyword);
            return pattern::compile_approximate(text);
        }
        self.mark_unenforced(keyword);
        None
    }

    fn number(&mut self, parts: &[SchemaPart<'d>], whole: bool) -> Form {
        let mut range = Range { integer: whole, ..Range::default() };
        for part in parts {
            let number = |keyword: &str| part.get(keyword).and_then(Value::as_f64);
            for (keyword, exclusive) in [("minimum", false), ("exclusiveMinimum", true)] {
                if let Some(value) = number(keyword) {
                    range.least = tighter(range.least, Bound { value, exclusive }, |new, old| new > old);
                }
            }
            for (keyword, exclusive) in [("maximum", false), ("exclusiveMaximum", true)] {
                if let Some(value) = number(keyword) {
                    range.most = tighter(range.most, Bound { value, exclusive }, |new, old| new < old);
                }
            }
            range.multiples.extend(number("multipleOf"));
            range.indivisible.extend(number(INDIVISIBLE));
        }
        let Some(mut rx) = in_range(&range) else { return Form::Never };
        for excluded in self.excluded(parts).iter().filter(|value| value.is_number()) {
            rx = rx.without(notations(excluded));
        }
        // Without exponents, very large numbers cannot be written.
        if range.least.is_some_and(|least| least.value > WRITTEN_MAX) {
            self.mark_unenforced("minimum");
        }
        if range.most.is_some_and(|most| most.value < -WRITTEN_MAX) {
            self.mark_unenforced("maximum");
        }
        Form::scalar(rx)
    }

    /// Returns the form of any value within bounds: a scalar, or a small array or object of scalars.
    pub(super) fn anything(&mut self) -> Form {
        if let Some(known) = &self.anything {
            return known.clone();
        }
        let scalar = self.any_scalar();
        let most = self.bounds.free_items;
        let array = ArrayForm { prefix: Vec::new(), item: scalar.clone(), least: 0, most, is_bounded: true };
        let object = ObjectForm {
            members: Vec::new(),
            free: vec![(free_key(self.bounds.key_characters), scalar.clone())],
            free_most: most,
            least: 0,
            most: None,
        };
        let options = vec![scalar, Form::Array(Box::new(array)), Form::Object(Box::new(object))];
        let form = self.share(Form::Union(options));
        self.anything = Some(form.clone());
        form
    }

    fn any_scalar(&mut self) -> Form {
        let string = self.string(&[]);
        let number = in_range(&Range::default()).map_or(Form::Never, Form::scalar);
        let words = ["true", "false", "null"].map(|word| Form::scalar(Rx::Literal(word.to_owned())));
        Form::union([string, number].into_iter().chain(words).collect())
    }
}

/// Returns the names of free members: words of at most this many characters.
pub(super) fn free_key(characters: u64) -> Rx {
    let middle = characters.saturating_sub(2);
    Rx::Regex(format!("\"[A-Za-z0-9_@$/.](?:[A-Za-z0-9_ .:/@$-]{{0,{middle}}}[A-Za-z0-9_])?\""))
}

fn tighter(old: Option<Bound>, new: Bound, is_tighter: impl Fn(f64, f64) -> bool) -> Option<Bound> {
    match old {
        Some(old) if old.value == new.value => {
            Some(Bound { exclusive: old.exclusive || new.exclusive, ..old })
        }
        Some(old) if !is_tighter(new.value, old.value) => Some(old),
        _ => Some(new),
    }
}

/// Formats a listed value with the separators of the grammar.
pub(super) fn json_text(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(json_text).collect();
            format!("[{}]", items.join(ITEM_SEPARATOR))
        }
        Value::Object(members) => {
            let member = |(name, value): (&String, &Value)| {
                format!("{}{KEY_SEPARATOR}{}", Value::from(name.as_str()), json_text(value))
            };
            let members: Vec<String> = members.iter().map(member).collect();
            format!("{{{}}}", members.join(ITEM_SEPARATOR))
        }
        scalar => scalar.to_string(),
    }
}

/// Returns the values that are in every `const` and `enum`; `None` without these keywords.
fn in_every_list(parts: &[SchemaPart<'_>]) -> Option<Vec<Value>> {
    let lists = parts.iter().flat_map(|part| {
        let list = part.get("enum").and_then(Value::as_array).cloned();
        [part.get("const").map(|value| vec![value.clone()]), list].into_iter().flatten()
    });
    lists.reduce(|left, right| {
        left.into_iter().filter(|value| right.iter().any(|other| same(value, other))).collect()
    })
}

/// The largest bound that is enforced.
const WRITTEN_MAX: f64 = 1e18;

/// Returns all notations of a number without an exponent.
fn notations(number: &Value) -> Rx {
    let text = match number.as_f64() {
        Some(value) if value.fract() == 0.0 && value.abs() < WRITTEN_MAX => format!("{value:.0}"),
        _ => number.to_string(),
    };
    let zeros = if text.contains('.') { "0*" } else { "(?:\\.0+)?" };
    Rx::Regex(format!("{}{zeros}", text.replace('.', "\\.")))
}
