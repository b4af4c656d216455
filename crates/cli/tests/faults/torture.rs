//! Coordinators and runners killed at random moments under load.

use std::time::Duration;

use crate::cluster::{Cluster, ClusterPlan, Process, StoreKind};
use crate::load::Load;
use crate::model::Model;
use crate::postgres::Postgres;
use crate::random::{Random, seed};
use crate::records::Records;
use crate::verdict::judge;

/// How many kills there are unless more are asked for.
const KILLS: usize = 20;

/// How many clients there are: most of them wait for runs whose runner was killed.
const CLIENTS: usize = 12;

#[test]
fn sqlite() {
    torture("torture-sqlite", StoreKind::Sqlite, 1);
}

#[test]
fn postgres() {
    if let Some(server) = Postgres::start() {
        torture("torture-postgres", StoreKind::Postgres(&server), 2);
        let deadlocks = server.deadlocks();
        assert!(deadlocks.is_empty(), "verbs lock in one order, and yet: {}", deadlocks.join("\n\n"));
    }
}

fn torture(name: &str, place: StoreKind<'_>, coordinators: usize) {
    let (kills, seed) = (kills(), seed());
    println!("{name}: {kills} kills, SLIPFORM_TORTURE_SEED={seed}");
    let began = std::time::Instant::now();
    let mut random = Random::new(seed);
    let model = Model::start(random.fork());
    let cluster = Cluster::build(&ClusterPlan { name, place, coordinators, runners: 3, slots: 3 }, &model);
    let load = Load::new(cluster.addresses());
    std::thread::scope(|scope| {
        let _working = load.until_dropped();
        for _ in 0..CLIENTS {
            let (load, random) = (&load, random.fork());
            scope.spawn(move || load.work(random));
        }
        (0..kills).for_each(|_| kill(&cluster, &mut random));
    });
    let records = Records::read(&cluster);
    cluster.kill_all();
    let (jobs, asked) = (load.jobs(), model.asked());
    let mut verdict = judge(&records, &jobs, &asked);
    verdict.problems.extend(records.compare(place, &cluster.database));
    println!(
        "{name}: {kills} kills, {} jobs in {} runs, {} model calls, {} leases expired, {} lost, {:.0} s",
        jobs.len(),
        verdict.runs,
        asked.len(),
        verdict.expired,
        verdict.lost,
        began.elapsed().as_secs_f64()
    );
    verdict.check(&format!("SLIPFORM_TORTURE_SEED={seed}, {}", cluster.folder.display()));
}

fn kills() -> usize {
    let given = std::env::var("SLIPFORM_TORTURE_KILLS").ok();
    given.map_or(KILLS, |kills| kills.parse().expect("SLIPFORM_TORTURE_KILLS is a number"))
}

/// Kills one of the processes at some moment, and starts it again some time later.
fn kill(cluster: &Cluster, random: &mut Random) {
    std::thread::sleep(random.millis(200, 800));
    let processes: Vec<&Process> = cluster.coordinators.iter().chain(&cluster.runners).collect();
    let victim = processes[random.below(processes.len())];
    victim.kill();
    std::thread::sleep(random.millis(0, 300).min(Duration::from_millis(250)));
    victim.restart();
}
