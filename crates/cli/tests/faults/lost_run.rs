//! A run whose runners die repeatedly fails with the error `lost`.

use serde_json::json;
use slipform_testkit::Gate;

use crate::support::cluster::{Cluster, ClusterPlan, StoreKind};
use crate::support::consistency::verify;
use crate::support::load::submit;
use crate::support::model::Model;
use crate::support::records::{Records, types};

#[test]
fn run_with_three_dead_runners_fails_as_lost_and_salvages_replies() {
    let model = Model::with_gate("reader-1", 1.., &Gate::new());
    let plan = ClusterPlan { name: "lost", store: StoreKind::Sqlite, coordinators: 1, runners: 1, slots: 1 };
    let cluster = Cluster::build(&plan, &model);
    let job = submit(&cluster.addresses(), "reader-1");
    for attempt in 1..=3 {
        // Each attempt repeats only the call after the last stored reply.
        model.wait_for_calls("reader-1", 1 + attempt);
        cluster.runners[0].kill();
        cluster.runners[0].restart();
    }
    let records = Records::read(&cluster);
    let result = cluster.get(&format!("/sessions/{}/result", job.session_id));
    assert_eq!((&result["error"]["type"], &result["result"]), (&json!("lost"), &json!(null)), "{result}");
    assert_eq!(result["salvage"]["replies"], json!(["reader-1, number 0"]), "{result}");
    assert_eq!(records.runs[0]["status"], "failed");

    let journal = types(&records.journals[&job.session_id]);
    let count = |kind: &str| journal.iter().filter(|other| **other == kind).count();
    assert_eq!((count("lease_expired"), count("message"), count("post_tool")), (3, 1, 1), "{journal:?}");
    cluster.kill_all();
    let report = verify(&records, &[job], &model.exchanges());
    report.assert_ok(&cluster.folder.display().to_string());
    assert_eq!(report.lost, 1);
}
