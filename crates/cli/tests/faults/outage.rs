//! A database that goes away under load, and comes back.

use std::time::Duration;

use crate::cluster::{Cluster, ClusterPlan, StoreKind};
use crate::http;
use crate::load::Load;
use crate::model::Model;
use crate::postgres::Postgres;
use crate::random::{Random, seed};
use crate::records::Records;
use crate::verdict::judge;
use crate::wait::until;

/// How long the database is away: shorter than leases are, and longer.
const OUTAGES: [Duration; 3] = [Duration::ZERO, Duration::from_millis(500), Duration::from_secs(5)];

#[test]
fn nothing_is_lost_when_postgres_is_stopped_and_started() {
    let Some(server) = Postgres::start() else { return };
    let seed = seed();
    println!("outage: SLIPFORM_TORTURE_SEED={seed}");
    let mut random = Random::new(seed);
    let model = Model::start(random.fork());
    let place = StoreKind::Postgres(&server);
    let cluster =
        Cluster::build(&ClusterPlan { name: "outage", place, coordinators: 2, runners: 3, slots: 4 }, &model);
    let load = Load::new(cluster.addresses());
    let done = |count: usize| until("runs are asked for", || (load.jobs().len() >= count).then_some(()));
    std::thread::scope(|scope| {
        let _working = load.until_dropped();
        for _ in 0..8 {
            let (load, random) = (&load, random.fork());
            scope.spawn(move || load.work(random));
        }
        for outage in OUTAGES {
            done(load.jobs().len() + 10);
            server.crash();
            wait_for(&cluster, 503);
            std::thread::sleep(outage);
            server.go_on();
            wait_for(&cluster, 200);
        }
        done(load.jobs().len() + 10);
    });
    let records = Records::read(&cluster);
    cluster.kill_all();
    let jobs = load.jobs();
    let mut verdict = judge(&records, &jobs, &model.asked());
    verdict.problems.extend(records.compare(place, &cluster.database));
    println!("outage: {} jobs in {} runs, {} leases expired", jobs.len(), verdict.runs, verdict.expired);
    verdict.check(&format!("SLIPFORM_TORTURE_SEED={seed}, {}", cluster.folder.display()));
}

/// Waits until all coordinators say this of themselves.
fn wait_for(cluster: &Cluster, status: u16) {
    for address in cluster.addresses() {
        until(&format!("{address} says {status}"), || {
            http::get(address, "/readyz").ok().filter(|answer| answer.status == status)
        });
    }
}
