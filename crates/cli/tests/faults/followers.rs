//! Many coordinators, many runners, and readers that are cut off: every reader gets every event once.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde_json::Value;

use crate::cluster::{Cluster, ClusterPlan, StoreKind};
use crate::load::Load;
use crate::model::Model;
use crate::postgres::Postgres;
use crate::random::{Random, seed};
use crate::reader::read;
use crate::records::Records;
use crate::verdict::judge;
use crate::wait::until;

/// How many runs are asked for.
const JOBS: usize = 40;

/// How many readers follow all sessions.
const OVERSEERS: usize = 3;

/// How often the only coordinator is killed.
const KILLS: usize = 5;

#[test]
fn readers_of_three_coordinators_miss_nothing() {
    let Some(server) = Postgres::start() else { return };
    let place = StoreKind::Postgres(&server);
    let plan = ClusterPlan { name: "followers-postgres", place, coordinators: 3, runners: 20, slots: 1 };
    follow(&plan, |load, _, _| {
        until("enough is asked for", || (load.jobs().len() >= JOBS).then_some(()));
    });
}

#[test]
fn readers_of_a_coordinator_that_is_killed_miss_nothing() {
    let plan = ClusterPlan {
        name: "followers-sqlite",
        place: StoreKind::Sqlite,
        coordinators: 1,
        runners: 3,
        slots: 4,
    };
    follow(&plan, |load, cluster, random| {
        for kill in 1..=KILLS {
            until("enough is asked for", || (load.jobs().len() >= kill * JOBS / KILLS).then_some(()));
            cluster.coordinators[0].kill();
            std::thread::sleep(random.millis(0, 200));
            cluster.coordinators[0].restart();
        }
    });
}

/// Follows everything that happens while this does.
fn follow(plan: &ClusterPlan<'_>, happens: impl FnOnce(&Load, &Cluster, &mut Random)) {
    let seed = seed();
    println!("{}: SLIPFORM_TORTURE_SEED={seed}", plan.name);
    let mut random = Random::new(seed);
    let model = Model::start(random.fork());
    let cluster = Cluster::build(plan, &model);
    let (load, addresses, kept) =
        (Load::new(cluster.addresses()), cluster.addresses(), OnceLock::<Records>::new());
    std::thread::scope(|scope| {
        let (load, kept, addresses) = (&load, &kept, &addresses);
        let working = load.until_dropped();
        let clients: Vec<_> = (0..8).map(|_| random.fork()).collect();
        let clients: Vec<_> =
            clients.into_iter().map(|random| scope.spawn(move || load.work(random))).collect();
        let overseers: Vec<_> = (0..OVERSEERS).map(|_| random.fork()).collect();
        let overseers: Vec<_> = overseers
            .into_iter()
            .map(|random| {
                scope.spawn(move || read(addresses, "/events/stream", random, |events| is_all(events, kept)))
            })
            .collect();
        let mut forks = random.fork();
        let readers = scope.spawn(move || {
            // One for each session that somebody has asked for by now.
            let mut readers = Vec::new();
            while !load.is_over() {
                for job in load.jobs().into_iter().skip(readers.len()) {
                    let random = forks.fork();
                    readers
                        .push(scope.spawn(move || follow_session(addresses, job.session_id, random, kept)));
                }
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            readers
        });
        happens(load, &cluster, &mut random);
        drop(working);
        clients.into_iter().for_each(|client| client.join().unwrap());
        let _ = kept.set(Records::read(&cluster));
        let records = kept.get().unwrap();
        for reader in readers.join().unwrap() {
            let (session, events) = reader.join().unwrap();
            assert_eq!(events, records.journals[&session], "seed {seed}: a reader of {session}");
        }
        for overseer in overseers {
            let mut told: BTreeMap<String, Vec<Value>> = BTreeMap::new();
            for event in overseer.join().unwrap() {
                told.entry(event["session_id"].as_str().unwrap().to_owned()).or_default().push(event);
            }
            for (session, journal) in &records.journals {
                assert_eq!(&told[session], journal, "seed {seed}: {session}, to a reader of everything");
            }
        }
    });
    cluster.kill_all();
    let records = kept.get().unwrap();
    let mut verdict = judge(records, &load.jobs(), &model.asked());
    verdict.problems.extend(records.compare(plan.place, &cluster.database));
    println!(
        "{}: {} jobs in {} runs, {} leases expired",
        plan.name,
        load.jobs().len(),
        verdict.runs,
        verdict.expired
    );
    verdict.check(&format!("SLIPFORM_TORTURE_SEED={seed}, {}", cluster.folder.display()));
}

fn follow_session(
    addresses: &[std::net::SocketAddr],
    session: String,
    random: Random,
    kept: &OnceLock<Records>,
) -> (String, Vec<Value>) {
    let path = format!("/sessions/{session}/events/stream");
    let events = read(addresses, &path, random, |events| {
        kept.get().is_some_and(|records| events.len() >= records.journals[&session].len())
    });
    (session, events)
}

fn is_all(events: &[Value], kept: &OnceLock<Records>) -> bool {
    kept.get().is_some_and(|records| events.len() >= records.journals.values().map(Vec::len).sum())
}
