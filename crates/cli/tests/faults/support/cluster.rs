//! A project with its coordinator and runner processes, which tests kill, pause and restart.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};
use serde_json::Value;
use slipform_testkit::{PostgresServer, wait_for, wait_until};

use crate::support::http;
use crate::support::model::{AGENTS, Model};

/// Ports below the ephemeral range. A runner that connects to a stopped coordinator must not get the coordinator's
/// port as its own local port.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// The lease in seconds. On a loaded machine shorter leases expire without a fault.
const LEASE_SECONDS: u32 = 3;

/// How long an outage goes on after a lease, so that no lease from before the outage is still valid.
const LEASE_MARGIN: Duration = Duration::from_secs(2);

/// Waits until every lease that was granted before an outage has expired.
pub(crate) fn wait_for_lease_expiry(outage_began: Instant) {
    let end = outage_began + Duration::from_secs(LEASE_SECONDS.into()) + LEASE_MARGIN;
    wait_until("the leases from before the outage expire", || Instant::now() > end);
}

/// Returns whether a coordinator and its database answer.
pub(crate) fn is_ready(address: SocketAddr) -> bool {
    http::get(address, "/readyz").is_ok_and(|response| response.status == 200)
}

/// The database that stores the runs.
#[derive(Clone, Copy)]
pub(crate) enum StoreKind<'a> {
    /// A file in the project folder.
    Sqlite,
    /// A separate database on this server.
    Postgres(&'a PostgresServer),
}

/// The size and store of a cluster.
pub(crate) struct ClusterPlan<'a> {
    pub(crate) name: &'a str,
    pub(crate) store: StoreKind<'a>,
    pub(crate) coordinators: usize,
    pub(crate) runners: usize,
    /// Slots of each runner.
    pub(crate) slots: usize,
}

/// A project with its processes. Dropping it kills them.
pub(crate) struct Cluster {
    pub(crate) folder: PathBuf,
    /// The URL of the database.
    pub(crate) database: String,
    pub(crate) coordinators: Vec<Process>,
    pub(crate) runners: Vec<Process>,
}

impl Cluster {
    /// Starts a cluster and waits until its coordinators are ready.
    pub(crate) fn build(plan: &ClusterPlan<'_>, model: &Model) -> Cluster {
        Cluster::build_with(plan, model, &[])
    }

    /// Starts a cluster whose coordinators have these variables.
    pub(crate) fn build_with(
        plan: &ClusterPlan<'_>,
        model: &Model,
        variables: &[(String, String)],
    ) -> Cluster {
        let folder = create_project(plan.name, model);
        let database = match plan.store {
            StoreKind::Sqlite => format!("sqlite:{}", folder.join("store.db").display()),
            StoreKind::Postgres(server) => server.create_database(plan.name),
        };
        let mut cluster = Cluster { folder, database, coordinators: Vec::new(), runners: Vec::new() };
        for number in 0..plan.coordinators {
            let address = free_address();
            let arguments =
                ["serve", "--no-runner", "--db", &cluster.database, "--listen", &address.to_string()];
            let name = format!("coordinator-{number}");
            let variables: Vec<(&str, &str)> =
                variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            let process = Process::start_with(&cluster.folder, &name, address, &arguments, &variables);
            cluster.coordinators.push(process);
        }
        cluster.coordinators.iter().for_each(Process::wait_until_ready);
        for _ in 0..plan.runners {
            cluster.add_runner(plan.slots);
        }
        cluster
    }

    /// Starts another runner. Runners are spread over the coordinators.
    pub(crate) fn add_runner(&mut self, slots: usize) {
        let number = self.runners.len();
        self.add_runner_of(self.coordinators[number % self.coordinators.len()].address, slots);
    }

    /// Starts another runner with this address of its coordinator.
    pub(crate) fn add_runner_of(&mut self, address: SocketAddr, slots: usize) {
        let number = self.runners.len();
        let (url, name) = (format!("http://{address}"), format!("runner-{number}"));
        let arguments = ["runner", "--coordinator", &url, "--slots", &slots.to_string(), "--name", &name];
        self.runners.push(Process::start(&self.folder, &name, address, &arguments));
    }

    /// Returns the address of the first coordinator.
    pub(crate) fn address(&self) -> SocketAddr {
        self.coordinators[0].address
    }

    /// Returns the addresses of all coordinators.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.coordinators.iter().map(|process| process.address).collect()
    }

    /// Sends a GET request to the first coordinator until it answers 200, and returns the body.
    pub(crate) fn get(&self, path: &str) -> Value {
        wait_for(path, || http::get(self.address(), path).ok().filter(|response| response.status == 200)).body
    }

    /// Kills all processes with SIGKILL.
    pub(crate) fn kill_all(&self) {
        self.runners.iter().chain(&self.coordinators).for_each(Process::kill);
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.kill_all();
    }
}

/// Creates the project folder with the agents of [`AGENTS`].
fn create_project(name: &str, model: &Model) -> PathBuf {
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
    wait_for("a free port", || {
        let offset = (first + NEXT.fetch_add(1, Ordering::SeqCst)) % (PORTS.end - PORTS.start);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, PORTS.start + offset));
        TcpListener::bind(address).is_ok().then_some(address)
    })
}

/// Prepares the command with an environment that has only `PATH`. The shell makes writes beyond a limit fail instead of
/// ending the process.
pub(crate) fn slipform(folder: &Path) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_slipform")]);
    command.current_dir(folder).env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.stdin(Stdio::null());
    command
}

/// A process that can be restarted with the same arguments.
pub(crate) struct Process {
    pub(crate) name: String,
    /// The address of the coordinator, or of the runner's coordinator.
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

    /// Kills the process with SIGKILL and waits for its exit.
    pub(crate) fn kill(&self) {
        let mut child = self.child.lock().unwrap();
        let _ = child.kill();
        child.wait().unwrap();
    }

    /// Starts the process again with the same arguments.
    pub(crate) fn restart(&self) {
        *self.child.lock().unwrap() = spawn(&self.folder, &self.name, &self.arguments, &self.variables);
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child.lock().unwrap());
        kill_process(pid, signal).unwrap();
    }

    /// Lets every write beyond this size of a file fail, as on a full disk. `None` removes the limit.
    pub(crate) fn limit_file_size(&self, bytes: Option<u64>) {
        let pid = Pid::from_child(&self.child.lock().unwrap());
        prlimit(Some(pid), Resource::Fsize, Rlimit { current: bytes, maximum: None }).unwrap();
    }

    /// Waits until the process exits without a kill.
    pub(crate) fn wait_for_exit(&self) -> ExitStatus {
        wait_for(&format!("{} exits", self.name), || self.child.lock().unwrap().try_wait().unwrap())
    }

    pub(crate) fn wait_until_ready(&self) {
        wait_until(&format!("{} is ready", self.name), || is_ready(self.address));
    }

    /// Returns the output of the process so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(log_path(&self.folder, &self.name)).unwrap_or_default()
    }
}

fn log_path(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.log"))
}

fn spawn(folder: &Path, name: &str, arguments: &[String], variables: &[(String, String)]) -> Child {
    let log = File::options().create(true).append(true).open(log_path(folder, name)).unwrap();
    let mut command = slipform(folder);
    command.args(arguments).envs(variables.iter().cloned());
    command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap()
}
