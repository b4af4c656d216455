//! A coordinator that is away for longer than leases last: its runners go on as if nothing had been.

use std::time::Duration;

use rustix::process::Signal;
use slipform_testkit::Gate;

use crate::cluster::{Cluster, ClusterPlan, LEASE_SECONDS, Process, StoreKind};
use crate::load::submit;
use crate::model::Model;
use crate::records::{Records, types};
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
    let plan = ClusterPlan { name, place: StoreKind::Sqlite, coordinators: 1, runners: 2, slots: 1 };
    let cluster = Cluster::build(&plan, &model);
    let job = submit(&cluster.addresses(), "strict-1");
    model.wait_for("strict-1", 1);
    goes_away(&cluster.coordinators[0]);
    cluster.coordinators[0].wait_until_ready();
    gate.open();
    let records = Records::read(&cluster);
    let journal = &records.journals[&job.session_id];
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
    cluster.kill_all();
    judge(&records, &[job], &model.asked()).check(&cluster.folder.display().to_string());
}
