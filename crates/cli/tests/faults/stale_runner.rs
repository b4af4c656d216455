//! A runner is paused for longer than its lease and resumes: its late writes are refused.

use rustix::process::Signal;
use serde_json::{Value, json};
use slipform_testkit::{Gate, wait_for};

use crate::support::cluster::{Cluster, ClusterPlan, StoreKind};
use crate::support::consistency::verify;
use crate::support::http;
use crate::support::load::{Job, has_ended, submit};
use crate::support::model::Model;
use crate::support::records::{Records, journal, types};

#[test]
fn late_writes_of_stale_attempt_are_refused() {
    let gate = Gate::new();
    let model = Model::with_gate("plain-1", 0..1, &gate);
    let plan =
        ClusterPlan { name: "stale-runner", store: StoreKind::Sqlite, coordinators: 1, runners: 1, slots: 1 };
    let mut cluster = Cluster::build(&plan, &model);
    let first = submit(&cluster.addresses(), "plain-1");
    model.wait_for_calls("plain-1", 1);
    cluster.runners[0].signal(Signal::STOP);

    cluster.add_runner(1);
    wait_for("the other runner completes the run", || has_ended(cluster.address(), &first));
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

    // The paused runner resumes with its model reply, as the only runner.
    gate.open();
    cluster.runners[1].kill();
    cluster.runners[0].signal(Signal::CONT);
    let second = submit(&cluster.addresses(), "leader-2");
    wait_for("the resumed runner completes a new run", || has_ended(cluster.address(), &second));
    assert_late_writes_refused(&cluster, &first);
    assert_eq!(journal(&cluster, &first.session_id), written);

    let records = Records::read(&cluster);
    cluster.kill_all();
    let mut report = verify(&records, &[first, second], &model.exchanges());
    report.problems.extend(records.compare(plan.store, &cluster.database));
    report.assert_ok(&cluster.folder.display().to_string());
}

/// Sends every write of the runner API with the fencing token of the first attempt.
fn assert_late_writes_refused(cluster: &Cluster, job: &Job) {
    let attempt = json!({"run_id": job.run_id, "token": 1});
    let with = |members: Value| {
        let mut body = attempt.clone();
        body.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        body
    };
    let end = json!({"event_type": "run_completed", "status": "stopped"});
    let child = json!({"call_id": "c", "agent_name": "helper", "parameters": {"prompt": "x"}, "execution_mode": "sync"});
    for (operation, body) in [
        ("append", with(json!({"number": 3, "events": [{"event_type": "stop_requested"}]}))),
        ("finish", with(json!({"number": 3, "events": [end]}))),
        ("delegate", with(child)),
        ("park", attempt.clone()),
        ("release", attempt.clone()),
    ] {
        let response = http::post(cluster.address(), &format!("/runner/{operation}"), "", &body).unwrap();
        assert_eq!(
            (response.status, &response.body["error"]),
            (409, &json!("StaleAttempt")),
            "{operation}: {}",
            response.body
        );
    }
    let heartbeat = json!({"runner_id": "runner_late", "attempts": [attempt]});
    let response = http::post(cluster.address(), "/runner/heartbeat", "", &heartbeat).unwrap();
    assert_eq!(response.body["attempts"][0]["stale"], true, "{}", response.body);
}
