//! Criteria: a result must report decided criteria as they were decided.
//!
//! The `checks` of an agent name the paths in the result that report criteria. `check:criteria` decides the
//! criteria that the blueprint and the prompt list before the first model call, and those that a result reports
//! before the result is accepted. The model may decide only what is left, and the result marks it as a claim of
//! the model.

mod listed;

use serde_json::{Value, json};
use slipform_schema::universal::{self, Criterion};
use slipform_schema::{PatternStep, Segment, Violation, json_path, parse_pattern};

use crate::cite::{list_path, visit};
use crate::reply::violation;

pub(crate) use listed::listed_criteria;

/// The most criteria in one call of `check:criteria`.
pub(crate) const CRITERIA_PER_CALL: usize = 64;

/// The most criteria of a result that are checked. Further ones count as claims of the model.
const REPORTED_MAX: usize = 256;

/// The member of a reported criterion that says who decided it, and its value for a claim of the model.
const DECIDED_BY: (&str, &str) = ("decided_by", "model");

/// A criterion that a check decided.
#[derive(Debug, Clone, PartialEq)]
struct DecidedCriterion {
    /// The text of the criterion.
    criterion: String,
    passed: bool,
    note: String,
    /// The inputs of the checks.
    check_inputs: Vec<Value>,
    /// Whether the blueprint, the prompt or the engine requested the check, not the model.
    is_binding: bool,
}

impl DecidedCriterion {
    fn is_about(&self, criterion: &str) -> bool {
        is_same(&self.criterion, criterion)
    }
}

/// Returns whether two texts state the same criterion. Case, whitespace, emphasis, quotes, numbering and the
/// full stop do not matter.
fn is_same(one: &str, other: &str) -> bool {
    normalized(one) == normalized(other)
}

fn normalized(criterion: &str) -> String {
    let text = criterion.trim();
    let text = listed::item_text(text).unwrap_or(text).to_lowercase();
    let text = text.replace(['`', '*', '"', '\''], "");
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").trim_end_matches(['.', ';', ',', '!']).to_owned()
}

/// The criteria of a run, as far as checks have seen them.
#[derive(Debug, Clone, Default)]
pub(crate) struct KnownCriteria {
    decided: Vec<DecidedCriterion>,
    undecided: Vec<String>,
    /// The criteria that the blueprint and the prompt list. A result must report them.
    requested: Vec<String>,
    /// The criteria that were checked by their text, or as the blueprint says.
    checked: Vec<String>,
}

impl KnownCriteria {
    /// Records a call that the model made.
    pub(crate) fn record_call(&mut self, input: &Value, output: &Value) {
        self.record(input, output, false);
    }

    /// Records a call that the blueprint or the prompt requested. A result must report its criteria.
    pub(crate) fn record_request(&mut self, input: &Value, output: &Value) {
        self.record(input, output, true);
        self.requested.extend(texts(&input["checks"]));
    }

    /// Records the check of criteria that a result reports. `output` is null if the check failed.
    pub(crate) fn record_report(&mut self, input: &Value, output: &Value) {
        self.record(input, output, true);
    }

    fn record(&mut self, input: &Value, output: &Value, is_binding: bool) {
        self.record_decisions(input, output, is_binding);
        for check in output["checks"].as_array().into_iter().flatten() {
            let criterion = check["criterion"].as_str().map(str::trim).filter(|_| check["passed"].is_null());
            if let Some(criterion) = criterion
                && !self.undecided.iter().any(|known| is_same(known, criterion))
            {
                self.undecided.push(criterion.to_owned());
            }
        }
        let is_text = |check: &&Value| check.is_string() || check.as_object().is_some_and(|it| it.len() == 1);
        let inputs = input["checks"].as_array().into_iter().flatten();
        let final_inputs: Vec<Value> = inputs.filter(|check| is_binding || is_text(check)).cloned().collect();
        self.checked.extend(texts(&json!(final_inputs)));
    }

    /// Records the decisions of a call. The last decision counts. A binding check is only replaced by the
    /// identical check, so that a model cannot substitute an easier one.
    fn record_decisions(&mut self, input: &Value, output: &Value, is_binding: bool) {
        for now in decisions(input, output, is_binding) {
            match self.decided.iter_mut().find(|earlier| earlier.is_about(&now.criterion)) {
                Some(earlier) if earlier.is_binding && earlier.check_inputs != now.check_inputs => {}
                Some(earlier) => {
                    *earlier = DecidedCriterion { is_binding: earlier.is_binding || is_binding, ..now }
                }
                None => self.decided.push(now),
            }
        }
    }

    /// Returns all known criteria with their decisions.
    pub(crate) fn list(&self) -> Vec<Criterion> {
        let known = self
            .decided
            .iter()
            .map(|it| Criterion { criterion: it.criterion.clone(), passed: Some(it.passed) });
        let open = self
            .undecided
            .iter()
            .filter(|criterion| !self.decided.iter().any(|it| it.is_about(criterion)))
            .map(|criterion| Criterion { criterion: criterion.clone(), passed: None });
        known.chain(open).collect()
    }

