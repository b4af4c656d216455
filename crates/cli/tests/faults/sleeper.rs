//! A runner that is stopped for longer than its lease, and wakes up.

use rustix::process::Signal;
use serde_json::{Value, json};
use slipform_testkit::Gate;

use crate::cluster::{Cluster, ClusterPlan, StoreKind};
use crate::http;
use crate::load::{Job, has_ended, submit};
use crate::model::Model;
use crate::records::{Records, journal, types};
use crate::verdict::judge;
use crate::wait::until;

#[test]
fn what_a_runner_says_too_late_is_refused() {
    let gate = Gate::new();
    let model = Model::holding("plain-1", 0..1, &gate);
    let plan =
        ClusterPlan { name: "sleeper", place: StoreKind::Sqlite, coordinators: 1, runners: 1, slots: 1 };
    let mut cluster = Cluster::build(&plan, &model);
    let first = submit(&cluster.addresses(), "plain-1");
    model.wait_for("plain-1", 1);
    cluster.runners[0].signal(Signal::STOP);

    cluster.add_runner(1);
    until("the other runner ends it", || has_ended(cluster.address(), &first));
    let written = journal(&cluster, &first.session_id);
    let expected = [
        "run_start",
        "attempt_started",
        "lease_expired",
        "attempt_started",
        "message",
        "result",
        "run_completed",
    ];
    assert_eq!(types(&written), expected, "{written:?}");

    // Its answer is there when it wakes up, and it has nobody beside it.
    gate.open();
    cluster.runners[1].kill();
    cluster.runners[0].signal(Signal::CONT);
    let second = submit(&cluster.addresses(), "leader-2");
    until("it goes on with new runs", || has_ended(cluster.address(), &second));
    refuse_late_writes(&cluster, &first);
    assert_eq!(journal(&cluster, &first.session_id), written);

    let records = Records::read(&cluster);
    cluster.kill_all();
    let mut verdict = judge(&records, &[first, second], &model.asked());
    verdict.problems.extend(records.compare(plan.place, &cluster.database));
    verdict.check(&cluster.folder.display().to_string());
}

/// Everything that the first attempt could say.
fn refuse_late_writes(cluster: &Cluster, job: &Job) {
    let attempt = json!({"run_id": job.run_id, "token": 1});
    let with = |more: Value| {
        let mut all = attempt.clone();
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        all
    };
    let end = json!({"event_type": "run_completed", "status": "stopped"});
    let child = json!({"call_id": "c", "agent_name": "helper", "parameters": {"prompt": "x"}, "execution_mode": "sync"});
    for (verb, body) in [
        ("append", with(json!({"number": 3, "events": [{"event_type": "stop_requested"}]}))),
        ("finish", with(json!({"number": 3, "events": [end]}))),
        ("delegate", with(child)),
        ("park", attempt.clone()),
        ("release", attempt.clone()),
    ] {
        let answer = http::post(cluster.address(), &format!("/runner/{verb}"), "", &body).unwrap();
        assert_eq!(
            (answer.status, &answer.body["error"]),
            (409, &json!("StaleAttempt")),
            "{verb}: {}",
            answer.body
        );
    }
    let heartbeat = json!({"runner_id": "runner_late", "attempts": [attempt]});
    let answer = http::post(cluster.address(), "/runner/heartbeat", "", &heartbeat).unwrap();
    assert_eq!(answer.body["attempts"][0]["stale"], true, "{}", answer.body);
}
