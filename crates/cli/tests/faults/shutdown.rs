//! Graceful shutdown of runners and coordinators on SIGTERM.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use slipform_testkit::Gate;

use crate::support::cluster::{Cluster, ClusterPlan, StoreKind};
use crate::support::consistency::verify;
use crate::support::http::Stream;
use crate::support::load::submit;
use crate::support::model::Model;
use crate::support::records::{Records, types};

/// The longest that a graceful shutdown may take.
const SHUTDOWN_MAX: Duration = Duration::from_secs(10);

#[test]
fn terminated_runner_releases_its_run_to_another_runner() {
    let model = Model::with_gate("plain-1", 0..1, &Gate::new());
    let plan = ClusterPlan {
        name: "shutdown-runner",
        store: StoreKind::Sqlite,
        coordinators: 1,
        runners: 1,
        slots: 1,
    };
    let mut cluster = Cluster::build(&plan, &model);
    let job = submit(&cluster.addresses(), "plain-1");
    model.wait_for_calls("plain-1", 1);
    cluster.add_runner(1);
    cluster.runners[0].signal(Signal::TERM);
    assert!(cluster.runners[0].wait_for_exit().success(), "{}", cluster.runners[0].log());

    let records = Records::read(&cluster);
    let journal = &records.journals[&job.session_id];
    let expected = ["run_start", "attempt_started", "attempt_started", "message", "result", "run_completed"];
    assert_eq!(types(journal), expected, "{journal:?}");
    cluster.kill_all();
    verify(&records, &[job], &model.exchanges()).assert_ok(&cluster.folder.display().to_string());
}

#[test]
fn terminated_coordinator_closes_its_event_streams() {
    let model = Model::with_gate("plain-1", 0..1, &Gate::new());
    let plan = ClusterPlan {
        name: "shutdown-coordinator",
        store: StoreKind::Sqlite,
        coordinators: 1,
        runners: 1,
        slots: 1,
    };
    let cluster = Cluster::build(&plan, &model);
    let job = submit(&cluster.addresses(), "plain-1");
    model.wait_for_calls("plain-1", 1);
    let own = format!("/sessions/{}/events/stream", job.session_id);
    let mut streams = ["/events/stream", &own]
        .map(|path| Stream::open(cluster.address(), path, Some("0"), SHUTDOWN_MAX * 2).unwrap());
    streams.iter_mut().for_each(|stream| assert!(stream.next().is_some()));

    let began = Instant::now();
    cluster.coordinators[0].signal(Signal::TERM);
    let status = cluster.coordinators[0].wait_for_exit();
    assert!(status.success() && began.elapsed() < SHUTDOWN_MAX, "{status} after {:?}", began.elapsed());
    for stream in &mut streams {
        while stream.next().is_some() {}
    }
    // After the restart a runner completes the run.
    cluster.coordinators[0].restart();
    cluster.runners[0].kill();
    cluster.runners[0].restart();
    let records = Records::read(&cluster);
    cluster.kill_all();
    verify(&records, &[job], &model.exchanges()).assert_ok(&cluster.folder.display().to_string());
}
