//! A project with its processes: coordinators and runners that are started, hurt and started again.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU16, Ordering};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::http;
use crate::model::{AGENTS, Model};
use crate::postgres::Postgres;
use crate::wait::until;

/// Ports that the system gives to nobody by itself: a runner that asks for a coordinator which is away must not be
/// given its port for the other end.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// How long leases are. On a machine that is busy with other tests, shorter ones expire by themselves.
pub(crate) const LEASE_SECONDS: u32 = 3;

/// Where runs are kept.
#[derive(Clone, Copy)]
pub(crate) enum StoreKind<'a> {
    /// A file in the project.
    Sqlite,
    /// A database of its own on a server.
    Postgres(&'a Postgres),
}

/// How a cluster is built.
pub(crate) struct ClusterPlan<'a> {
    pub(crate) name: &'a str,
    pub(crate) place: StoreKind<'a>,
    pub(crate) coordinators: usize,
    pub(crate) runners: usize,
    pub(crate) slots: usize,
}

/// A project with its processes.
pub(crate) struct Cluster {
    pub(crate) folder: PathBuf,
    pub(crate) database: String,
    pub(crate) coordinators: Vec<Process>,
    pub(crate) runners: Vec<Process>,
}

impl Cluster {
    /// Builds a cluster and waits until its coordinators answer.
    pub(crate) fn build(plan: &ClusterPlan<'_>, model: &Model) -> Cluster {
        let folder = folder(plan.name, model);
        let database = match plan.place {
            StoreKind::Sqlite => format!("sqlite:{}", folder.join("kept.db").display()),
            StoreKind::Postgres(server) => server.database(plan.name),
        };
        let mut cluster = Cluster { folder, database, coordinators: Vec::new(), runners: Vec::new() };
        for number in 0..plan.coordinators {
            let address = free_address();
            let arguments =
                ["serve", "--no-runner", "--db", &cluster.database, "--listen", &address.to_string()];
            let process =
                Process::start(&cluster.folder, &format!("coordinator-{number}"), address, &arguments);
            cluster.coordinators.push(process);
        }
        cluster.coordinators.iter().for_each(Process::wait_until_ready);
        for _ in 0..plan.runners {
            cluster.add_runner(plan.slots);
        }
        cluster
    }

    /// Adds a runner that works for one of the coordinators.
    pub(crate) fn add_runner(&mut self, slots: usize) {
        let number = self.runners.len();
        let address = self.coordinators[number % self.coordinators.len()].address;
        let (url, name) = (format!("http://{address}"), format!("runner-{number}"));
        let arguments = ["runner", "--coordinator", &url, "--slots", &slots.to_string(), "--name", &name];
        self.runners.push(Process::start(&self.folder, &name, address, &arguments));
    }

    /// Where the first coordinator listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.coordinators[0].address
    }

    /// Where all of them listen.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.coordinators.iter().map(|process| process.address).collect()
    }

    /// Asks the first coordinator for something that is there.
    pub(crate) fn get(&self, path: &str) -> Value {
        until(path, || http::get(self.address(), path).ok().filter(|answer| answer.status == 200)).body
    }

    /// Ends all processes, as a power cut would.
    pub(crate) fn kill_all(&self) {
        self.runners.iter().chain(&self.coordinators).for_each(Process::kill);
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.kill_all();
    }
}

/// A project of the agents that the model plays.
fn folder(name: &str, model: &Model) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("faults-{name}"));
    let _ = fs::remove_dir_all(&folder);
    for part in ["agents", "notes"] {
        fs::create_dir_all(folder.join(part)).unwrap();
    }
    for (agent, text) in AGENTS {
        fs::write(folder.join(format!("agents/{agent}.yaml")), text).unwrap();
    }
    for number in 0..10 {
        fs::write(folder.join(format!("notes/{number}.txt")), format!("note {number}")).unwrap();
    }
    fs::write(folder.join("slipform.toml"), settings(&model.server.base_url())).unwrap();
    folder
}

fn settings(base_url: &str) -> String {
    format!(
        "[server]\nlease_seconds = {LEASE_SECONDS}\n\n[backends.scripted]\nkind = \"openai\"\nmodel = \"m\"\n\
         base_url = \"{base_url}\"\nretry_base_seconds = 0.0\nmax_concurrency = 64\n"
    )
}

fn free_address() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = u16::try_from(std::process::id() % 11_000).unwrap();
    until("a free port", || {
        let offset = (first + NEXT.fetch_add(1, Ordering::SeqCst)) % (PORTS.end - PORTS.start);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, PORTS.start + offset));
        TcpListener::bind(address).is_ok().then_some(address)
    })
}

/// The command, which finds nothing of the test's own surroundings.
pub(crate) fn slipform(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_slipform"));
    command.current_dir(folder).env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.stdin(Stdio::null());
    command
}

/// A process that can be started again as it was.
pub(crate) struct Process {
    pub(crate) name: String,
    /// Where it listens, or whom it works for.
    pub(crate) address: SocketAddr,
    arguments: Vec<String>,
    variables: Vec<(String, String)>,
    folder: PathBuf,
    child: Mutex<Child>,
}

impl Process {
    pub(crate) fn start(folder: &Path, name: &str, address: SocketAddr, arguments: &[&str]) -> Process {
        Process::start_with(folder, name, address, arguments, &[])
    }

    pub(crate) fn start_with(
        folder: &Path,
        name: &str,
        address: SocketAddr,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> Process {
        let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        let variables: Vec<(String, String)> =
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let child = Mutex::new(spawn(folder, name, &arguments, &variables));
        Process { name: name.to_owned(), address, arguments, variables, folder: folder.to_owned(), child }
    }

    /// Ends it where it stands.
    pub(crate) fn kill(&self) {
        let mut child = self.child.lock().unwrap();
        let _ = child.kill();
        child.wait().unwrap();
    }

    /// Starts it again, as it was.
    pub(crate) fn restart(&self) {
        *self.child.lock().unwrap() = spawn(&self.folder, &self.name, &self.arguments, &self.variables);
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child.lock().unwrap());
        kill_process(pid, signal).unwrap();
    }

    /// Waits until it has ended by itself.
    pub(crate) fn ended(&self) -> ExitStatus {
        until(&format!("{} ends", self.name), || self.child.lock().unwrap().try_wait().unwrap())
    }

    pub(crate) fn wait_until_ready(&self) {
        until(&format!("{} is ready", self.name), || {
            http::get(self.address, "/readyz").ok().filter(|answer| answer.status == 200)
        });
    }

    /// What it said on stderr so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(log(&self.folder, &self.name)).unwrap_or_default()
    }
}

fn log(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.log"))
}

fn spawn(folder: &Path, name: &str, arguments: &[String], variables: &[(String, String)]) -> Child {
    let log = File::options().create(true).append(true).open(log(folder, name)).unwrap();
    let mut command = slipform(folder);
    command.args(arguments).envs(variables.iter().cloned());
    command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap()
}
