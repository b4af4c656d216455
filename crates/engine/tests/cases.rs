//! Cases as data: each file in `cases/` is a list of runs, what the models answer in them, what the engine
//! asks, and how they end. See `support/case.rs` for the form and `support/expect.rs` for what can be
//! expected and for what has to hold always.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

#[path = "support/case.rs"]
mod case;
#[path = "support/drive.rs"]
mod drive;
#[path = "support/expect.rs"]
mod expect;
#[path = "support/journals.rs"]
mod journals;

use formwork_engine::{State, next};
use formwork_types::{Body, Event};

fn report(failures: &[String], total: usize) {
    assert!(failures.is_empty(), "{} of {total} fail:\n\n{}", failures.len(), failures.join("\n\n"));
}

#[test]
fn every_case_holds() {
    let cases = case::all();
    let failures: Vec<String> = cases
        .iter()
        .filter_map(|case| {
            let checked = drive::drive(case).and_then(|driven| expect::check(case, &driven));
            checked.err().map(|problem| format!("{}\n{problem}", case.label()))
        })
        .collect();
    report(&failures, cases.len());
    assert!(cases.len() > 100, "only {} cases were found", cases.len());
}

/// A run may be taken over by another runner after any event: it goes on as if nothing had happened.
#[test]
fn a_journal_may_be_cut_anywhere() {
    let cases = case::all();
    let mut failures = Vec::new();
    let mut cuts = 0;
    for case in &cases {
        let Ok(driven) = drive::drive(case) else { continue };
        let stored: Vec<Event> = driven.journal.iter().map(stored).collect();
        assert_eq!(stored, driven.journal, "{}", case.label());
        for cut in 0..stored.len() {
            cuts += 1;
            if let Err(problem) = check_cut(&stored, cut, &driven) {
                failures.push(format!("{} cut after {cut}\n{problem}", case.label()));
            }
        }
    }
    report(&failures, cuts);
    assert!(cuts > 500, "only {cuts} cuts were tried");
}

/// The event as it comes back from where journals are kept.
fn stored(event: &Event) -> Event {
    let text = serde_json::to_string(event).expect("an event that can be written");
    serde_json::from_str(&text).expect("an event that can be read")
}

fn check_cut(journal: &[Event], cut: usize, driven: &drive::Driven) -> Result<(), String> {
    let (before, after) = journal.split_at(cut);
    let mut state = State::from_journal(before).map_err(|error| error.to_string())?;
    let wanted = &driven.wanted[cut];
    if next(&state) != *wanted {
        return Err(format!("expected {wanted:?}\ngiven {:?}", next(&state)));
    }
    // Whoever goes on begins an attempt of its own, which changes nothing.
    if let Some(attempt) = before.iter().find(|event| matches!(event.body, Body::AttemptStarted { .. })) {
        state.fold(&attempt.body).map_err(|error| error.to_string())?;
        if next(&state) != *wanted {
            return Err(format!("another attempt changed it to {:?}", next(&state)));
        }
    }
    for event in after {
        state.fold(&event.body).map_err(|error| error.to_string())?;
    }
    match state.outcome() {
        Some(outcome) if *outcome == driven.outcome => Ok(()),
        other => Err(format!("expected {:?}\ngiven {other:?}", driven.outcome)),
    }
}
