//! The universal response, and the rules between its members that its schema cannot express.
//!
//! Servers that enforce one schema for all requests use one schema for every agent's response, in which most
//! members are optional. The functions here decide which section belongs to which response, after the schema
//! is satisfied.

mod clarity;
mod exact;

use serde_json::Value;

pub use clarity::score;
pub use exact::{Criterion, exact_schema};

use crate::explain::in_document_order;
use crate::path::{Segment, json_path};
use crate::wording::show;
use crate::{Schema, Violation, Violations, shipped};

/// The name of the universal response's schema in the schema registry.
pub const NAME: &str = "universal-agent-response";

/// The type and the status of a response that reports an error.
const ERROR: &str = "error";

/// The statuses that only a verification may have.
const VERDICTS: [&str; 3] = ["PASS", "FAIL", "PARTIAL"];

/// The most criteria named in a message about a verdict. The message counts the rest.
const NAMED_MAX: usize = 5;

/// A section of the universal response.
struct Section {
    /// The response type that the section belongs to.
    response_type: &'static str,
    name: &'static str,
    /// The members that a section always has.
    members: &'static [&'static str],
    /// The list that has an item if the status is `success`.
    filled: Option<&'static str>,
}

const SECTIONS: [Section; 6] = [
    Section::new("planning", "planning_data", &["summary", "steps"], Some("steps")),
    Section::new("verification", "verification_data", &["checks"], None),
    Section::new("clarity", "clarity_data", &[], None),
    Section::new("research", "research_data", &["findings"], Some("findings")),
    Section::new("answer", "answer_data", &["confidence"], None),
    Section::new("custom", "custom_fields", &[], None),
];

impl Section {
    const fn new(
        response_type: &'static str,
        name: &'static str,
        members: &'static [&'static str],
        filled: Option<&'static str>,
    ) -> Section {
        Section { response_type, name, members, filled }
    }
}

/// Returns whether a schema is the universal response's schema. It compares sources: the name can differ, and
/// the hash changes if a user sorts the keys.
pub fn is_universal(schema: &Schema) -> bool {
    is_universal_source(schema.source())
}

/// Returns whether a schema document is the universal response's schema.
pub fn is_universal_source(source: &Value) -> bool {
    schema().is_some_and(|universal| universal.source() == source)
}

/// Returns the universal response's schema.
pub fn schema() -> Option<&'static Schema> {
    shipped().iter().find(|known| known.name == NAME).map(|known| &known.schema)
}

/// Returns the violations of rules that a schema cannot express. Only the universal response has such rules.
/// `response_type` is the type of the agent's responses, if it declares one.
pub fn extra_rules(schema: &Schema, value: &Value, response_type: Option<&str>) -> Violations {
    if is_universal(schema) { pairing_violations(value, response_type) } else { Violations::default() }
}

/// Returns the violations of the rules between the members of a universal response, for a value that
/// satisfies its schema. `response_type` is the type of the agent's responses, if it declares one.
///
/// ```
/// use slipform_schema::universal;
/// use serde_json::json;
///
/// let response = json!({"response_type": "planning", "status": "error", "message": "No plan."});
/// assert_eq!(
///     universal::pairing_violations(&response, Some("planning")).lines(),
///     [
///         "$.response_type: must be 'error', not 'planning', since status is 'error'",
///         "$.error_details: required property is missing, since status is 'error'",
///     ]
/// );
/// ```
pub fn pairing_violations(value: &Value, response_type: Option<&str>) -> Violations {
    let text = |name: &str| value[name].as_str().unwrap_or_default();
    let (kind, status) = (text("response_type"), text("status"));
    let owner = if kind == ERROR { response_type } else { Some(kind) };
    let response = Response { value, kind, status, owner };
    let mut found = Vec::new();
    found.extend(response.wrong_type(response_type));
    found.extend(response.wrong_status());
    found.extend(response.missing_error_details());
    found.extend(response.missing_section());
    found.extend(response.foreign_sections());
    let own = || SECTIONS.iter().filter(|section| !response.is_foreign(section));
    found.extend(own().flat_map(|section| response.missing_members(section)));
    found.extend(own().filter_map(|section| response.empty_list(section)));
    found.extend(response.misnumbered_steps());
    found.extend(response.wrong_verdict());
    found.extend(response.missing_score());
    found.extend(response.wrong_clarity_status());
    found.extend(response.missing_questions());
    found.extend(response.blank_questions());
    in_document_order(value, found)
}

