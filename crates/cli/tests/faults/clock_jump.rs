//! Someone sets the clock of the coordinator's machine.

use slipform_testkit::Gate;

use crate::support::clock::TestClock;
use crate::support::cluster::{Cluster, ClusterPlan, StoreKind};
use crate::support::consistency::verify;
use crate::support::load::submit;
use crate::support::model::Model;
use crate::support::records::{Records, types};

/// Seconds of an hour.
const HOUR: i64 = 3_600;

#[test]
fn clock_jumps_lose_no_attempt_and_delay_no_run() {
    let Some(clock) = TestClock::build("jump") else { return };
    let gate = Gate::new();
    let model = Model::with_gate("plain-1", 0..1, &gate);
    let plan =
        ClusterPlan { name: "clock-jump", store: StoreKind::Sqlite, coordinators: 1, runners: 1, slots: 4 };
    let cluster = Cluster::build_with(&plan, &model, &clock.variables());
    let mut jobs = vec![submit(&cluster.addresses(), "plain-1")];
    model.wait_for_calls("plain-1", 1);
    // Each run is submitted before a jump and completed after it, while the first attempt goes on.
    for (number, seconds) in [HOUR, -3 * HOUR, 24 * HOUR, 0].into_iter().enumerate() {
        let task = format!("plain-{}", number + 2);
        jobs.push(submit(&cluster.addresses(), &task));
        clock.set(seconds);
        model.wait_for_calls(&task, 1);
    }
    gate.open();
    let records = Records::read(&cluster);
    for job in &jobs {
        let journal = types(&records.journals[&job.session_id]);
        assert!(!journal.contains(&"lease_expired"), "{}: {journal:?}", job.task);
    }
    assert!(cluster.coordinators[0].log().contains("clock has jumped"), "{}", cluster.coordinators[0].log());
    cluster.kill_all();
    let mut report = verify(&records, &jobs, &model.exchanges());
    report.problems.extend(records.compare(plan.store, &cluster.database));
    report.assert_ok(&cluster.folder.display().to_string());
}
