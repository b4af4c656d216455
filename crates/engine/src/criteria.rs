//! Criteria: a result must report decided criteria as they were decided.
//!
//! The `checks` of an agent name the paths in the result that report criteria. The model may decide
//! only the criteria that `check:criteria` leaves undecided.

use serde_json::Value;
use slipform_schema::universal::{self, Criterion};
use slipform_schema::{Violation, json_path, parse_pattern};

use crate::reply::violation;

/// A criterion that a check decided.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DecidedCriterion {
    /// The text of the criterion.
    criterion: String,
    passed: bool,
    note: String,
    /// The inputs of the checks.
    check_inputs: Vec<Value>,
    /// Whether the blueprint requested the check, not the model.
    is_opening: bool,
}

impl DecidedCriterion {
    fn is_about(&self, criterion: &str) -> bool {
        self.criterion.to_lowercase() == criterion.trim().to_lowercase()
    }
}

/// Records the decisions of a call. The last decision counts. A check of the blueprint is only
/// replaced by the identical check, so that a model cannot substitute an easier one.
pub(crate) fn record_decisions(
    known: &mut Vec<DecidedCriterion>,
    input: &Value,
    output: &Value,
    is_opening: bool,
) {
    for now in decisions(input, output, is_opening) {
        match known.iter_mut().find(|earlier| earlier.is_about(&now.criterion)) {
            Some(earlier) if earlier.is_opening && earlier.check_inputs != now.check_inputs => {}
            Some(earlier) => {
                *earlier = DecidedCriterion { is_opening: earlier.is_opening || is_opening, ..now }
            }
            None => known.push(now),
        }
    }
}

/// Records the criteria that a call could not decide.
pub(crate) fn record_undecided(known: &mut Vec<String>, output: &Value) {
    for check in output["checks"].as_array().into_iter().flatten() {
        let criterion = check["criterion"].as_str().map(str::trim).filter(|_| check["passed"].is_null());
        if let Some(criterion) = criterion.filter(|criterion| !known.iter().any(|it| it == criterion)) {
            known.push(criterion.to_owned());
        }
    }
}

/// Returns all known criteria with their decisions.
pub(crate) fn criteria(decided: &[DecidedCriterion], undecided: &[String]) -> Vec<Criterion> {
    let known =
        decided.iter().map(|it| Criterion { criterion: it.criterion.clone(), passed: Some(it.passed) });
    let open = undecided
        .iter()
        .filter(|criterion| !decided.iter().any(|it| it.is_about(criterion)))
        .map(|criterion| Criterion { criterion: criterion.clone(), passed: None });
    known.chain(open).collect()
}

/// Returns the decisions of one call. A criterion with several checks passes if all of them pass.
fn decisions(input: &Value, output: &Value, is_opening: bool) -> Vec<DecidedCriterion> {
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
                    is_opening,
                });
            }
        }
    }
    found
}

/// Returns where a value contradicts or omits a decided criterion. An error report may omit them.
pub(crate) fn contradictions(
    patterns: &[String],
    value: &Value,
    decided: &[DecidedCriterion],
) -> Vec<Violation> {
    let mut wrong = Vec::new();
    let mut is_reported = vec![false; decided.len()];
    for steps in patterns.iter().filter_map(|pattern| parse_pattern(pattern)) {
        crate::cite::visit(value, &steps, &mut Vec::new(), &mut |place, check| {
            let Some(criterion) = check["criterion"].as_str() else { return };
            let Some(index) = decided.iter().position(|it| it.is_about(criterion)) else { return };
            is_reported[index] = true;
            let DecidedCriterion { passed, note, .. } = &decided[index];
            if check["passed"] != *passed {
                let message = format!("must be {passed}: check:criteria found: {note}");
                wrong.push(violation(&format!("{}.passed", json_path(place)), message));
            }
        });
    }
    let missing = decided.iter().zip(is_reported).filter(|(_, is_reported)| !is_reported);
    // An error report has no list of criteria.
    if let Some(list) = crate::cite::list_path(patterns, value).filter(|_| !universal::reports_error(value)) {
        wrong.extend(missing.map(|(DecidedCriterion { criterion, passed, note, .. }, _)| {
            let message = format!(
                "lacks the criterion '{criterion}'; its passed is {passed}: check:criteria found: {note}"
            );
            violation(&list, message)
        }));
    }
    wrong
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Records calls, each given as (is opening, check inputs, check results), and returns the
    /// decisions.
    fn known(calls: &[(bool, Value, Value)]) -> Vec<(String, bool)> {
        let mut known = Vec::new();
        for (is_opening, check_inputs, checks) in calls {
            record_decisions(
                &mut known,
                &json!({"checks": check_inputs}),
                &json!({"checks": checks}),
                *is_opening,
            );
        }
        known.into_iter().map(|it| (it.criterion, it.passed)).collect()
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
    fn opening_check_is_replaced_only_by_identical_check() {
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
}
