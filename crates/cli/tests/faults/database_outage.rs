//! PostgreSQL crashes under load and restarts.

use std::time::Duration;

use crate::cluster::{Cluster, ClusterPlan, StoreKind};
use crate::consistency::verify;
use crate::http;
use crate::load::Load;
use crate::model::Model;
use crate::postgres::Postgres;
use crate::random::{Random, seed};
use crate::records::Records;
use crate::wait::wait_until;

/// The lengths of the outages: shorter and longer than a lease.
const OUTAGES: [Duration; 3] = [Duration::ZERO, Duration::from_millis(500), Duration::from_secs(5)];

#[test]
fn postgres_outages_lose_no_runs() {
    let Some(server) = Postgres::start() else { return };
    let seed = seed();
    println!("database outage: SLIPFORM_TORTURE_SEED={seed}");
    let mut random = Random::new(seed);
    let model = Model::start(random.fork());
    let store = StoreKind::Postgres(&server);
    let cluster = Cluster::build(
        &ClusterPlan { name: "database-outage", store, coordinators: 2, runners: 3, slots: 4 },
        &model,
    );
    let load = Load::new(cluster.addresses());
    let wait_for_jobs =
        |count: usize| wait_until("runs are submitted", || (load.jobs().len() >= count).then_some(()));
    std::thread::scope(|scope| {
        let _guard = load.run_until_dropped();
        for _ in 0..8 {
            let (load, random) = (&load, random.fork());
            scope.spawn(move || load.run_client(random));
        }
        for outage in OUTAGES {
            wait_for_jobs(load.jobs().len() + 10);
            server.crash();
            wait_for_status(&cluster, 503);
            std::thread::sleep(outage);
            server.start_server();
            wait_for_status(&cluster, 200);
        }
        wait_for_jobs(load.jobs().len() + 10);
    });
    let records = Records::read(&cluster);
    cluster.kill_all();
    let jobs = load.jobs();
    let mut report = verify(&records, &jobs, &model.exchanges());
    report.problems.extend(records.compare(store, &cluster.database));
    println!(
        "database outage: {} jobs in {} runs, {} leases expired",
        jobs.len(),
        report.runs,
        report.expired
    );
    report.assert_ok(&format!("SLIPFORM_TORTURE_SEED={seed}, {}", cluster.folder.display()));
}

/// Waits until every coordinator answers `/readyz` with this status.
fn wait_for_status(cluster: &Cluster, status: u16) {
    for address in cluster.addresses() {
        wait_until(&format!("{address} answers {status}"), || {
            http::get(address, "/readyz").ok().filter(|response| response.status == status)
        });
    }
}
