//! PostgreSQL crashes under load and restarts.

use std::time::Instant;

use slipform_testkit::{PostgresServer, wait_until};

use crate::support::cluster::{Cluster, ClusterPlan, StoreKind, wait_for_lease_expiry};
use crate::support::consistency::verify;
use crate::support::http;
use crate::support::load::Load;
use crate::support::model::Model;
use crate::support::random::{Random, seed};
use crate::support::records::Records;

/// How long an outage lasts after all coordinators have noticed it.
#[derive(Clone, Copy)]
enum Outage {
    /// No longer.
    Noticed,
    /// Until this many requests of clients have failed.
    FailedRequests(usize),
    /// Until all leases from before the outage have expired.
    ExpiredLeases,
}

const OUTAGES: [Outage; 3] = [Outage::Noticed, Outage::FailedRequests(100), Outage::ExpiredLeases];

#[test]
fn postgres_outages_lose_no_runs() {
    let Some(server) = PostgresServer::start() else { return };
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
    std::thread::scope(|scope| {
        let _guard = load.run_until_dropped();
        for _ in 0..8 {
            let (load, random) = (&load, random.fork());
            scope.spawn(move || load.run_client(random));
        }
        for outage in OUTAGES {
            load.wait_for_jobs(load.jobs().len() + 10);
            let began = Instant::now();
            server.crash();
            wait_for_status(&cluster, 503);
            match outage {
                Outage::Noticed => {}
                Outage::FailedRequests(count) => load.wait_for_failures(load.failures() + count),
                Outage::ExpiredLeases => wait_for_lease_expiry(began),
            }
            server.restart();
            wait_for_status(&cluster, 200);
        }
        load.wait_for_jobs(load.jobs().len() + 10);
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
            http::get(address, "/readyz").is_ok_and(|response| response.status == status)
        });
    }
}
