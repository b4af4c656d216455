//! The database's disk is full, its files are moved, a second server opens it through a link, or it is copied under load.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use rustix::process::Signal;
use slipform_testkit::{Gate, wait_until};

use crate::support::cluster::{Cluster, ClusterPlan, StoreKind, is_ready, slipform, wait_for_lease_expiry};
use crate::support::consistency::verify;
use crate::support::http;
use crate::support::load::{Job, Load, submit, try_submit};
use crate::support::model::Model;
use crate::support::random::{Random, seed};
use crate::support::records::{Records, types};

/// How often `/readyz` is asked after a failed write. Every answer must be the same.
const QUESTIONS: usize = 20;

/// Bytes that the log may still grow before the disk is full: a few pages.
const BYTES_LEFT: u64 = 20_000;

fn cluster(name: &str, runners: usize, model: &Model) -> Cluster {
    let store = StoreKind::Sqlite;
    Cluster::build(&ClusterPlan { name, store, coordinators: 1, runners, slots: 4 }, model)
}

fn database(cluster: &Cluster, ending: &str) -> PathBuf {
    cluster.folder.join(format!("store.db{ending}"))
}

/// Submits runs until one is refused, and returns the others.
fn submit_until_refused(cluster: &Cluster, prefix: &str) -> Vec<Job> {
    let mut jobs = Vec::new();
    wait_until("a submission is refused", || {
        let job = try_submit(cluster.address(), &format!("{prefix}-{}", jobs.len()));
        let is_refused = job.is_none();
        jobs.extend(job);
        is_refused
    });
    jobs
}

#[test]
fn server_is_unready_from_failed_write_until_disk_has_space() {
    let model = Model::start(Random::new(seed()));
    let cluster = cluster("disk-full", 1, &model);
    let coordinator = &cluster.coordinators[0];
    let mut jobs = vec![submit(&cluster.addresses(), "plain-first")];
    for round in 0..3 {
        let used = database(&cluster, "-wal").metadata().unwrap().len();
        coordinator.limit_file_size(Some(used + BYTES_LEFT * round));
        // Agent names consist of the text before the hyphen.
        jobs.extend(submit_until_refused(&cluster, &format!("plain-{round}")));
        for _ in 0..QUESTIONS {
            let response = http::get(cluster.address(), "/readyz").unwrap();
            assert_eq!(response.status, 503, "{}", response.body);
        }
        coordinator.limit_file_size(None);
        coordinator.wait_until_ready();
        jobs.push(submit(&cluster.addresses(), &format!("plain-after-{round}")));
    }
    let records = Records::read(&cluster);
    cluster.kill_all();
    let mut report = verify(&records, &jobs, &model.exchanges());
    report.problems.extend(records.compare(StoreKind::Sqlite, &cluster.database));
    report.assert_ok(&cluster.folder.display().to_string());
}

#[test]
fn attempt_survives_full_disk_that_outlasts_its_lease() {
    let gate = Gate::new();
    let model = Model::with_gate("plain-1", 0..1, &gate);
    let cluster = cluster("disk-full-lease", 1, &model);
    let job = submit(&cluster.addresses(), "plain-1");
    model.wait_for_calls("plain-1", 1);
    let (coordinator, began) = (&cluster.coordinators[0], Instant::now());
    coordinator.limit_file_size(Some(database(&cluster, "-wal").metadata().unwrap().len()));
    wait_until("the server is unready", || !is_ready(cluster.address()));
    wait_for_lease_expiry(began);
    coordinator.limit_file_size(None);
    coordinator.wait_until_ready();
    gate.open();
    let records = Records::read(&cluster);
    let journal = types(&records.journals[&job.session_id]);
    assert!(!journal.contains(&"lease_expired"), "{journal:?}");
    cluster.kill_all();
    verify(&records, &[job], &model.exchanges()).assert_ok(&cluster.folder.display().to_string());
}

