//! Cases as data: each file in `cases/` has `schemas` and a list of runs with their expectations.
//!
//! A case has a `name`, members of a `blueprint`, an `input` and a `contract` (`schema` by name,
//! inline or shipped; `options`; `example`). `filled` holds the members of the blueprint whose
//! placeholders each attempt fills. Its `ladder` lists members of backends, and `tools` and `agents`
//! have their `answers`. The `replies` are given in order. Each is a text, an object
//! with the members of a reply, `{"call_error": …}` or `{"event": "stop_requested"}`, with the text
//! received so far as `partial`.
//!
//! `expect` compares `status`, `result_data` and `result_text`. It compares the given members of
//! `error`, `receipt` and `salvage`. `noted` lists parts of the decision events in order, and
//! `calls` has one entry per model call.

use std::fs;
use std::path::Path;

use crate::support::script::{Case, RunRecord};
use slipform_engine::{State, next};
use slipform_types::{Event, EventBody, RunId, SessionId};

fn cases() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
        .iter()
        .flat_map(|file| {
            let text = fs::read_to_string(file).unwrap();
            crate::support::script::parse(&text)
                .unwrap_or_else(|problem| panic!("{}: {problem}", file.display()))
        })
        .collect()
}

/// Runs a check on every case and reports all failures.
fn check_all(check: impl Fn(&Case) -> Result<(), String>) {
    let cases = cases();
    assert!(cases.len() > 100, "only {} cases were found", cases.len());
    let failures: Vec<String> = cases
        .iter()
        .filter_map(|case| check(case).err().map(|problem| format!("{}\n  {problem}", case.name)))
        .collect();
    assert!(
        failures.is_empty(),
        "{} of {} cases fail:\n{}",
        failures.len(),
        cases.len(),
        failures.join("\n")
    );
}

#[test]
fn every_case_meets_its_expectations() {
    check_all(|case| {
        let record = crate::support::script::run_case(case)?;
        crate::support::expect::check_invariants(case, &record)?;
        crate::support::expect::check_expectations(&case.expect, &record)
    });
}

#[test]
fn run_continues_from_every_event_with_same_outcome() {
    check_all(|case| {
        let whole = crate::support::script::run_case(case)?;
        (0..=whole.bodies.len()).try_for_each(|cut| {
            check_continuation(case, &whole, cut)
                .map_err(|problem| format!("cut after {cut} events: {problem}"))
        })
    });
}

/// Folds the journal up to the cut and continues the run, like another runner.
fn check_continuation(case: &Case, whole: &RunRecord, cut: usize) -> Result<(), String> {
    let stored = whole.bodies[..cut].iter().enumerate().map(|(index, body)| stored(case, index, body));
    let events: Vec<Event> = stored.collect::<Result<_, _>>()?;
    let mut state = State::from_journal(&events).map_err(|error| error.to_string())?;
    let expected = &whole.actions[cut];
    let action = next(&state);
    // The journal lacks the values of placeholders; the requests have them after the next attempt.
    if action != *expected && !case.has_placeholders() {
        return Err(format!("the next action is {action:?}, uncut it is {expected:?}"));
    }
    if cut >= 2 && expected.is_some() {
        state.fold(&whole.bodies[1]).map_err(|error| error.to_string())?;
        let action = next(&state);
        if action != *expected {
            return Err(format!(
                "in a second attempt the next action is {action:?}, uncut it is {expected:?}"
            ));
        }
    }
    let rest = crate::support::script::continue_run(case, state, &whole.bodies[..cut])?;
    if rest.outcome != whole.outcome {
        return Err(format!(
            "the continued run ends in {:?}, the uncut run in {:?}",
            rest.outcome, whole.outcome
        ));
    }
    if rest.bodies != whole.bodies[cut..] {
        return Err("the continued run appends different events".to_owned());
    }
    let mut both = rest.actions.iter().zip(&whole.actions[cut..]);
    if let Some((action, expected)) = both.find(|(action, expected)| action != expected) {
        return Err(format!("an action of the continued run is {action:?}, uncut it is {expected:?}"));
    }
    Ok(())
}

/// Returns the journaled form of an event, after a round trip through its stored form.
fn stored(case: &Case, index: usize, body: &EventBody) -> Result<Event, String> {
    let event = Event {
        seq: index as u64 + 1,
        session_id: SessionId::from_random([1; 6]),
        run_id: RunId::from_random([2; 6]),
        timestamp: "2026-01-01T00:00:00.000Z".to_owned(),
        body: case.journaled(body)?,
    };
    let text = serde_json::to_string(&event).map_err(|error| error.to_string())?;
    let read: Event = serde_json::from_str(&text).map_err(|error| format!("{error} in {text}"))?;
    if read == event { Ok(read) } else { Err(format!("an event changes in storage: {text}")) }
}