/// Returns whether a universal response reports an error instead of a result.
pub fn reports_error(value: &Value) -> bool {
    value["response_type"] == ERROR && value["status"] == ERROR
}

/// A violation and its location, for sorting.
type Found = (Vec<Segment>, Violation);

struct Response<'v> {
    value: &'v Value,
    kind: &'v str,
    status: &'v str,
    /// The response type whose section the response may have. An error has the section of its agent's type, or
    /// any if the type is unknown.
    owner: Option<&'v str>,
}

impl Response<'_> {
    /// Checks that the response has the agent's own type or reports an error, and that only errors have the
    /// status `error`.
    fn wrong_type(&self, response_type: Option<&str>) -> Option<Found> {
        let Response { kind, status, .. } = *self;
        let message = match response_type {
            _ if status == ERROR && kind != ERROR => {
                format!("must be 'error', not '{kind}', since status is 'error'")
            }
            Some(own) if kind != own && kind != ERROR => {
                format!("'{kind}' is not one of ['{own}', 'error']")
            }
            _ => return None,
        };
        Some(self.violation(vec![key("response_type")], message))
    }

    /// Checks that an error has the status `error`, and that only verifications have verdicts as status.
    fn wrong_status(&self) -> Option<Found> {
        let message = match (self.kind, self.status) {
            (ERROR, ERROR) => return None,
            (ERROR, status) => format!("must be 'error', not '{status}', since response_type is 'error'"),
            ("verification", _) => return None,
            (kind, status) if VERDICTS.contains(&status) => {
                let others = "['success', 'needs_clarification', 'error']";
                format!("'{status}' is not one of {others}, since response_type is '{kind}'")
            }
            _ => return None,
        };
        Some(self.violation(vec![key("status")], message))
    }

    /// Checks that an error has `error_details`.
    fn missing_error_details(&self) -> Option<Found> {
        let name = match (self.kind, self.status) {
            (_, ERROR) => "status",
            (ERROR, _) => "response_type",
            _ => return None,
        };
        self.missing(vec![key("error_details")], &format!(", since {name} is 'error'"))
    }

    /// Checks that a finished response has the section of its type. PASS, FAIL and PARTIAL are finished too.
    fn missing_section(&self) -> Option<Found> {
        let section = SECTIONS.iter().find(|section| section.response_type == self.kind)?;
        let Response { kind, status, .. } = *self;
        if status != "success" && !VERDICTS.contains(&status) {
            return None;
        }
        let mut reason = format!(", since response_type is '{kind}' and status is '{status}'");
        if !section.members.is_empty() {
            // The message names the members of the section too, because a second message would cost another
            // model call.
            reason.push_str(&format!("; it needs {}", section.members.join(" and ")));
        }
        self.missing(vec![key(section.name)], &reason)
    }

    /// Checks that a response has only the section of its type, and details of an error only if it is one. A response that
    /// needs clarification has no result yet, so it may have its questions in `clarity_data` and further data in
    /// `custom_fields`.
    fn foreign_sections(&self) -> Vec<Found> {
        let asks = self.status == "needs_clarification";
        let is_allowed =
            |section: &Section| asks && ["clarity_data", "custom_fields"].contains(&section.name);
        let foreign = SECTIONS.iter().filter(|section| self.is_foreign(section) && !is_allowed(section));
        let mut names: Vec<(&str, &str)> =
            foreign.map(|section| (section.name, section.response_type)).collect();
        if self.kind != ERROR && self.status != ERROR {
            names.push(("error_details", ERROR));
        }
        let present = names.into_iter().filter(|(name, _)| self.value.get(*name).is_some());
        present
            .map(|(name, owner)| {
                let message = format!(
                    "belongs to responses of type '{owner}'; leave it out, since response_type is '{}'",
                    self.kind
                );
                let (place, violation) = self.violation(vec![key(name)], message);
                // Corrections replace the object that has an unexpected member, instead of the member.
                (place, Violation { schema_path: "/additionalProperties".to_owned(), ..violation })
            })
            .collect()
    }

    fn is_foreign(&self, section: &Section) -> bool {
        self.owner.is_some_and(|owner| owner != section.response_type)
    }

    /// Checks that a finished response has at least one step or finding.
    fn empty_list(&self, section: &Section) -> Option<Found> {
        let list = section.filled?;
        let place = vec![key(section.name), key(list)];
        let is_empty = self.value_at(&place)?.as_array().is_some_and(Vec::is_empty);
        let message = "has 0 items, at least 1 needed, since status is 'success'; say 'needs_clarification' \
                       without one";
        (is_empty && self.status == "success").then(|| self.violation(place, message.to_owned()))
    }

    /// Checks that a section is complete whenever it is present, so that it deserializes into its type.
    fn missing_members(&self, section: &Section) -> Vec<Found> {
        let Some(filled) = self.value.get(section.name) else { return Vec::new() };
        let needed =
            section.members.iter().filter_map(|name| self.missing(vec![key(section.name), key(name)], ""));
        let mut found: Vec<Found> = needed.collect();
        if section.response_type == "planning" {
            let steps = filled["steps"].as_array().map_or(0, Vec::len);
            found.extend((0..steps).filter_map(|index| {
                let place = vec![key(section.name), key("steps"), Segment::Index(index), key("details")];
                self.missing(place, "")
            }));
        }
        found
    }

    /// Checks that steps are numbered in order from 1.
    fn misnumbered_steps(&self) -> Vec<Found> {
        let place =
            |index| vec![key("planning_data"), key("steps"), Segment::Index(index), key("step_number")];
        let is_own = self.owner.is_none_or(|owner| owner == "planning");
        let steps = self.value["planning_data"]["steps"].as_array().filter(|_| is_own).map_or(0, Vec::len);
        let number = |index: usize| {
            self.value_at(&place(index)).filter(|number| number.as_f64() != Some((index + 1) as f64))
        };
        let wrong = |index: usize, given: &Value| {
            let message =
                format!("must be {}, not {}: steps are numbered in order from 1", index + 1, show(given));
            self.violation(place(index), message)
        };
        (0..steps).filter_map(|index| Some(wrong(index, number(index)?))).collect()
    }

    /// Checks that the verdict follows from the checks.
    fn wrong_verdict(&self) -> Option<Found> {
        let status = self.status;
        let checks = self.value["verification_data"]["checks"].as_array()?;
        if self.kind != "verification" || !(VERDICTS.contains(&status) || status == "success") {
            return None;
        }
        let failed: Vec<&Value> = checks.iter().filter(|check| check["passed"] == false).collect();
        let (is_any_passed, is_any_failed) = (failed.len() < checks.len(), !failed.is_empty());
        let fitting = match (is_any_passed, is_any_failed) {
            // `success` counts as a pass.
            (_, false) if status == "success" => return None,
            (false, false) => {
                let message = format!(
                    "'{status}' needs at least one check; add to verification_data.checks what was checked, or \
                     say 'needs_clarification'"
                );
                return Some(self.violation(vec![key("status")], message));
            }
            (true, false) => ["PASS"].as_slice(),
            (true, true) => &["PARTIAL", "FAIL"],
            (false, true) => &["FAIL"],
        };
        let reason = if failed.is_empty() {
            "every check has passed".to_owned()
        } else {
            format!("{} of {} checks failed: {}", failed.len(), checks.len(), criteria(&failed))
        };
        let message = format!("must be '{}', not '{status}', since {reason}", fitting.join("' or '"));
        (!fitting.contains(&status)).then(|| self.violation(vec![key("status")], message))
    }

    /// Returns a violation if the member at a location is missing.
    fn missing(&self, place: Vec<Segment>, reason: &str) -> Option<Found> {
        let is_missing = self.value_at(&place).is_none();
        is_missing.then(|| self.violation(place, format!("required property is missing{reason}")))
    }

    fn violation(&self, place: Vec<Segment>, message: String) -> Found {
        let value = self.value_at(&place).cloned().unwrap_or_default();
        (place.clone(), Violation { path: json_path(&place), message, schema_path: String::new(), value })
    }

    /// Returns the value at a location.
    fn value_at(&self, place: &[Segment]) -> Option<&Value> {
        place.iter().try_fold(self.value, |value, segment| match segment {
            Segment::Key(key) => value.get(key),
            Segment::Index(index) => value.get(index),
        })
    }
}

/// Renders the criteria of checks as a list.
fn criteria(checks: &[&Value]) -> String {
    let mut named: Vec<String> =
        checks.iter().take(NAMED_MAX).map(|check| show(&check["criterion"])).collect();
    if checks.len() > NAMED_MAX {
        named.push(format!("and {} more", checks.len() - NAMED_MAX));
    }
    named.join(", ")
}

fn key(name: &str) -> Segment {
    Segment::Key(name.to_owned())
}
