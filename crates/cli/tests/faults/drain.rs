//! Processes that are sent home.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use slipform_testkit::Gate;

use crate::cluster::{Cluster, ClusterPlan, StoreKind};
use crate::http::Stream;
use crate::load::submit;
use crate::model::Model;
use crate::records::{Records, types};
use crate::verdict::judge;

/// How long going home may take.
const HOME_WAIT: Duration = Duration::from_secs(10);

#[test]
fn a_runner_that_is_sent_home_gives_its_run_to_another() {
    let model = Model::holding("plain-1", 0..1, &Gate::new());
    let plan =
        ClusterPlan { name: "drain-runner", place: StoreKind::Sqlite, coordinators: 1, runners: 1, slots: 1 };
    let mut cluster = Cluster::build(&plan, &model);
    let job = submit(&cluster.addresses(), "plain-1");
    model.wait_for("plain-1", 1);
    cluster.add_runner(1);
    cluster.runners[0].signal(Signal::TERM);
    assert!(cluster.runners[0].ended().success(), "{}", cluster.runners[0].log());

    let records = Records::read(&cluster);
    let journal = &records.journals[&job.session_id];
    let expected = ["run_start", "attempt_started", "attempt_started", "message", "result", "run_completed"];
    assert_eq!(types(journal), expected, "{journal:?}");
    cluster.kill_all();
    judge(&records, &[job], &model.asked()).check(&cluster.folder.display().to_string());
}

#[test]
fn a_coordinator_that_is_sent_home_lets_go_of_its_readers() {
    let model = Model::holding("plain-1", 0..1, &Gate::new());
    let plan = ClusterPlan {
        name: "drain-coordinator",
        place: StoreKind::Sqlite,
        coordinators: 1,
        runners: 1,
        slots: 1,
    };
    let cluster = Cluster::build(&plan, &model);
    let job = submit(&cluster.addresses(), "plain-1");
    model.wait_for("plain-1", 1);
    let own = format!("/sessions/{}/events/stream", job.session_id);
    let mut streams = ["/events/stream", &own]
        .map(|path| Stream::open(cluster.address(), path, Some("0"), HOME_WAIT * 2).unwrap());
    streams.iter_mut().for_each(|stream| assert!(stream.next().is_some()));

    let began = Instant::now();
    cluster.coordinators[0].signal(Signal::TERM);
    let status = cluster.coordinators[0].ended();
    assert!(status.success() && began.elapsed() < HOME_WAIT, "{status} after {:?}", began.elapsed());
    for stream in &mut streams {
        while stream.next().is_some() {}
    }
    // Whoever works goes on with it when the coordinator is back.
    cluster.coordinators[0].restart();
    cluster.runners[0].kill();
    cluster.runners[0].restart();
    let records = Records::read(&cluster);
    cluster.kill_all();
    judge(&records, &[job], &model.asked()).check(&cluster.folder.display().to_string());
}
