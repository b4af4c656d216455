//! A run that kills its runners.

use serde_json::json;
use slipform_testkit::Gate;

use crate::cluster::{Cluster, ClusterPlan, StoreKind};
use crate::load::submit;
use crate::model::Model;
use crate::records::{Records, types};
use crate::verdict::judge;

#[test]
fn a_run_whose_runners_die_three_times_is_lost_and_its_replies_are_not() {
    let model = Model::holding("looking-1", 1.., &Gate::new());
    let plan = ClusterPlan { name: "lost", place: StoreKind::Sqlite, coordinators: 1, runners: 1, slots: 1 };
    let cluster = Cluster::build(&plan, &model);
    let job = submit(&cluster.addresses(), "looking-1");
    for attempt in 1..=3 {
        // The first call of each attempt after the reply that was kept.
        model.wait_for("looking-1", 1 + attempt);
        cluster.runners[0].kill();
        cluster.runners[0].restart();
    }
    let records = Records::read(&cluster);
    let result = cluster.get(&format!("/sessions/{}/result", job.session_id));
    assert_eq!((&result["error"]["type"], &result["result"]), (&json!("lost"), &json!(null)), "{result}");
    assert_eq!(result["salvage"]["replies"], json!(["looking-1, number 0"]), "{result}");
    assert_eq!(records.runs[0]["status"], "failed");

    let journal = types(&records.journals[&job.session_id]);
    let count = |kind: &str| journal.iter().filter(|other| **other == kind).count();
    assert_eq!((count("lease_expired"), count("message"), count("post_tool")), (3, 1, 1), "{journal:?}");
    cluster.kill_all();
    let verdict = judge(&records, &[job], &model.asked());
    verdict.check(&cluster.folder.display().to_string());
    assert_eq!(verdict.lost, 1);
}
