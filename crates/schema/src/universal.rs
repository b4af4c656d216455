//! The universal response: what has to hold between its members, which its schema cannot say.
//!
//! Servers that enforce one schema for all requests make one form of every agent's response, with most of it optional.
//! Which part belongs to which response is decided here, after the schema.

mod exact;

use serde_json::Value;

pub use exact::{Criterion, exactly};

use crate::explain::in_document_order;
use crate::path::{Segment, json_path};
use crate::wording::show;
use crate::{Schema, Violation, Violations, shipped};

/// The name that the schema of the universal response is registered under.
pub const NAME: &str = "universal-agent-response";

/// The score from which on a reply is clear. Below it there is something to ask.
const CLEAR_FROM: f64 = 85.0;

/// The type and the status of a response that reports an error.
const ERROR: &str = "error";

/// What only a verification can say of itself.
const VERDICTS: [&str; 3] = ["PASS", "FAIL", "PARTIAL"];

/// The most criteria that are named when a verdict does not fit; the rest is counted.
const NAMED_MAX: usize = 5;

/// A part of the form.
struct Section {
    /// The type of the responses that it belongs to.
    of: &'static str,
    name: &'static str,
    /// The members that it never lacks.
    needs: &'static [&'static str],
}

const SECTIONS: [Section; 6] = [
    Section { of: "planning", name: "planning_data", needs: &["summary", "steps"] },
    Section { of: "verification", name: "verification_data", needs: &["checks"] },
    Section { of: "clarity", name: "clarity_data", needs: &[] },
    Section { of: "research", name: "research_data", needs: &["findings"] },
    Section { of: "answer", name: "answer_data", needs: &["confidence"] },
    Section { of: "custom", name: "custom_fields", needs: &[] },
];

/// Whether a schema is that of the universal response. What it says decides, not the name that it was asked for by;
/// nor its hash, which would let someone who sorts keys lose the rules without a word.
pub fn is_universal(schema: &Schema) -> bool {
    says_universal(schema.source())
}

/// The same of a schema that is not compiled.
pub fn says_universal(source: &Value) -> bool {
    schema().is_some_and(|form| form.source() == source)
}

/// The schema of the universal response.
pub fn schema() -> Option<&'static Schema> {
    shipped().iter().find(|known| known.name == NAME).map(|known| &known.schema)
}

/// What is wrong with a value that satisfies a schema: nothing, unless there are rules beyond that schema, as there are
/// beyond the universal response's. `own` is the type of the agent's responses, where it has one.
pub fn extra_rules(schema: &Schema, value: &Value, own: Option<&str>) -> Violations {
    match is_universal(schema) {
        true => pairing(value, own),
        false => Violations::default(),
    }
}

/// What is wrong with a value that satisfies the schema of the universal response. `own` is the type of the agent's
/// responses, where it has one.
///
/// ```
/// use slipform_schema::universal;
/// use serde_json::json;
///
/// let response = json!({"response_type": "planning", "status": "error", "message": "No plan."});
/// assert_eq!(
///     universal::pairing(&response, Some("planning")).lines(),
///     [
///         "$.response_type: must be 'error', not 'planning', since status is 'error'",
///         "$.error_details: required property is missing, since status is 'error'",
///     ]
/// );
/// ```
pub fn pairing(value: &Value, own: Option<&str>) -> Violations {
    let text = |name: &str| value[name].as_str().unwrap_or_default();
    let response = Response { value, kind: text("response_type"), status: text("status") };
    let mut found = Vec::new();
    found.extend(response.kind_fits(own));
    found.extend(response.status_fits());
    found.extend(response.error_is_explained());
    found.extend(response.own_section());
    found.extend(SECTIONS.iter().flat_map(|section| response.members(section)));
    found.extend(response.numbers());
    found.extend(response.verdict());
    found.extend(response.questions());
    in_document_order(value, found)
}

