//! Kills coordinators and runners at random moments under load. In between, the disk of a SQLite database is full or the
//! clock jumps, connections of runners are cut, and PostgreSQL crashes.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::time::Instant;

use slipform_testkit::{PostgresServer, wait_until};

use crate::support::clock::TestClock;
use crate::support::cluster::{Cluster, ClusterPlan, Process, StoreKind, wait_for_lease_expiry};
use crate::support::consistency::{Report, verify};
use crate::support::http;
use crate::support::load::Load;
use crate::support::model::Model;
use crate::support::proxy::Proxy;
use crate::support::random::{Random, seed};
use crate::support::records::Records;

/// The number of kills without `SLIPFORM_TORTURE_KILLS`.
const KILLS: usize = 20;

/// The number of clients. Most of them wait for runs whose runner was killed.
const CLIENTS: usize = 12;

/// The number of runners, and the slots of each.
const RUNNERS: usize = 3;
const SLOTS: usize = 3;

/// The head of the table of results.
const TABLE_HEAD: &str =
    "| store | faults | acknowledged | lost | doubled | repeated calls |\n|---|---|---|---|---|---|\n";

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

/// The kills after which another fault happens.
const KILLS_PER_FAULT: usize = 5;

/// The size of a full disk. SQLite writes from the start of its log again after a checkpoint, so the log's size is no
/// limit.
const DISK_BYTES: u64 = 256 * 1024;

/// The furthest jump of the clock, in seconds: a day.
const JUMP_MAX: usize = 86_400;

/// A fault other than a kill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    FullDisk,
    ClockJump,
    CutConnections,
    DatabaseCrash,
}

impl Fault {
    /// Returns the faults that this store can have.
    fn all(store: StoreKind<'_>) -> &'static [Fault] {
        match store {
            StoreKind::Sqlite => &[Fault::FullDisk, Fault::ClockJump, Fault::CutConnections],
            StoreKind::Postgres(_) => &[Fault::CutConnections, Fault::DatabaseCrash],
        }
    }

    fn name(self) -> &'static str {
        match self {
            Fault::FullDisk => "full disks",
            Fault::ClockJump => "clock jumps",
            Fault::CutConnections => "cut connections",
            Fault::DatabaseCrash => "database crashes",
        }
    }
}

/// A cluster with what the faults need.
struct Torture<'a> {
    store: StoreKind<'a>,
    cluster: Cluster,
    proxies: Vec<Proxy>,
    clock: Option<TestClock>,
    model: Model,
    load: Load,
}

impl Torture<'_> {
    fn build<'a>(name: &str, store: StoreKind<'a>, coordinators: usize, random: &mut Random) -> Torture<'a> {
        let model = Model::start(random.fork());
        let clock = matches!(store, StoreKind::Sqlite).then(|| TestClock::build(name)).flatten();
        let variables = clock.as_ref().map(TestClock::variables).unwrap_or_default();
        let plan = ClusterPlan { name, store, coordinators, runners: 0, slots: 0 };
        let mut cluster = Cluster::build_with(&plan, &model, &variables);
        let mut proxies = Vec::new();
        for number in 0..RUNNERS {
            let proxy = Proxy::start(cluster.coordinators[number % coordinators].address);
            cluster.add_runner_of(proxy.address, SLOTS);
            proxies.push(proxy);
        }
        let load = Load::new(cluster.addresses());
        Torture { store, cluster, proxies, clock, model, load }
    }

    /// Causes a fault and waits until it is over. Returns false if this machine cannot cause it.
    fn cause(&self, fault: Fault, random: &mut Random) -> bool {
        match fault {
            Fault::FullDisk => {
                let (coordinator, began) = (&self.cluster.coordinators[0], Instant::now());
                coordinator.limit_file_size(Some(DISK_BYTES));
                self.wait_for_status(503);
                if random.below(2) == 0 {
                    wait_for_lease_expiry(began);
                }
                coordinator.limit_file_size(None);
                self.wait_for_status(200);
            }
            Fault::ClockJump => {
                let Some(clock) = &self.clock else { return false };
                let seconds = i64::try_from(random.below(2 * JUMP_MAX)).unwrap();
                clock.set(seconds - i64::try_from(JUMP_MAX).unwrap());
            }
            Fault::CutConnections => self.proxies.iter().for_each(Proxy::cut),
            Fault::DatabaseCrash => {
                let StoreKind::Postgres(server) = self.store else { return false };
                server.crash();
                self.wait_for_status(503);
                server.restart();
                self.wait_for_status(200);
            }
        }
        true
    }

    /// Waits until every coordinator answers `/readyz` with this status.
    fn wait_for_status(&self, status: u16) {
        for address in self.cluster.addresses() {
            wait_until(&format!("{address} answers {status}"), || {
                http::get(address, "/readyz").is_ok_and(|response| response.status == status)
            });
        }
    }
}

fn torture(name: &str, store: StoreKind<'_>, coordinators: usize) {
    let (kills, seed) = (kills(), seed());
    println!("{name}: {kills} kills, SLIPFORM_TORTURE_SEED={seed}");
    let began = Instant::now();
    let mut random = Random::new(seed);
    let torture = Torture::build(name, store, coordinators, &mut random);
    let Torture { cluster, model, load, .. } = &torture;
    let mut faults: BTreeMap<&str, usize> = BTreeMap::from([("kills", kills)]);
    std::thread::scope(|scope| {
        let _guard = load.run_until_dropped();
        for _ in 0..CLIENTS {
            let random = random.fork();
            scope.spawn(move || load.run_client(random));
        }
        let mut kinds = Fault::all(store).iter().cycle();
        for number in 1..=kills {
            kill(cluster, model, load, &mut random);
            if number % KILLS_PER_FAULT == 0
                && let Some(fault) = kinds.next()
            {
                cluster.coordinators.iter().for_each(Process::wait_until_ready);
                if torture.cause(*fault, &mut random) {
                    *faults.entry(fault.name()).or_default() += 1;
                }
            }
        }
    });
    let records = Records::read(cluster);
    cluster.kill_all();
    let (jobs, exchanges) = (load.jobs(), model.exchanges());
    let mut report = verify(&records, &jobs, &exchanges);
    report.problems.extend(records.compare(store, &cluster.database));
    println!(
        "{name}: {} jobs in {} runs, {} model calls, {} leases expired, {} lost, {:.0} s",
        jobs.len(),
        report.runs,
        exchanges.len(),
        report.expired,
        report.lost,
        began.elapsed().as_secs_f64()
    );
    print_row(name, &faults, jobs.len(), &report);
    report.assert_ok(&format!("SLIPFORM_TORTURE_SEED={seed}, {}", cluster.folder.display()));
}

/// Prints the row of the table, and appends it to the file that `cargo xtask torture` prints.
fn print_row(name: &str, faults: &BTreeMap<&str, usize>, acknowledged: usize, report: &Report) {
    let faults: Vec<String> = faults.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    let Report { missing, doubled, repeated, .. } = report;
    let row =
        format!("| {name} | {} | {acknowledged} | {missing} | {doubled} | {repeated} |\n", faults.join(", "));
    print!("{TABLE_HEAD}{row}");
    if let Some(path) = std::env::var_os("SLIPFORM_TORTURE_TABLE") {
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
        file.write_all(row.as_bytes()).unwrap();
    }
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
