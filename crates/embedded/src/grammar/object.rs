//! Solves objects.

use serde_json::Value;

use super::build::free_key;
use super::form::{Form, Member, ObjectForm};
use super::pattern::{self, PatternMode};
use super::rx::Rx;
use super::satisfies::satisfies;
use super::schema_part::{SILENT, SchemaPart, count};
use super::solve::Solver;

impl<'d> Solver<'d> {
    /// Returns the form of objects that satisfy all `parts`.
    pub(super) fn object(&mut self, parts: &[SchemaPart<'d>], loops: u8) -> Form {
        let counts = |keyword: &str| {
            parts.iter().filter_map(|part| part.get(keyword).and_then(count)).collect::<Vec<_>>()
        };
        let least = counts("minProperties").into_iter().max().unwrap_or(0);
        let most = counts("maxProperties").into_iter().min();
        if parts.iter().skip(1).any(|part| part.get("unevaluatedProperties").is_some()) {
            // Which properties are evaluated depends on the nesting of schemas, which the parts do not have.
            self.mark_unenforced("unevaluatedProperties");
        }
        let mut required: Vec<String> = parts.iter().flat_map(|part| part.texts("required")).collect();
        required.dedup();
        let mut names: Vec<String> = Vec::new();
        for name in parts.iter().flat_map(|part| part.names("properties")).chain(required.iter().cloned()) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        if most.is_some_and(|most| most < least) {
            return Form::Never;
        }
        let has_listed = !names.is_empty();
        let Some(members) = self.members(parts, names, &required, loops) else { return Form::Never };
        let free = self.free(parts, &members, has_listed, least, loops);
        let needed = members.iter().filter(|member| member.required).count();
        if most.is_some_and(|most| most < needed) || (members.len() < least && free.is_empty()) {
            return Form::Never;
        }
        if least > members.len() + 1 {
            // Two free members may have the same name, which reduces the count.
            self.mark_unenforced("minProperties");
        }
        let free_most = self.bounds.free_items.max(least.saturating_sub(members.len()));
        let object = ObjectForm { members, free, free_most, least, most };
        let counted = limit_counting(object);
        if counted.least_lost {
            self.mark_unenforced("minProperties");
        }
        Form::Object(Box::new(counted.object))
    }

    /// Returns the listed members in the order of the schema; `None` if a required one has no value.
    fn members(
        &mut self,
        parts: &[SchemaPart<'d>],
        names: Vec<String>,
        required: &[String],
        loops: u8,
    ) -> Option<Vec<Member>> {
        let mut members: Vec<Option<Member>> = vec![None; names.len()];
        // Required members come first, because an impossible one ends the search.
        let is_required = |name: &String| required.contains(name);
        let mut order: Vec<usize> = (0..names.len()).collect();
        order.sort_by_key(|index| !names.get(*index).is_some_and(is_required));
        for index in order {
            let name = names.get(index)?;
            let form = match self.member_parts(parts, name) {
                Some(member_parts) => self.form(member_parts, loops),
                None => Form::Never,
            };
            if form.is_never() {
                if is_required(name) {
                    return None;
                }
                continue;
            }
            if let Some(member) = members.get_mut(index) {
                *member = Some(Member { name: name.clone(), form, required: is_required(name) });
            }
        }
        Some(members.into_iter().flatten().collect())
    }

    /// Returns the schemas that apply to the member with this name; `None` if the name is not allowed.
    fn member_parts(&mut self, parts: &[SchemaPart<'d>], name: &str) -> Option<Vec<SchemaPart<'d>>> {
        let mut found = Vec::new();
        let mut evaluated = false;
        let mut rest = Vec::new();
        for part in parts {
            if part
                .get("propertyNames")
                .is_some_and(|names| !satisfies(self.normalized, names, &Value::from(name)))
            {
                return None;
            }
            let mut own: Vec<SchemaPart<'d>> =
                part.child(|value| value.get("properties")?.get(name)).into_iter().collect();
            for text in part.names("patternProperties") {
                let quoted = Value::from(name).to_string();
                if self.matches(&text, &quoted) {
                    own.extend(part.child(|value| value.get("patternProperties")?.get(&text)));
                }
            }
            if own.is_empty() {
                own.extend(part.child(|value| value.get("additionalProperties")));
            }
            evaluated |= !own.is_empty() && part.get(SILENT).is_none();
            found.extend(own);
            rest.extend(part.child(|value| value.get("unevaluatedProperties")));
        }
        if !evaluated {
            found.extend(rest);
        }
        Some(found)
    }

    /// Returns whether a pattern matches a quoted name.
    fn matches(&self, text: &str, quoted: &str) -> bool {
        let rx =
            pattern::compile_exact(text).or_else(|| pattern::compile_approximate(text).map(|shape| shape.rx));
        rx.is_some_and(|rx| rx.matches(quoted))
    }

    /// Returns the members with unlisted names, from `patternProperties` and `additionalProperties`.
    ///
    /// An object with listed properties and no rule for others is closed, because models invent names.
    fn free(
        &mut self,
        parts: &[SchemaPart<'d>],
        members: &[Member],
        has_listed: bool,
        least: usize,
        loops: u8,
    ) -> Vec<(Rx, Form)> {
        let mut patterns: Vec<String> = Vec::new();
        for text in parts.iter().flat_map(|part| part.names("patternProperties")) {
            if !patterns.contains(&text) {
                patterns.push(text);
            }
        }
        let mut taken: Vec<Rx> = parts
            .iter()
            .flat_map(|part| part.names("properties"))
            .chain(members.iter().map(|member| member.name.clone()))
            .map(|name| Rx::Literal(Value::from(name.as_str()).to_string()))
            .collect();
        let expressions: Vec<(String, Option<Rx>)> = patterns
            .into_iter()
            .map(|text| {
                let rx = self.pattern("patternProperties", &text, PatternMode::Whole);
                (text, rx.map(|shape| shape.rx))
            })
            .collect();
        let mut free = Vec::new();
        for (text, rx) in &expressions {
            let Some(rx) = rx.clone() else { continue };
            let mut found = Vec::new();
            for part in parts {
                let own = part.child(|value| value.get("patternProperties")?.get(text));
                found.extend(own.or_else(|| part.child(|value| value.get("additionalProperties"))));
            }
            let form = self.form(found, loops);
            let others = expressions
                .iter()
                .filter(|(other, _)| other != text)
                .filter_map(|(other, _)| pattern::compile_exact(other));
            let excluded: Vec<Rx> = taken.iter().cloned().chain(others).collect();
            free.extend(self.named(parts, rx, excluded, form));
        }
        let additional: Vec<SchemaPart<'d>> = parts
            .iter()
            .filter_map(|part| {
                let unevaluated = || part.child(|value| value.get("unevaluatedProperties"));
                part.child(|value| value.get("additionalProperties")).or_else(unevaluated)
            })
            .collect();
        let is_trivial = additional.iter().all(|part| {
            part.value() == &Value::Bool(true)
                || part.value().as_object().is_some_and(serde_json::Map::is_empty)
        });
        let is_open = !is_trivial || (!has_listed && free.is_empty());
        if is_open || least > members.len() {
            let form = self.form(additional, loops);
            taken.extend(expressions.iter().filter_map(|(text, _)| pattern::compile_exact(text)));
            free.extend(self.named(parts, free_key(self.bounds.key_characters), taken, form));
        }
        free
    }

    /// Returns members whose names match `rx` and `propertyNames` and are not excluded.
    fn named(
        &mut self,
        parts: &[SchemaPart<'d>],
        rx: Rx,
        excluded: Vec<Rx>,
        form: Form,
    ) -> Option<(Rx, Form)> {
        if form.is_never() {
            return None;
        }
        let is_free = rx == free_key(self.bounds.key_characters);
        let mut keys: Vec<Rx> = vec![rx];
        let mut has_name_schema = false;
        for names in parts.iter().filter_map(|part| part.child(|value| value.get("propertyNames"))) {
            let string = SchemaPart::derived(serde_json::json!({"type": "string"}));
            match self.form(vec![string, names], 0) {
                Form::Scalar(scalar) => keys.push(scalar.rx),
                _ => return None,
            }
            has_name_schema = true;
        }
        if is_free && has_name_schema {
            keys.remove(0);
        }
        let length = pattern::of_length(0, Some(self.bounds.key_characters.max(1)));
        if !is_free || has_name_schema {
            keys.push(length.clone());
        }
        if !excluded.is_empty() {
            keys.push(Rx::Not(Box::new(Rx::Or(excluded))));
        }
        let all = |mut keys: Vec<Rx>| if keys.len() == 1 { keys.remove(0) } else { Rx::And(keys) };
        let mut key = all(keys.clone());
        if key.matches_something() != Some(true) {
            // All names that match are longer than the bound, so the bound is dropped.
            keys.retain(|rx| rx != &length);
            key = all(keys);
        }
        (key.matches_something() == Some(true)).then_some((key, form))
    }
}

/// The most grammar rules for counting members: one per position and count. Beyond it, optional members become
/// required up to the minimum, and members beyond the maximum are omitted.
const COUNTED_MAX: usize = 2_000;

/// An object with a bounded number of rules. `least_lost` is set if `minProperties` is not guaranteed.
struct Counted {
    object: ObjectForm,
    least_lost: bool,
}

fn limit_counting(mut object: ObjectForm) -> Counted {
    let cap = object.least.max(object.most.unwrap_or(0));
    if object.most.is_some_and(|most| {
        most >= object.members.len() + if object.free.is_empty() { 0 } else { object.free_most }
    }) {
        object.most = None;
    }
    if cap.saturating_mul(object.members.len() + 1) <= COUNTED_MAX {
        return Counted { object, least_lost: false };
    }
    let mut missing =
        object.least.saturating_sub(object.members.iter().filter(|member| member.required).count());
    for member in object.members.iter_mut().filter(|member| !member.required) {
        if missing == 0 {
            break;
        }
        member.required = true;
        missing -= 1;
    }
    if let Some(most) = object.most {
        let mut room = most.saturating_sub(object.members.iter().filter(|member| member.required).count());
        object.members.retain(|member| {
            let kept = member.required || room > 0;
            room = room.saturating_sub(usize::from(!member.required));
            kept
        });
        object.most = None;
        object.free.clear();
    }
    object.least = 0;
    Counted { object, least_lost: missing > 0 }
}