/// The scores of a clarity response, and what each counts where there is no total.
const SCORES: [(&str, f64); 3] =
    [("completeness_score", 0.40), ("clarity_score", 0.35), ("accuracy_score", 0.25)];

/// How clear the reply is that a clarity response is about, of 100: the total, or else all scores by their weights. None
/// where the response has neither, or reports an error.
///
/// ```
/// use slipform_schema::universal;
/// use serde_json::json;
///
/// let data = json!({"completeness_score": 20, "clarity_score": 40, "accuracy_score": 45});
/// let response = json!({"response_type": "clarity", "status": "success", "message": "", "clarity_data": data});
/// assert_eq!(universal::score(&response), Some(33));
/// ```
pub fn score(response: &Value) -> Option<u8> {
    let data = response.get("clarity_data").filter(|_| response["response_type"] == "clarity")?;
    let given = |name: &str| data[name].as_f64().filter(|score| (0.0..=100.0).contains(score));
    let total = given("total_score")
        .or_else(|| SCORES.iter().try_fold(0.0, |sum, (name, weight)| Some(sum + given(name)? * weight)));
    total.map(|total| total.round() as u8)
}

/// Whether a universal response reports an error instead of what was asked for.
pub fn reports_error(value: &Value) -> bool {
    value["response_type"] == ERROR && value["status"] == ERROR
}

/// A violation and where it is.
type Found = (Vec<Segment>, Violation);

struct Response<'v> {
    value: &'v Value,
    kind: &'v str,
    status: &'v str,
}

