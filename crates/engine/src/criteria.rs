//! Criteria: what was decided about them by looking has to stand in the result as it was decided.
//!
//! The agent's `checks` names the places of a result that report criteria. A model may decide what `check:criteria`
//! leaves open, and nothing else.

use serde_json::Value;
use slipform_schema::universal::{self, Criterion};
use slipform_schema::{PatternStep as Step, Violation, json_path, parse_pattern};

use crate::verify_paths::violation;

/// A criterion that was decided.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Decided {
    /// As it was asked.
    criterion: String,
    passed: bool,
    note: String,
    /// What was looked at.
    asked: Vec<Value>,
    /// Whether the blueprint asked for it, and not the model.
    is_opening: bool,
}

impl Decided {
    fn is_of(&self, criterion: &str) -> bool {
        self.criterion.to_lowercase() == criterion.trim().to_lowercase()
    }
}

/// Notes what a call has decided. The last decision counts; but what the blueprint had checked is decided anew only by
/// the same check, so that no model checks something else in its name.
pub(crate) fn decide(known: &mut Vec<Decided>, input: &Value, output: &Value, is_opening: bool) {
    for now in decisions(input, output, is_opening) {
        match known.iter_mut().find(|earlier| earlier.is_of(&now.criterion)) {
            Some(earlier) if earlier.is_opening && earlier.asked != now.asked => {}
            Some(earlier) => *earlier = Decided { is_opening: earlier.is_opening || is_opening, ..now },
            None => known.push(now),
        }
    }
}

/// Notes what a call could not decide.
pub(crate) fn leave_open(known: &mut Vec<String>, output: &Value) {
    for check in output["checks"].as_array().into_iter().flatten() {
        let criterion = check["criterion"].as_str().map(str::trim).filter(|_| check["passed"].is_null());
        if let Some(criterion) = criterion.filter(|criterion| !known.iter().any(|it| it == criterion)) {
            known.push(criterion.to_owned());
        }
    }
}

/// All criteria that are known, with what was decided.
pub(crate) fn criteria(decided: &[Decided], undecided: &[String]) -> Vec<Criterion> {
    let known =
        decided.iter().map(|it| Criterion { criterion: it.criterion.clone(), passed: Some(it.passed) });
    let open = undecided
        .iter()
        .filter(|criterion| !decided.iter().any(|it| it.is_of(criterion)))
        .map(|criterion| Criterion { criterion: criterion.clone(), passed: None });
    known.chain(open).collect()
}

/// What one call has decided. A criterion with several checks has passed when all of them have.
fn decisions(input: &Value, output: &Value, is_opening: bool) -> Vec<Decided> {
    let mut found: Vec<Decided> = Vec::new();
    for (index, check) in output["checks"].as_array().into_iter().flatten().enumerate() {
        let (Some(criterion), Some(passed)) = (check["criterion"].as_str(), check["passed"].as_bool()) else {
            continue;
        };
        let asked = input["checks"][index].clone();
        let note = check["note"].as_str().unwrap_or_default().to_owned();
        match found.iter_mut().find(|other| other.is_of(criterion)) {
            Some(other) => {
                other.asked.push(asked);
                if other.passed && !passed {
                    (other.passed, other.note) = (passed, note);
                }
            }
            None => {
                let criterion = criterion.trim().to_owned();
                found.push(Decided { criterion, passed, note, asked: vec![asked], is_opening });
            }
        }
    }
    found
}

/// Where a value says something else of a criterion than was decided, or leaves one out. A report of an error claims
/// nothing.
pub(crate) fn contradictions(patterns: &[String], value: &Value, decided: &[Decided]) -> Vec<Violation> {
    let mut wrong = Vec::new();
    let mut is_reported = vec![false; decided.len()];
    let mut list = None;
    let mut wanted = None;
    for steps in patterns.iter().filter_map(|pattern| parse_pattern(pattern)) {
        let depth = steps.iter().rposition(|step| *step == Step::Each).unwrap_or(steps.len());
        wanted.get_or_insert_with(|| named(&steps[..depth]));
        crate::cite::visit(value, &steps[..depth], &mut Vec::new(), &mut |place, _| {
            list.get_or_insert_with(|| json_path(place));
        });
        crate::cite::visit(value, &steps, &mut Vec::new(), &mut |place, check| {
            let Some(criterion) = check["criterion"].as_str() else { return };
            let Some(index) = decided.iter().position(|it| it.is_of(criterion)) else { return };
            is_reported[index] = true;
            let Decided { passed, note, .. } = &decided[index];
            if check["passed"] != *passed {
                let message = format!("must be {passed}: check:criteria found: {note}");
                wrong.push(violation(&format!("{}.passed", json_path(place)), message));
            }
        });
    }
    let missing = decided.iter().zip(is_reported).filter(|(_, is_reported)| !is_reported);
    // Whoever reports an error reports nothing else.
    let list = list.or_else(|| wanted.filter(|_| !universal::reports_error(value)));
    if let Some(list) = list {
        wrong.extend(missing.map(|(Decided { criterion, passed, note, .. }, _)| {
            let message = format!(
                "lacks the criterion '{criterion}'; its passed is {passed}: check:criteria found: {note}"
            );
            violation(&list, message)
        }));
    }
    wrong
}

/// A place without lists in it, in words.
fn named(steps: &[Step]) -> String {
    steps.iter().fold("$".to_owned(), |path, step| match step {
        Step::Key(key) => format!("{path}.{key}"),
        Step::Each => format!("{path}[*]"),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What is known after calls: whether it was an opening, what was asked, and what came of each.
    fn known(calls: &[(bool, Value, Value)]) -> Vec<(String, bool)> {
        let mut known = Vec::new();
        for (is_opening, asked, checks) in calls {
            decide(&mut known, &json!({"checks": asked}), &json!({"checks": checks}), *is_opening);
        }
        known.into_iter().map(|it| (it.criterion, it.passed)).collect()
    }

    fn decided(criterion: &str, passed: impl Into<Value>) -> Value {
        json!([{"criterion": criterion, "passed": passed.into(), "note": "n"}])
    }

    #[test]
    fn the_last_decision_counts() {
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
    fn what_the_blueprint_had_checked_is_decided_anew_by_the_same_check_alone() {
        let easy = json!([{"criterion": "a", "path": "b"}]);
        let cheated = [(true, json!(["a"]), decided("a", false)), (false, easy.clone(), decided("a", true))];
        assert_eq!(known(&cheated), [("a".to_owned(), false)]);
        let again = [(true, json!(["a"]), decided("a", false)), (false, json!(["a"]), decided("a", true))];
        assert_eq!(known(&again), [("a".to_owned(), true)]);
        let [first, last] = again;
        assert_eq!(known(&[first, last, (false, easy, decided("a", false))]), [("a".to_owned(), true)]);
    }

    #[test]
    fn a_criterion_with_several_checks_passes_with_all_of_them() {
        let both = json!([
            {"criterion": "a", "passed": true, "note": "n"}, {"criterion": "a", "passed": false, "note": "m"},
        ]);
        assert_eq!(known(&[(false, json!(["a", "a"]), both)]), [("a".to_owned(), false)]);
        assert_eq!(known(&[(false, json!({}), json!("no list"))]), []);
    }
}