#[test]
fn server_is_unready_while_database_files_are_moved() {
    let model = Model::start(Random::new(seed()));
    let cluster = cluster("files-moved", 1, &model);
    let mut jobs = vec![submit(&cluster.addresses(), "plain-first")];
    for (round, ending) in ["", "-wal", "-shm"].into_iter().enumerate() {
        let (path, aside) = (database(&cluster, ending), cluster.folder.join("aside"));
        fs::rename(&path, &aside).unwrap();
        wait_until("the server is unready", || !is_ready(cluster.address()));
        assert!(try_submit(cluster.address(), &format!("plain-{round}")).is_none(), "{ending}");
        let says = |text: &str| {
            wait_until(text, || cluster.coordinators[0].log().matches(text).count() > round);
        };
        says("refusing all writes");
        fs::rename(&aside, &path).unwrap();
        says("the database files are back");
        cluster.coordinators[0].wait_until_ready();
        jobs.push(submit(&cluster.addresses(), &format!("plain-after-{round}")));
    }
    let records = Records::read(&cluster);
    cluster.kill_all();
    let mut report = verify(&records, &jobs, &model.exchanges());
    report.problems.extend(records.compare(StoreKind::Sqlite, &cluster.database));
    report.assert_ok(&cluster.folder.display().to_string());
}

#[test]
fn server_with_replaced_database_acknowledges_no_run() {
    let model = Model::start(Random::new(seed()));
    let cluster = cluster("files-replaced", 0, &model);
    submit(&cluster.addresses(), "plain-first");
    fs::copy(database(&cluster, ""), cluster.folder.join("other")).unwrap();
    fs::rename(cluster.folder.join("other"), database(&cluster, "")).unwrap();
    assert!(try_submit(cluster.address(), "plain-second").is_none());
    for _ in 0..QUESTIONS {
        assert!(!is_ready(cluster.address()));
    }
}

#[test]
fn second_server_on_a_linked_database_is_refused() {
    let model = Model::start(Random::new(seed()));
    let cluster = cluster("files-linked", 0, &model);
    let (symbolic, hard) = (cluster.folder.join("symbolic.db"), cluster.folder.join("hard.db"));
    std::os::unix::fs::symlink(database(&cluster, ""), &symbolic).unwrap();
    fs::hard_link(database(&cluster, ""), &hard).unwrap();
    for link in [symbolic, hard] {
        let arguments = ["serve", "--no-runner", "--listen", "127.0.0.1:0", "--db"];
        let output = slipform(&cluster.folder).args(arguments).arg(&link).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && errors.contains("is in use by another"), "{errors}");
    }
    assert!(is_ready(cluster.address()));
}

#[test]
fn terminated_server_leaves_no_write_ahead_log() {
    let model = Model::start(Random::new(seed()));
    let cluster = cluster("files-closed", 1, &model);
    let job = submit(&cluster.addresses(), "plain-first");
    Records::read(&cluster);
    cluster.coordinators[0].signal(Signal::TERM);
    assert!(cluster.coordinators[0].wait_for_exit().success(), "{}", cluster.coordinators[0].log());
    for ending in ["-wal", "-shm"] {
        assert!(!database(&cluster, ending).exists(), "{ending} is left");
    }
    cluster.coordinators[0].restart();
    let records = Records::read(&cluster);
    cluster.kill_all();
    verify(&records, &[job], &model.exchanges()).assert_ok(&cluster.folder.display().to_string());
}

#[test]
fn backup_under_load_has_every_acknowledged_run() {
    let mut random = Random::new(seed());
    let model = Model::start(random.fork());
    let mut cluster = cluster("backup", 2, &model);
    let load = Load::new(cluster.addresses());
    let copy = cluster.folder.join("copy.db");
    let acknowledged = std::thread::scope(|scope| {
        let _guard = load.run_until_dropped();
        for _ in 0..4 {
            let (load, random) = (&load, random.fork());
            scope.spawn(move || load.run_client(random));
        }
        load.wait_for_jobs(20);
        let jobs = load.jobs();
        let output =
            slipform(&cluster.folder).args(["backup", "copy.db", "--db", "store.db"]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        load.wait_for_jobs(load.jobs().len() + 10);
        jobs
    });
    cluster.kill_all();
    for ending in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(database(&cluster, ending));
    }
    fs::rename(&copy, database(&cluster, "")).unwrap();
    cluster.coordinators[0].restart();
    cluster.coordinators[0].wait_until_ready();
    cluster.runners.clear();
    cluster.add_runner(4);
    let records = Records::read(&cluster);
    let known: BTreeSet<&str> = records.runs.iter().map(|run| run["run_id"].as_str().unwrap()).collect();
    for job in &acknowledged {
        assert!(known.contains(job.run_id.as_str()), "{} is missing in the copy", job.task);
    }
    cluster.kill_all();
    let problems = records.compare(StoreKind::Sqlite, &cluster.database);
    assert!(problems.is_empty(), "{problems:?}");
}