impl Response<'_> {
    /// An agent speaks for itself or reports an error, and nothing else reports one.
    fn kind_fits(&self, own: Option<&str>) -> Option<Found> {
        let Response { kind, status, .. } = *self;
        let message = match own {
            _ if status == ERROR && kind != ERROR => {
                format!("must be 'error', not '{kind}', since status is 'error'")
            }
            Some(own) if kind != own && kind != ERROR => {
                format!("'{kind}' is not one of ['{own}', 'error']")
            }
            _ => return None,
        };
        Some(self.wrong(vec![key("response_type")], message))
    }

    /// A report of an error has the status of one, and verdicts are for verifications.
    fn status_fits(&self) -> Option<Found> {
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
        Some(self.wrong(vec![key("status")], message))
    }

    fn error_is_explained(&self) -> Option<Found> {
        let name = match (self.kind, self.status) {
            (_, ERROR) => "status",
            (ERROR, _) => "response_type",
            _ => return None,
        };
        self.missing(vec![key("error_details")], &format!(", since {name} is 'error'"))
    }

    /// Whoever is done fills in the section of its kind. PASS, FAIL and PARTIAL are ways of being done.
    fn own_section(&self) -> Option<Found> {
        let section = SECTIONS.iter().find(|section| section.of == self.kind)?;
        let Response { kind, status, .. } = *self;
        if status != "success" && !VERDICTS.contains(&status) {
            return None;
        }
        let mut reason = format!(", since response_type is '{kind}' and status is '{status}'");
        if !section.needs.is_empty() {
            // Told at once: a model that learns of them later needs another call.
            reason.push_str(&format!("; it needs {}", section.needs.join(" and ")));
        }
        self.missing(vec![key(section.name)], &reason)
    }

    /// A section that is there is complete, whoever filled it in: what passes can be read as the types have it.
    fn members(&self, section: &Section) -> Vec<Found> {
        let Some(filled) = self.value.get(section.name) else { return Vec::new() };
        let needed =
            section.needs.iter().filter_map(|name| self.missing(vec![key(section.name), key(name)], ""));
        let mut found: Vec<Found> = needed.collect();
        if section.of == "planning" {
            let steps = filled["steps"].as_array().map_or(0, Vec::len);
            found.extend((0..steps).filter_map(|index| {
                let place = vec![key(section.name), key("steps"), Segment::Index(index), key("details")];
                self.missing(place, "")
            }));
        }
        found
    }

    /// Steps are done in the order that they are written in, and numbered so.
    fn numbers(&self) -> Vec<Found> {
        let place =
            |index| vec![key("planning_data"), key("steps"), Segment::Index(index), key("step_number")];
        let steps = self.value["planning_data"]["steps"].as_array().map_or(0, Vec::len);
        let number =
            |index: usize| self.at(&place(index)).filter(|it| it.as_f64() != Some((index + 1) as f64));
        let wrong = |index: usize, given: &Value| {
            let message =
                format!("must be {}, not {}: steps are numbered in order from 1", index + 1, show(given));
            self.wrong(place(index), message)
        };
        (0..steps).filter_map(|index| Some(wrong(index, number(index)?))).collect()
    }

    /// A verdict follows from the checks.
    fn verdict(&self) -> Option<Found> {
        let status = self.status;
        let checks = self.value["verification_data"]["checks"].as_array()?;
        if self.kind != "verification" || !(VERDICTS.contains(&status) || status == "success") {
            return None;
        }
        let failed: Vec<&Value> = checks.iter().filter(|check| check["passed"] == false).collect();
        let (is_any_passed, is_any_failed) = (failed.len() < checks.len(), !failed.is_empty());
        let fitting = match (is_any_passed, is_any_failed) {
            // A success is as good as a pass, and no better.
            (_, false) if status == "success" => return None,
            (false, false) => {
                let message = format!(
                    "'{status}' needs at least one check; add to verification_data.checks what was checked, or \
                     say 'needs_clarification'"
                );
                return Some(self.wrong(vec![key("status")], message));
            }
            (true, false) => ["PASS"].as_slice(),
            (true, true) => &["PARTIAL", "FAIL"],
            (false, true) => &["FAIL"],
        };
        let reason = match failed.is_empty() {
            true => "every check has passed".to_owned(),
            false => format!("{} of {} checks failed: {}", failed.len(), checks.len(), criteria(&failed)),
        };
        let message = format!("must be '{}', not '{status}', since {reason}", fitting.join("' or '"));
        (!fitting.contains(&status)).then(|| self.wrong(vec![key("status")], message))
    }

    /// What is not clear has to be asked. The total decides; without it every score does.
    fn questions(&self) -> Option<Found> {
        let scores = self.value.get("clarity_data").filter(|_| self.kind == "clarity")?;
        let is_low = |name: &&str| scores[*name].as_f64().is_some_and(|score| score < CLEAR_FROM);
        let decisive: &[&str] = match scores.get("total_score") {
            Some(_) => &["total_score"],
            None => &["completeness_score", "clarity_score", "accuracy_score"],
        };
        let low = *decisive.iter().find(|name| is_low(name))?;
        let reason = format!(", since {low} is {}, below {CLEAR_FROM}", show(&scores[low]));
        let place = vec![key("clarity_data"), key("follow_up_questions")];
        match scores["follow_up_questions"].as_array() {
            None => self.missing(place, &reason),
            Some(asked) if asked.is_empty() => {
                Some(self.wrong(place, format!("has 0 items, at least 1 needed{reason}")))
            }
            Some(_) => None,
        }
    }

    fn missing(&self, place: Vec<Segment>, reason: &str) -> Option<Found> {
        let is_missing = self.at(&place).is_none();
        is_missing.then(|| self.wrong(place, format!("required property is missing{reason}")))
    }

    fn wrong(&self, place: Vec<Segment>, message: String) -> Found {
        let value = self.at(&place).cloned().unwrap_or_default();
        (place.clone(), Violation { path: json_path(&place), message, schema_path: String::new(), value })
    }

    fn at(&self, place: &[Segment]) -> Option<&Value> {
        place.iter().try_fold(self.value, |value, segment| match segment {
            Segment::Key(key) => value.get(key),
            Segment::Index(index) => value.get(index),
        })
    }
}

/// The criteria of some checks, in words.
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
