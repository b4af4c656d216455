//! The coordinator is unreachable for longer than a lease: its runners keep their runs.

use std::time::Instant;

use rustix::process::Signal;
use slipform_testkit::{Gate, wait_until};

use crate::support::cluster::{Cluster, ClusterPlan, StoreKind, wait_for_lease_expiry};
use crate::support::consistency::verify;
use crate::support::load::submit;
use crate::support::model::Model;
use crate::support::records::{Records, types};

#[test]
fn runner_keeps_its_run_while_coordinator_is_killed() {
    assert_run_survives("coordinator-killed", |cluster| {
        let (coordinator, began) = (&cluster.coordinators[0], Instant::now());
        coordinator.kill();
        for runner in &cluster.runners {
            let has_noticed = || runner.log().contains("coordinator is unreachable");
            wait_until(&format!("{} notices the outage", runner.name), has_noticed);
        }
        wait_for_lease_expiry(began);
        coordinator.restart();
    });
}

#[test]
fn runner_keeps_its_run_while_coordinator_is_paused() {
    assert_run_survives("coordinator-stopped", |cluster| {
        let (coordinator, began) = (&cluster.coordinators[0], Instant::now());
        coordinator.signal(Signal::STOP);
        wait_for_lease_expiry(began);
        coordinator.signal(Signal::CONT);
    });
}

/// Interrupts the coordinator during a model call, and releases the model's reply when the coordinator is ready again.
/// The same attempt must complete the run.
fn assert_run_survives(name: &str, interrupt: impl FnOnce(&Cluster)) {
    let gate = Gate::new();
    let model = Model::with_gate("strict-1", 0..1, &gate);
    let plan = ClusterPlan { name, store: StoreKind::Sqlite, coordinators: 1, runners: 2, slots: 1 };
    let cluster = Cluster::build(&plan, &model);
    let job = submit(&cluster.addresses(), "strict-1");
    model.wait_for_calls("strict-1", 1);
    interrupt(&cluster);
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
