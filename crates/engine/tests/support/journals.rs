//! Journals that no runner would write: folding them gives an error or a state, never a panic.

use formwork_engine::{Action, State, next};
use formwork_schema::Schema;
use formwork_types::{Body, Outcome};
use serde_json::Value;

use crate::{case, drive};

/// How many random journals are tried.
const JOURNALS: usize = 2_000;

/// How long one of them is at most.
const EVENTS_MAX: usize = 24;

/// Knuth's linear congruential generator: the same numbers on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // The low bits of such a generator repeat soon.
        usize::try_from(self.0 >> 33).unwrap_or_default() % bound
    }
}

#[test]
fn no_sequence_of_events_is_too_much() {
    let openings: Vec<[Body; 2]> = case::all().iter().map(case::Case::opening).collect();
    let journals = case::all().into_iter().filter_map(|case| drive::drive(&case).ok());
    let pool: Vec<Body> = journals.flat_map(|driven| driven.journal).map(|event| event.body).collect();
    assert!(pool.len() > 500, "only {} events to choose from", pool.len());
    let mut random = Random(1);
    let (mut refused, mut ended) = (0, 0);
    for _ in 0..JOURNALS {
        let mut state = State::default();
        // Most journals begin as they should, or nothing after would be looked at.
        if random.below(8) > 0 {
            for body in &openings[random.below(openings.len())] {
                state.fold(body).expect("the opening of a case");
            }
        }
        for _ in 0..random.below(EVENTS_MAX) {
            refused += usize::from(state.fold(&pool[random.below(pool.len())]).is_err());
            let _ = next(&state);
        }
        ended += usize::from(state.outcome().is_some());
    }
    assert!(refused > 0 && ended > 0, "{refused} refused, {ended} ended: the journals say nothing");
}

/// Whatever is replied, a run ends within its budget, and what it ends with is checked.
#[test]
fn any_replies_end_a_run_within_its_budget() {
    let cases = case::all();
    let journals = cases.iter().filter_map(|case| drive::drive(case).ok());
    let replies: Vec<Body> = journals
        .flat_map(|driven| driven.journal)
        .map(|event| event.body)
        .filter(|body| matches!(body, Body::Message { .. } | Body::CallFailed { .. }))
        .collect();
    let mut random = Random(2);
    for case in &cases {
        let schema = case.contract().map(|contract| Schema::compile(&contract.schema).unwrap());
        let retries = case.contract().map_or(1, |contract| contract.options.max_retries);
        let most = case.ladder().len() * (retries as usize + 1);
        for _ in 0..20 {
            let (calls, result) = run(case, &replies, &mut random);
            assert!(calls <= most, "{}: {calls} calls, {most} allowed", case.label());
            let valid = match (&schema, &result) {
                (Some(schema), Some(value)) => schema.is_valid(value),
                _ => true,
            };
            assert!(valid, "{}: an invalid success {result:?}", case.label());
        }
    }
}

fn run(case: &case::Case, replies: &[Body], random: &mut Random) -> (usize, Option<Value>) {
    let mut state = State::default();
    for body in case.opening() {
        state.fold(&body).expect("the opening of a case");
    }
    let mut calls = 0;
    loop {
        match next(&state) {
            Some(Action::Note(body)) => state.fold(&body).expect("a decision of the engine's own"),
            Some(Action::Call(_)) => {
                calls += 1;
                state.fold(&replies[random.below(replies.len())]).expect("a reply");
            }
            Some(Action::Finish(outcome)) => {
                let Outcome::Completed(success) = *outcome else { return (calls, None) };
                return (calls, success.result_data);
            }
            other => panic!("{}: nothing to do: {other:?}", case.label()),
        }
    }
}

/// A stop or a deadline that comes when the answer is already there does not undo it.
#[test]
fn what_is_decided_stays_decided() {
    let mut tried = 0;
    for case in case::all() {
        let Ok(driven) = drive::drive(&case) else { continue };
        let Outcome::Completed(_) = &driven.outcome else { continue };
        let is_ending = |body: &Body| matches!(body, Body::Result { .. } | Body::RunCompleted { .. });
        for late in [Body::StopRequested, Body::DeadlineReached] {
            let mut state = State::default();
            for event in driven.journal.iter().filter(|event| !is_ending(&event.body)) {
                state.fold(&event.body).expect("the journal of a case");
            }
            state.fold(&late).expect("a late event");
            assert_eq!(state.outcome(), Some(&driven.outcome), "{}", case.label());
            tried += 1;
        }
    }
    assert!(tried > 50, "only {tried} were tried");
}