    /// Returns whether a check could not decide a criterion.
    pub(crate) fn has_undecided(&self) -> bool {
        self.list().iter().any(|known| known.passed.is_none())
    }

    /// Returns the criteria that a value reports and no check has seen, at most as many as one call takes.
    pub(crate) fn unchecked(&self, patterns: &[String], value: &Value) -> Vec<String> {
        let mut found: Vec<String> = Vec::new();
        for (_, check) in reported(patterns, value).into_iter().take(REPORTED_MAX) {
            let criterion = check["criterion"].as_str().unwrap_or_default().trim();
            let is_known = |known: &String| is_same(known, criterion);
            if !criterion.is_empty() && !self.checked.iter().any(is_known) && !found.iter().any(is_known) {
                found.push(criterion.to_owned());
            }
        }
        found.truncate(CRITERIA_PER_CALL);
        found
    }

    /// Returns where a value contradicts or omits a decided criterion, or omits a requested one. An error
    /// report may omit them.
    pub(crate) fn contradictions(&self, patterns: &[String], value: &Value) -> Vec<Violation> {
        let mut wrong = Vec::new();
        let reported = reported(patterns, value);
        for (place, check) in &reported {
            let criterion = check["criterion"].as_str().unwrap_or_default();
            let Some(decided) = self.decided.iter().find(|it| it.is_about(criterion)) else { continue };
            if check["passed"] != decided.passed {
                let message = format!("must be {}: check:criteria found: {}", decided.passed, decided.note);
                wrong.push(violation(&format!("{}.passed", json_path(place)), message));
            }
        }
        let list = list_path(patterns, value).filter(|_| !universal::reports_error(value));
        let Some(list) = list else { return wrong };
        let is_reported = |criterion: &str| {
            reported
                .iter()
                .any(|(_, check)| is_same(check["criterion"].as_str().unwrap_or_default(), criterion))
        };
        for DecidedCriterion { criterion, passed, note, .. } in
            self.decided.iter().filter(|it| !is_reported(&it.criterion))
        {
            let message = format!(
                "lacks the criterion '{criterion}'; its passed is {passed}: check:criteria found: {note}"
            );
            wrong.push(violation(&list, message));
        }
        // A response that asks back has not judged the criteria that it would have to decide.
        let is_question = reported.is_empty() || value["status"] == "needs_clarification";
        let requested = self.requested.iter().filter(|_| !is_question);
        for criterion in requested.filter(|criterion| !is_reported(criterion)) {
            if !self.decided.iter().any(|it| it.is_about(criterion)) {
                let message = format!("lacks the criterion '{criterion}'; look at the files and decide it");
                wrong.push(violation(&list, message));
            }
        }
        wrong
    }

    /// Marks the criteria that no check decided as claims of the model. Returns these criteria.
    pub(crate) fn mark_claims(&self, patterns: &[String], value: &mut Value) -> Vec<String> {
        let mut claims = Vec::new();
        for (place, check) in reported(patterns, value) {
            let criterion = check["criterion"].as_str().unwrap_or_default();
            if self.decided.iter().any(|it| it.is_about(criterion)) {
                continue;
            }
            claims.push(criterion.to_owned());
            let marked = place.iter().try_fold(&mut *value, |value, segment| match segment {
                Segment::Key(key) => value.get_mut(key),
                Segment::Index(index) => value.get_mut(index),
            });
            if let Some(members) = marked.and_then(Value::as_object_mut) {
                members.insert(DECIDED_BY.0.to_owned(), json!(DECIDED_BY.1));
            }
        }
        claims
    }
}

/// Returns the criteria that a value reports, with their places.
fn reported(patterns: &[String], value: &Value) -> Vec<(Vec<Segment>, Value)> {
    let mut found = Vec::new();
    for steps in patterns.iter().filter_map(|pattern| parse_pattern(pattern)) {
        let steps: &[PatternStep] = &steps;
        visit(value, steps, &mut Vec::new(), &mut |place, check| {
            if check["criterion"].is_string() {
                found.push((place.to_vec(), check.clone()));
            }
        });
    }
    found
}

/// Returns the texts of criteria in the arguments of a call.
pub(crate) fn texts(checks: &Value) -> Vec<String> {
    let text =
        |check: &Value| check.as_str().or_else(|| check["criterion"].as_str()).map(|it| it.trim().to_owned());
    checks.as_array().into_iter().flatten().filter_map(text).collect()
}

