//! Kills coordinators and runners at random moments under load.

use slipform_testkit::{PostgresServer, wait_until};

use crate::support::cluster::{Cluster, ClusterPlan, Process, StoreKind};
use crate::support::consistency::verify;
use crate::support::load::Load;
use crate::support::model::Model;
use crate::support::random::{Random, seed};
use crate::support::records::Records;

/// The number of kills without `SLIPFORM_TORTURE_KILLS`.
const KILLS: usize = 20;

/// The number of clients. Most of them wait for runs whose runner was killed.
const CLIENTS: usize = 12;

/// The most model requests between two kills.
const REQUESTS_MAX: usize = 30;

/// The most acknowledged runs between two kills.
const RUNS_MAX: usize = 6;

/// The most requests of clients that fail while a process is down.
const FAILURES_MAX: usize = 100;

/// The most model requests that other runners send while a process is down.
const REQUESTS_DOWN_MAX: usize = 8;

// `cargo xtask torture` selects these two tests by name.
#[test]
fn random_kills_lose_nothing_on_sqlite() {
    torture("torture-sqlite", StoreKind::Sqlite, 1);
}

#[test]
fn random_kills_lose_nothing_on_postgres() {
    if let Some(server) = PostgresServer::start() {
        torture("torture-postgres", StoreKind::Postgres(&server), 2);
        let deadlocks = server.deadlocks();
        assert!(
            deadlocks.is_empty(),
            "all transactions lock in one order, but deadlocked: {}",
            deadlocks.join("\n\n")
        );
    }
}

fn torture(name: &str, store: StoreKind<'_>, coordinators: usize) {
    let (kills, seed) = (kills(), seed());
    println!("{name}: {kills} kills, SLIPFORM_TORTURE_SEED={seed}");
    let began = std::time::Instant::now();
    let mut random = Random::new(seed);
    let model = Model::start(random.fork());
    let cluster = Cluster::build(&ClusterPlan { name, store, coordinators, runners: 3, slots: 3 }, &model);
    let load = Load::new(cluster.addresses());
    std::thread::scope(|scope| {
        let _guard = load.run_until_dropped();
        for _ in 0..CLIENTS {
            let (load, random) = (&load, random.fork());
            scope.spawn(move || load.run_client(random));
        }
        (0..kills).for_each(|_| kill(&cluster, &model, &load, &mut random));
    });
    let records = Records::read(&cluster);
    cluster.kill_all();
    let (jobs, exchanges) = (load.jobs(), model.exchanges());
    let mut report = verify(&records, &jobs, &exchanges);
    report.problems.extend(records.compare(store, &cluster.database));
    println!(
        "{name}: {kills} kills, {} jobs in {} runs, {} model calls, {} leases expired, {} lost, {:.0} s",
        jobs.len(),
        report.runs,
        exchanges.len(),
        report.expired,
        report.lost,
        began.elapsed().as_secs_f64()
    );
    report.assert_ok(&format!("SLIPFORM_TORTURE_SEED={seed}, {}", cluster.folder.display()));
}

fn kills() -> usize {
    let variable = std::env::var("SLIPFORM_TORTURE_KILLS").ok();
    variable.map_or(KILLS, |kills| kills.parse().expect("SLIPFORM_TORTURE_KILLS is a number"))
}

/// Kills a random process after a random number of model requests or acknowledged runs. Restarts it after a random number
/// of requests that fail because of it, or that other processes make without it.
fn kill(cluster: &Cluster, model: &Model, load: &Load, random: &mut Random) {
    if random.below(2) == 0 {
        let requests = model.requests() + random.below(REQUESTS_MAX);
        wait_until("runners call the model", || model.requests() >= requests);
    } else {
        load.wait_for_jobs(load.jobs().len() + random.below(RUNS_MAX));
    }
    let processes: Vec<&Process> = cluster.coordinators.iter().chain(&cluster.runners).collect();
    let victim = processes[random.below(processes.len())];
    victim.kill();
    let failures = load.failures() + random.below(FAILURES_MAX);
    let requests = model.requests() + random.below(REQUESTS_DOWN_MAX);
    wait_until(&format!("clients fail or runners proceed without {}", victim.name), || {
        load.failures() >= failures || model.requests() >= requests
    });
    victim.restart();
}
