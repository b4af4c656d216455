//! A private PostgreSQL server that a test can crash and restart.

use std::fs;
use std::net::TcpListener;
use std::ops::Range;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};

use crate::folder::TestFolder;
use crate::wait::wait_until;

/// The account that runs the server, which refuses to run as root. It is also the database user.
const ACCOUNT: &str = "postgres";

/// The folder in which Debian installs the server's programs, one folder per version.
const DEBIAN: &str = "/usr/lib/postgresql";

/// The number of log lines about one deadlock.
const DEADLOCK_LINES: usize = 24;

/// The ports of servers. They are below the range from which Linux takes the ports of outgoing connections: a connection of
/// another test would otherwise take a port between its choice and the start of the server, or while the server is down.
const PORTS: Range<u16> = 20_000..32_000;

/// The words of the server's log about a port that is taken.
const ADDRESS_IN_USE: &str = "Address already in use";

/// How often a server is started on another port, if the first one is taken.
const STARTS_MAX: u32 = 5;

/// A server in a temporary folder. Dropping it stops the server and deletes the folder.
#[derive(Debug)]
pub struct PostgresServer {
    programs: PathBuf,
    port: u16,
    is_root: bool,
    folder: TestFolder,
}

impl PostgresServer {
    /// Starts a server; `None`, with a printed notice, if PostgreSQL is not installed.
    #[expect(clippy::print_stdout, reason = "reports skipped tests")]
    pub fn start() -> Option<PostgresServer> {
        let Some(programs) = programs() else {
            println!(
                "SKIPPED: PostgreSQL not found; set SLIPFORM_TEST_POSTGRES_BIN to the folder of its programs"
            );
            return None;
        };
        // The server's account may have no access to the target folder.
        let folder = TestFolder::new("postgres");
        let is_root = fs::metadata(folder.path()).expect("the folder").uid() == 0;
        if is_root {
            run(Command::new("chown").arg(ACCOUNT).arg(folder.path()));
        }
        let mut server = PostgresServer { programs, port: free_port(), is_root, folder };
        let mut init = server.program("initdb");
        run(init
            .args(["--username", ACCOUNT, "--auth", "trust", "--no-sync", "--pgdata"])
            .arg(server.data()));
        for _ in 1..STARTS_MAX {
            let started = server.start_command().output().expect("pg_ctl starts");
            if started.status.success() {
                return Some(server);
            }
            assert!(server.log_text().contains(ADDRESS_IN_USE), "{started:?}\n{}", server.log_text());
            server.port = free_port();
        }
        server.restart();
        Some(server)
    }

    /// Starts the server process on the existing data, after a [`PostgresServer::crash`].
    pub fn restart(&self) {
        let mut start = self.start_command();
        let started = start.output().expect("pg_ctl starts");
        assert!(started.status.success(), "{start:?}: {started:?}\n{}", self.log_text());
    }

    fn start_command(&self) -> Command {
        // Written data survives a process crash without fsync; only a machine crash would lose it.
        let options = format!(
            "-p {} -c listen_addresses=127.0.0.1 -c unix_socket_directories={} -c max_connections=200 -c fsync=off",
            self.port,
            self.folder.path().display()
        );
        let mut start = self.program("pg_ctl");
        start.arg("start").arg("--wait").arg("--pgdata").arg(self.data());
        start.arg("--log").arg(self.log()).args(["--options", &options]).stdin(Stdio::null());
        start
    }

    /// Stops the server like a crash: connections break, and the next start performs recovery.
    pub fn crash(&self) {
        let mut stop = self.program("pg_ctl");
        run(stop.args(["stop", "--mode", "immediate", "--wait", "--pgdata"]).arg(self.data()));
    }

    /// Creates a database and returns its URL.
    pub fn create_database(&self, name: &str) -> String {
        let name = name.replace('-', "_");
        self.query("postgres", &format!("CREATE DATABASE {name}"));
        format!("postgres://{ACCOUNT}@127.0.0.1:{}/{name}", self.port)
    }

    /// Returns the port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Creates a user with a password and returns the user's URL of a database, without the password. The server asks
    /// this user for the password.
    pub fn create_user(&self, name: &str, password: &str, database: &str) -> String {
        let database = database.rsplit('/').next().unwrap_or_default();
        self.query(database, &format!("CREATE ROLE {name} LOGIN PASSWORD '{password}'"));
        self.query(database, &format!("ALTER DATABASE {database} OWNER TO {name}"));
        self.add_access_rules(&[
            &format!("host all {name} 127.0.0.1/32 scram-sha-256"),
            &format!("host all {name} ::1/128 scram-sha-256"),
        ]);
        format!("postgres://{name}@127.0.0.1:{}/{database}", self.port)
    }

