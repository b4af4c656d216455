//! Solves the schemas that apply to a value into the form of that value.
//!
//! All schemas that apply to one value are collected in a list; `allOf` and `$ref` add to it. Keywords with
//! alternatives (`anyOf`, `oneOf`, `if`, `not`, dependencies) are resolved one after the other. Each combination
//! of alternatives is a variant, and the form is the union of the variants. Recursion terminates because
//! references that lead back are followed a bounded number of times.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};
use slipform_schema::NormalizedSchema;

use super::Bounds;
use super::form::Form;
use super::negate::{Negation, negate};
use super::schema_part::{SILENT, SchemaPart};

/// The limits of the solver. Schemas that exceed them are solved again with lower precision.
#[derive(Debug, Clone, Copy)]
pub(super) struct Effort {
    /// The most back-references on one path.
    pub(super) loops: u8,
    /// The most variants of one value.
    pub(super) variants: usize,
    /// The most forms that are built.
    pub(super) steps: usize,
    /// Whether `oneOf` branches are separated, and conditions and dependencies are enforced.
    pub(super) is_careful: bool,
    /// Whether patterns are enforced.
    pub(super) enforces_patterns: bool,
}

pub(super) struct Solver<'d> {
    pub(super) normalized: &'d NormalizedSchema,
    pub(super) bounds: &'d Bounds,
    pub(super) effort: Effort,
    /// The composite forms, referenced by index.
    pub(super) forms: Vec<Form>,
    /// The keywords that the form does not guarantee, in order of first occurrence.
    pub(super) unenforced: Vec<String>,
    pub(super) steps: usize,
    visits: usize,
    /// Whether the recursion limit excluded values.
    pub(super) is_cut: bool,
    /// The form of any value, computed on first use.
    pub(super) anything: Option<Form>,
    cache: HashMap<(Vec<String>, u8), Form>,
    back_references: HashSet<*const Value>,
    depth: usize,
}

/// Schemas with resolved references and `allOf`, and the alternatives that are not resolved yet.
#[derive(Debug, Clone, Default)]
pub(super) struct Flat<'d> {
    pub(super) parts: Vec<SchemaPart<'d>>,
    choices: Vec<Choice<'d>>,
    seen: HashSet<String>,
    loops: u8,
}

