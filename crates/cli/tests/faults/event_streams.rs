//! Event streams with several coordinators, killed coordinators and cut connections: every reader receives every event
//! once and in order.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde_json::Value;
use slipform_testkit::PostgresServer;

use crate::support::cluster::{Cluster, ClusterPlan, StoreKind};
use crate::support::consistency::{Report, verify};
use crate::support::load::Load;
use crate::support::model::Model;
use crate::support::random::{Random, seed};
use crate::support::reader::read;
use crate::support::records::Records;

/// The number of runs to submit.
const JOBS: usize = 40;

/// The number of readers of the stream of all sessions.
const GLOBAL_READERS: usize = 3;

/// The number of kills of the single coordinator.
const KILLS: usize = 5;

/// The most requests of clients that fail before the coordinator is restarted.
const FAILURES_MAX: usize = 50;

#[test]
fn readers_of_three_coordinators_receive_every_event() {
    let Some(server) = PostgresServer::start() else { return };
    let store = StoreKind::Postgres(&server);
    let plan = ClusterPlan { name: "event-streams-postgres", store, coordinators: 3, runners: 20, slots: 1 };
    read_streams_during(&plan, |load, _, _| {
        load.wait_for_jobs(JOBS);
    });
}

#[test]
fn readers_of_killed_coordinator_receive_every_event() {
    let plan = ClusterPlan {
        name: "event-streams-sqlite",
        store: StoreKind::Sqlite,
        coordinators: 1,
        runners: 3,
        slots: 4,
    };
    read_streams_during(&plan, |load, cluster, random| {
        for kill in 1..=KILLS {
            load.wait_for_jobs(kill * JOBS / KILLS);
            cluster.coordinators[0].kill();
            load.wait_for_failures(load.failures() + random.below(FAILURES_MAX));
            cluster.coordinators[0].restart();
        }
    });
}

/// Reads all streams while the scenario runs, and compares them with the journals.
fn read_streams_during(plan: &ClusterPlan<'_>, scenario: impl FnOnce(&Load, &Cluster, &mut Random)) {
    let seed = seed();
    println!("{}: SLIPFORM_TORTURE_SEED={seed}", plan.name);
    let mut random = Random::new(seed);
    let model = Model::start(random.fork());
    let cluster = Cluster::build(plan, &model);
    let (load, addresses, final_records) =
        (Load::new(cluster.addresses()), cluster.addresses(), OnceLock::<Records>::new());
    std::thread::scope(|scope| {
        let (load, final_records, addresses) = (&load, &final_records, &addresses);
        let guard = load.run_until_dropped();
        let clients: Vec<_> = (0..8).map(|_| random.fork()).collect();
        let clients: Vec<_> =
            clients.into_iter().map(|random| scope.spawn(move || load.run_client(random))).collect();
        let global_readers: Vec<_> = (0..GLOBAL_READERS).map(|_| random.fork()).collect();
        let global_readers: Vec<_> = global_readers
            .into_iter()
            .map(|random| {
                scope.spawn(move || {
                    read(addresses, "/events/stream", random, |events| has_all_events(events, final_records))
                })
            })
            .collect();
        let mut forks = random.fork();
        let readers = scope.spawn(move || {
            // Starts one reader for each submitted session.
            let mut readers = Vec::new();
            while let Some(job) = load.next_job(readers.len()) {
                let random = forks.fork();
                readers.push(
                    scope.spawn(move || read_session(addresses, job.session_id, random, final_records)),
                );
            }
            readers
        });
        scenario(load, &cluster, &mut random);
        drop(guard);
        clients.into_iter().for_each(|client| client.join().unwrap());
        let _ = final_records.set(Records::read(&cluster));
        let records = final_records.get().unwrap();
        for reader in readers.join().unwrap() {
            let (session, events) = reader.join().unwrap();
            assert_eq!(events, records.journals[&session], "seed {seed}: the stream of {session}");
        }
        for reader in global_readers {
            let mut streamed: BTreeMap<String, Vec<Value>> = BTreeMap::new();
            for event in reader.join().unwrap() {
                streamed.entry(event["session_id"].as_str().unwrap().to_owned()).or_default().push(event);
            }
            for (session, journal) in &records.journals {
                assert_eq!(&streamed[session], journal, "seed {seed}: {session} in the global stream");
            }
        }
    });
    cluster.kill_all();
    let (records, jobs) = (final_records.get().unwrap(), load.jobs());
    let mut report = verify(records, &jobs, &model.exchanges());
    report.problems.extend(records.compare(plan.store, &cluster.database));
    let Report { runs, expired, .. } = report;
    println!("{}: {} jobs in {runs} runs, {expired} leases expired", plan.name, jobs.len());
    report.assert_ok(&format!("SLIPFORM_TORTURE_SEED={seed}, {}", cluster.folder.display()));
}

fn read_session(
    addresses: &[std::net::SocketAddr],
    session: String,
    random: Random,
    final_records: &OnceLock<Records>,
) -> (String, Vec<Value>) {
    let path = format!("/sessions/{session}/events/stream");
    let events = read(addresses, &path, random, |events| {
        final_records.get().is_some_and(|records| events.len() >= records.journals[&session].len())
    });
    (session, events)
}

fn has_all_events(events: &[Value], final_records: &OnceLock<Records>) -> bool {
    final_records.get().is_some_and(|records| events.len() >= records.journals.values().map(Vec::len).sum())
}
