//! Cases as data: each file in `cases/` has `schemas` and a list of runs, with what has to come of each.
//!
//! A case has a `name`, bits of a `blueprint`, an `input`, a `contract` (`schema`, by name or in full or shipped,
//! `options`, `example`), a `ladder` of bits of backends, `tools` and `agents` with their `answers`, and `replies` in order: a text, an object with
//! the members of a reply, `{"call_error": …}` or `{"event": "stop_requested"}`, with what was written by then as `partial`. What `expect` says has
//! to hold: `status`, `result_data`, `result_text`; `error`, `receipt` and `salvage` as far as they are
//! given; `noted`, parts of what was noted, in order; and `calls`, one for each request.

use std::fs;
use std::path::Path;

use crate::script::{Case, Played};
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
            crate::script::parse(&text).unwrap_or_else(|problem| panic!("{}: {problem}", file.display()))
        })
        .collect()
}

/// Holds every case against a check, and tells of all that fail.
fn hold(check: impl Fn(&Case) -> Result<(), String>) {
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
fn every_case_holds() {
    hold(|case| {
        let played = crate::script::play(case)?;
        crate::expect::always(case, &played)?;
        crate::expect::check(&case.expect, &played)
    });
}

#[test]
fn a_run_can_be_continued_from_every_event() {
    hold(|case| {
        let whole = crate::script::play(case)?;
        (0..=whole.bodies.len()).try_for_each(|cut| {
            continues(case, &whole, cut).map_err(|problem| format!("cut after {cut} events: {problem}"))
        })
    });
}

/// Someone else reads the journal up to the cut and goes on.
fn continues(case: &Case, whole: &Played, cut: usize) -> Result<(), String> {
    let stored = whole.bodies[..cut].iter().enumerate().map(|(index, body)| stored(index, body));
    let events: Vec<Event> = stored.collect::<Result<_, _>>()?;
    let mut state = State::from_journal(&events).map_err(|error| error.to_string())?;
    let action = next(&state);
    if action != whole.actions[cut] {
        return Err(format!("the next action is {action:?}, uncut it is {:?}", whole.actions[cut]));
    }
    let ends = action.is_none() && cut > 1;
    if cut >= 2 && !ends {
        // Whoever goes on says so first, and that must change nothing.
        state.fold(&whole.bodies[1]).map_err(|error| error.to_string())?;
        if next(&state) != action {
            return Err("a second attempt changes what comes next".to_owned());
        }
    }
    let rest = crate::script::go_on(case, state, &whole.bodies[..cut])?;
    if rest.outcome != whole.outcome {
        return Err(format!("it ends in {:?}, uncut in {:?}", rest.outcome, whole.outcome));
    }
    if rest.bodies != whole.bodies[cut..] {
        return Err("it goes on with other events".to_owned());
    }
    Ok(())
}

/// The event as it comes back from storage.
fn stored(index: usize, body: &EventBody) -> Result<Event, String> {
    let event = Event {
        seq: index as u64 + 1,
        session_id: SessionId::from_random([1; 6]),
        run_id: RunId::from_random([2; 6]),
        timestamp: "2026-01-01T00:00:00.000Z".to_owned(),
        body: body.clone(),
    };
    let text = serde_json::to_string(&event).map_err(|error| error.to_string())?;
    let read: Event = serde_json::from_str(&text).map_err(|error| format!("{error} in {text}"))?;
    if read == event { Ok(read) } else { Err(format!("an event changes in storage: {text}")) }
}