    /// Adds lines to the server's `pg_hba.conf`, before all others.
    pub fn add_access_rules(&self, lines: &[&str]) {
        let path = self.data().join("pg_hba.conf");
        let others = fs::read_to_string(&path).expect("the access rules");
        fs::write(&path, format!("{}\n{others}", lines.join("\n"))).expect("the access rules");
        self.reload();
    }

    /// Makes the server read its configuration again, and waits until new connections use it.
    fn reload(&self) {
        let loaded_at = || self.query("postgres", "SELECT pg_conf_load_time()");
        let before = loaded_at();
        self.query("postgres", "SELECT pg_reload_conf()");
        wait_until("the server has read its configuration", || loaded_at() != before);
    }

    /// Makes the server offer TLS with this certificate and private key (PEM).
    pub fn use_certificate(&self, certificate: &str, key: &str) {
        for (name, text) in [("server.crt", certificate), ("server.key", key)] {
            let path = self.data().join(name);
            fs::write(&path, text).expect("the data folder");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("the data folder");
            if self.is_root {
                run(Command::new("chown").arg(ACCOUNT).arg(&path));
            }
        }
        self.query("postgres", "ALTER SYSTEM SET ssl = on");
        self.reload();
        assert_eq!(self.query("postgres", "SHOW ssl"), [["on"]], "{}", self.log_text());
    }

    /// Returns the server's log.
    pub fn log_text(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.log()).unwrap_or_default()).into_owned()
    }

    /// Runs a query in a database, given by its name or URL, and returns the rows with their columns as text.
    pub fn query(&self, database: &str, sql: &str) -> Vec<Vec<String>> {
        let database = database.rsplit('/').next().unwrap_or_default();
        let mut psql = self.program("psql");
        psql.args(["--host", "127.0.0.1", "--username", ACCOUNT, "--port", &self.port.to_string()]);
        psql.args(["--dbname", database, "--no-psqlrc", "--tuples-only", "--no-align"]);
        let output = run(psql.args(["--field-separator", "\t", "--command", sql]));
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
    }

    /// Returns the reports of deadlocks from the server's log.
    pub fn deadlocks(&self) -> Vec<String> {
        let log = self.log_text();
        let reports = log.split("deadlock detected").skip(1);
        reports.map(|text| text.lines().take(DEADLOCK_LINES).collect::<Vec<_>>().join("\n")).collect()
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    fn log(&self) -> PathBuf {
        self.folder.join("log")
    }

    /// Prepares one of the server's programs to run as an unprivileged account.
    fn program(&self, name: &str) -> Command {
        let program = self.programs.join(name);
        let mut command = if self.is_root {
            let mut command = Command::new("runuser");
            command.args(["-u", ACCOUNT, "--"]).arg(program);
            command
        } else {
            Command::new(program)
        };
        command.current_dir(self.folder.path());
        command
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        let mut stop = self.program("pg_ctl");
        let _ = stop.args(["stop", "--mode", "immediate", "--pgdata"]).arg(self.data()).output();
    }
}

/// Returns a port that no program listens on. Processes begin at different ports, so that they rarely choose the same one.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let count = PORTS.end - PORTS.start;
    let first = (std::process::id().wrapping_mul(31) % u32::from(count)) as u16;
    let mut ports =
        (0..count).map(|_| PORTS.start + (first + NEXT.fetch_add(1, Ordering::Relaxed) % count) % count);
    ports.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).expect("a free port")
}

fn programs() -> Option<PathBuf> {
    let named = std::env::var_os("SLIPFORM_TEST_POSTGRES_BIN").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let debian = fs::read_dir(DEBIAN).into_iter().flatten().flatten().map(|entry| entry.path().join("bin"));
    let mut folders = named.into_iter().chain(std::env::split_paths(&path)).chain(debian);
    folders.find(|folder| ["initdb", "pg_ctl", "psql"].iter().all(|name| folder.join(name).is_file()))
}

fn run(command: &mut Command) -> Output {
    let output = command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {stderr}{}", String::from_utf8_lossy(&output.stdout));
    output
}
