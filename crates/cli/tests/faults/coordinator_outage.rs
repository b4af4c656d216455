//! The coordinator is unreachable for longer than a lease: its runners keep their runs.

use std::time::Duration;

use rustix::process::Signal;
use slipform_testkit::Gate;

use crate::cluster::{Cluster, ClusterPlan, LEASE_SECONDS, Process, StoreKind};
use crate::consistency::verify;
use crate::load::submit;
use crate::model::Model;
use crate::records::{Records, types};

/// The length of the outage, longer than a lease.
const OUTAGE: Duration = Duration::from_secs(LEASE_SECONDS as u64 + 2);

#[test]
fn runner_keeps_its_run_while_coordinator_is_killed() {
    assert_run_survives("coordinator-killed", |coordinator| {
        coordinator.kill();
        std::thread::sleep(OUTAGE);
        coordinator.restart();
    });
}

#[test]
fn runner_keeps_its_run_while_coordinator_is_paused() {
    assert_run_survives("coordinator-stopped", |coordinator| {
        coordinator.signal(Signal::STOP);
        std::thread::sleep(OUTAGE);
        coordinator.signal(Signal::CONT);
    });
}

/// Interrupts the coordinator during a model call, and releases the model's reply when the coordinator is ready again.
/// The same attempt must complete the run.
fn assert_run_survives(name: &str, interrupt: impl FnOnce(&Process)) {
    let gate = Gate::new();
    let model = Model::with_gate("strict-1", 0..1, &gate);
    let plan = ClusterPlan { name, store: StoreKind::Sqlite, coordinators: 1, runners: 2, slots: 1 };
    let cluster = Cluster::build(&plan, &model);
    let job = submit(&cluster.addresses(), "strict-1");
    model.wait_for_calls("strict-1", 1);
    interrupt(&cluster.coordinators[0]);
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
    verify(&records, &[job], &model.exchanges()).assert_ok(&cluster.folder.display().to_string());
}