/// Returns the decisions of one call. A criterion with several checks passes if all of them pass.
fn decisions(input: &Value, output: &Value, is_binding: bool) -> Vec<DecidedCriterion> {
    let mut found: Vec<DecidedCriterion> = Vec::new();
    for (index, check) in output["checks"].as_array().into_iter().flatten().enumerate() {
        let (Some(criterion), Some(passed)) = (check["criterion"].as_str(), check["passed"].as_bool()) else {
            continue;
        };
        let check_inputs = input["checks"][index].clone();
        let note = check["note"].as_str().unwrap_or_default().to_owned();
        match found.iter_mut().find(|other| other.is_about(criterion)) {
            Some(other) => {
                other.check_inputs.push(check_inputs);
                if other.passed && !passed {
                    (other.passed, other.note) = (passed, note);
                }
            }
            None => {
                let criterion = criterion.trim().to_owned();
                found.push(DecidedCriterion {
                    criterion,
                    passed,
                    note,
                    check_inputs: vec![check_inputs],
                    is_binding,
                });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records calls, each given as (is binding, check inputs, check results), and returns the
    /// decisions.
    fn known(calls: &[(bool, Value, Value)]) -> Vec<(String, bool)> {
        let mut known = KnownCriteria::default();
        for (is_binding, check_inputs, checks) in calls {
            known.record(&json!({"checks": check_inputs}), &json!({"checks": checks}), *is_binding);
        }
        known.decided.into_iter().map(|it| (it.criterion, it.passed)).collect()
    }

    fn decided(criterion: &str, passed: impl Into<Value>) -> Value {
        json!([{"criterion": criterion, "passed": passed.into(), "note": "n"}])
    }

    #[test]
    fn last_decision_of_criterion_counts() {
        let other = json!([{"criterion": "a", "path": "b"}]);
        let calls = [
            (false, json!(["a"]), decided("a", false)),
            (false, other, decided(" A ", true)),
            (false, json!(["a"]), decided("a", Value::Null)),
            (false, json!(["c"]), decided("c", Value::Null)),
        ];
        assert_eq!(known(&calls), [("A".to_owned(), true)]);
    }

    #[test]
    fn binding_check_is_replaced_only_by_identical_check() {
        let easy = json!([{"criterion": "a", "path": "b"}]);
        let cheated = [(true, json!(["a"]), decided("a", false)), (false, easy.clone(), decided("a", true))];
        assert_eq!(known(&cheated), [("a".to_owned(), false)]);
        let again = [(true, json!(["a"]), decided("a", false)), (false, json!(["a"]), decided("a", true))];
        assert_eq!(known(&again), [("a".to_owned(), true)]);
        let [first, last] = again;
        assert_eq!(known(&[first, last, (false, easy, decided("a", false))]), [("a".to_owned(), true)]);
    }

    #[test]
    fn criterion_with_several_checks_passes_only_if_all_pass() {
        let both = json!([
            {"criterion": "a", "passed": true, "note": "n"}, {"criterion": "a", "passed": false, "note": "m"},
        ]);
        assert_eq!(known(&[(false, json!(["a", "a"]), both)]), [("a".to_owned(), false)]);
        assert_eq!(known(&[(false, json!({}), json!("no list"))]), []);
    }

    #[test]
    fn criteria_are_compared_without_form() {
        assert!(is_same("1. **File `a.rs` exists**.", "file a.rs  exists"));
        assert!(!is_same("File a.rs exists", "File b.rs exists"));
    }

    #[test]
    fn reported_criteria_that_no_check_has_seen_by_their_text_are_unchecked() {
        let mut known = KnownCriteria::default();
        let result =
            |criterion: &str| json!({"checks": [{"criterion": criterion, "passed": true, "note": "n"}]});
        known.record_call(&json!({"checks": [{"criterion": "a", "path": "easy"}]}), &result("a"));
        known.record_call(&json!({"checks": ["b"]}), &result("b"));
        known.record_request(&json!({"checks": [{"criterion": "c", "path": "p"}]}), &result("c"));
        let value = json!(["a", "b", "c", "d", "D."].map(|it| json!({"criterion": it, "passed": true})));
        assert_eq!(known.unchecked(&["$[*]".to_owned()], &value), ["a", "d"]);
        known.record_report(&json!({"checks": ["a", "d"]}), &Value::Null);
        assert_eq!(known.unchecked(&["$[*]".to_owned()], &value), [""; 0]);
    }

    #[test]
    fn undecided_criteria_are_marked() {
        let mut known = KnownCriteria::default();
        let output = json!({"checks": [{"criterion": "a", "passed": true, "note": "n"}]});
        known.record_request(&json!({"checks": ["a", "b"]}), &output);
        let mut value = json!([{"criterion": "A"}, {"criterion": "b", "decided_by": "check"}]);
        assert_eq!(known.mark_claims(&["$[*]".to_owned()], &mut value), ["b"]);
        assert_eq!(value, json!([{"criterion": "A"}, {"criterion": "b", "decided_by": "model"}]));
    }
}
