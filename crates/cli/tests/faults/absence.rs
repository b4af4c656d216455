//! A coordinator that is away for longer than leases last: its runners go on as if nothing had been.

use std::time::Duration;

use rustix::process::Signal;
use slipform_testkit::Gate;

use crate::books::{Books, types};
use crate::house::{House, LEASE_SECONDS, Place, Plan, Process};
use crate::load::submit;
use crate::model::Model;
use crate::verdict::judge;

/// How long the coordinator is away.
const ABSENCE: Duration = Duration::from_secs(LEASE_SECONDS as u64 + 2);

#[test]
fn a_runner_keeps_its_run_while_its_coordinator_is_killed() {
    stay("absence-killed", |coordinator| {
        coordinator.kill();
        std::thread::sleep(ABSENCE);
        coordinator.restart();
    });
}

#[test]
fn a_runner_keeps_its_run_while_its_coordinator_is_stopped() {
    stay("absence-stopped", |coordinator| {
        coordinator.signal(Signal::STOP);
        std::thread::sleep(ABSENCE);
        coordinator.signal(Signal::CONT);
    });
}

/// The coordinator goes away in the middle of a run, and the model answers when it is back.
fn stay(name: &str, goes_away: impl FnOnce(&Process)) {
    let gate = Gate::new();
    let model = Model::holding("strict-1", 0..1, &gate);
    let plan = Plan { name, place: Place::Sqlite, coordinators: 1, runners: 2, slots: 1 };
    let house = House::build(&plan, &model);
    let job = submit(&house.addresses(), "strict-1");
    model.wait_for("strict-1", 1);
    goes_away(&house.coordinators[0]);
    house.coordinators[0].wait_until_ready();
    gate.open();
    let books = Books::read(&house);
    let journal = &books.journals[&job.session_id];
    let expected = [
        "run_start",
        "attempt_started",
        "message",
        "validation_failed",
        "message",
        "result",
        "run_completed",
    ];
    assert_eq!(types(journal), expected, "{journal:?}");
    house.kill_all();
    judge(&books, &[job], &model.asked()).check(&house.folder.display().to_string());
}
