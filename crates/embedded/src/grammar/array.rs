//! Solves arrays.

use serde_json::{Value, json};

use super::form::{ArrayForm, Form, SubsetForm};
use super::rx::Rx;
use super::schema_part::{SchemaPart, count};
use super::solve::Solver;

/// The most distinct values for which `uniqueItems` is enforced, by selecting values in a fixed order.
const PICKS_MAX: usize = 64;

/// The longest tuple whose positions have their own forms.
const PREFIX_MAX: usize = 64;

impl<'d> Solver<'d> {
    /// Returns the form of arrays that satisfy all `parts`.
    pub(super) fn array(&mut self, parts: &[SchemaPart<'d>], loops: u8) -> Form {
        let counts = |keyword: &str| {
            parts.iter().filter_map(|part| part.get(keyword).and_then(count)).collect::<Vec<_>>()
        };
        let mut least = counts("minItems").into_iter().max().unwrap_or(0);
        let stated = counts("maxItems").into_iter().min();
        let contained = self.contained(parts);
        let demanded = contained.iter().fold(0_usize, |sum, (_, demanded)| sum.saturating_add(*demanded));
        least = least.max(demanded);
        if stated.is_some_and(|most| most < least) {
            return Form::Never;
        }
        if parts.iter().any(|part| {
            part.get("unevaluatedItems").is_some() && (parts.len() > 1 || part.get("contains").is_some())
        }) {
            self.mark_unenforced("unevaluatedItems");
        }
        let is_unique = parts.iter().any(|part| part.get("uniqueItems") == Some(&Value::Bool(true)));
        let mut prefix_length = parts.iter().map(|part| part.list("prefixItems").len()).max().unwrap_or(0);
        if prefix_length > PREFIX_MAX {
            self.mark_unenforced("prefixItems");
        }
        if demanded > PREFIX_MAX {
            self.mark_unenforced("minContains");
        }
        prefix_length = prefix_length.max(demanded).min(PREFIX_MAX);
        let mut item_schemas = item_parts(parts, prefix_length);
        for part in parts.iter().filter(|part| part.get("maxContains").is_some()) {
            // The demanded items come first, and no other item may match.
            item_schemas
                .extend(part.get("contains").map(|schema| SchemaPart::derived(json!({"not": schema}))));
        }
        let item = self.form(item_schemas, loops);
        if is_unique
            && prefix_length == 0
            && let Some(form) = subset(&item, least, stated)
        {
            return form;
        }
        if is_unique && stated != Some(1) {
            self.mark_unenforced("uniqueItems");
        }
        self.bounded_array(parts, &contained, prefix_length, item, least, stated, loops)
    }

    /// Returns the schemas of `contains`, each with the number of demanded items.
    fn contained(&mut self, parts: &[SchemaPart<'d>]) -> Vec<(SchemaPart<'d>, usize)> {
        let mut contained = Vec::new();
        for part in parts {
            let Some(schema) = part.child(|value| value.get("contains")) else { continue };
            if !self.effort.is_careful {
                self.mark_unenforced("contains");
                continue;
            }
            let least = part.get("minContains").and_then(count).unwrap_or(1);
            let most = part.get("maxContains").and_then(count);
            let others = parts.iter().filter(|part| part.get("contains").is_some()).count() > 1;
            if most.is_some() && (others || parts.iter().any(|part| part.get("prefixItems").is_some())) {
                self.mark_unenforced("maxContains");
            }
            contained.push((schema, least));
        }
        contained
    }

    #[expect(clippy::too_many_arguments, reason = "these are the parts of an array form")]
    fn bounded_array(
        &mut self,
        parts: &[SchemaPart<'d>],
        contained: &[(SchemaPart<'d>, usize)],
        prefix_length: usize,
        item: Form,
        least: usize,
        stated: Option<usize>,
        loops: u8,
    ) -> Form {
        let mut demanded: Vec<SchemaPart<'d>> = Vec::new();
        for (schema, times) in contained {
            demanded.extend(std::iter::repeat_n(schema.clone(), (*times).min(PREFIX_MAX)));
        }
        let mut prefix = Vec::new();
        let mut most = stated;
        for index in 0..prefix_length {
            let mut here = item_parts(parts, index);
            let without_demand = here.clone();
            let demand = demanded.first().cloned();
            here.extend(demand.clone());
            let mut form = self.form(here, loops);
            if demand.is_some() {
                if form.is_never() {
                    form = self.form(without_demand, loops);
                } else {
                    demanded.remove(0);
                }
            }
            if form.is_never() {
                most = Some(index);
                break;
            }
            prefix.push(form);
        }
        if !demanded.is_empty() {
            return Form::Never;
        }
        if item.is_never() {
            most = Some(most.unwrap_or(usize::MAX).min(prefix.len()));
        }
        let own = self.bounds.items.max(least).max(prefix.len());
        let is_bounded = most.is_none_or(|most| most > own);
        let most = most.unwrap_or(usize::MAX).min(own);
        if most < least {
            return Form::Never;
        }
        prefix.truncate(most);
        Form::Array(Box::new(ArrayForm { prefix, item, least, most, is_bounded }))
    }
}

/// Returns the schemas that apply to the item at `index`.
fn item_parts<'d>(parts: &[SchemaPart<'d>], index: usize) -> Vec<SchemaPart<'d>> {
    let mut found = Vec::new();
    let mut evaluated = false;
    let mut rest = Vec::new();
    for part in parts {
        let own = part.child(|value| value.get("prefixItems")?.get(index));
        let own = own.or_else(|| part.child(|value| value.get("items")));
        evaluated |= own.is_some();
        found.extend(own);
        rest.extend(part.child(|value| value.get("unevaluatedItems")));
    }
    if !evaluated {
        found.extend(rest);
    }
    if found.is_empty() { vec![SchemaPart::derived(json!({}))] } else { found }
}

/// Returns the form of arrays of unique literal items: each at most once, in a fixed order. `None` if the items
/// are not a short list of literals.
fn subset(item: &Form, least: usize, stated: Option<usize>) -> Option<Form> {
    let Form::Scalar(scalar) = item else { return None };
    let items: Vec<Rx> = match &scalar.rx {
        Rx::Or(options) => options.clone(),
        single => vec![single.clone()],
    };
    if items.len() > PICKS_MAX || !items.iter().all(|item| matches!(item, Rx::Literal(_))) {
        return None;
    }
    let most = stated.unwrap_or(usize::MAX).min(items.len());
    if most < least {
        return Some(Form::Never);
    }
    Some(Form::Subset(Box::new(SubsetForm { items, least, most })))
}