#[derive(Debug, Clone)]
enum Choice<'d> {
    Any(Vec<SchemaPart<'d>>),
    One(Vec<SchemaPart<'d>>),
    If(SchemaPart<'d>, Option<SchemaPart<'d>>, Option<SchemaPart<'d>>),
    /// A property and the schema that its presence requires.
    Dependent(String, SchemaPart<'d>),
    /// The keyword to report if the negation is not enforced, and the schema that must not be satisfied.
    Not(&'static str, SchemaPart<'d>),
}

/// The most combinations of alternatives that are visited.
const VISITS_MAX: usize = 20_000;

/// The most unresolved alternatives of one value.
const CHOICES_MAX: usize = 400;

/// The deepest nesting of values in the grammar. Deeper values are excluded.
const DEPTH_MAX: usize = 40;

impl<'d> Solver<'d> {
    pub(super) fn new(normalized: &'d NormalizedSchema, bounds: &'d Bounds, effort: Effort) -> Solver<'d> {
        Solver {
            normalized,
            bounds,
            effort,
            forms: Vec::new(),
            unenforced: Vec::new(),
            steps: 0,
            visits: 0,
            is_cut: false,
            anything: None,
            cache: HashMap::new(),
            back_references: find_back_references(normalized),
            depth: 0,
        }
    }

    /// Returns whether the effort is exceeded, in which case the result is unusable.
    pub(super) fn is_exhausted(&self) -> bool {
        self.steps > self.effort.steps || self.visits > VISITS_MAX
    }

    /// Records that the grammar does not guarantee a keyword.
    pub(super) fn mark_unenforced(&mut self, keyword: &str) {
        if !self.unenforced.iter().any(|known| known == keyword) {
            self.unenforced.push(keyword.to_owned());
        }
    }

    /// Returns the form of values that satisfy all `parts`.
    pub(super) fn form(&mut self, parts: Vec<SchemaPart<'d>>, loops: u8) -> Form {
        let mut keys: Vec<String> = parts.iter().map(SchemaPart::key).collect();
        keys.sort_unstable();
        keys.dedup();
        let key = (keys, loops);
        if let Some(form) = self.cache.get(&key) {
            return form.clone();
        }
        if self.depth >= DEPTH_MAX || self.is_exhausted() {
            self.is_cut = true;
            return Form::Never;
        }
        self.depth += 1;
        let flat = Flat { loops, ..Flat::default() };
        let variants = match self.flatten(flat, parts) {
            Some(flat) => self.variants(flat, self.effort.variants),
            None => Vec::new(),
        };
        self.depth -= 1;
        let form = match Form::union(variants) {
            form @ (Form::Never | Form::Scalar(_) | Form::Shared(_)) => form,
            composite => self.share(composite),
        };
        self.cache.insert(key, form.clone());
        form
    }

    pub(super) fn share(&mut self, form: Form) -> Form {
        self.forms.push(form);
        Form::Shared(self.forms.len() - 1)
    }

    /// Adds schemas and resolves their references and `allOf`. Returns `None` if no value can satisfy them.
    fn flatten(&mut self, mut flat: Flat<'d>, parts: Vec<SchemaPart<'d>>) -> Option<Flat<'d>> {
        let mut pending: Vec<SchemaPart<'d>> = parts.into_iter().rev().collect();
        while let Some(part) = pending.pop() {
            match part.value() {
                Value::Bool(false) => return None,
                Value::Object(keywords) if !keywords.is_empty() => {}
                _ => continue,
            }
            if !flat.seen.insert(part.key()) {
                continue;
            }
            pending.extend(part.list("allOf").into_iter().rev());
            if let Some(target) = part.get("$ref").and_then(Value::as_str) {
                if let SchemaPart::Document(schema) = &part
                    && self.back_references.contains(&std::ptr::from_ref(*schema))
                {
                    flat.loops += 1;
                    if flat.loops > self.effort.loops {
                        self.is_cut = true;
                        return None;
                    }
                }
                match self.normalized.targets.get(target) {
                    Some(target) => pending.push(SchemaPart::Document(target)),
                    None => self.mark_unenforced("$ref"),
                }
            }
            self.note_choices(&part, &mut flat.choices);
            flat.parts.push(part);
        }
        Some(flat)
    }

    fn note_choices(&mut self, part: &SchemaPart<'d>, choices: &mut Vec<Choice<'d>>) {
        let child = |keyword: &str| part.child(|value| value.get(keyword));
        if part.get("anyOf").is_some_and(Value::is_array) {
            choices.push(Choice::Any(part.list("anyOf")));
        }
        if part.get("oneOf").is_some_and(Value::is_array) {
            choices.push(Choice::One(part.list("oneOf")));
        }
        if let Some(negated) = child("not") {
            choices.push(Choice::Not("not", negated));
        }
        if let Some(condition) = child("if") {
            let (then, otherwise) = (child("then"), child("else"));
            if then.is_some() || otherwise.is_some() {
                choices.push(Choice::If(condition, then, otherwise));
            }
        }
        for name in part.names("dependentRequired") {
            let demanded = part.child(|value| value.get("dependentRequired")?.get(&name));
            if let Some(demanded) = demanded {
                choices.push(Choice::Dependent(
                    name,
                    SchemaPart::derived(json!({"required": demanded.value()})),
                ));
            }
        }
        for name in part.names("dependentSchemas") {
            if let Some(demanded) = part.child(|value| value.get("dependentSchemas")?.get(&name)) {
                choices.push(Choice::Dependent(name, demanded));
            }
        }
    }

    /// Returns the forms of all combinations of alternatives, about `limit` at most.
    fn variants(&mut self, mut flat: Flat<'d>, limit: usize) -> Vec<Form> {
        self.visits += 1;
        if flat.choices.len() > CHOICES_MAX {
            self.visits = VISITS_MAX + 1;
        }
        if self.is_exhausted() {
            return Vec::new();
        }
        if flat.choices.is_empty() {
            self.steps += 1;
            return Vec::from_iter(Some(self.build(&flat, flat.loops)).filter(|form| !form.is_never()));
        }
        // The oldest choice is resolved first, so negations that `one_of` appends are resolved last.
        let choice = flat.choices.remove(0);
        match choice {
            Choice::Any(branches) => self.each(flat, branches.into_iter().map(|branch| vec![branch]), limit),
            Choice::One(branches) => self.one_of(flat, branches, limit),
            Choice::If(condition, then, otherwise) => {
                self.conditional(flat, condition, then, otherwise, limit)
            }
            Choice::Dependent(name, demanded) => self.dependent(flat, &name, demanded, limit),
            Choice::Not(keyword, negated) => self.negated(flat, keyword, &negated, limit),
        }
    }

    /// Returns the variants of each alternative. Every alternative gets an equal share, and at least one.
    fn each(
        &mut self,
        flat: Flat<'d>,
        alternatives: impl ExactSizeIterator<Item = Vec<SchemaPart<'d>>>,
        limit: usize,
    ) -> Vec<Form> {
        let count = alternatives.len().max(1);
        let share = (limit / count).max(1);
        let most = if limit <= 1 { 1 } else { limit.max(count) };
        let mut forms = Vec::new();
        for parts in alternatives {
            if forms.len() >= most {
                break;
            }
            if let Some(flat) = self.flatten(flat.clone(), parts) {
                forms.extend(self.variants(flat, share));
            }
        }
        forms
    }

    fn one_of(&mut self, flat: Flat<'d>, branches: Vec<SchemaPart<'d>>, limit: usize) -> Vec<Form> {
        if !self.effort.is_careful {
            self.mark_unenforced("oneOf");
            return self.each(flat, branches.into_iter().map(|branch| vec![branch]), limit);
        }
        let count = branches.len().max(1);
        let share = (limit / count).max(1);
        let most = if limit <= 1 { 1 } else { limit.max(count) };
        let mut forms = Vec::new();
        for (index, branch) in branches.iter().enumerate() {
            if forms.len() >= most {
                break;
            }
            let Some(mut flat) = self.flatten(flat.clone(), vec![branch.clone()]) else { continue };
            for (_, excluded) in branches.iter().enumerate().filter(|(other, _)| *other != index) {
                if !self.are_disjoint(&flat, excluded) {
                    flat.choices.push(Choice::Not("oneOf", excluded.clone()));
                }
            }
            forms.extend(self.variants(flat, share));
        }
        forms
    }

    /// Returns whether types and listed values alone show that no value satisfies `flat` and `other`.
    fn are_disjoint(&mut self, flat: &Flat<'d>, other: &SchemaPart<'d>) -> bool {
        let before = std::mem::replace(&mut self.is_cut, false);
        let other = self.flatten(Flat::default(), vec![other.clone()]);
        let was_cut = self.is_cut;
        self.is_cut |= before;
        // A schema cut at the recursion limit may admit any value.
        let Some(other) = other else { return !was_cut };
        let mut both = flat.parts.clone();
        both.extend(other.parts);
        self.is_trivially_empty(&both)
    }

    fn conditional(
        &mut self,
        flat: Flat<'d>,
        condition: SchemaPart<'d>,
        then: Option<SchemaPart<'d>>,
        otherwise: Option<SchemaPart<'d>>,
        limit: usize,
    ) -> Vec<Form> {
        if !self.effort.is_careful {
            self.mark_unenforced("if");
            return self.variants(flat, limit);
        }
        let share = (limit / 2).max(1);
        let mut forms = Vec::new();
        let met: Vec<SchemaPart<'d>> =
            [Some(condition.clone()), then.clone()].into_iter().flatten().collect();
        if let Some(flat) = self.flatten(flat.clone(), met) {
            forms.extend(self.variants(flat, share));
        }
        if limit > 1 || forms.is_empty() {
            let unmet = otherwise.clone().into_iter().collect();
            if let Some(mut flat) = self.flatten(flat.clone(), unmet) {
                flat.choices.insert(0, Choice::Not("", condition));
                forms.extend(self.variants(flat, share));
            }
        }
        if forms.is_empty() {
            let both = [then, otherwise].into_iter().flatten().collect();
            if let Some(flat) = self.flatten(flat, both) {
                forms.extend(self.variants(flat, share));
            }
        }
        forms
    }

    fn dependent(&mut self, flat: Flat<'d>, name: &str, demanded: SchemaPart<'d>, limit: usize) -> Vec<Form> {
        let is_required =
            flat.parts.iter().any(|part| part.texts("required").iter().any(|known| known == name));
        let mut forms = Vec::new();
        let present = vec![SchemaPart::derived(json!({"required": [name]})), demanded.clone()];
        if is_required || limit <= 1 || !self.effort.is_careful {
            // Requiring the dependent schema in all cases satisfies the dependency.
            let demanded = if is_required { present } else { vec![demanded] };
            if let Some(flat) = self.flatten(flat.clone(), demanded) {
                forms.extend(self.variants(flat, limit));
            }
            if is_required || !forms.is_empty() {
                return forms;
            }
        } else if let Some(flat) = self.flatten(flat.clone(), present) {
            forms.extend(self.variants(flat, (limit / 2).max(1)));
        }
        if let Some(flat) =
            self.flatten(flat, vec![SchemaPart::derived(json!({"properties": {name: false}}))])
        {
            forms.extend(self.variants(flat, (limit / 2).max(1)));
        }
        forms
    }

    /// Returns the variants that violate a schema. For `oneOf` one alternative is sufficient; for `not`, up to
    /// four are used.
    fn negated(
        &mut self,
        flat: Flat<'d>,
        keyword: &'static str,
        negated: &SchemaPart<'d>,
        limit: usize,
    ) -> Vec<Form> {
        if self.are_disjoint(&flat, negated) {
            return self.variants(flat, limit);
        }
        let Negation { mut alternatives, is_partial } = negate(self.normalized, negated.value());
        if keyword == "oneOf" {
            self.prefer_unlisted(&flat, &mut alternatives);
        }
        let enough = if keyword == "oneOf" { 1 } else { limit.min(4) };
        let mut forms = Vec::new();
        for alternative in alternatives {
            let mut alternative = alternative;
            if let Value::Object(keywords) = &mut alternative {
                keywords.insert(SILENT.to_owned(), Value::Bool(true));
            }
            if let Some(flat) = self.flatten(flat.clone(), vec![SchemaPart::derived(alternative)]) {
                forms.extend(self.variants(flat, (limit / 2).max(1)));
            }
            if forms.len() >= enough {
                return forms;
            }
        }
        // A condition has its other branch. Otherwise, an incomplete negation is left to validation, and a
        // complete one without values excludes the variant.
        if forms.is_empty()
            && !keyword.is_empty()
            && (is_partial || !self.effort.is_careful)
            && !self.is_exhausted()
        {
            let before = self.unenforced.len();
            forms = self.variants(flat, limit);
            if !forms.is_empty() && !self.unenforced.iter().any(|known| known == keyword) {
                self.unenforced.insert(before.min(self.unenforced.len()), keyword.to_owned());
            }
        }
        forms
    }

    /// Moves alternatives that only forbid unlisted properties to the front. They cost nothing, because objects
    /// are closed.
    fn prefer_unlisted(&self, flat: &Flat<'d>, alternatives: &mut [Value]) {
        let listed: HashSet<String> = flat.parts.iter().flat_map(|part| part.names("properties")).collect();
        alternatives.sort_by_key(|alternative| {
            let forbidden = alternative
                .get("properties")
                .and_then(Value::as_object)
                .filter(|_| alternative.get("required").is_none());
            forbidden.is_none_or(|names| names.keys().any(|name| listed.contains(name)))
        });
    }
}

/// Returns the schemas whose reference leads back to an enclosing schema. Every cycle has one.
fn find_back_references(normalized: &NormalizedSchema) -> HashSet<*const Value> {
    let mut found = HashSet::new();
    let mut state: HashMap<*const Value, bool> = HashMap::new();
    let mut pending = vec![(&normalized.root, false)];
    while let Some((value, leaving)) = pending.pop() {
        let identity = std::ptr::from_ref(value);
        if leaving {
            state.insert(identity, true);
            continue;
        }
        if state.contains_key(&identity) {
            continue;
        }
        state.insert(identity, false);
        pending.push((value, true));
        match value {
            Value::Object(members) => {
                let reference = members.get("$ref").and_then(Value::as_str);
                if let Some(target) = reference.and_then(|target| normalized.targets.get(target)) {
                    // A target that is entered but not left encloses this schema or is the schema itself.
                    match state.get(&std::ptr::from_ref(target)) {
                        Some(false) => drop(found.insert(identity)),
                        Some(true) => {}
                        None => pending.push((target, false)),
                    }
                }
                pending.extend(members.values().map(|member| (member, false)));
            }
            Value::Array(items) => pending.extend(items.iter().map(|item| (item, false))),
            _ => {}
        }
    }
    found
}
